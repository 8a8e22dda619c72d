"""Paths to the fields of a record: `temp`, `readings.temp`, `acc[0]`; a name that holds a dot or a bracket is quoted."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

ABSENT: Any = object()  # what a path leads to where a record has nothing there; null is something
_STEP = re.compile(r'(?P<dot>\.?)(?:"(?P<quoted>[^"\x00-\x1f\\]+)"|(?P<name>[^."\[\]]+))|\[(?P<place>[0-9]{1,4})\]')


class FieldPath(NamedTuple):
    """Where a field is. Steps are names of fields in objects, and places in lists from 0."""

    text: str  # as the job file has it
    steps: tuple[str | int, ...]

    @property
    def top(self) -> str:
        """The field of the record itself that the path begins with."""
        return str(self.steps[0])

    @property
    def flat(self) -> bool:
        """Whether the record itself has the field."""
        return len(self.steps) == 1

    @property
    def last(self) -> str:
        """What the field itself is called.

        >>> path_of("values.x").last, path_of("v[0]").last, path_of("x").last
        ('x', 'v[0]', 'x')
        """
        named = max(at for at, step in enumerate(self.steps) if isinstance(step, str))
        return quoted(str(self.steps[named])) + "".join(f"[{step}]" for step in self.steps[named + 1 :])

    @property
    def literal(self) -> str | None:
        """The field a record may have in place of what the path leads through: one whose name looks like a path."""
        return None if self.flat or '"' in self.text else self.text

    def find(self, record: dict[str, Any]) -> Any:
        """What a record has there, ABSENT where it has nothing.

        >>> path_of("acc[1]").find({"acc": [4, 5]}), path_of("a.b").find({"a": {"b": None}}), path_of("a.b").find({"a.b": 6})
        (5, None, 6)
        """
        found: Any = record
        for step in self.steps:
            if type(found) is dict and type(step) is str:
                found = found.get(step, ABSENT)
            elif type(found) is list and type(step) is int and step < len(found):
                found = found[step]
            else:
                found = ABSENT
        return record.get(self.literal, ABSENT) if found is ABSENT and self.literal is not None else found

    @property
    def getter(self) -> Callable[[dict[str, Any]], Any]:
        """`find` for many records: the usual paths, of one step or two, take a third of its time."""
        find, first, (last, *more) = self.find, self.top, self.steps[1:] or ("",)
        if self.flat:
            return lambda record: record.get(first, ABSENT)
        if more:
            return find
        kind = dict if type(last) is str else list

        def get(record: dict[str, Any]) -> Any:
            inner = record.get(first)
            if type(inner) is kind:
                try:
                    return inner[last]  # type: ignore[index]
                except (KeyError, IndexError):
                    pass
            return find(record)

        return get


def path_of(text: str) -> FieldPath:
    """The path that a text of the job file states; raises ValueError for quotation marks in the wrong places.

    A text that is no path is the name of a field: names may hold any character.

    >>> path_of("readings.temp").steps, path_of("acc[0]").steps, path_of('"a.b".c').steps, path_of("ax [g]").steps
    (('readings', 'temp'), ('acc', 0), ('a.b', 'c'), ('ax [g]',))
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (bool(step["dot"]) != (at > 0) and step["place"] is None) or (step["place"] and at == 0):
            if '"' in text:
                raise ValueError('a path such as readings.temp, acc[0] or "a name with a dot".x')
            return FieldPath(text, (text,))
        steps.append(int(step["place"]) if step["place"] else step["quoted"] or step["name"])
        at = step.end()
    return FieldPath(text, tuple(steps) or (text,))


def column_path(text: str) -> FieldPath:
    """The path to a column of a file: quotation marks that mean nothing are part of its name.

    >>> column_path('size (")').steps, column_path("device.id").steps
    (('size (")',), ('device', 'id'))
    """
    try:
        return path_of(text)
    except ValueError:
        return FieldPath(text, (text,))


def quoted(name: str) -> str:
    """The path of a field by its name in the record.

    >>> quoted("temp"), quoted("value.x")
    ('temp', '"value.x"')
    """
    return name if path_of(name).flat else f'"{name}"'

"""Paths to the fields of a record: `temp`, `readings.temp`, `acc[0]`, `sensors[name=temp].value`, `samples[].ax`.

A name that holds a dot or a bracket is quoted.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

ABSENT: Any = object()  # what a path leads to where a record has nothing there; null is something
EVENT = "ce"  # paths of a CloudEvent's attributes begin with it
ATTRIBUTES = "\0ce"  # where messages have them: no path of a job file leads there
NO_STRUCT = re.compile(r'[\\"\x00-\x1f]')  # in the name of a field of a typed struct
_STEP = re.compile(
    r'(?P<dot>\.?)(?:"(?P<quoted>[^"\x00-\x1f\\]+)"|(?P<name>[^."\[\]]+))|\[(?P<place>[0-9]{0,4})\]'
    r'|\[(?P<by>[^=."\[\]]+)=(?P<value>[^="\[\]]+)\]'
)


class ByName(NamedTuple):
    """The first object of a list in which a field has this value."""

    field: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}={self.value}"

    def among(self, objects: Any) -> Any:
        """None where no object has it."""
        found = (one for one in objects if type(one) is dict and str(one.get(self.field)) == self.value)
        return next(found, None)


class Each(NamedTuple):
    """All objects of a list: the path leads to a list of their values, null where an object has none."""


EACH = Each()
Step = str | int | ByName | Each


class FieldPath(NamedTuple):
    """Where a field is. Steps are names of fields in objects, places in lists from 0, and names of objects in lists."""

    text: str  # as the job file has it
    steps: tuple[Step, ...]
    top: str  # the field of the record itself that the path begins with
    flat: bool  # the record itself has the field
    literal: str | None  # a field that a record may have instead of the nested one: its name looks like the path
    find: Callable[[dict[str, Any]], Any]  # the value at the path in a record, ABSENT without one

    @classmethod
    def of(cls, text: str, *steps: Step, literal: bool = True) -> "FieldPath":
        """literal: records may have a field with the path as its name instead.

        >>> path_of("acc[1]").find({"acc": [4, 5]}), path_of("a.b").find({"a": {"b": None}}), path_of("a.b").find({"a.b": 6})
        (5, None, 6)
        >>> path_of("list[name=b].v").find({"list": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]})
        2
        >>> path_of("list[].v").find({"list": [{"v": 1}, {"v": 2}, {}]})
        [1, 2, None]
        """
        top, flat = str(steps[0]), len(steps) == 1
        instead = None if flat or not literal or '"' in text else text
        return cls(text, steps, top, flat, instead, _finder(steps, instead))

    @property
    def last(self) -> str:
        """What the field itself is called.

        >>> path_of("values.x").last, path_of("v[0]").last, path_of("x").last
        ('x', 'v[0]', 'x')
        """
        named = max(at for at, step in enumerate(self.steps) if isinstance(step, str))
        return quoted(str(self.steps[named])) + "".join(f"[{step}]" for step in self.steps[named + 1 :])


def _finder(steps: tuple[Step, ...], literal: str | None) -> Callable[[dict[str, Any]], Any]:
    """A function that gives the value at these steps in a record. The usual paths have one step or two."""
    last, top = steps[-1], str(steps[0])
    if len(steps) == 1:
        return lambda record: record.get(top, ABSENT)
    if EACH in steps:
        return _finder_in_each(steps, steps.index(EACH), literal)
    kind = dict if type(last) is str else list

    def find(record: dict[str, Any]) -> Any:
        inner: Any = record
        for step in steps[:-1]:
            if type(inner) is dict and type(step) is str:
                inner = inner.get(step)
            elif type(inner) is list and type(step) is int and step < len(inner):
                inner = inner[step]
            elif type(inner) is list and type(step) is ByName:
                inner = step.among(inner)
            else:
                inner = None
        if type(inner) is kind and type(last) is not ByName:
            try:
                return inner[last]  # type: ignore[index]
            except (KeyError, IndexError):
                pass
        return ABSENT if literal is None else record.get(literal, ABSENT)

    return find


def _finder_in_each(steps: tuple[Step, ...], at: int, literal: str | None) -> Callable[[dict[str, Any]], Any]:
    """As `_finder`, of steps with EACH at this place."""
    find_list, find_inner = _finder(steps[:at], None), _finder(steps[at + 1 :], None)

    def find(record: dict[str, Any]) -> Any:
        listed = find_list(record)
        if type(listed) is not list:
            return ABSENT if literal is None else record.get(literal, ABSENT)
        found = [find_inner(one) if type(one) is dict else None for one in listed]
        return [None if value is ABSENT else value for value in found]

    return find


def field_path(value: str) -> str:
    """Checks that a text names a field of a record; raises ValueError as `path_of` does."""
    path_of(value)
    return value


def path_of(text: str) -> FieldPath:
    """The path that a text of the job file states; raises ValueError for quotation marks in the wrong places.

    A text that is not a path is the name of a field: names may hold any character.

    >>> path_of("readings.temp").steps, path_of("acc[0]").steps, path_of('"a.b".c').steps, path_of("ax [g]").steps
    (('readings', 'temp'), ('acc', 0), ('a.b', 'c'), ('ax [g]',))
    >>> path_of("ax []").steps, path_of("samples[][0]").steps
    (('ax []',), ('samples[][0]',))
    """
    steps: list[Step] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        inside = step is not None and (step["place"], step["by"]) != (None, None)
        if step is None or (bool(step["dot"]) != (at > 0) and not inside) or (inside and at == 0):
            if '"' in text:
                raise ValueError('a path such as readings.temp, acc[0] or "a name with a dot".x')
            return FieldPath.of(text, text)
        named = EACH if step["place"] == "" else step["quoted"] or step["name"]
        by_name = ByName(step["by"], step["value"]) if step["by"] else None
        steps.append(by_name or (int(step["place"]) if step["place"] else named))
        at = step.end()
    in_each = [type(step) for before, step in pairwise(steps) if before == EACH]
    if steps and (isinstance(steps[-1], ByName | Each) or in_each not in ([], [str])):  # objects of a list: not a field
        return FieldPath.of(text, text)
    return FieldPath.of(text, *(steps or [text]))


def event_path(text: str) -> FieldPath:
    """As `path_of`, in a job with CloudEvents: ce.NAME is the event's attribute, '"ce".NAME' a field of its data.

    >>> event_path("ce.time").top == ATTRIBUTES, event_path('"ce".time').steps, event_path("ce").steps
    (True, ('ce', 'time'), ('ce',))
    """
    path = path_of(text)
    if len(path.steps) == 2 and text.startswith(f"{EVENT}."):
        return FieldPath.of(text, ATTRIBUTES, path.steps[1], literal=False)  # whatever the data calls its fields
    return path


def column_path(text: str) -> FieldPath:
    """The path to a column of a file: quotation marks that mean nothing are part of its name.

    >>> column_path('size (")').steps, column_path("device.id").steps
    (('size (")',), ('device', 'id'))
    """
    try:
        return path_of(text)
    except ValueError:
        return FieldPath.of(text, text)


def quoted(name: str) -> str:
    """The path of a field by its name in the record.

    >>> quoted("temp"), quoted("value.x")
    ('temp', '"value.x"')
    """
    return name if path_of(name).flat else f'"{name}"'

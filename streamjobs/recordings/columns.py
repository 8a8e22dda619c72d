"""What the columns of a recording hold, and what their names say."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.settings.paths import quoted
from streamjobs.settings.times import NoZone, seconds_since_1970, zone_of

KEYS = ("key", "person", "person_id", "user", "user_id", "subject", "subject_id", "device", "device_id", "machine", "id")
TIMES = ("time", "timestamp", "ts", "t", "event_time", "datetime")
LABELS = ("label", "activity", "class", "target", "y", "exercise")
ASIDE = ("seg", "segment", "session", "recording", "side", "row", "index", "offset", "partition", "seq", "unnamed")
TIME_WORDS = {"time", "times", "timestamp", "ts", "datetime", "date", "elapsed", "epoch", "uptime"}
TIME_UNITS_IN_NAMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "milli", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "micro", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nano", "nanos", "nanoseconds"), "ns"),
}
LARGEST = 1 << 64  # a whole number beyond it is not a number of a record
DEEPEST = 4  # objects inside one another that are looked into
COUNTER_ROWS = 20  # rows from which a column that only rises is a time or a counter, not a signal
_IN_BRACKETS = re.compile(r"\s*[(\[]([^)\]]*)[)\]]\s*$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DECIMAL_COMMA = re.compile(r"\s*-?[0-9]+,[0-9]+\s*")


class Column(NamedTuple):
    """A column of a recording's first rows."""

    name: str
    values: list[Any]  # those that are there, in row order
    missing: int  # rows without one
    kind: str  # number | text | bool | list | object | mixed | empty

    @property
    def distinct(self) -> int:
        """How many different values it has; of lists and objects, how many rows."""
        return len(self.values) if self.kind in ("list", "object", "mixed") else len(set(self.values))

    @property
    def rises(self) -> bool:
        """Whether each number is above the one before it, in enough rows to tell."""
        pairs = zip(self.values, self.values[1:], strict=False)
        return self.kind == "number" and len(self.values) >= COUNTER_ROWS and all(a < b for a, b in pairs)

    @property
    def depth(self) -> int:
        """Of a column of lists: 1 numbers, 2 lists of numbers, 0 anything else."""
        if self.kind != "list" or not all(self.values):
            return 0
        if all(_is_number(one) for value in self.values for one in value):
            return 1
        inner = [one for value in self.values for one in value]
        return 2 if all(isinstance(one, list) and one and all(map(_is_number, one)) for one in inner) else 0


def flattened(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its objects as columns that are named by their paths.

    >>> flattened({"id": 7, "readings": {"temp": 20.5, "a.b": {"c": 1}}})
    {'id': 7, 'readings.temp': 20.5, 'readings."a.b".c': 1}
    """
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    return dict(_leaves(row, "", DEEPEST))


def _leaves(row: dict[str, Any], before: str, deeper: int) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict) and value and deeper and isinstance(name, str) and '"' not in name:
            yield from _leaves(value, f"{before}{quoted(name)}.", deeper - 1)
        else:
            yield f"{before}{quoted(name) if before and isinstance(name, str) else name}", value


def read_times(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """Rows with the times in ISO 8601 as seconds since 1970, and their columns: whether each time names its zone.

    A time without a zone is treated as UTC.
    """
    found = {}
    for column in columns_of(rows):
        if column.kind == "text" and all(map(_is_iso, column.values)):
            found[column.name] = all(map(_has_zone, column.values))
    if not found:
        return list(rows), found
    return [row | {name: _seconds(row[name]) for name in found if isinstance(row.get(name), str)} for row in rows], found


def _seconds(text: str) -> float:
    return seconds_since_1970(text, zone_of("UTC"))


def _is_iso(text: str) -> bool:
    try:
        _seconds(text)
    except (ValueError, OverflowError):
        return False
    return True


def _has_zone(text: str) -> bool:
    try:
        seconds_since_1970(text, None)
    except NoZone:
        return False
    return True


def columns_of(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """The columns of rows, in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [_column(name, [row.get(name) for row in rows]) for name in names]


def _column(name: str, cells: list[Any]) -> Column:
    values = [cell for cell in cells if not absent(cell)]
    kinds = {_kind(value) for value in values}
    kind = "empty" if not kinds else kinds.pop() if len(kinds) == 1 else "mixed"
    return Column(name, values, len(cells) - len(values), kind)


def absent(value: Any) -> bool:
    """Whether a cell is empty, or holds what no record may hold for a number."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if _is_number(value):
        return "number"
    for kind, name in ((str, "text"), (list, "list"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "mixed"


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return -LARGEST < value < LARGEST
    return isinstance(value, float) and math.isfinite(value)


def plain_name(name: str) -> str:
    """A name as the lists of usual ones write it.

    >>> plain_name("Time (s)"), plain_name("value.Device-ID"), plain_name("userId")
    ('time', 'device_id', 'user_id')
    """
    return "_".join(_words(_IN_BRACKETS.sub("", name).rstrip('"').rpartition(".")[2]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def says_time(name: str) -> bool:
    """Whether a name is that of a time, a date or a duration.

    >>> [says_time(name) for name in ("seconds_elapsed", "value.time", "ts", "lap_ms", "Time (s)", "timestampNs", "t")]
    [True, True, True, True, True, True, True]
    >>> [says_time(name) for name in ("acc_rms", "ax", "steps", "pos_s", "bus", "statistics")]
    [False, False, False, False, False, False]
    """
    plain = plain_name(name)
    words = plain.split("_")
    unit = len(words) > 1 and words[-1] in TIME_UNITS_IN_NAMES and words[-1] != "s"
    return plain == "t" or unit or bool(TIME_WORDS & set(words))


def unit_of_name(name: str) -> str | None:
    """The unit of a time that its name states, None where it states none.

    >>> unit_of_name("time_ms"), unit_of_name("Time (s)"), unit_of_name("seconds_elapsed"), unit_of_name("ts")
    ('ms', 's', 's', None)
    """
    brackets = _IN_BRACKETS.search(name)
    words = [brackets[1].lower()] if brackets else reversed(plain_name(name).split("_"))
    return next((TIME_UNITS_IN_NAMES[word] for word in words if word in TIME_UNITS_IN_NAMES), None)


def why_no_number(column: Column) -> str | None:
    """Why a column cannot be one of the fields, None where it can: all its values are numbers."""
    if column.kind == "text":
        if all(map(_DECIMAL_COMMA.fullmatch, column.values)):
            return f"numbers with a decimal comma, such as {column.values[0]!r:.40}; write a point"
        if all(map(reads_as_number, column.values)):
            return "numbers as texts; send them as numbers"
        return "texts"  # not which: they may be names of people
    return {
        "empty": "empty in all rows",
        "object": "objects, empty or many inside one another",
        "list": "lists",
        "mixed": "values of several kinds",
    }.get(column.kind)


def reads_as_number(text: str) -> bool:
    """Whether `float` takes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_names(where: str, columns: Sequence[Column]) -> None:
    """Raises ConfigError where the first line of a CSV holds numbers; pandas numbers columns from 0, which is fine."""
    names = [column.name for column in columns]
    if [name for name in names if name] == [str(n) for n in range(len(list(filter(None, names))))]:
        return
    if all(map(reads_as_number, names)):
        got = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
        raise ConfigError(
            f"{where}: expected names of columns in the first line, got numbers ({got}); add a line with names."
        )

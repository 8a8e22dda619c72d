"""What the columns of a recording hold, and what their names say."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from streamjobs.settings.paths import quoted
from streamjobs.settings.times import EXCEL, NoZone, seconds_since_1970, zone_of

KEYS = (
    *("key", "person", "person_id", "user", "user_id", "subject", "subject_id", "patient", "patient_id", "participant"),
    *("participant_id", "worker", "employee", "vehicle", "vehicle_id", "device", "device_id", "machine", "machine_id"),
    *("schluessel", "proband", "probandin", "nutzer", "teilnehmer", "fahrzeug", "geraet", "geraete_id", "anlage"),
    *("maschine", "maschinen_id", "who", "wer", "sensor", "sensor_id", "id"),
)
TIMES = (
    *("time", "timestamp", "ts", "t", "event_time", "datetime", "when"),
    *("zeitpunkt", "zeitstempel", "zeit", "datum", "wann"),
)
LABELS = (
    *("label", "labels", "activity", "class", "target", "y", "exercise", "gait", "gesture", "posture", "behaviour"),
    *("behavior", "aktivitaet", "taetigkeit", "klasse", "uebung"),
)
OF_LABELS = {*LABELS} - {"y", "class", "target", "klasse"}  # in longer names they may have other meanings
BESIDE_LABELS = {"id", "code", "name", "type", "class", "true"}
ASIDE = ("seg", "segment", "session", "recording", "trial", "side", "row", "index", "offset", "partition", "seq", "unnamed")
FAULT_WORDS = {"anomaly", "anomalous", "attack", "changepoint", "failure", "fault", "faulty", "outlier"}  # last in a name
TIME_WORDS = {
    *("time", "times", "timestamp", "ts", "datetime", "date", "elapsed", "epoch", "uptime"),
    *("when", "wann", "zeit", "zeitpunkt", "zeitstempel", "datum"),
}
TIME_UNITS_IN_NAMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "milli", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "micro", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nano", "nanos", "nanoseconds"), "ns"),
}
LARGEST = 1 << 64  # a whole number beyond it is not a number of a record
MOST_TEXTS = 0.1  # of the values of a column of numbers
MOST_UNREAD = 0.01  # of the texts of a column of times
DEEPEST = 4  # objects inside one another that are looked into
COUNTER_ROWS = 20  # rows from which a column that only rises is a time or a counter, not a signal
_IN_BRACKETS = re.compile(r"\s*[(\[]([^)\]]*)[)\]]\s*$")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
SERIALS = (36_526, 73_051)  # days of the years 2000 to 2099, as spreadsheets count them
_WRITTEN = re.compile(
    r"(?P<first>[0-9]{1,4})(?P<mark>[./ -])(?P<second>[0-9]{1,2}|[A-Za-z]{3})(?P=mark)(?P<last>[0-9]{4}|[0-9]{2})"
    r"(?:(?P<gap>, ?|T| +)[0-9]{1,2}(?P<by>[:.])[0-9]{2}(?P<s>(?P=by)[0-9]{2}(?:(?P<point>[.,])[0-9]{1,6})?)?"
    r"(?:(?P<before> *)(?P<noon>[AaPp][Mm]))?(?:(?P<apart> *)(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2}))?)?"
)
CLOCK = re.compile(r"[0-9]{1,2}(:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?|\.[0-9]{2}\.[0-9]{2})")  # a time of day
NAMING = ("name", "sensor", "id", "type", "n")  # fields that may name the objects of a list; n: of SenML
_PLAIN = re.compile(r'[^=."\[\]\x00-\x1f\\]+')
_WITH_UNIT = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)? ?([%°A-Za-zµΩ][^ ]{0,9})")
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
    def texts(self) -> int:
        """How many values of a column of numbers are texts; 0 where these are too many."""
        texts = sum(isinstance(value, str) for value in self.values) if self.kind == "mixed" else 0
        others = sum(not isinstance(value, str) and not _is_number(value) for value in self.values) if texts else 0
        return 0 if others or texts > MOST_TEXTS * len(self.values) else texts

    @property
    def has_clocks(self) -> bool:
        """Whether all values are times of day."""
        return self.kind == "text" and all(map(CLOCK.fullmatch, self.values))

    @property
    def rises(self) -> bool:
        """Whether each number is above the one before it, in enough rows to tell."""
        pairs = zip(self.values, self.values[1:], strict=False)
        return self.kind == "number" and len(self.values) >= COUNTER_ROWS and all(a < b for a, b in pairs)

    @property
    def is_whole(self) -> bool:
        """Whether it has whole numbers alone."""
        return self.kind == "number" and all(float(value).is_integer() for value in self.values)

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
    >>> flattened({"samples": [{"t": 1, "acc": {"x": 4}}, {"t": 2, "acc": {"x": 5}}]})
    {'samples[].t': [1, 2], 'samples[].acc.x': [4, 5]}
    """
    if not any(isinstance(value, dict) or _has_objects(value) for value in row.values()):
        return row
    return dict(_leaves(row, "", DEEPEST))


def _leaves(row: dict[str, Any], before: str, deeper: int) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict) and value and deeper and isinstance(name, str) and '"' not in name:
            yield from _leaves(value, f"{before}{quoted(name)}.", deeper - 1)
        elif deeper and isinstance(name, str) and '"' not in name and (by := _naming(value)) is not None:
            for one in value:
                rest = {inner: number for inner, number in one.items() if inner != by}
                yield from _leaves(rest, f"{before}{quoted(name)}[{by}={one[by]}].", deeper - 1)
        elif deeper and isinstance(name, str) and '"' not in name and "[]" not in before and _has_objects(value):
            objects = [dict(_leaves(one, f"{before}{quoted(name)}[].", deeper - 1)) for one in value]
            yield from ((path, [one.get(path) for one in objects]) for path in dict.fromkeys(chain.from_iterable(objects)))
        else:
            yield f"{before}{quoted(name) if before and isinstance(name, str) else name}", value


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _naming(value: Any) -> str | None:
    """The field that names each object of a list, None where none does.

    >>> _naming([{"name": "temp", "value": 20.5}, {"name": "rms", "value": 1}]), _naming([{"value": 1}])
    ('name', None)
    """
    if not _has_objects(value):
        return None
    for field in NAMING:
        names = [one.get(field) for one in value]
        if all(isinstance(name, str) and _PLAIN.fullmatch(name) for name in names) and len({*names}) == len(names):
            return field
    return None


class Times(NamedTuple):
    """Columns with times that are texts, or count days."""

    zoned: dict[str, bool]  # column -> whether each time names its zone; in ISO 8601 and in other formats
    formats: dict[str, list[str]]  # column -> formats that read its times, where these are not ISO 8601
    unread: dict[str, int]  # column -> how many of its texts are not times, such as the total below a table


def read_times(rows: Sequence[dict[str, Any]], chosen: str | None = None) -> tuple[list[dict[str, Any]], Times]:
    """Rows with their times as seconds since 1970, and the columns that had them as texts or days.

    A time without a zone is treated as UTC, and one that several formats read is read in the first. chosen: the format.
    """
    found = Times({}, {}, {})
    for column in columns_of(rows):
        texts = list(chain.from_iterable(column.values)) if column.kind == "list" else column.values
        written = column.kind == "text" or (column.kind == "list" and texts and all(isinstance(one, str) for one in texts))
        if written and (unread := _unread(texts, None)) is not None:
            found.zoned[column.name] = all(_has_zone(text) for text in texts if not unread or reads(text, None))
            found.unread[column.name] = unread
            continue
        by = {one: unread for one in _formats(column, chosen) if (unread := _unread(column.values, one)) is not None}
        if by:
            found.unread[column.name] = least = min(by.values())
            formats = [one for one in by if by[one] == least]
            found.zoned[column.name], found.formats[column.name] = "%z" in formats[0], formats
    if not found.zoned:
        return list(rows), found

    def read(name: str, value: Any) -> Any:
        if isinstance(value, list):  # of the times of a record's samples
            return [read(name, one) for one in value]
        form = found.formats.get(name, [None])[0]
        return _seconds(value, form) if not found.unread[name] or reads(value, form) else None

    return [row | {name: read(name, row[name]) for name in found.zoned if not absent(row.get(name))} for row in rows], found


def _unread(values: Sequence[str | float], form: str | None) -> int | None:
    """How many are not times in this format; None where these are more than a few."""
    unread, most = 0, MOST_UNREAD * len(values)
    for value in values:
        unread += not reads(value, form)
        if unread > most:
            return None
    return unread


def _formats(column: Column, chosen: str | None) -> list[str]:
    """Formats that may read the times of a column, by its first value."""
    if column.kind == "number":
        serial = _serials(column) or (EXCEL if chosen == EXCEL and says_time(column.name) else None)
        return [EXCEL] if serial is not None and chosen in (None, EXCEL) else []
    if column.kind != "text" or chosen is not None:
        return [chosen] if chosen is not None and column.kind == "text" else []
    seen = _WRITTEN.fullmatch(column.values[0].strip())
    if seen is None:
        return []
    first, mark, year = seen["first"], seen["mark"], "%Y" if len(seen["last"]) == 4 else "%y"
    if len(first) == 4:
        dates = [f"%Y{mark}%m{mark}%d"]
    elif seen["second"].isalpha():
        dates = [f"%d{mark}%b{mark}{year}"]
    else:
        dates = [f"%d{mark}%m{mark}{year}"] + [f"%m{mark}%d{mark}{year}"] * (mark != ".")  # points: the day is first
    if seen["gap"] is None:
        return dates
    clock = (
        ("%I" if seen["noon"] else "%H")
        + f"{seen['by']}%M"
        + (f"{seen['by']}%S" if seen["s"] else "")
        + (f"{seen['point']}%f" if seen["s"] and seen["point"] else "")
    )
    rest = (f"{seen['before']}%p" if seen["noon"] else "") + (f"{seen['apart']}%z" if seen["zone"] else "")
    return [f"{date}{seen['gap']}{clock}{rest}" for date in dates]


def _serials(column: Column) -> str | None:
    """`EXCEL` for days as spreadsheets count them: from 2000 to 2099, whole minutes or seconds, by a column of times."""
    if not says_time(column.name) or unit_of_name(column.name) is not None or not column.values:
        return None
    days = [float(value) for value in column.values]
    if not all(SERIALS[0] <= day < SERIALS[1] for day in days):
        return None
    whole = all(abs(day * 1440 - round(day * 1440)) < 0.02 or abs(day * 86_400 - round(day * 86_400)) < 0.1 for day in days)
    long = sum(abs(day * 1000 - round(day * 1000)) > 1e-6 for day in days)  # a counter of seconds has few decimals
    return EXCEL if whole and 2 * long > len(days) else None


def _seconds(value: str | float, form: str | None) -> float:
    return seconds_since_1970(value, zone_of("UTC"), form)


def reads(value: str | float, form: str | None) -> bool:
    """Whether a time is in this format; None: in ISO 8601."""
    try:
        _seconds(value, form)
    except (ValueError, OverflowError):
        return False
    return True


def _has_zone(text: str) -> bool:
    try:
        seconds_since_1970(text, None)
    except NoZone:
        return False
    return True


def columns_of_times(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Columns with the name or the form of a time."""
    rows = [flattened(row) for row in rows]
    written = read_times(rows)[1].zoned
    return [column.name for column in columns_of(rows) if column.name in written or says_time(column.name)]


def columns_of(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """The columns of rows, in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [_column(name, [row.get(name) for row in rows]) for name in names]


def _column(name: str, cells: list[Any]) -> Column:
    values = [cell for cell in cells if not absent(cell)]
    kinds = {_kind(value) for value in values}
    if kinds == {"number", "text"} and plain_name(name) in KEYS:  # such as people 1, 2 and 3b
        values, kinds = [str(value) for value in values], {"text"}
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

    >>> plain_name("Time (s)"), plain_name("value.Device-ID"), plain_name("userId"), plain_name("Geräte-ID")
    ('time', 'device_id', 'user_id', 'geraete_id')
    """
    last = _IN_BRACKETS.sub("", name).rstrip('"').rpartition(".")[2]
    return "_".join(_WORD.findall(last.translate(_UMLAUTS))).lower()


def names_label(name: str) -> bool:
    """Whether a name has the word of a label, and no other word with a meaning.

    >>> [names_label(name) for name in ("Activity Label", "activityID", "activity_count", "class", "label_x")]
    [True, True, False, False, False]
    """
    words = set(plain_name(name).split("_"))
    return bool(words & OF_LABELS) and words <= OF_LABELS | BESIDE_LABELS


def rank_of(name: str, usual: Sequence[str]) -> int:
    """The place of a name in a list of usual ones; behind all of them for another."""
    plain = plain_name(name)
    return usual.index(plain) if plain in usual else len(usual)


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


def says_duration(name: str) -> bool:
    """Whether only a unit at the end says a time: it may be a signal, such as a latency in ms, or a speed in m/s.

    >>> [says_duration(name) for name in ("latency_ms", "wind_ms", "time_ms", "timestampNs")]
    [True, True, False, False]
    """
    return not TIME_WORDS & set(plain_name(name).split("_")) and plain_name(name) != "t" and says_time(name)


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
            return "numbers as texts; numbers = 'lenient' lets fields have them"
        if (unit := unit_of_cells(column)) is not None:
            return f"numbers with the unit {unit!r}; a field needs the number alone, so change what sends them"
        return "texts"  # not which: they may be names of people
    return {
        "empty": "empty in all rows",
        "object": "objects, empty or many inside one another",
        "list": "lists",
        "mixed": "values of several kinds",
    }.get(column.kind)


def unit_of_cells(column: Column) -> str | None:
    """The unit that follows the number in each text of a column.

    >>> unit_of_cells(Column("p", ["1.5 bar", "2 bar"], 0, "text")), unit_of_cells(Column("p", ["1 bar", "off"], 0, "text"))
    ('bar', None)
    """
    units = {found and found[1] for found in map(_WITH_UNIT.fullmatch, column.values)} if column.kind == "text" else set()
    return units.pop() if len(units) == 1 else None


def reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""A guess of what a recording's columns mean, and what the user has chosen instead."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streamjobs.settings.events import COMPARED
from streamjobs.settings.paths import column_path
from streamjobs.settings.presets import Preset
from streamjobs.settings.types import many


class Chosen(NamedTuple):
    """What the user says; None: to be guessed, and "" for none."""

    key: str | None = None
    time: str | None = None
    label: str | None = None
    fields: list[str] | None = None
    time_format: str | None = None
    time_unit: str | None = None  # of a time that counts from a start
    fills: bool = False  # [source] missing gives numbers to rows without one


NOTHING_CHOSEN = Chosen()
NONE_CHOSEN = "none was chosen"
LEAST_RATE = 5.0  # Hz, for windows
MOST_CYCLE = 3000  # rows of a day, as which innovations are kept: 12 bytes a row, and a day without alarms


class Gaps(NamedTuple):
    """Rows that lack a number of x."""

    rows: int = 0  # looked at
    lacking: int = 0  # of these
    often: Mapping[str, int] = {}  # fields that many of these rows lack, not all fields: how many
    others: int = 0  # rows that lack a number of another field


class Pauses(NamedTuple):
    """Seconds between two samples of a sensor, the median of a key."""

    fastest: float  # of the keys
    slowest: float


class Narrow(NamedTuple):
    """Rows that have the numbers of one sensor each, with its name."""

    name: str  # the column with the names
    paths: Mapping[str, tuple[str, str]]  # field of x -> name of its sensor, and column of its numbers
    pauses: Mapping[str, Pauses]  # of each sensor, also without fields

    @property
    def columns(self) -> list[str]:
        """Those of the names and the numbers."""
        return list(dict.fromkeys([self.name, *(column for _, column in self.paths.values())]))

    def find(self, field: str) -> Callable[[Any], Any]:
        """A function of a row: the number of a field of x, or the value of another column."""
        if field not in self.paths:
            return column_path(field).find
        sensor, column = self.paths[field]
        name_of, number_of = column_path(self.name).find, column_path(column).find
        return lambda row: number_of(row) if str(name_of(row)) == sensor else None

    def kept(self, fields: Sequence[str]) -> dict[str, list[str]]:
        """The columns of each sensor of which x has fields."""
        columns: dict[str, list[str]] = {}
        for sensor, column in (self.paths[field] for field in fields):
            columns.setdefault(sensor, []).append(column)
        return columns


class Mirror(NamedTuple):
    """A sensor that is worn on either side of the body."""

    field: str
    when: str  # the value of the side that is turned into the other
    other: str
    columns: list[str]  # that change their sign
    known: bool  # enough people wear the sensor on both sides


class Guess(NamedTuple):
    rows: int  # looked at
    fields: list[str]  # columns of numbers that make up x; candidates where `choose` has "fields"
    time: str | None  # counts from 1970
    time_unit: str
    rate: float | None  # Hz
    choose: dict[str, str]  # fields, key, time, label, rate -> why it was not guessed, with candidates
    because: dict[str, str]  # the same -> why it was guessed
    remarks: list[str]
    x: str | None = None  # the column that holds x as a list
    dim: int | None = None  # its length
    key: str | None = None
    written: bool = False  # the time is ISO 8601, or in `time_format`
    start_time: str | None = None  # without `time`: a column that counts from somewhere else, for replay
    label: str | None = None
    task: str = "classification"  # or regression
    classes: int = 0  # different labels in the sample
    labels: Mapping[Any, int] = {}  # of classes, with their rows in the whole sample: `survey`
    left_out: Mapping[str, str] = {}  # column -> why it is not part of x
    candidates: Mapping[str, list[str]] = {}  # of those that may be chosen from
    preset: Preset | None = None  # the tool that the sample is of
    files: int = 1  # recordings in the sample
    bare: Sequence[str] = ()  # names of those without a field, such as labels.csv
    gaps: Gaps = Gaps()
    time_format: str | None = None  # where it is not ISO 8601
    people: int = 0  # different keys with a label in the whole sample: `survey`
    alone: bool = False  # labels of other keys teach a key less than its own
    pause: float | None = None  # seconds between two samples of a key, the median
    key_from: str | None = None  # file or folder: the names of the sample's are the keys
    mirror: Mirror | None = None  # of a sensor that is worn on either side: `survey`
    largest: Mapping[str, float] = {}  # absolute values of fields beyond the usual max_abs
    codes: Mapping[str, Sequence[float]] = {}  # fields with numbers that stand for a missing one, and these
    counters: Sequence[str] = ()  # fields that are readings of meters, of which x has the rise
    slopes: Mapping[str, str] = {}  # fields with levels of which [drift] watches the slopes, and the time these are means of
    angles: Mapping[str, float] = {}  # fields that wrap around, and how much a whole turn is
    counts: Sequence[str] = ()  # fields that are never below 0, and often there
    lenient: Sequence[str] = ()  # the time and fields that are numbers as texts
    categories: Mapping[str, Sequence[str]] = {}  # columns of texts that may predict the label, with their texts
    wait: float | None = None  # seconds until labels in records of their own have come; None: they come with their samples
    waiting: int = 0  # most rows of a key in this time
    repeats: bool = False  # many rows of a key have the time of the row before, and other numbers
    turns: Sequence[str] = ()  # fields of which each row has some only
    narrow: Narrow | None = None  # where each row has the numbers of one sensor


MOST_OF_A_KIND = 3  # columns with a line each


def by_kind(why: Mapping[str, str], form: str, advice: str = "") -> Iterator[str]:
    """A line for each column with its reason; one line if more columns have reasons that begin with the same word.

    >>> list(by_kind({"a": "texts", "b": "follows 'a'", "c": "follows 'a'"}, "{}: {}"))
    ['a: texts', "b: follows 'a'", "c: follows 'a'"]
    >>> list(by_kind(dict.fromkeys("abcde", "texts"), "{}: {}"))
    ['a, b, c and 2 more columns: texts']
    """
    kinds: dict[str, list[str]] = {}
    for name, reason in why.items():
        kinds.setdefault(reason.partition(" ")[0], []).append(name)
    for names in kinds.values():
        lines = [form.format(name, why[name]) for name in names[:MOST_OF_A_KIND]]
        if (more := len(names) - len(lines)) == 0:
            yield from lines
        elif len({why[name] for name in names}) == 1:
            yield f"{', '.join(names[:MOST_OF_A_KIND])} and {many(more, 'more column')}: {why[names[0]]}{advice}"
        else:
            yield f"{'; '.join(lines)}; and {many(more, 'more column')}{advice}"


# What `init` writes without data, to be replaced: an accelerometer.
EXAMPLE = Guess(0, ["ax", "ay", "az"], "ts", "s", 50.0, choose={}, because={}, remarks=[], label="activity")


def windowed(rate: float | None) -> bool:
    """Whether samples come fast enough for windows; at lower rates rows are whole events, and windows would mix them."""
    return rate is not None and rate >= LEAST_RATE


def cycle_of(guessed: Guess, watch: str | Sequence[str]) -> int | None:
    """The rows of a day, if innovations are watched, and compared with fewer rows without the setting."""
    rows = round(86_400 / guessed.pause) if guessed.pause and "innovations" in watch else 0
    return rows if COMPARED < rows <= MOST_CYCLE else None


def key_to_try(guessed: Guess) -> str | None:
    """The key, or a candidate that cannot be the label, or the first candidate; None if there is none.

    >>> key_to_try(EXAMPLE._replace(candidates={"key": ["quality", "tool"], "label": ["quality"]}))
    'tool'
    """
    labels = guessed.candidates.get("label", ())
    return guessed.key or min(guessed.candidates.get("key", ()), key=lambda name: name in labels, default=None)


def with_key_known(guessed: Guess) -> Guess:
    """Without the question which column has the key."""
    choose = {what: why for what, why in guessed.choose.items() if what != "key"}
    candidates = {what: names for what, names in guessed.candidates.items() if what != "key"}
    return guessed._replace(choose=choose, candidates=candidates)

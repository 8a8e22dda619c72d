"""Guesses from names and values what the columns of a recording mean; `init` writes the guess into the job file.

A guess that cannot be made is left to the user: `choose` says why, with the candidates. What is no part of x is in
`left_out` with its reason.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import (
    ASIDE,
    COUNTER_ROWS,
    KEYS,
    LABELS,
    TIMES,
    Column,
    absent,
    columns_of,
    flattened,
    plain_name,
    read_times,
    reads_as_number,
    says_time,
    unit_of_name,
    why_no_number,
)
from streamjobs.recordings.files import SECONDS, rows_of
from streamjobs.settings.types import MOST_NUMBERS, UNIT_NAMES

LOOK_AT = 2000  # rows of the file
FROM, TO = 946_684_800.0, 4_102_444_800.0  # the years 2000 to 2099; a time in between counts from 1970
PAUSES = 10  # least between samples, to tell a rate
BAD_NAME = "its name holds a quotation mark, a backslash or a control character, which no field of a record may"
_NO_NAME = re.compile(r'["\\\x00-\x1f]')
CLASSES, MOST_CLASSES = 32, 1024  # most different whole numbers that are taken for classes; most classes of a head


class Guess(NamedTuple):
    rows: int  # looked at
    fields: list[str]  # columns of numbers that make up x; candidates where `choose` has "fields"
    x: str | None  # the column that holds x as a list
    dim: int | None  # its length
    key: str | None
    time: str | None  # counts from 1970
    written: bool  # it is ISO 8601
    start_time: str | None  # without `time`: a column that counts from somewhere else, for replay
    time_unit: str
    rate: float | None  # Hz
    label: str | None
    task: str  # classification | regression
    classes: int  # different labels in the sample
    left_out: dict[str, str]  # column -> why it is no part of x
    choose: dict[str, str]  # fields, key, time, label, rate -> why it was not guessed, with candidates
    remarks: list[str]


def guess(path: Path) -> Guess:
    """The meaning of columns by their names and values; all columns of numbers that mean nothing else are part of x.

    Raises ConfigError for a file that cannot be read, has no rows, or has numbers where the names of columns should be.
    """
    rows = [flattened(row) for row in itertools.islice(rows_of(path), LOOK_AT)]
    rows, texts = read_times(rows)
    columns = columns_of(rows)
    if not columns:
        got = "lines of something else" if rows else "no rows"
        raise ConfigError(f"{path}: expected a few records as they will arrive, JSON objects or rows of a table; got {got}.")
    _require_names(path, columns)
    return _Reader(rows, columns, texts).guess()


def _require_names(path: Path, columns: Sequence[Column]) -> None:
    """Raises ConfigError where the first line of a CSV holds numbers; pandas numbers columns from 0, which is fine."""
    names = [column.name for column in columns]
    if path.suffix.lower() != ".csv" or [name for name in names if name] == [
        str(n) for n in range(len(list(filter(None, names))))
    ]:
        return
    if all(map(reads_as_number, names)):
        got = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
        raise ConfigError(
            f"{path}: expected names of columns in the first line, got numbers ({got}); add a line with names."
        )


class _Reader:
    """Decides column by column: time first, then key, label and what is left for x."""

    def __init__(self, rows: list[dict[str, Any]], columns: list[Column], texts: dict[str, bool]) -> None:
        self.rows, self.columns, self.texts = rows, columns, texts
        self.numbers = {plain_name(column.name) for column in columns if column.kind == "number"}
        self.left_out = {c.name: BAD_NAME for c in columns if c.name and _is_bad(c.name)}
        self.choose: dict[str, str] = {}
        self.remarks: list[str] = []

    def guess(self) -> Guess:
        time, start_time, unit = self._time()
        key = self._key()
        label = self._label()
        if time is not None and not self.texts.get(time, True):
            self.choose["time_zone"] = f"the times in {time!r} name no zone; set time_zone to the one they are of"
        task, classes = self._task(label)
        used = {time, key, label and label.name}
        fields, x, dim = self._x([column for column in self.columns if column.name not in used], time)
        self._remark(fields)
        clock = time or start_time
        rate = self._rate(key, clock, unit) if clock is not None else None
        return Guess(
            rows=len(self.rows),
            fields=fields,
            x=x,
            dim=dim,
            key=key,
            time=time,
            written=time in self.texts,
            start_time=start_time,
            time_unit=unit or "s",
            rate=rate,
            label=label.name if label else None,
            task=task,
            classes=classes,
            left_out=self.left_out,
            choose=self.choose,
            remarks=self.remarks,
        )

    def _time(self) -> tuple[str | None, str | None, str | None]:
        """The column with the event time, or one that counts from somewhere else, and its unit where that is known."""
        named = [c for c in self.columns if says_time(c.name) and c.name not in self.left_out]
        self.left_out |= dict.fromkeys([column.name for column in named], "a time, by its name")
        numeric = [column for column in named if column.kind == "number" or column.depth == 1]
        dated = {column.name: unit for column in numeric if (unit := _unit_since_1970(column)) is not None}
        dated |= {column.name: "s" for column in numeric if column.name in self.texts}
        if dated:
            time = min(dated, key=lambda name: ("." in name, _rank(name, TIMES)))
            self.left_out |= dict.fromkeys([c.name for c in named], f"a time, by its name; {time!r} is read")
            self.left_out.pop(time)
            return time, None, dated[time]
        if numeric:
            first = min(numeric, key=lambda column: _rank(column.name, TIMES))
            begins = _flat(first.values)[0]
            self.choose["time"] = (
                f"{first.name!r} begins at {begins:.16g}, so it does not count from 1970; without time, the records' own "
                "timestamps count"
            )
            unit = unit_of_name(first.name) or ("s" if any(value % 1 for value in _flat(first.values)) else None)
            return None, first.name, unit
        texts = [column.name for column in named if column.kind != "empty"]
        rising = [column.name for column in self.columns if column.rises]
        if texts:
            what = "texts" if all(column.kind == "text" for column in named) else "more than numbers"
            self.choose["time"] = (
                f"{_quoted(texts)} holds {what}; time is read as ISO 8601, or a number of seconds (or ms, us, ns) since 1970"
            )
        elif rising:
            self.choose["time"] = f"no column has the name of a time; candidates, which rise in every row: {_quoted(rising)}"
        else:
            self.choose["time"] = "no column has the name of a time (time, timestamp, ts, ...)"
        return None, None, None

    def _key(self) -> str | None:
        found = []
        for column in sorted(self._unused(KEYS), key=lambda column: _rank(column.name, KEYS)):
            whole = column.kind == "number" and all(float(value).is_integer() for value in column.values)
            if column.kind != "text" and not whole:
                continue
            if column.distinct == len(self.rows) >= COUNTER_ROWS:
                self.left_out[column.name] = "differs in every row, so it says not whose the row is"
                continue
            self.left_out[column.name] = "says whose a row is, by its name"
            found.append(column.name)
        if len(found) > 1 and plain_name(found[-1]) == "id":  # the weakest name
            found.pop()
        if len(found) == 1:
            self.left_out.pop(found[0])
            return found[0]
        if found:
            self.choose["key"] = f"{_quoted(found)} have names of keys"
            return None
        some = [c.name for c in self.columns if c.kind == "text" and 1 <= c.distinct <= len(self.rows) / 2]
        some = [name for name in some if not says_time(name) and plain_name(name) not in LABELS]
        self.choose["key"] = "no column has the name of a key (person, user, subject, device, machine, ...)" + (
            f"; candidates: {_quoted(some)}" if some else "; a recording of one device needs a column with the device's name"
        )
        return None

    def _label(self) -> Column | None:
        found = [column for column in self._unused(LABELS) if not self._is_axis(column)]
        usable = []
        for column in found:
            if column.kind == "text" and column.distinct > MOST_CLASSES:
                self.left_out[column.name] = f"a label by its name, but with {column.distinct:,} different texts"
            elif column.kind in ("text", "number") or column.depth == 1:
                usable.append(column)
            else:
                self.left_out[column.name] = f"a label by its name, but {why_no_number(column)}"
        if len(usable) > 1:
            self.left_out |= dict.fromkeys([column.name for column in usable], "a label, by its name")
            self.choose["label"] = f"{_quoted([column.name for column in usable])} have names of labels"
            return None
        if usable:
            return usable[0]
        most = len(self.rows) / 2
        some = [c.name for c in self.columns if c.kind == "text" and 2 <= c.distinct <= min(most, CLASSES)]
        some = [name for name in some if name not in self.left_out and plain_name(name) not in KEYS]
        self.choose["label"] = "no column has the name of a label (label, activity, class, target, ...)" + (
            f"; candidates: {_quoted(some)}" if some else ""
        )
        return None

    def _is_axis(self, column: Column) -> bool:
        """Whether a column called y is one of the axes x, y and z; where there is only x, who knows."""
        if plain_name(column.name) != "y":
            return False
        if "z" not in self.numbers and "x" in self.numbers:
            self.choose["fields"] = f"{column.name!r} may be an axis beside x, or the label"
        return bool(self.numbers & {"x", "z"})

    def _task(self, label: Column | None) -> tuple[str, int]:
        """Classes for texts and a few whole numbers, else a regression; and how many different labels there are."""
        if label is None:
            return "classification", 0
        if label.kind == "list" or (
            label.kind == "number"
            and (label.distinct > CLASSES or not all(float(value).is_integer() for value in label.values))
        ):
            return "regression", 0
        return "classification", label.distinct

    def _unused(self, usual: Sequence[str]) -> list[Column]:
        return [c for c in self.columns if plain_name(c.name) in usual and c.name not in self.left_out]

    def _x(self, columns: list[Column], time: str | None) -> tuple[list[str], str | None, int | None]:
        """The fields, or the list that holds x and its length."""
        lists, fields = [], []
        for column in columns:
            if column.name in self.left_out:
                continue
            why = why_no_number(column)
            if not column.name or plain_name(column.name) in ASIDE or plain_name(column.name).endswith("_id"):
                why = "no signal, by its name"
            elif column.depth:
                lists.append(column)
                continue
            elif column.rises:
                why = "rises in every row: a time or a counter"
            elif why is None and 2 * column.missing > len(self.rows):
                why = f"empty in {column.missing:,} of {len(self.rows):,} rows"
            if why is None:
                fields.append(column.name)
            else:
                self.left_out[column.name] = why
        if lists:
            return self._of_lists(lists, fields, time)
        if not fields:
            self.choose["fields"] = "no column of numbers is left for x"
        elif len(fields) > MOST_NUMBERS:
            self.choose["fields"] = f"there are {len(fields):,} columns of numbers, of which x has {MOST_NUMBERS:,} at most"
            fields = fields[:MOST_NUMBERS]
        return fields, None, None

    def _of_lists(
        self, lists: list[Column], fields: list[str], time: str | None
    ) -> tuple[list[str], str | None, int | None]:
        """Where columns hold lists: x as one list, or frames of several samples."""
        times = next((column for column in self.columns if column.name == time and column.kind == "list"), None)
        if times is not None:  # frames: with named fields, a list of each is as long as that of the times
            framed = [column for column in lists if column.depth == 1 and _lengths(column) == _lengths(times)]
            if framed and len(framed) == len(lists) and not fields:
                return [column.name for column in framed], None, None
        named = [column for column in lists if plain_name(column.name) == "x"]
        if len(lists) > 1 and not named:
            self.choose["fields"] = (
                f"{_quoted([column.name for column in lists])} hold lists; x is one of them, as x and dim"
            )
            return fields, None, None
        if fields and not named:
            self.choose["fields"] = f"x may be the list {lists[0].name!r}, as x and dim, or these columns"
            return fields, None, None
        x = (named or lists)[0]
        dims = set(_lengths(x)) if x.depth == 1 else {len(one) for value in x.values for one in value}
        self.left_out |= {name: f"x is read from the list {x.name!r}" for name in fields}
        self.left_out |= {column.name: f"x is read from the list {x.name!r}" for column in lists if column is not x}
        if len(dims) > 1:
            self.choose["fields"] = f"the lists in {x.name!r} have {min(dims)} to {max(dims)} numbers; x has one length, dim"
            return [], None, None
        return [], x.name, dims.pop()

    def _remark(self, fields: list[str]) -> None:
        """What is odd about the fields, though they are part of x."""
        flat = [c.name for c in self.columns if c.name in fields and c.distinct == 1 and len(self.rows) >= COUNTER_ROWS]
        if flat:
            self.remarks.append(f"{_quoted(flat)} never changes in the sample; remove it from fields if it never does")
        gaps = {column.name: column.missing for column in self.columns if column.name in fields and column.missing}
        if gaps:
            count = sum(any(absent(row.get(name)) for name in gaps) for row in self.rows)
            self.remarks.append(
                f"{count:,} of {len(self.rows):,} rows lack a number in {_quoted(list(gaps))}; such a record becomes a dead "
                "letter (missing_field) unless [source] missing says otherwise"
            )

    def _rate(self, key: str | None, time: str, unit: str | None) -> float | None:
        """Hz, from the median pause between samples of a key, rounded to two digits."""
        if unit is None:
            self.choose["rate"] = f"the unit of {time!r} is not known; set time_unit, and [window] rate"
            return None
        pauses = sorted(pause for pause in _pauses(self.rows, key, time) if pause > 0)
        if len(pauses) < PAUSES:
            self.choose["rate"] = f"{len(self.rows):,} rows are too few to tell it; set [window] rate"
            return None
        rate = 1 / (pauses[len(pauses) // 2] * SECONDS[unit])
        return round(rate, 1 - math.floor(math.log10(rate)))


def _is_bad(name: str) -> bool:
    """Whether no path leads there: quotation marks that path_of takes are its own."""
    return bool(_NO_NAME.search(name.replace('"', "") if '."' in name or '".' in name else name))


def _unit_since_1970(column: Column) -> str | None:
    """The unit in which these times count from 1970; None where none gives years that may be."""
    times = sorted(_flat(column.values))
    middle, stated = times[len(times) // 2], unit_of_name(column.name)
    fits = [unit for unit in UNIT_NAMES if FROM <= middle * SECONDS[unit] < TO]
    return fits[0] if fits and stated in (None, fits[0]) else None


def _rank(name: str, usual: Sequence[str]) -> int:
    plain = plain_name(name)
    return usual.index(plain) if plain in usual else len(usual)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _lengths(column: Column) -> list[int]:
    return [len(value) for value in column.values]


def _flat(values: Sequence[Any]) -> list[float]:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _pauses(rows: Sequence[dict[str, Any]], key: str | None, time: str) -> Iterator[float]:
    last: dict[Any, float] = {}
    for row in rows:
        who = row.get(key) if key is not None else None
        for now in _flat([row.get(time)]):
            if absent(now):
                continue
            if who in last:
                yield now - last[who]
            last[who] = now

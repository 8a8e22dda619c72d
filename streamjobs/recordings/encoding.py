"""Rows of recordings as records: values in the job's own format, and timestamps in milliseconds since 1970."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from streamjobs.core.messages import Headers
from streamjobs.recordings.tables import Row
from streamjobs.settings.paths import ABSENT, FieldPath, path_of
from streamjobs.settings.source import SourceSection
from streamjobs.settings.times import EXCEL, NoZone, example_of, seconds_since_1970, zone_of
from streamjobs.settings.types import AUTO, TIME_UNITS, UNIT_NAMES, number_in, unit_of

HOUR = 3_600_000  # ms
UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)  # what an encoder raises


def encoder(source: SourceSection, side: str | None) -> Callable[[Row], tuple[bytes, Headers]]:
    """A function from a row to (value, headers) in the job's format, with the columns that the job reads.

    It raises one of UNENCODABLE for a row that no record can be made of.
    """
    others = filter(None, (source.key, source.time, source.label, side))
    paths = [path_of(name) for name in (*source.record_fields, *others)]
    if source.format == "raw":
        return lambda row: _raw(row, source, paths)
    as_json = source.format == "json"
    encode = msgspec.json.Encoder().encode if as_json else msgspec.msgpack.Encoder().encode

    names = list(dict.fromkeys(name for path in paths for name in (path.literal, path.top) if name is not None))

    def encoded(row: Row) -> tuple[bytes, Headers]:
        part = {name: row[name] for name in names if name in row}
        if not as_json:  # which has null for NaN
            for name, value in part.items():
                if isinstance(value, float) and math.isnan(value):  # a missing cell in a column of floats, such as no label
                    part[name] = None
        try:
            return encode(part), ()
        except OverflowError:
            return encode(_narrow(part)), ()

    return encoded


def _narrow(value: Any) -> Any:
    """The value with whole numbers beyond 64 bits as floats, which a record can have; as texts beyond those."""
    if isinstance(value, dict):
        return {name: _narrow(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_narrow, value))
    if not isinstance(value, int) or -(1 << 63) <= value < 1 << 64:
        return value
    try:
        return float(value)
    except OverflowError:
        return hex(value)  # no number for a decoder: a dead letter


def _raw(row: Row, source: SourceSection, paths: Sequence[FieldPath]) -> tuple[bytes, Headers]:
    import numpy as np

    found = [None if (value := path.find(row)) is ABSENT else value for path in paths]
    value = np.array(found if source.fields else found[0], "<f8")
    return value.tobytes(), (("streamjobs-shape", b"%d" % value.size), ("streamjobs-dtype", b"f8"))


class LocalTimes:
    """Counts times of rows that a zone has twice, as clocks go back, or not at all, as they go forward."""

    def __init__(self, source: SourceSection) -> None:
        zone = None if source.time_zone is None else zone_of(source.time_zone)
        self.zone, self.form = zone if isinstance(zone, ZoneInfo) else None, source.time_format
        self.twice, self.never = list[Any](), list[Any]()
        self._may_change = lru_cache(maxsize=64)(self._changes)

    def add(self, time: Any, stamp: int) -> None:
        """A row's time that was read as this stamp, in milliseconds."""
        if self.zone is None or not self._may_change(stamp // HOUR):
            return
        try:
            seconds_since_1970(time, None, self.form)  # it has an offset of its own
        except NoZone:
            local = datetime.fromtimestamp(seconds_since_1970(time, UTC, self.form), UTC)
            before, after = (local.replace(tzinfo=self.zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
            if before != after:
                (self.twice if before > after else self.never).append(time)
        except ValueError:  # a number
            return

    def _changes(self, hour: int) -> bool:
        """Whether clocks change in this hour since 1970, or in one next to it."""
        try:
            ends = {datetime.fromtimestamp(3600 * (hour + n), self.zone).utcoffset() for n in (-1, 2)}
        except (ValueError, OverflowError, OSError):  # no calendar has it
            return False
        return len(ends) > 1

    def sentences(self) -> Iterator[str]:
        """What was read of them."""
        if self.twice:
            yield (
                f"times that {self.zone} has twice, because clocks go back: {len(self.twice):,}, such as {self.twice[0]!r}; "
                "they are read as the first of the two, so samples of the second hour are late. Let the device write UTC, "
                "or an offset such as +01:00"
            )
        if self.never:
            yield (
                f"times that {self.zone} does not have, because clocks go forward: {len(self.never):,}, such as "
                f"{self.never[0]!r}; they are read as an hour later. Is [source] time_zone right?"
            )


def stamping(source: SourceSection) -> Callable[[Any], int | None]:
    """`_milliseconds` of a time, or of the last one of a frame; time_unit = "auto": in the unit of the first number."""
    decided, lenient = source, source.numbers == "lenient" and source.time_format is None

    def stamp_of(time: Any) -> int | None:
        nonlocal decided
        time = time[-1] if isinstance(time, list) and time else time
        if lenient and isinstance(time, str) and (number := number_in(time)) is not None:
            time = number
        if decided.time_unit == AUTO:
            unit = unit_of(time)
            if unit is None and not isinstance(time, str):
                return None
            decided = decided if unit is None else source.in_unit(unit)
        return _milliseconds(time, decided)

    return stamp_of


def _milliseconds(time: Any, source: SourceSection) -> int | None:
    """A time as a record's timestamp; None where it is not a number."""
    if isinstance(time, str) or (source.time_format == EXCEL and isinstance(time, (int, float))):
        try:
            zone = None if source.time_zone is None else zone_of(source.time_zone)
            return math.ceil(seconds_since_1970(time, zone, source.time_format) * 1000.0)
        except (ValueError, OverflowError):
            return None
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        return None
    try:
        return math.ceil(time * 1000.0 / TIME_UNITS[source.time_unit])  # exact where it is whole milliseconds
    except (ValueError, OverflowError):  # NaN, infinity, or what no float can hold
        return None


def no_time(path: str, offset: int, column: str | None, time: Any, source: SourceSection) -> str:
    """What is wrong with a row where the time column holds no time. path: of the recording; offset: the row, from 0."""
    got = "nothing" if time is None else f"{time!r:.60}"
    advice = ""
    if isinstance(time, str) and source.time_zone is None:
        with suppress(ValueError):
            seconds_since_1970(time, UTC, source.time_format)
            advice = " It has no zone: set [source] time_zone, or write one, such as Z or +01:00."
    what = f"a number of {UNIT_NAMES.get(source.time_unit, 's, ms, us or ns')} since 1970 or ISO 8601"
    if source.time_format is not None:
        what = f"a time such as {example_of(source.time_format)} ([source] time_format)"
    return f"{path} row {offset + 1}: expected {what} in the time column {column!r}, got {got}.{advice}"

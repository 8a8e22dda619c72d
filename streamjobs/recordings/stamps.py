"""Times of rows as timestamps of records, in milliseconds since 1970."""

import math
from collections.abc import Callable
from typing import Any

from streamjobs.settings.source import SourceSection
from streamjobs.settings.times import EXCEL, example_of, seconds_since_1970, zone_of
from streamjobs.settings.types import AUTO, TIME_UNITS, UNIT_NAMES, number_in, unit_of


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
    advice = " A time without a zone needs [source] time_zone." if isinstance(time, str) else ""
    what = f"a number of {UNIT_NAMES.get(source.time_unit, 's, ms, us or ns')} since 1970 or ISO 8601"
    if source.time_format is not None:
        what = f"a time such as {example_of(source.time_format)} ([source] time_format)"
    return f"{path} row {offset + 1}: expected {what} in the time column {column!r}, got {got}.{advice}"

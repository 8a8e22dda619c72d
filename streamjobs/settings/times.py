"""Times as text: in ISO 8601 or [source] time_format, with a zone, or without one where [source] time_zone names it."""

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

MOST_TEXT = 64  # characters of a time
EXCEL = "excel"  # days since the end of 1899, as spreadsheets count them
_DAY_ZERO = datetime(1899, 12, 30)
_EXAMPLE = datetime(2025, 10, 24, 14, 5, 30, tzinfo=UTC)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # in ISO 8601, without a time: its beginning


class NoZone(ValueError):
    """A time that names no zone."""


@lru_cache(maxsize=64)
def zone_of(text: str) -> tzinfo:
    """The zone of a name such as Europe/Berlin, of UTC, or of an offset such as +01:00; raises ValueError."""
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        minutes = 60 * int(offset[2]) + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    elif text in ("UTC", "Z"):
        return UTC
    else:
        try:
            return ZoneInfo(text)
        except (KeyError, ValueError, OSError):  # no such zone, no name of one, no zones on this machine
            pass
    raise ValueError("a zone such as 'UTC', '+01:00' or 'Europe/Berlin'")


def example_of(form: str) -> str:
    """A time in this format; raises ValueError for what is not a format of a date, with or without a time.

    >>> example_of("%d.%m.%Y %H:%M"), example_of("excel")
    ('24.10.2025 14:05', '45954.587153')
    """
    if form == EXCEL:
        return f"{(_EXAMPLE.replace(tzinfo=None) - _DAY_ZERO) / timedelta(days=1):.6f}"
    text = _EXAMPLE.strftime(form)
    read = datetime.strptime(text, form)
    whole = read.hour == _EXAMPLE.hour or read.time() == time()
    if read.date() != _EXAMPLE.date() or not whole or len(text) > MOST_TEXT:
        raise ValueError("a format of a date such as '%d.%m.%Y', with a time such as '%d.%m.%Y %H:%M', or 'excel'")
    return text


def in_format(text: str, zone: tzinfo | None, form: str) -> str | float:
    """A date and time in ISO 8601 as the format writes it; other texts as they are. zone: of the format's times.

    >>> in_format("2025-10-24T12:05:00+00:00", zone_of("Europe/Berlin"), "%d.%m.%Y %H:%M")
    '24.10.2025 14:05'
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is not None and zone is not None:
        moment = moment.astimezone(zone)
    if form == EXCEL:
        return (moment.replace(tzinfo=None) - _DAY_ZERO.replace(tzinfo=None)) / timedelta(days=1)
    return moment.strftime(form)


def seconds_since_1970(text: str | float, zone: tzinfo | None, form: str | None = None) -> float:
    """Of a date and time in ISO 8601 or the format, to the microsecond. zone: of times without one.

    A date without a time is the beginning of the day. Of an hour that comes twice, as clocks are put back, it is the first.
    Raises NoZone where none is known, ValueError for another text, OverflowError for a number of days beyond all years.

    >>> seconds_since_1970("2023-11-14T23:13:20.25+01:00", None)
    1700000000.25
    """
    if form == EXCEL:
        moment = _DAY_ZERO + timedelta(milliseconds=round(float(text) * 86_400_000))
    elif not isinstance(text, str) or len(text) > MOST_TEXT:
        raise ValueError("no date with a time")
    elif form is not None:
        moment = datetime.strptime(text.strip(), form)
    elif not any(mark in text for mark in "Tt ") and not _DAY.fullmatch(text):
        raise ValueError("no date with a time")
    else:
        moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        if zone is None:
            raise NoZone("no zone")
        moment = moment.replace(tzinfo=zone)
    return (moment - _EPOCH) // _MICROSECOND / 1e6

"""Guesses from names and values what the columns of a recording mean; `init` writes the guess into the job file."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.recordings.files import SECONDS, rows_of

LOOK_AT = 2000  # rows of the file
KEYS = ("key", "person", "person_id", "user", "user_id", "subject", "subject_id", "device", "device_id", "machine", "id")
TIMES = ("time", "timestamp", "ts", "t", "event_time", "datetime")
LABELS = ("label", "activity", "class", "target", "y", "exercise")
ASIDE = ("seg", "segment", "session", "recording", "side", "row", "index", "offset", "partition")
UNIT_RANGES = (("s", 1e8, 1e11), ("ms", 1e11, 1e14), ("us", 1e14, 1e17), ("ns", 1e17, 1e20))  # times since 1970 in each unit


class Guess(NamedTuple):
    fields: list[str] | None  # columns of numbers that make up x
    dim: int | None  # length of x if one column holds it as a list
    x: str
    key: str | None
    time: str | None
    time_unit: str
    rate: float | None  # Hz
    label: str | None


def guess(path: Path) -> Guess:
    """The meaning of columns by their usual names, in upper or lower case; all other columns of numbers are part of x.

    Raises ConfigError for a file that cannot be read or has no rows.
    """
    rows = list(itertools.islice(rows_of(path), LOOK_AT))
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise ConfigError(f"{path}: expected a few records as they will arrive; got no rows.")
    key, time, label = (_first_usual(names, usual) for usual in (KEYS, TIMES, LABELS))
    lists = [name for name in names if _all_are(rows, name, list)]
    x = "x" if "x" in lists else lists[0] if lists else "x"
    fields = [n for n in names if n not in (key, time, label) and n.lower() not in ASIDE and _all_are(rows, n, (int, float))]
    dim = len(next(row[x] for row in rows if row.get(x))) if lists else None
    stamps = [row[time] for row in rows if time and isinstance(row.get(time), (int, float))]
    unit = _unit(stamps)
    return Guess(
        fields=None if dim else fields or None,
        dim=dim,
        x=x,
        key=key,
        time=time if stamps else None,
        time_unit=unit,
        rate=_rate(rows, key, time, unit) if stamps else None,
        label=label,
    )


def _first_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in usual if name in lower), None)


def _all_are(rows: Sequence[dict[str, Any]], name: str, kind: Any) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _unit(stamps: Sequence[float]) -> str:
    middle = sorted(stamps)[len(stamps) // 2] if stamps else 0
    return next((unit for unit, low, high in UNIT_RANGES if low <= middle < high), "s")


def _rate(rows: Sequence[dict[str, Any]], key: str | None, time: str | None, unit: str) -> float | None:
    """Hz, from the median pause between samples of a key, rounded to two digits."""
    scale = SECONDS[unit]
    pauses = sorted(pause for pause in _pauses(rows, key, time) if pause > 0)
    if not pauses:
        return None
    rate = 1 / (pauses[len(pauses) // 2] * scale)
    digits = 1 - math.floor(math.log10(rate))
    return round(rate, digits)


def _pauses(rows: Sequence[dict[str, Any]], key: str | None, time: str | None) -> Iterator[float]:
    last: dict[Any, float] = {}
    for row in rows:
        now, who = row.get(time or ""), row.get(key or "")
        if isinstance(now, (int, float)):
            if who in last:
                yield now - last[who]
            last[who] = now

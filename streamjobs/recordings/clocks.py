"""What the values of a time tell: the unit in which it counts from 1970, and the pause between samples."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from streamjobs.recordings.columns import Column, absent, unit_of_name
from streamjobs.recordings.files import SECONDS
from streamjobs.settings.types import UNIT_NAMES

FROM, TO = 946_684_800.0, 4_102_444_800.0  # the years 2000 to 2099; a time in between counts from 1970
UPTIME = 1e8  # least number that may count ms, us or ns from a start: as seconds, 3 years
PAUSES = 10  # least between samples, to tell a rate
SLOW, LEAST_PAUSES, ENOUGH = 3.0, 5, 50  # times the usual pause, of a slow key; pauses of a key, least and most


def unit_since_1970(column: Column) -> str | None:
    """The unit in which these times count from 1970; None where none gives years that may be."""
    times = sorted(flat(column.values))
    middle, stated = times[len(times) // 2], unit_of_name(column.name)
    fits = [unit for unit in UNIT_NAMES if FROM <= middle * SECONDS[unit] < TO]
    return fits[0] if fits and stated in (None, fits[0]) else None


def unit_of_uptime(column: Column) -> str | None:
    """The unit of large numbers that count from a start, as Android does: with it, samples come 1 to 1000 times a second.

    None where it is not certain.
    """
    moments = flat(column.values)
    pauses = sorted(after - before for before, after in itertools.pairwise(moments) if after > before)
    if len(pauses) < PAUSES or max(moments) < UPTIME or any(moment % 1 for moment in moments):
        return None
    pause = pauses[len(pauses) // 2]
    return next((unit for unit in ("ms", "us", "ns") if 0.001 < pause * SECONDS[unit] <= 1.0), None)


def ticks(column: Column) -> bool:
    """Whether numbers that rise have fractions and one pace; those of a counter of rows have no fractions.

    >>> ticks(Column("c1", [0.5, 0.75, 1.0], 0, "number")), ticks(Column("kWh", [0.5, 0.9, 2.0], 0, "number"))
    (True, False)
    """
    pauses = sorted(after - before for before, after in itertools.pairwise(column.values))
    few = len(pauses) // 20  # of them may be gaps
    return bool(pauses) and pauses[-1 - few] <= 1.5 * pauses[few] and any(value % 1 for value in column.values)


def usual_pause(rows: Sequence[dict[str, Any]], owners: Sequence[Any], time: str) -> float | None:
    """The median pause between samples of an owner, in the unit of the time; None of too few. owners: one for each row."""
    pauses = sorted(pause for pause in _pauses(rows, owners, time) if pause > 0)
    return pauses[len(pauses) // 2] if len(pauses) >= PAUSES else None


def flat(values: Sequence[Any]) -> list[float]:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _pauses(rows: Sequence[dict[str, Any]], owners: Sequence[Any], time: str) -> Iterator[float]:
    last: dict[Any, float] = {}
    for row, who in zip(rows, owners, strict=True):
        for now in flat([row.get(time)]):
            if absent(now):
                continue
            if who in last:
                yield now - last[who]
            last[who] = now


class Pauses:
    """The first pauses of each key of the sample, also of keys that are not tried."""

    def __init__(self) -> None:
        self._last: dict[Any, float] = {}
        self._pauses: dict[Any, list[float]] = {}

    def add(self, key: Any, moment: float) -> None:
        """moment: in seconds."""
        if (pause := moment - self._last.get(key, math.nan)) > 0 and len(found := self._pauses.setdefault(key, [])) < ENOUGH:
            found.append(pause)
        self._last[key] = moment

    def of_slowest(self, usual: float) -> tuple[float, str]:
        """Seconds between two samples of a key, of the slowest one where keys differ; and the words for it."""
        slow, key = 0.0, None
        for name, found in self._pauses.items():
            if len(found) >= LEAST_PAUSES and (middle := round(sorted(found)[len(found) // 2], 3)) > slow:
                slow, key = middle, name
        if slow < SLOW * usual or key is None:
            return usual, ""
        text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
        shown = "".join(one if one.isprintable() else " " for one in text)
        return slow, f" of the slowest key, {shown:.40}, with a sample every {slow:g} s (usual: {usual:g} s)"

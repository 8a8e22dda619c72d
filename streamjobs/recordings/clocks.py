"""What the values of a time tell: the unit in which it counts from 1970, and the pause between samples."""

from collections.abc import Iterator, Sequence
from typing import Any

from streamjobs.recordings.columns import Column, absent, unit_of_name
from streamjobs.recordings.files import SECONDS
from streamjobs.settings.types import UNIT_NAMES

FROM, TO = 946_684_800.0, 4_102_444_800.0  # the years 2000 to 2099; a time in between counts from 1970
PAUSES = 10  # least between samples, to tell a rate


def unit_since_1970(column: Column) -> str | None:
    """The unit in which these times count from 1970; None where none gives years that may be."""
    times = sorted(flat(column.values))
    middle, stated = times[len(times) // 2], unit_of_name(column.name)
    fits = [unit for unit in UNIT_NAMES if FROM <= middle * SECONDS[unit] < TO]
    return fits[0] if fits and stated in (None, fits[0]) else None


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

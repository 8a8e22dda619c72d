"""What the values of a time tell: the unit in which it counts from 1970, and the pause between samples."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamjobs.recordings.columns import Column, absent, unit_of_name
from streamjobs.recordings.files import SECONDS
from streamjobs.settings.types import UNIT_NAMES, many, printable

FROM, TO = 946_684_800.0, 4_102_444_800.0  # the years 2000 to 2099; a time in between counts from 1970
LEAST_FALLS, OFTEN = 5, 0.01  # rows that are earlier than the row of their key before them, least and of all
NEWEST_FIRST = 0.9  # of all steps from a row to the next of its key: the rows come newest first
NEWEST = "the newest row comes first"
NO_ORDER = 0.9  # of rows that are earlier than one before them: no time that samples wait would put them in order
LATE_SHARE = 0.05  # of the rows, at most, that are not newer than the row of their key before them without a word
LATENESS, SORTED = "[source] lateness", "if the file is sorted"
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


def in_order(
    rows: Sequence[dict[str, Any]], owners: Sequence[Any], time: str, second: float
) -> tuple[list[str], Sequence[dict[str, Any]], Sequence[Any]]:
    """What is odd about the times, in sentences; and the rows with the owner of each, without times of odd years.

    The rows are sorted by time where rows of an owner often are out of order. second: of the time's unit.

    >>> in_order([{"t": 1.7e9}, {"t": 9e12}, {"t": 1.8e9}], ["a", "b", "a"], "t", 1.0)[0]  # doctest: +ELLIPSIS
    ["1 of 3 rows has a 't' outside of the years 2000 to 2099, first of key 'b': another unit, or a wrong clock; ..."]
    """
    said, of = list[str](), f"of {many(len(rows), 'row')}"
    moments = [one * second if isinstance(one := row.get(time), (int, float)) else math.nan for row in rows]
    kept = [number for number, moment in enumerate(moments) if not (moment < FROM or moment >= TO)]
    if wrong := len(rows) - len(kept):
        owner = owners[next(number for number, moment in enumerate(moments) if moment < FROM or moment >= TO)]
        first = printable(str(owner))
        said.append(
            f"{wrong:,} {of} {'has' if wrong == 1 else 'have'} a {time!r} outside of the years 2000 to 2099, first of key "
            f"'{first:.40}': another unit, or a wrong clock; outside of the years 1970 to 9999 it is a dead letter"
        )
    last, falls, rises, keys = dict[str, float](), 0, 0, [repr(owners[number]) for number in kept]
    for key, number in zip(keys, kept, strict=True):
        falls += moments[number] < last.get(key, moments[number])
        rises += moments[number] > last.get(key, moments[number])
        last[key] = moments[number]
    ages = behind(keys, (moments[number] for number in kept))
    ahead = behind(reversed(keys), (-moments[number] for number in reversed(kept)))  # a wrong clock has few rows ahead
    most, early = max(ages, default=0.0), sum(age > 0 for age in ages)
    rest = f"up to {most:,.0f} s earlier than a row of their key before them"
    if falls >= max(LEAST_FALLS, OFTEN * len(rows)):
        if falls >= NEWEST_FIRST * (falls + rises):
            said.append(newest_first(early, len(rows)))
        elif early > NO_ORDER * len(rows):
            said.append(f"{early:,} {of} are {rest}: sort the rows by {time!r}, and run init again for the right rate")
        else:
            wait = f'{LATENESS} = "{math.ceil(most)}s" puts them in order, and every row waits that long'
            said.append(f"{early:,} {of} are {rest}; {wait}")
        kept.sort(key=lambda number: 0.0 if math.isnan(moments[number]) else moments[number])
    elif min(early, sum(age > 0 for age in ahead)) > LATE_SHARE * len(rows):
        said.append(unsorted(early, len(rows), time))
    elif early:
        said.append(f"{early:,} {of} are {rest}, which may have a wrong time; a [window] skips them")
    return said, [rows[number] for number in kept], [owners[number] for number in kept]


def newest_first(late: int, rows: int) -> str:
    return (
        f"{NEWEST}, and {late:,} of {many(rows, 'row')} would be late: reverse the rows below the header, such as with "
        "'tac', before 'streamjobs replay' and 'produce'"
    )


def unsorted(late: int, rows: int, time: str) -> str:
    why = f"{SORTED} by another column, sort it by {time!r} and run init again"
    return f"{late:,} of {many(rows, 'row')} are older than a row of their key before them, and windows skip them; {why}"


def behind(keys: Iterable[str], times: Iterable[float]) -> list[float]:
    """By how much each record is older than the newest of its key before it; 0 where it is not, or without a time.

    >>> behind(["a", "b", "a", "a"], [3.0, 1.0, 2.5, float("nan")])
    [0.0, 0.0, 0.5, 0.0]
    """
    newest, ages = dict[str, float](), list[float]()
    for key, time_ in zip(keys, times, strict=True):
        newest[key] = max(newest.get(key, time_), time_)  # NaN counts as the time before it
        ages.append(max(0.0, newest[key] - time_))
    return ages


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
        self._moments: dict[Any, list[float]] = {}

    def add(self, key: Any, moment: float) -> None:
        """moment: in seconds."""
        if FROM <= moment < TO and len(found := self._moments.setdefault(key, [])) <= ENOUGH and moment not in found[-1:]:
            found.append(moment)

    def of_slowest(self, usual: float) -> tuple[float, str]:
        """Seconds between two samples of a key, of the slowest one where keys differ; and the words for it."""
        slow, key = 0.0, None
        for name, moments in self._moments.items():
            found = sorted(later - earlier for earlier, later in itertools.pairwise(sorted({*moments})))
            if len(found) >= LEAST_PAUSES and (middle := round(found[len(found) // 2], 3)) > slow:
                slow, key = middle, name
        if slow < SLOW * usual or key is None:
            return usual, ""
        text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
        return slow, f" of the slowest key, {printable(text):.40}, with a sample every {slow:g} s (usual: {usual:g} s)"

"""Alarms that are open: which one, what was said when it was raised, and since when its change was there.

A detector says of every row whether it alarms; this stage makes events of that, one when an alarm is raised and one when it
ends, and keeps in between what both must say. Its ids come from the rows, so a row that is applied again gives the same ids.
Cost of a row: O(1).  State: 25 numbers, and 4 times for each of 13 powers of two, a watch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled_in_place
from algorithms.common.demands import Demand, every
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, unknown
from algorithms.common.workspace import Workspace
from algorithms.drift import report
from streamjobs.stages.stage import JobStage, Shape

# Columns of the details: time of the alarm, of the change, rows before, the verdict.
START, CHANGED, WATCHED, VERDICT = 0, 1, 2, 3
DETAILS = VERDICT + report.WIDE_COLUMNS
# Rows at which the detector could not alarm, so far and at the alarm: in columns of the verdict that no record of an alarm
# has, as -1 - rows, below 0, unlike what states of 0.2.0 have there.
SILENT, WARM_UP = VERDICT + report.READY, VERDICT + report.P_VALUE
RECOVERED, LEARNED_ANEW, REPLACED, AT_ONCE = "recovered", "learned anew", "replaced", "at once"
LEVELS, KEPT = 13, 4  # times kept: of the last 4 rows, of the last 4 with an even number, a multiple of 4 ..


class AlarmsState(NamedTuple):
    opened: Array  # (watches,) int64, id of the alarm that is open, 0: none is
    details: Array  # (watches, DETAILS) of the alarm that is open, NaN where none is
    times: Array  # (watches, LEVELS, KEPT) event times of rows: of number r at [k, (r >> k) % KEPT] where 2^k divides r
    rows: Array  # (watches,) int64, rows watched so far


class Lasting(NamedTuple):
    """How long an alarm has lasted: rows that were watched since it was raised, or seconds of event time."""

    rows: int  # 0: as `seconds` say
    seconds: float

    def reached(self, rows: Array, seconds: Array) -> Array:
        """(n,) bool: alarms of so many rows and seconds have lasted as long, or longer."""
        return rows >= self.rows if self.rows else seconds >= self.seconds


class Event(NamedTuple):
    """An alarm is raised, or ends."""

    row: int
    watch: int
    id: int
    outcome: str | None  # how it ended: RECOVERED, LEARNED_ANEW, REPLACED, AT_ONCE; None: it is raised
    details: Array  # (DETAILS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms(JobStage):
    """Makes events of the verdicts of `watches` detectors on rows of `columns` numbers.

    An alarm of a detector without open alarms ends with its row.
    """

    persisted_name: ClassVar[str] = "Alarms"
    described = "nothing"  # the detectors describe what changes the meaning of the arrays
    times = ("times",)
    tallies = ("opened", "rows")

    watches: int = 1
    columns: int = 1

    def begin(self, shape: Shape, seed: int) -> AlarmsState:
        details, none = np.full((self.watches, DETAILS), np.nan), np.zeros(self.watches, np.int64)
        details[:, SILENT] = -1.0
        return AlarmsState(none, details, np.zeros((self.watches, LEVELS, KEPT)), none.copy())

    def inherit(self, state: AlarmsState) -> None:
        """What was usual for others is not a measure of a new key."""

    def warm_up(self, state: AlarmsState, shape: Shape) -> None:
        slots, nothing = np.zeros(1, np.int64), unknown((1, report.WIDE_COLUMNS))
        self.advance(self.holding(state), slots, np.zeros(1), [nothing], np.zeros(1, np.int8), lambda row, watch: 1)

    def demands(self, work: Workspace, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        place = work["details"][slots][..., VERDICT + report.FIRST_COLUMN :: report.OF_COLUMN]
        yield Demand("details", "columns of rows", every(np.isnan(place) | ((place >= 0) & (place < self.columns))))

    def advance(
        self,
        work: Any,
        slots: Array,
        times: Array,
        verdicts: Sequence[Array],
        learn: Array,
        identify: Callable[[int, int], int],
    ) -> list[Event]:
        """The events of rows (n,), in their order; verdicts: (n, 4 or more) of each watch.

        identify: the id, above 0, of an alarm that this row of this watch raises. Rows that a detector did not learn change
        nothing: it forgets what it said of them.
        """
        events: list[Event] = []
        for watch, verdict in enumerate(verdicts):
            row = _follow(work.arrays, watch, 0, slots, times, verdict, learn)
            while row < len(slots):
                events += self._events(work, watch, row, slots[row], times[row], verdict[row], identify)
                row = _follow(work.arrays, watch, row + 1, slots, times, verdict, learn)
        events.sort(key=lambda event: (event.row, event.watch))
        return events

    def lasted(self, work: Any, slots: Array, times: Array, otherwise: Array) -> tuple[Array, Array]:
        """Rows (n,) for which the oldest open alarm of each slot has lasted, 0 without one, and seconds (n,) at these times.

        otherwise: (n,) times from which seconds count where no alarm is open, or where one began later.
        """
        opened, details = work["opened"][slots] > 0, work["details"][slots]
        rows = np.where(opened, work["rows"][slots] - details[:, :, WATCHED], 0.0).max(axis=1)
        since = np.where(opened, details[:, :, START], np.inf).min(axis=1)
        return rows, times - np.minimum(since, otherwise)

    def _events(
        self,
        work: Any,
        watch: int,
        row: int,
        slot: int,
        time: float,
        verdict: Array,
        identify: Callable[[int, int], int],
    ) -> Iterator[Event]:
        """What a row that `_follow` stopped at ends and raises."""
        opened, details, number = work["opened"][:, watch], work["details"][slot, watch], int(work["rows"][slot, watch])
        alarm, is_long = verdict[report.ALARM] > 0, len(verdict) >= report.LONG_COLUMNS
        stays, silent = is_long and verdict[report.OPEN] > 0, is_long and verdict[report.READY] == 0
        unsaid = details[SILENT] if details[SILENT] < 0.0 else np.nan
        if opened[slot]:  # and it does not stay, or another one takes its place
            anew = silent or verdict[report.STATISTIC] > 0  # silent: 'drift relearn' emptied it
            outcome = REPLACED if alarm and not silent else LEARNED_ANEW if anew else RECOVERED
            yield Event(row, watch, int(opened[slot]), outcome, details.copy())
            opened[slot], details[:], details[SILENT] = 0, np.nan, unsaid
        if not alarm:
            return
        said = np.full(DETAILS, np.nan)
        said[VERDICT : VERDICT + len(verdict)] = verdict
        said[WARM_UP] = unsaid + silent  # of the rows before this one
        since = verdict[report.SINCE] if is_long else np.nan
        said[START], said[WATCHED] = time, number - 1
        if np.isfinite(since):
            said[CHANGED] = _time_of(number - int(since) + 1, number, work["times"][slot, watch])
        raised = Event(row, watch, identify(row, watch), None, said)
        yield raised
        if stays:
            opened[slot], details[:], details[SILENT] = raised.id, said, unsaid
        else:
            yield raised._replace(outcome=AT_ONCE)


def _time_of(row: int, newest: int, kept: Array) -> float:
    """Event time of the key's row of this number, up to the newest, by the times that are kept (LEVELS, KEPT)."""
    known: dict[int, float] = {}
    for level in range(LEVELS):
        for multiple in range(max(1, (newest >> level) - KEPT + 1), (newest >> level) + 1):
            known[multiple << level] = float(kept[level, multiple % KEPT])
    rows = sorted(known)
    return float(np.interp(row, rows, [known[one] for one in rows]))


@compiled_in_place
def _follow(work, watch, begin, slots, times, verdict, learn):
    """Counts rows from `begin` on, up to the first that raises or ends an alarm; gives its place, len(slots) without one."""
    opened, details, all_times, rows, _ = work
    is_long = verdict.shape[1] >= report.LONG_COLUMNS
    for n in range(begin, len(slots)):
        if not np.isfinite(verdict[n, report.STATISTIC]) or learn[n] & LEARN_EXTRACTOR == 0:
            continue
        slot = slots[n]
        rows[slot, watch] += 1
        number, level = rows[slot, watch], 0
        while level < LEVELS and number % (1 << level) == 0:
            all_times[slot, watch, level, (number >> level) % KEPT] = times[n]
            level += 1
        if is_long and verdict[n, report.READY] == 0.0 and details[slot, watch, SILENT] < 0.0:
            details[slot, watch, SILENT] -= 1.0
        stays = is_long and verdict[n, report.OPEN] > 0.0
        if verdict[n, report.ALARM] > 0.0 or (opened[slot, watch] != 0 and not stays):
            return n
    return len(slots)

"""Alarms that are open: which one, what was said when it was raised, and since when its change was there.

A detector says of every row whether it alarms; this stage makes events of that, one when an alarm is raised and one when it
ends, and keeps in between what both must say. Its ids come from the rows, so a row that is applied again gives the same ids.
Cost of a row: O(1), a few array operations a batch.  State: 25 numbers, and 4 times for each of 13 powers of two, a watch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.demands import Demand, every
from algorithms.common.protocol import LEARN_EXTRACTOR, Array
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
        """Nothing compiles."""

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
            at = np.flatnonzero(np.isfinite(verdict[:, report.STATISTIC]) & (learn & LEARN_EXTRACTOR > 0))
            if len(at):
                seen = _Seen.of(work["rows"][:, watch], slots, times, at)
                self._events(work, watch, seen, verdict, identify, events)
                seen.remember(work["times"][:, watch], work["rows"][:, watch])
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
        self, work: Any, watch: int, seen: "_Seen", verdict: Array, identify: Callable[[int, int], int], events: list[Event]
    ) -> None:
        opened, details, times = work["opened"][:, watch], work["details"][:, watch], work["times"][:, watch]
        of_rows = verdict[seen.at]
        alarm, is_long = of_rows[:, report.ALARM] > 0, verdict.shape[1] >= report.LONG_COLUMNS
        stays = of_rows[:, report.OPEN] > 0 if is_long else np.zeros(len(alarm), np.bool_)
        was_open = np.empty(len(alarm), np.bool_)
        was_open[1:] = (stays | alarm)[:-1]
        was_open[seen.first] = opened[seen.slots[seen.first]] > 0
        silent = of_rows[:, report.READY] == 0 if is_long else np.zeros(len(alarm), np.bool_)
        for place in np.flatnonzero(alarm | (was_open & ~stays)).tolist():
            row, slot = int(seen.at[place]), seen.slots[place]
            unsaid = details[slot, SILENT] if details[slot, SILENT] < 0.0 else np.nan
            if opened[slot] and (alarm[place] or not stays[place]):
                begins = is_long and of_rows[place, report.READY] == 0  # 'drift relearn' emptied it
                anew = begins or of_rows[place, report.STATISTIC] > 0
                outcome = REPLACED if alarm[place] and not begins else LEARNED_ANEW if anew else RECOVERED
                events.append(Event(row, watch, int(opened[slot]), outcome, details[slot].copy()))
                opened[slot], details[slot], details[slot, SILENT] = 0, np.nan, unsaid
            if not alarm[place]:
                continue
            said, mine = np.full(DETAILS, np.nan), of_rows[place]
            said[VERDICT : VERDICT + len(mine)] = mine
            said[WARM_UP] = unsaid - silent[seen.begins[place] : place].sum()
            since = mine[report.SINCE] if is_long else np.nan
            said[START], said[WATCHED] = seen.times[place], seen.numbers[place] - 1
            said[CHANGED] = seen.time_of(place, int(since), times[slot]) if np.isfinite(since) else np.nan
            raised = Event(row, watch, identify(row, watch), None, said)
            events.append(raised)
            if stays[place]:
                opened[slot], details[slot], details[slot, SILENT] = raised.id, said, unsaid
            else:
                events.append(raised._replace(outcome=AT_ONCE))
        if silent.any():
            counts = silent & (details[seen.slots, SILENT] < 0.0)
            np.subtract.at(details, (seen.slots[counts], SILENT), 1.0)


class _Seen(NamedTuple):
    """Rows that a detector learned, those of a key side by side in their order."""

    at: Array  # (m,) their places in the batch
    slots: Array  # (m,)
    times: Array  # (m,)
    numbers: Array  # (m,) of each row within its key, from 1
    first: Array  # (keys,) where each key's begin
    begins: Array  # (m,) where its key's begin
    last: Array  # (keys,) where each key's end

    @classmethod
    def of(cls, rows: Array, slots: Array, times: Array, at: Array) -> "_Seen":
        at = at[np.argsort(slots[at], kind="stable")]
        own = slots[at]
        begun = np.ones(len(own), np.bool_)
        begun[1:] = own[1:] != own[:-1]
        first = begun.nonzero()[0]
        last = np.empty_like(first)
        last[:-1], last[-1] = first[1:] - 1, len(own) - 1
        begins = first.repeat(last - first + 1)
        return cls(at, own, times[at], rows[own] + np.arange(len(own)) - begins + 1, first, begins, last)

    def remember(self, times: Array, rows: Array) -> None:
        """Keep the times of these rows: times (slots, LEVELS, KEPT), and count them in rows (slots,)."""
        numbers, slots, of_rows = self.numbers, self.slots, self.times
        for level in range(LEVELS):
            times[slots, level, (numbers >> level) % KEPT] = of_rows  # of equal places the last one stays
            which = numbers >> level & 1 == 0
            numbers, slots, of_rows = numbers[which], slots[which], of_rows[which]
            if not len(numbers):
                break
        rows[self.slots[self.last]] = self.numbers[self.last]

    def time_of(self, place: int, since: int, kept: Array) -> float:
        """Event time of the first of the last `since` rows up to this one, by those that are known: kept (LEVELS, KEPT).

        Known are the same ones however the rows come in batches, though more of them are in this one.
        """
        number, before = int(self.numbers[place]), int(self.numbers[self.begins[place]]) - 1
        known: dict[int, float] = {}
        for level in range(LEVELS):
            for multiple in range(max(1, (number >> level) - KEPT + 1), (number >> level) + 1):
                row = multiple << level
                of_batch = row > before
                time = self.times[self.begins[place] + row - before - 1] if of_batch else kept[level, multiple % KEPT]
                known[row] = float(time)
        rows = sorted(known)
        return float(np.interp(number - since + 1, rows, [known[row] for row in rows]))

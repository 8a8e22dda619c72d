"""Bouts: for how long each activity of a key lasted, and the minutes of each activity and day.

A row's activity is its label, or else the predicted class. While a late label may still change a row, the row waits here, as
long as rows wait in `late_labels`. Therefore a bout is sent once and never corrected. Rows that no label can change make
runs. A run shorter than `shortest` is flicker and joins the bout before it (at the beginning the bout behind it). So does a
pause of up to `shortest`. A bout ends when another run has become long enough, or with the row after a longer pause.
Cost of a row: O(1), and O(rows that wait) of a late label.  State: 3 numbers of each row that waits, targets + 19 others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, require
from streamjobs.stages.event_time import CLOSE
from streamjobs.stages.stage import JobStage, Shape

MOST_DAY = date.max.toordinal()
START, END = 0, 1


class BoutsState(NamedTuple):
    times: Array  # (h,) event times of the rows that wait, ascending
    codes: Array  # (h,) int64, their activities, -1 none
    scores: Array  # (h,) of their activities; NaN: a label says it, inf: a class without a score
    classes: Array  # (2,) int64, activity of the bout under way, and of the run behind it that may be flicker
    spans: Array  # (2, 2) event times of their starts and ends
    sums: Array  # (2,) of the scores of their rows
    rows: Array  # (2, 3) int64, rows (0: no run), rows with a score, rows with a label
    newest: float  # event time of the newest row, -inf: none yet
    bouts: int  # sent so far
    day: int  # of the newest bout's end, from the year 1
    seconds: Array  # (targets,) of each activity on this day


class Bout(NamedTuple):
    """A bout that is over."""

    row: int  # with which it was over
    slot: int
    code: int  # of its activity
    start: float  # event time, seconds
    end: float
    rows: int
    labelled: int
    score: float  # mean of its rows without a label, NaN without any
    number: int  # within its key, from 0
    days: list[tuple[str, float]]  # seconds of its activity on the days it touches, up to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Bouts(JobStage):
    """Rows come every `hop` seconds, and the first one after a pause covers `length` (0: samples).

    >>> stage = Bouts(shortest=2.0, hop=1.0, length=1.0)
    >>> work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=2), seed=0))
    >>> codes, at = np.array([0, 0, 0, 1, 0, 1, 1, 1]), np.arange(1.0, 9.0)
    >>> rows = np.zeros(8, np.int64), at, codes, np.full(8, 0.5), np.zeros(8, np.bool_), np.ones(8, np.bool_)
    >>> [(one.code, one.start, one.end, one.rows) for one in stage.advance(work, *rows)]
    [(0, 0.0, 5.0, 5)]
    """

    persisted_name: ClassVar[str] = "Bouts"
    described = "name"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("times", "codes", "scores"),)
    signal = True
    survives = True
    times = ("times", "newest", "spans")
    class_columns = ("codes", "classes")
    tallies = ("rows",)
    samples = ("sums", "seconds")
    ranges = (("day", 0, MOST_DAY - 1),)

    shortest: float  # seconds
    hop: float = 0.0
    length: float = 0.0
    wait: float = 0.0  # seconds for which a label may change a row; 0: none comes later
    most: int = 0  # rows that wait
    zone: tzinfo = UTC  # of days

    def __post_init__(self) -> None:
        require(self, "shortest", 0 <= self.shortest <= 86_400, "0 to 86400 seconds")

    def room(self, field: str) -> int:
        return self.most

    def begin(self, shape: Shape, seed: int) -> BoutsState:
        runs = np.full(2, -1, np.int64), np.zeros((2, 2)), np.zeros(2), np.zeros((2, 3), np.int64)
        waiting = np.empty(0), np.empty(0, np.int64), np.empty(0)
        return BoutsState(*waiting, *runs, -np.inf, 0, 0, np.zeros(shape.targets))

    def migrate(self, state: BoutsState, fresh: BoutsState, column: Sequence[int]) -> BoutsState:
        seconds = fresh.seconds.copy()
        for code, of_code in enumerate(state.seconds[: len(column)].tolist()):
            if column[code] >= 0:
                seconds[column[code]] = of_code
        return JobStage.migrate(self, state, fresh, column)._replace(seconds=seconds)  # type: ignore[no-any-return]

    def warm_up(self, state: BoutsState, shape: Shape) -> None:
        work, slot, no = self.holding(state), np.zeros(1, np.int64), np.zeros(1, np.bool_)
        self.advance(work, slot, np.zeros(1), slot, np.zeros(1), no, ~no)

    def advance(
        self, work: Any, slots: Array, times: Array, codes: Array, scores: Array, labelled: Array, came: Array
    ) -> list[Bout]:
        """The bouts that rows (n,) end, in their order.

        codes: of each row's activity, -1 none; came: bool, whether it is a row that came, or one that a late label corrects.
        """
        most = len(slots) + int(work["counts"][np.unique(slots), 0].sum())
        out = np.empty((most, 5), np.int64), np.empty((most, 3))
        settings = self.shortest, self.hop, self.length, self.wait + CLOSE if self.wait > 0 else 0.0
        scored = np.where(labelled, np.nan, np.where(np.isnan(scores), np.inf, scores))
        k = _advance(work.arrays, (slots, times, codes, scored, came), out, settings)
        whole, parts = out[0][:k].tolist(), out[1][:k].tolist()
        return [self._over(work, *one) for one in zip(whole, parts, strict=True)]

    def under_way(self, state: BoutsState) -> list[Bout]:
        """What a key's rows so far would send if no other row came."""
        stage = replace(self, wait=0.0)
        work, n = stage.holding(state), len(state.times) + 1
        work["counts"][:] = 0
        times = np.r_[state.times, state.newest + 2 * max(self.shortest, self.hop) + self.length + 1.0]
        rows = np.zeros(n, np.int64), times, np.r_[state.codes, -1], np.r_[state.scores, np.nan]
        return stage.advance(work, *rows, np.isnan(rows[3]), np.ones(n, np.bool_)) if np.isfinite(state.newest) else []

    def _over(self, work: Any, whole: list[int], parts: list[float]) -> Bout:
        """Counts a bout that the loop gave."""
        (row, slot, code, rows, labelled), (start, end, score) = whole, parts
        number = int(work["bouts"][slot])
        work["bouts"][slot] += 1
        seconds, days = work["seconds"][slot], []
        for day, of_day in days_of(start, end, self.zone):
            if day != work["day"][slot]:
                work["day"][slot], seconds[:] = day, 0.0
            seconds[code] += of_day
            days.append((date.fromordinal(day).isoformat(), float(seconds[code])))
        return Bout(row, slot, code, start, end, rows, labelled, score, number, days)


def days_of(start: float, end: float, zone: tzinfo) -> Iterator[tuple[int, float]]:
    """The days from start to end, by number from the year 1, with the seconds of each; the first one in any case.

    >>> [(date.fromordinal(day).isoformat(), seconds) for day, seconds in days_of(86_390.0, 86_405.0, UTC)]
    [('1970-01-01', 10.0), ('1970-01-02', 5.0)]
    """
    first = start
    while start < end or start == first:
        day = datetime.fromtimestamp(start, zone).date()
        following = day + timedelta(days=1)
        until = datetime(following.year, following.month, following.day, tzinfo=zone).timestamp()
        yield day.toordinal(), min(until, end) - start
        start = max(until, start + 1.0)


@compiled
def _advance(work, rows, out, settings):
    all_times, all_codes, all_scores, counts, newest = work[0], work[1], work[2], work[11], work[7]
    slots, times, codes, scores, came = rows
    hold, k = settings[3], 0
    for n in range(len(slots)):
        key, time, count = slots[n], times[n], counts[slots[n], 0]
        if not came[n]:
            for i in range(count - 1, -1, -1):
                if all_times[key, i] == time:
                    all_codes[key, i], all_scores[key, i] = codes[n], scores[n]
                    break
            continue
        if hold == 0.0:
            k = _settle(work, key, (time, codes[n], scores[n]), n, out, k, settings)
            newest[key] = max(newest[key], time)
            continue
        # Rows that waited long enough for the labels that came up to the row before go on, and the oldest without room.
        gone = 0
        while gone < count and (newest[key] - all_times[key, gone] > hold or count - gone == all_times.shape[1]):
            at = all_times[key, gone], all_codes[key, gone], all_scores[key, gone]
            k = _settle(work, key, at, n, out, k, settings)
            gone += 1
        count -= gone
        for i in range(count):
            all_times[key, i], all_codes[key, i] = all_times[key, i + gone], all_codes[key, i + gone]
            all_scores[key, i] = all_scores[key, i + gone]
        at_end = count
        while at_end > 0 and all_times[key, at_end - 1] > time:
            all_times[key, at_end], all_codes[key, at_end] = all_times[key, at_end - 1], all_codes[key, at_end - 1]
            all_scores[key, at_end] = all_scores[key, at_end - 1]
            at_end -= 1
        all_times[key, at_end], all_codes[key, at_end], all_scores[key, at_end] = time, codes[n], scores[n]
        newest[key] = max(newest[key], time)
        for field in range(counts.shape[1]):
            counts[key, field] = count + 1
    return k


@compiled
def _settle(work, key, row, n, out, k, settings):
    """A row that no label can change; gives how many bouts are over."""
    classes, spans, sums, rows = work[3], work[4], work[5], work[6]
    time, code, score = row
    shortest, hop, length, _ = settings
    pause = max(shortest, hop)
    last = spans[key, 1 if rows[key, 1, 0] > 0 else 0, END]
    if rows[key, 0, 0] > 0 and time < last:  # older than what is settled
        return k
    if rows[key, 0, 0] > 0 and time - length - last > pause:
        _absorb(spans, rows, key)
        k = _send(work, key, n, out, k)
        rows[key, 0, 0] = 0
    if rows[key, 0, 0] == 0:
        _begin(work, key, 0, code, max(0.0, time - length))
        _add(work, key, 0, time, score)
        return k
    if rows[key, 1, 0] == 0 and code == classes[key, 0]:
        _add(work, key, 0, time, score)
        return k
    if rows[key, 1, 0] > 0 and code != classes[key, 1]:
        _absorb(spans, rows, key)
        if code == classes[key, 0]:
            _add(work, key, 0, time, score)
            return k
    if rows[key, 1, 0] == 0:
        _begin(work, key, 1, code, last)
    _add(work, key, 1, time, score)
    if spans[key, 1, END] - spans[key, 1, START] >= shortest:
        start, before = spans[key, 1, START], 0
        if spans[key, 0, END] - spans[key, 0, START] < shortest:  # nothing came before it that it could join
            start, before = spans[key, 0, START], rows[key, 0, 0]
        else:
            k = _send(work, key, n, out, k)
        classes[key, 0], sums[key, 0] = classes[key, 1], sums[key, 1]
        spans[key, 0, START], spans[key, 0, END] = start, spans[key, 1, END]
        rows[key, 0, 0] = rows[key, 1, 0] + before
        rows[key, 0, 1], rows[key, 0, 2], rows[key, 1, 0] = rows[key, 1, 1], rows[key, 1, 2], 0
    return k


@compiled
def _begin(work, key, which, code, start):
    classes, spans, sums, rows = work[3], work[4], work[5], work[6]
    classes[key, which], spans[key, which, START], sums[key, which] = code, start, 0.0
    for count in range(3):
        rows[key, which, count] = 0


@compiled
def _add(work, key, which, time, score):
    spans, sums, rows = work[4], work[5], work[6]
    spans[key, which, END] = time
    rows[key, which, 0] += 1
    if np.isfinite(score):
        sums[key, which] += score
        rows[key, which, 1] += 1
    elif np.isnan(score):
        rows[key, which, 2] += 1


@compiled
def _absorb(spans, rows, key):
    """The run behind the bout becomes part of it; its scores and labels are of another activity."""
    if rows[key, 1, 0] > 0:
        spans[key, 0, END] = spans[key, 1, END]
        rows[key, 0, 0] += rows[key, 1, 0]
        rows[key, 1, 0] = 0


@compiled
def _send(work, key, n, out, k):
    classes, spans, sums, rows = work[3], work[4], work[5], work[6]
    if classes[key, 0] < 0:
        return k
    whole, parts = out
    whole[k, 0], whole[k, 1], whole[k, 2] = n, key, classes[key, 0]
    whole[k, 3], whole[k, 4] = rows[key, 0, 0], rows[key, 0, 2]
    parts[k, 0], parts[k, 1] = spans[key, 0, START], spans[key, 0, END]
    parts[k, 2] = sums[key, 0] / rows[key, 0, 1] if rows[key, 0, 1] > 0 else np.nan
    return k + 1

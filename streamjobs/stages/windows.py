"""Windows of raw signals: each key's samples become rows of statistics, in event time.

Window k of a key covers [origin + k hop, + length), where origin is its first sample, and again the first one after a
pause longer than `gap`; a pause drops the unfinished window ("gap"). A window ends as soon as the next expected sample,
a period after the newest, falls outside it (or within half a period of its end), so its row does not wait for it.

Not every window becomes a row, nor every sample part of one; `skipped` counts them by reason:
"sparse" windows with fewer than `fewest` of their samples, "gap" windows cut short by a pause, "crowded" samples beyond
1.5 times the declared number, "late" samples older than the newest one (ordering is the stage before). With `fewest` below
.8 a window has samples at `rate` that are interpolated between its own, if these are fewer than 80 % of the declared number
or more than 105 %. Of a sensor of 1.5 times the rate or more, it then keeps samples that are APART periods apart.

A sample without a time in its record is never late. Where its record's timestamp is before the newest one, it counts at the
newest; where it is before by more than `gap`, a new window starts there, as after a pause.

A row's label is the majority of its labelled samples (the lowest code at ties), or with `label="mean"` their mean; its
`learn` is what all its samples allow (the common bits).
"""

import math
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled, compiled_in_place
from algorithms.common.demands import Demand
from algorithms.common.protocol import LEARN, Array, reject, require, unknown
from streamjobs.stages import statistics as features_of
from streamjobs.stages.event_time import END_OF_TIME
from streamjobs.stages.rows import joined, plain_columns
from streamjobs.stages.stage import UNDESCRIBED, JobStage, Shape

REASONS = ("sparse", "gap", "crowded", "late")
FULL, MOST = 0.8, 1.5  # samples of a window that need no others between them, and that are kept, to the declared number
POPULATED = 0.4  # `fewest` of jobs with a population that do not state it
MANY = 1.05  # samples that need interpolation with `fewest` below FULL, to the declared number
APART = 0.75  # sample periods between those that a window keeps of a faster sensor
MOST_SAMPLES = 100_000  # of one window
MOST_BYTES = 1 << 24  # of windows copied out at a time


class WindowsState(NamedTuple):
    """The unfinished window of a key, and what overlapping ones will need of it."""

    times: Array  # (h,) not descending
    X: Array  # (h, dim)
    L: Array  # (h, labels)
    learns: Array  # (h,) int8
    origin: float  # event time of window 0, seconds
    window: int  # number of the unfinished window
    newest: float  # event time of the newest sample; -inf: none yet


class Rows(NamedTuple):
    slots: Array  # (k,)
    times: Array  # (k,) the end of the window, seconds
    X: Array  # (k, width) statistics
    L: Array  # (k, labels)
    owner: Array  # (k,) of the sample that ended the window
    learn: Array  # (k,) int8
    skipped: dict[str, int]  # by reason, those that occurred


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(JobStage):
    """Windows of `length` seconds every `hop` seconds of a signal sampled at `rate` Hz.

    >>> windows = Windows(length=2.0, hop=1.0, rate=50.0)
    >>> windows.width_for(6), windows.nominal
    (48, 100)
    """

    persisted_name: ClassVar[str] = "Windows"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("times", "X", "L", "learns"),)
    signal = True
    survives = True
    samples = ("X",)
    times = ("times", "newest")
    label_codes = ("L",)

    length: float  # seconds
    hop: float  # seconds, at least a sample period
    rate: float  # Hz
    gap: float | None = None  # seconds; None: 10 sample periods
    statistics: str = "simple"
    label: str = "majority"  # of class codes, or "mean" of numbers
    convolutions: int = 0  # numbers of random convolutions; above 0 a row has the samples, that they can be made of
    # Samples of a window that becomes a row, to the declared number. It may change while states and populations stay.
    fewest: float = field(default=FULL, metadata=UNDESCRIBED)

    def __post_init__(self) -> None:
        require(self, "rate", 0 < self.rate < np.inf, "above 0 Hz")
        require(self, "length", 4 <= self.length * self.rate <= MOST_SAMPLES, f"4 to {MOST_SAMPLES} sample periods")
        require(self, "hop", 1 <= self.hop * self.rate < np.inf, "at least a sample period")
        require(self, "gap", self.gap is None or self.gap * self.rate >= 1, "at least a sample period")
        require(self, "fewest", 0 < self.fewest <= FULL, f"above 0 and at most {FULL:g}")
        require(self, "statistics", self.statistics in features_of.KINDS, "one of " + ", ".join(features_of.KINDS))
        if self.convolutions:
            least, most = features_of.CONVOLVED
            known = self.convolutions > 0 and least <= self.nominal <= most
            require(self, "convolutions", known, f"0, or windows of {least} to {most} samples")
        require(self, "label", self.label in ("majority", "mean"), "majority or mean")

    @property
    def nominal(self) -> int:
        """Samples in a full window."""
        return max(1, round(self.length * self.rate))

    def width_for(self, dim: int) -> int:
        """Statistics of a window of `dim` channels."""
        if dim < features_of.least_channels(self.statistics):
            expected = f"simple or rich for {dim} channels; gravity needs 3 of acceleration"
            reject(self, "statistics", expected, self.statistics)
        return features_of.width(self.statistics, dim)

    def samples_for(self, dim: int) -> int:
        """Numbers of a row after its statistics: the samples that convolutions see, or none."""
        return self.nominal * dim if self.convolutions else 0

    def row_width(self, dim: int, *, fitted: bool) -> int:
        """Numbers of a row. Before `fit` it has samples, of which a population makes the numbers of convolutions."""
        more = self.convolutions if fitted or not self.convolutions else self.samples_for(dim)
        return self.width_for(dim) + more

    def room(self, field: str) -> int:
        return math.ceil(MOST * self.nominal)

    def begin(self, shape: Shape, seed: int) -> WindowsState:
        empty = np.empty((0, shape.dim)), np.empty((0, shape.label_width))
        return WindowsState(np.empty(0), *empty, np.empty(0, np.int8), 0.0, 0, -np.inf)

    def warm_up(self, state: WindowsState, shape: Shape) -> None:
        work, slot = self.holding(state), np.zeros(1, np.int64)
        X, L = np.zeros((1, shape.dim)), unknown((1, shape.label_width))
        self.advance(work, slot, np.zeros(1), X, L, slot, np.full(1, LEARN, np.int8))
        self._described(np.zeros((1, self.room("X"), shape.dim)), np.full(1, 2, np.int64))

    def demands(self, work: Any, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        """The unfinished window ends after the newest sample, and is the first that does."""
        origin, window, newest = work["origin"][slots], work["window"][slots], work["newest"][slots]
        after_1970 = (origin >= 0) & (origin < END_OF_TIME) & (window >= 0) & (window <= END_OF_TIME / self.hop)
        yield Demand("window", "a window after 1970", after_1970)
        ends = origin + window * self.hop + self.length
        yield Demand("window", "an unfinished window", np.isneginf(newest) | (ends > newest))

    def advance(
        self,
        work: Any,
        slots: Array,
        times: Array,
        X: Array,
        L: Array,
        owner: Array,
        learn: Array,
        untimed: Array | None = None,
    ) -> Rows:
        """Samples of many keys in order: X (n, dim), L (n, labels), learn (n,) int8, the rest (n,).

        untimed: bool, whether a sample has its record's timestamp for a time; None: none has.
        """
        n, dim, labels, nominal, room = len(times), X.shape[1], L.shape[1], self.nominal, self.room("X")
        of_records = np.zeros(n, np.bool_) if untimed is None else untimed
        samples = plain_columns(slots, times, X, L, owner, of_records, learn)
        # Rows the loop gives before it pauses: about as many as can come, in bounded memory.
        most = max(2, min(n // max(1, int(self.hop * self.rate)) + min(8 + n // 16, 64), MOST_BYTES // (8 * room * dim)))
        out_X, out_count = np.empty((most, room, dim)), np.empty(most, np.int64)
        out_rows = np.empty((most, labels)), np.empty(most, np.int64), np.empty(most, np.int8)
        out = (np.empty(most, np.int64), np.empty(most), out_X, *out_rows, out_count)
        skipped = np.zeros(len(REASONS), np.int64)
        gap = 10.0 / self.rate if self.gap is None else self.gap
        grid = (self.length, self.hop, 1.0 / self.rate, gap)
        bounds = (self.fewest * nominal, FULL * nominal, MANY * nominal if self.fewest < FULL else np.inf)
        making = (bounds, nominal, self.label == "mean", skipped)
        parts, begin = [], 0
        while True:
            begin, k = _advance(work.arrays, samples, begin, out, grid, making)
            slots, times, L, owner, learn = [array[:k] for array in (*out[:2], *out_rows)]
            if begin == n:
                break
            part = slots, times, self._described(out_X[:k], out_count[:k]), L, owner, learn
            parts.append(tuple([array.copy() for array in part]))
        rows = self._described(out_X[:k], out_count[:k])
        if parts:
            slots, times, rows, L, owner, learn = joined([*parts, (slots, times, rows, L, owner, learn)])
        counted = {reason: count for reason, count in zip(REASONS, skipped.tolist(), strict=True) if count}
        return Rows(slots, times, rows, L, owner, learn, counted)

    def _described(self, windows: Array, counts: Array) -> Array:
        """Rows (k, width) of windows (k, room, dim) with so many samples each (k,)."""
        k, _, dim = windows.shape
        samples_too, width = self.samples_for(dim), self.width_for(dim)
        features = np.empty((k, width + samples_too))
        if k:
            features_of.describe(self.statistics, windows, counts, self.rate, features)
            if samples_too:
                _samples(windows, counts, features, width)
        return features


Work = cast(Any, namedtuple("Work", (*WindowsState._fields, "counts")))  # a workspace's arrays by name


@compiled_in_place
def _samples(windows, counts, out, first):
    """Samples in order into out (k, first + samples * dim); where some are missing the last one stands for them."""
    dim = windows.shape[2]
    for k in range(len(windows)):
        for at in range((out.shape[1] - first) // dim):
            for j in range(dim):
                out[k, first + dim * at + j] = windows[k, min(at, counts[k] - 1), j]


# The loops below index whole arrays instead of taking views of rows: they compile in a third of the time.
@compiled
def _advance(work, samples, begin, out, grid, making):
    held_times, held_X, held_L, held_learns, origins, windows, newest, counts = work
    slots, times, X, L, owner, untimed, learn = samples
    out_slots, out_times, out_X, out_L, out_owner, out_learn, out_count = out
    length, hop, period, gap = grid
    (fewest, full, many), nominal, mean, skipped = making
    k = 0  # rows made
    for n in range(begin, times.size):
        key, time = slots[n], times[n]
        if k == out_times.size:  # no room for a row of this sample: pause before it
            return n, k
        if time < newest[key]:
            if not untimed[n]:
                skipped[3] += 1
                continue
            if newest[key] - time <= gap:
                time = newest[key]
        count, window = counts[key, 0], windows[key]
        if not abs(time - newest[key]) <= gap:  # a pause, or the first sample of the key
            skipped[1] += count > 0
            origins[key], window, count = time, 0, 0
        origin, last = origins[key], False
        while not last:
            start = origin + window * hop
            end = start + length
            if time >= end:  # the window ended before this sample without having been full of expected ones
                if k + 1 == out_times.size:  # one place is for the sample's own: pause before it
                    windows[key] = window
                    for field in range(counts.shape[1]):
                        counts[key, field] = count
                    return n, k
                if count == 0:  # nothing to give until this sample's own windows
                    far = int((time - origin - length) / hop)
                    if far > window:
                        skipped[0] += far - window
                        window = far
            else:  # the sample itself; between windows (hop above length) it belongs to none
                newest[key] = time
                if time >= start:
                    if count == held_times.shape[1] and many < np.inf:
                        count = thin(work, key, count, APART * period)
                    if count < held_times.shape[1]:
                        held_times[key, count], held_learns[key, count] = time, learn[n]
                        for j in range(X.shape[1]):
                            held_X[key, count, j] = X[n, j]
                        for j in range(L.shape[1]):
                            held_L[key, count, j] = L[n, j]
                        count += 1
                    else:
                        skipped[2] += 1
                if time + 1.5 * period < end:
                    break
                last = True

            # The window is over: a row of the samples held, unless they are too few.
            if count < fewest:
                skipped[0] += 1
            else:
                out_slots[k], out_times[k], out_owner[k], out_count[k] = key, end, owner[n], count
                out_learn[k] = held_learns[key, 0]
                for i in range(count):
                    out_learn[k] &= held_learns[key, i]
                    for j in range(X.shape[1]):
                        out_X[k, i, j] = held_X[key, i, j]
                if count < full or count > many:
                    interpolate(held_times, held_X, key, count, start, period, out_X[k, :nominal])
                    out_count[k] = nominal
                for j in range(L.shape[1]):
                    out_L[k, j] = mean_of(held_L, key, count, j) if mean else majority(held_L, key, count, j)
                k += 1
            window += 1
            count = forget(work, key, count, origin + window * hop)
        windows[key] = window
        for field in range(counts.shape[1]):
            counts[key, field] = count
    return times.size, k


@compiled
def forget(work, key, count, start):
    """Drop the samples before `start`; gives how many are left."""
    at = Work(*work)
    times = at.times
    gone = 0
    while gone < count and times[key, gone] < start:
        gone += 1
    if gone > 0:
        for i in range(gone, count):
            move(at, key, i, i - gone)
    return count - gone


@compiled
def thin(work, key, count, apart):
    """Drop the samples that are less than `apart` seconds after the one kept before; gives how many are left."""
    at, left = Work(*work), 1
    for i in range(1, count):
        if at.times[key, i] - at.times[key, left - 1] >= apart:
            move(at, key, i, left)
            left += 1
    return left


@compiled
def move(at, key, one, to):
    """A sample to the place of an earlier one, or to its own."""
    at.times[key, to], at.learns[key, to] = at.times[key, one], at.learns[key, one]
    for j in range(at.X.shape[2]):
        at.X[key, to, j] = at.X[key, one, j]
    for j in range(at.L.shape[2]):
        at.L[key, to, j] = at.L[key, one, j]


@compiled
def interpolate(times, X, key, count, start, period, out):
    """Samples at the declared rate into out (n, dim): on the line between two samples, at the ends the nearest one."""
    after = 0  # first of the window's samples that is not before the one to make
    for i in range(len(out)):
        time = start + i * period
        while after < count and times[key, after] < time:
            after += 1
        one, other = max(after - 1, 0), min(after, count - 1)
        apart = times[key, other] - times[key, one]
        share = (time - times[key, one]) / apart if apart > 0 else 0.0
        for j in range(X.shape[2]):
            out[i, j] = X[key, one, j] + share * (X[key, other, j] - X[key, one, j])


@compiled
def mean_of(L, key, count, column):
    total, known = 0.0, 0
    for i in range(count):
        if not np.isnan(L[key, i, column]):
            total += L[key, i, column]
            known += 1
    return total / known if known > 0 else np.nan


@compiled
def majority(L, key, count, column):
    """The most frequent value, the lowest at ties: the values in ascending order, each counted."""
    best, most, last = np.nan, 0, -np.inf
    while True:
        value, times = np.inf, 0
        for i in range(count):
            label = L[key, i, column]
            if label > last:
                if label < value:
                    value, times = label, 1
                elif label == value:
                    times += 1
        if times == 0:
            return best
        if times > most:
            best, most = value, times
        last = value

"""Windows of raw signals: each key's samples become rows of statistics, in event time.

Window k of a key covers [origin + k hop, + length), where origin is its first sample, and again the first one after a
pause longer than `gap`; a pause drops the unfinished window ("gap"). A window ends as soon as the next expected sample,
a period after the newest, falls outside it (or within half a period of its end), so its row does not wait for it.

Not every window becomes a row, nor every sample part of one; `skipped` counts them by reason:
"sparse" windows with fewer than 80 % of their samples, "gap" windows cut short by a pause, "crowded" samples beyond
1.5 times the declared number, "late" samples older than the newest one (ordering is the stage before).

A row's label is the majority of its labelled samples (the lowest code at ties), or with `label="mean"` their mean; its
`learn` is what all its samples allow (the common bits).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import put
from algorithms.common.protocol import Array, Stage, require
from streamjobs.core import statistics as features_of

REASONS = ("sparse", "gap", "crowded", "late")
FEWEST, MOST = 0.8, 1.5  # samples of a window that becomes a row, and that are kept, to the declared number
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
class Windows(Stage):
    """Windows of `length` seconds every `hop` seconds of a signal sampled at `rate` Hz.

    >>> windows = Windows(length=2.0, hop=1.0, rate=50.0)
    >>> windows.width_for(6), windows.nominal
    (48, 100)
    """

    stored: ClassVar[tuple[str, ...]] = ("times", "X", "L", "learns")

    length: float  # seconds
    hop: float  # seconds, at least a sample period
    rate: float  # Hz
    gap: float | None = None  # seconds; None: 10 sample periods
    statistics: str = "simple"
    label: str = "majority"  # of class codes, or "mean" of numbers

    def __post_init__(self) -> None:
        require(self, "rate", 0 < self.rate < np.inf, "above 0 Hz")
        require(self, "length", 4 <= self.length * self.rate <= MOST_SAMPLES, f"4 to {MOST_SAMPLES} sample periods")
        require(self, "hop", 1 <= self.hop * self.rate < np.inf, "at least a sample period")
        require(self, "gap", self.gap is None or self.gap * self.rate >= 1, "at least a sample period")
        require(self, "statistics", self.statistics in features_of.KINDS, "one of " + ", ".join(features_of.KINDS))
        require(self, "label", self.label in ("majority", "mean"), "majority or mean")

    @property
    def nominal(self) -> int:
        """Samples in a full window."""
        return max(1, round(self.length * self.rate))

    def width_for(self, dim: int) -> int:
        """Statistics of a window of `dim` channels."""
        return features_of.PER_CHANNEL * dim

    def room(self, field: str) -> int:
        return int(np.ceil(MOST * self.nominal))

    def init(self, dim: int, labels: int) -> WindowsState:
        empty = np.empty((0, dim)), np.empty((0, labels))
        return WindowsState(np.empty(0), *empty, np.empty(0, np.int8), 0.0, 0, -np.inf)

    def advance(self, work: Any, slots: Array, times: Array, X: Array, L: Array, owner: Array, learn: Array) -> Rows:
        """Samples of many keys in order: X (n, dim), L (n, labels), learn (n,) int8, the rest (n,)."""
        samples = (
            np.ascontiguousarray(slots, np.int64),
            np.ascontiguousarray(times, np.float64),
            np.ascontiguousarray(X, np.float64),
            np.ascontiguousarray(L, np.float64),
            np.ascontiguousarray(owner, np.int64),
            np.ascontiguousarray(learn, np.int8),
        )
        n, dim, labels, room = len(times), X.shape[1], L.shape[1], self.room("X")
        # Rows the loop gives before it pauses: about as many as can come, in bounded memory.
        most = max(2, min(n // max(1, int(self.hop * self.rate)) + 64, MOST_BYTES // (8 * room * dim)))
        out = (
            np.empty(most, np.int64),
            np.empty(most),
            np.empty((most, room, dim)),
            np.empty((most, labels)),
            np.empty(most, np.int64),
            np.empty(most, np.int8),
            np.empty(most, np.int64),
        )
        skipped = np.zeros(len(REASONS), np.int64)
        gap = 10.0 / self.rate if self.gap is None else self.gap
        grid = (self.length, self.hop, 1.0 / self.rate, gap)
        making = (FEWEST * self.nominal, self.label == "mean", skipped)
        parts, begin = [], 0
        while True:
            begin, k = _advance(tuple(work), samples, begin, out, grid, making)
            features = np.empty((k, self.width_for(dim)))
            features_of.simple(out[2][:k], out[6][:k], self.rate, features)
            parts.append((out[0][:k].copy(), out[1][:k].copy(), features, *(array[:k].copy() for array in out[3:6])))
            if begin == n:
                break
        slots, times, X, L, owner, learn = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        counted = {reason: int(count) for reason, count in zip(REASONS, skipped, strict=True) if count}
        return Rows(slots, times, X, L, owner, learn, counted)


@compiled
def _advance(work, samples, begin, out, grid, making):
    held_times, held_X, held_L, held_learns, origins, windows, newest, counts = work
    slots, times, X, L, owner, learn = samples
    length, hop, period, gap = grid
    skipped = making[2]
    k = 0  # rows made
    for n in range(begin, times.size):
        key, time = slots[n], times[n]
        if k == out[1].size:  # no room for a row of this sample: pause before it
            return n, k
        held = (held_times[key], held_X[key], held_L[key], held_learns[key])
        count, window = counts[key, 0], windows[key]
        if time < newest[key]:
            skipped[3] += 1
            continue
        if not time - newest[key] <= gap:  # a pause, or the first sample of the key
            if count > 0:
                skipped[1] += 1
            origins[key], window, count = time, 0, 0
        origin = origins[key]

        # Windows that ended before this sample without having been full of expected ones.
        while time >= origin + window * hop + length:
            if k + 1 >= out[1].size:  # one place is for the sample's own
                windows[key] = window
                set_counts(counts, key, count)
                return n, k
            if count == 0:  # nothing to give until this sample's own windows
                far = int(np.floor((time - origin - length) / hop))
                if far > window:
                    skipped[0] += far - window
                    window = far
            k = finish(held, count, origin + window * hop + length, key, owner[n], out, k, making)
            window += 1
            count = forget(held, count, origin + window * hop)

        # The sample itself; between windows (hop above length) it belongs to none.
        newest[key] = time
        if time >= origin + window * hop:
            if count < held_times.shape[1]:
                held_times[key, count] = time
                put(held_X[key, count], X[n])
                put(held_L[key, count], L[n])
                held_learns[key, count] = learn[n]
                count += 1
            else:
                skipped[2] += 1
        end = origin + window * hop + length
        if time + 1.5 * period >= end:
            k = finish(held, count, end, key, owner[n], out, k, making)
            window += 1
            count = forget(held, count, origin + window * hop)
        windows[key] = window
        set_counts(counts, key, count)
    return times.size, k


@compiled
def set_counts(counts, key, count):
    for field in range(counts.shape[1]):
        counts[key, field] = count


@compiled
def forget(held, count, start):
    """Drop the samples before `start`; gives how many are left."""
    times, X, L, learns = held
    gone = 0
    while gone < count and times[gone] < start:
        gone += 1
    if gone > 0:
        for i in range(gone, count):
            times[i - gone], learns[i - gone] = times[i], learns[i]
            put(X[i - gone], X[i])
            put(L[i - gone], L[i])
    return count - gone


@compiled
def finish(held, count, end, key, owner, out, k, making):
    """A row of the samples held, unless they are too few; gives the number of rows."""
    fewest, mean, skipped = making
    if count < fewest:
        skipped[0] += 1
        return k
    _, X, L, learns = held
    out_slots, out_times, out_X, out_L, out_owner, out_learn, out_count = out
    out_slots[k], out_times[k], out_owner[k] = key, end, owner
    out_count[k] = count
    for i in range(count):
        put(out_X[k, i], X[i])
    for column in range(L.shape[1]):
        out_L[k, column] = mean_of(L, count, column) if mean else majority(L, count, column)
    bits = learns[0]
    for i in range(1, count):
        bits &= learns[i]
    out_learn[k] = bits
    return k + 1


@compiled
def mean_of(L, count, column):
    total, known = 0.0, 0
    for i in range(count):
        if not np.isnan(L[i, column]):
            total += L[i, column]
            known += 1
    return total / known if known > 0 else np.nan


@compiled
def majority(L, count, column):
    """The most frequent value, the lowest at ties: the values in ascending order, each counted."""
    best, most, last = np.nan, 0, -np.inf
    while True:
        value, times = np.inf, 0
        for i in range(count):
            label = L[i, column]
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

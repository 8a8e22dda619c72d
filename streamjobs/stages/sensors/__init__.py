"""Samples of several sensors of a key, each at its own rate, become rows with the columns of all of them.

Rows are at the times n / rate, the same grid for every key. A row has the numbers of each sensor at its time: those of the
sample there (within a microsecond), else those on the line between the samples before and after (`linear`), or of the one
before (`hold`). A row is made once every sensor has come past its time, less `lateness`, or one of them by `wait` more: what
is slower is not waited for any longer. Where a sensor has no samples around a row (its next one has not come, or two are
further apart than its gap), the row is left out: a gap.

What is left out is counted: "late" samples older than the newest row, "duplicate" samples at the time of another one of
their sensor, "crowded" samples beyond 1.5 times the declared rate, "unpaired" samples of which all rows up to their sensor's
next one are left out; and gaps, by sensor. A late sample that is its sensor's newest so far is kept: rows after it need it.

Clocks are not compared: if the clocks of two sensors differ, the rows have the same difference.
Cost of a sample: O(waiting samples) to enter, where it comes out of order. Of a row: O(columns).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.demands import Demand, every, insist, met
from algorithms.common.protocol import LEARN, Array, require, unknown
from algorithms.common.workspace import Slot
from streamjobs.stages.event_time import END_OF_TIME
from streamjobs.stages.rows import joined, plain_columns
from streamjobs.stages.sensors import loops
from streamjobs.stages.stage import MOST_COUNTED, JobStage, Shape

REASONS = ("late", "duplicate", "crowded", "unpaired")
LATE, DUPLICATE, CROWDED, UNPAIRED = range(4)
TAKEN = -1  # verdict on a sample; else the number of a reason
MOST_ROWS = 1 << 22  # numbers of the rows that the loop gives before it pauses


class SensorsState(NamedTuple):
    times: Array  # (h,) of samples that wait, not descending
    sensor: Array  # (h,) int64, which one's
    X: Array  # (h, widest) its numbers, 0 beyond them
    L: Array  # (h, labels)
    last_times: Array  # (sensors,) of the newest sample that no longer waits; -inf: none yet
    last_X: Array  # (dim,) its numbers
    last_L: Array  # (sensors, labels)
    newest: Array  # (sensors,) of the newest sample; -inf: none yet
    lacking: Array  # (sensors,) int8, 1 in a gap
    row: int  # number of the next row
    made: float  # event time of the newest row that was made; -inf: none yet


class Aligned(NamedTuple):
    """Rows in order of time, and what became of the samples."""

    slots: Array  # (k,)
    times: Array  # (k,)
    X: Array  # (k, dim)
    L: Array  # (k, labels)
    owner: Array  # (k,) of the sample that let the row be made
    learn: Array  # (k,) int8
    skipped: dict[str, int]  # by reason, those that occurred
    verdict: Array  # (n,) int8 of each sample: TAKEN, or the reason's number
    samples: Array  # (sensors,) how many came
    gaps: Array  # (sensors,) how many began


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors(JobStage):
    """Sensors by their columns of x, in order.

    >>> two = {"names": ("a", "b"), "widths": (1, 1), "rates": (1.0, 1.0), "between": ("linear", "hold"), "gaps": (9.0, 9.0)}
    >>> sensors = Sensors(rate=2.0, wait=5.0, **two)
    >>> fresh = sensors.begin(Shape(dim=2, width=2, label_width=1, targets=1), seed=0)
    >>> work = sensors.holding(fresh)
    >>> nan = np.nan
    >>> X = np.array([[nan, 7.0], [1.0, nan], [3.0, nan], [nan, 8.0]])
    >>> made = sensors.advance(work, np.zeros(4, np.int64), np.array([1.0, 1.0, 2.0, 2.0]), X, X[:, :1], np.arange(4))
    >>> made.times, made.X.tolist(), made.owner
    (array([1. , 1.5, 2. ]), [[1.0, 7.0], [2.0, 7.0], [3.0, 8.0]], array([1, 3, 3]))
    """

    persisted_name: ClassVar[str] = "Sensors"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("times", "sensor", "X", "L"),)
    signal = True
    survives = True
    samples = ("X", "last_X")
    ranges = (("lacking", 0, 1),)
    times = ("times", "made")
    label_codes = ("L", "last_L")

    names: tuple[str, ...]  # of the sensors
    rate: float  # Hz, of rows
    wait: float  # seconds of event time
    lateness: float = 0.0  # seconds by which the samples of one sensor may be out of order
    widths: tuple[int, ...]  # columns of each sensor
    rates: tuple[float, ...]  # Hz
    between: tuple[str, ...]  # linear, hold
    gaps: tuple[float, ...]  # seconds

    def __post_init__(self) -> None:
        require(self, "rate", 0 < self.rate < np.inf, "above 0 Hz")
        require(self, "wait", 0 <= self.wait < np.inf, "0 or more seconds")
        require(self, "lateness", 0 <= self.lateness < np.inf, "0 or more seconds")
        require(self, "widths", len(self.widths) > 0 and min(self.widths) > 0, "1 or more of each sensor")
        require(self, "between", set(self.between) <= {"linear", "hold"}, "some of linear, hold")
        require(self, "rates", min(self.rates) > 0, "above 0 Hz")
        require(self, "gaps", min(self.gaps) > 0, "above 0 seconds")

    @property
    def span(self) -> float:
        """Seconds of event time that a sample waits at most."""
        return self.wait + self.lateness + 1.0 / self.rate

    @property
    def most(self) -> tuple[int, ...]:
        """Samples of each sensor that wait at most."""
        return tuple(int(np.ceil(1.5 * rate * self.span)) + 8 for rate in self.rates)

    def description(self) -> str:
        """What decides which samples and rows the numbers of a state stand for, and how many there are."""
        sensors = ", ".join(
            f"{name!r}: {width} at {rate:g} Hz"
            for name, width, rate in zip(self.names, self.widths, self.rates, strict=True)
        )
        return f"{self.persisted_name}({sensors}, rate={self.rate!r}, wait={self.wait!r}, lateness={self.lateness!r})"

    def room(self, field: str) -> int:
        return sum(self.most)

    def caches(self, state: SensorsState, rows: Any) -> dict[str, Array]:
        return {"held": np.zeros(len(self.widths), np.int64)}

    def derive(self, own: Slot) -> None:
        insist(self, own)
        self.derive_slots(own.work, np.array([own.number]))

    def derive_slots(self, work: Any, slots: Array) -> Array:
        work["held"][slots] = self._held(work, slots)
        return met(self, work, slots)

    def _held(self, work: Any, slots: Array) -> Array:
        """Waiting samples (k, sensors)."""
        sensor = work["sensor"][slots]
        waits = np.arange(sensor.shape[1]) < work["counts"][slots, :1]
        return np.stack([((sensor == s) & waits).sum(axis=1) for s in range(len(self.widths))], axis=1)

    def begin(self, shape: Shape, seed: int) -> SensorsState:
        sensors, labels = len(self.widths), shape.label_width
        return SensorsState(
            np.empty(0),
            np.empty(0, np.int64),
            np.empty((0, max(self.widths))),
            np.empty((0, labels)),
            np.full(sensors, -np.inf),
            np.zeros(shape.dim),
            unknown((sensors, labels)),
            np.full(sensors, -np.inf),
            np.zeros(sensors, np.int8),
            0,
            -np.inf,
        )

    def warm_up(self, state: SensorsState, shape: Shape) -> None:
        work, slot = self.holding(state), np.zeros(1, np.int64)
        self.advance(work, slot, np.zeros(1), np.zeros((1, shape.dim)), unknown((1, shape.label_width)), slot)

    def demands(self, work: Any, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        """Times are none or from 1970, samples of one sensor differ in time, and none that waits has had its row."""
        for field in ("last_times", "newest"):
            times = work[field][slots]
            known = (times >= 0) & (times < END_OF_TIME)
            yield Demand(field, "times from 1970 to 9999, or none", every(np.isneginf(times) | known))
        times, rows = work["times"][slots], work["counts"][slots, :1]
        behind = np.arange(1, times.shape[1]) >= rows
        yield Demand("times", "times that do not descend", every(behind | (np.diff(times, axis=1) >= 0)))
        yield Demand("row", "a row after 1970", (work["row"][slots] >= 0) & (work["row"][slots] < MOST_COUNTED))
        held = self._held(work, slots)
        yield Demand("sensor", f"sensors 0 to {len(self.widths) - 1}", held.sum(axis=1) == rows[:, 0])
        yield Demand("sensor", f"at most {list(self.most)} samples of the sensors", every(held <= np.array(self.most)))

    def newest(self, work: Any, slots: Any) -> Array:
        """Event time of the newest sample of each slot, seconds; -inf without one."""
        times: Array = work["newest"][slots].max(axis=1)
        return times

    def oldest_held(self, work: Any, slot: int) -> float:
        """inf: a key with samples that wait has a newest one."""
        return float("inf")

    def advance(self, work: Any, slots: Array, times: Array, X: Array, L: Array, owner: Array) -> Aligned:
        """Samples of many keys in arrival order: X (n, dim), NaN but for their sensor's columns; L (n, labels)."""
        n, dim = X.shape
        samples = plain_columns(slots, times, X, L, owner)
        most = max(2, min(2 * n + 256, MOST_ROWS // (dim + L.shape[1])))
        out = (
            np.empty(most, np.int64),
            np.empty(most),
            np.empty((most, dim)),
            np.empty((most, L.shape[1])),
            np.empty(most, np.int64),
        )
        ends = np.cumsum(self.widths)
        sensor_of = np.repeat(np.arange(len(ends)), self.widths)
        grid = (self.rate, self.wait, self.lateness)
        which = (
            sensor_of,
            ends - np.array(self.widths),
            np.array(self.widths),
            np.array([one == "hold" for one in self.between]),
            np.array(self.gaps, np.float64),
            np.array(self.most, np.int64),
        )
        verdict = np.zeros(n, np.int8)
        counted = (np.zeros(len(REASONS), np.int64), np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64))
        first = np.zeros(work.slots, np.int64)
        parts, begin, entered = [], 0, False
        while True:
            begin, k, entered = loops.advance(
                work.arrays, samples, begin, entered, out, first, grid, which, verdict, counted
            )
            parts.append(tuple(array[:k].copy() for array in out))
            if begin == n:
                break
        slots, times, X, L, owner = joined(parts)
        skipped, came, gaps = counted
        named = {reason: int(count) for reason, count in zip(REASONS, skipped, strict=True) if count}
        return Aligned(slots, times, X, L, owner, np.full(len(slots), LEARN, np.int8), named, verdict, came, gaps)

"""Readings of meters and counters as rates: what each added since the key's reading before, in a second.

A reading below the one before counts from 0, as of a meter that was replaced or a program that started over. A key's first
reading has no rate, and neither has one that is not newer than the one before: the sample is left out. A missing reading
stays missing, and the next rate is that of the whole time.
Cost of a sample: O(counters).  State: 3 numbers a counter.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array
from streamjobs.stages.stage import JobStage, Shape


class CountersState(NamedTuple):
    last: Array  # (counters,) newest reading
    since: Array  # (counters,) its event time, seconds
    seen: Array  # (counters,) int64, how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters(JobStage):
    """Which columns of x are readings.

    >>> counters = Counters(columns=(1,))
    >>> work = counters.holding(counters.begin(Shape(dim=2, width=2, label_width=1, targets=1), seed=0))
    >>> X = np.array([[7.0, 100.0], [7.0, 106.0], [7.0, 3.0], [7.0, 4.0]])
    >>> X, known = counters.advance(work, np.zeros(4, np.int64), np.array([0.0, 2.0, 3.0, 3.0]), X)
    >>> X[known], known
    (array([[7., 3.],
           [7., 3.]]), array([False,  True,  True, False]))
    """

    persisted_name: ClassVar[str] = "Counters"
    signal = True
    survives = True
    finite = True
    times = ("since",)
    tallies = ("seen",)

    columns: tuple[int, ...]

    def begin(self, shape: Shape, seed: int) -> CountersState:
        count = len(self.columns)
        return CountersState(np.zeros(count), np.zeros(count), np.zeros(count, np.int64))

    def warm_up(self, state: CountersState, shape: Shape) -> None:
        self.advance(self.holding(state), np.zeros(1, np.int64), np.zeros(1), np.zeros((1, shape.dim)))

    def advance(self, work: Any, slots: Array, times: Array, X: Array) -> tuple[Array, Array]:
        """Samples of many keys in arrival order, X (n, dim) with NaN for what is missing.

        Gives X with rates, and (n,) bool: which samples have those of all readings that they have.
        """
        rates, known = np.array(X, np.float64, order="C"), np.ones(len(X), np.bool_)
        _loop(work.arrays, slots, np.ascontiguousarray(times), np.array(self.columns, np.int64), rates, known)
        return rates, known


@compiled
def _loop(work, slots, times, columns, X, known):
    last, since, seen, _ = work
    for n in range(len(X)):
        key = slots[n]
        for j in range(len(columns)):
            reading = X[n, columns[j]]
            if np.isnan(reading):
                continue
            if seen[key, j] > 0 and times[n] <= since[key, j]:
                known[n] = False
                continue
            if seen[key, j] > 0:
                added = reading - last[key, j] if reading >= last[key, j] else reading
                X[n, columns[j]] = added / (times[n] - since[key, j])
            if seen[key, j] == 0 or np.isinf(X[n, columns[j]]):
                known[n] = False
            last[key, j], since[key, j] = reading, times[n]
            seen[key, j] += 1

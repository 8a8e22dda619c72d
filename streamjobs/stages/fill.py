"""Missing numbers of samples, filled from what came of their key before, or the sample is left out.

Samples are filled as they arrive, before they are put in order. What is held is the field's newest number of the key, and
its age the event time between the two samples; what is meant is the mean of all its numbers so far. A sample with a number
that cannot be filled, because none came before or because it is too old, is left out; what else it has is remembered.
Cost of a sample: O(dim).  State: 4 dim + 2 numbers.
"""

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.protocol import Array, require
from streamjobs.stages.stage import JobStage, Shape

POLICIES = {"dlq": 0, "skip": 1, "hold": 2, "mean": 3}  # of a column; dlq: none is missing here
TAKEN, SKIPPED, UNFILLED = 0, 1, 2  # verdicts on a sample


class FillState(NamedTuple):
    last: Array  # (dim,) newest number
    since: Array  # (dim,) its event time, seconds
    mean: Array  # (dim,) of all numbers so far
    seen: Array  # (dim,) int64, how many
    filled: int  # numbers filled so far
    in_rows: int  # of those, in rows that were output


class Filled(NamedTuple):
    X: Array  # (n, dim), complete where the verdict is TAKEN
    verdict: Array  # (n,) int8
    total: Array  # (n,) int64, numbers of the key filled up to this sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill(JobStage):
    """What to do with a missing number of each column.

    >>> fill = Fill(policies=("hold", "mean"), hold_for=2.0)
    >>> fresh = fill.begin(Shape(dim=2, width=2, label_width=1, targets=1), seed=0)
    >>> work = fill.holding(fresh)
    >>> nan = np.nan
    >>> X = np.array([[nan, 1.0], [5.0, 3.0], [nan, nan], [nan, 8.0]])
    >>> made = fill.advance(work, np.zeros(4, np.int64), np.array([0.0, 1.0, 2.0, 9.0]), X)
    >>> made.verdict, made.X[2], made.total
    (array([2, 0, 0, 2], dtype=int8), array([5., 2.]), array([0, 0, 2, 2]))
    """

    persisted_name: ClassVar[str] = "Fill"
    described = "name"  # other policies change nothing in what the arrays mean
    signal = True
    survives = True
    finite = True
    times = ("since",)
    tallies = ("seen",)

    policies: tuple[str, ...]  # of each column
    hold_for: float = np.inf  # seconds; an older number is not held

    def __post_init__(self) -> None:
        require(self, "policies", set(self.policies) <= set(POLICIES), "some of " + ", ".join(POLICIES))
        require(self, "hold_for", self.hold_for >= 0, "0 or more seconds")

    def begin(self, shape: Shape, seed: int) -> FillState:
        dim = shape.dim
        return FillState(np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim, np.int64), 0, 0)

    def warm_up(self, state: FillState, shape: Shape) -> None:
        work, slot = self.holding(state), np.zeros(1, np.int64)
        made = self.advance(work, slot, np.zeros(1), np.zeros((1, shape.dim)))
        self.tell(work, slot, made.total)

    def demands(self, work: Any, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        yield Demand("in_rows", "at most the filled numbers", work["in_rows"][slots] <= work["filled"][slots])

    def advance(self, work: Any, slots: Array, times: Array, X: Array) -> Filled:
        """Samples of many keys in arrival order, X (n, dim) with NaN for what is missing; X is not written to."""
        n = len(X)
        made = Filled(np.array(X, np.float64, order="C"), np.zeros(n, np.int8), np.zeros(n, np.int64))
        policies = np.array([POLICIES[policy] for policy in self.policies], np.int64)
        _loop(work.arrays, slots, np.ascontiguousarray(times), policies, float(self.hold_for), *made)
        return made

    def tell(self, work: Any, slots: Array, total: Array) -> Array:
        """Numbers filled since each key's row before. slots (k,): keys of rows in order; total (k,): of their samples."""
        filled = np.zeros(len(slots), np.int64)
        _tell(work.arrays, slots, total, filled)
        return filled


Work = cast(Any, namedtuple("Work", (*FillState._fields, "counts")))  # a workspace's arrays by name


@compiled
def _loop(work, slots, times, policies, hold_for, X, verdict, total):
    last, since, means, seen, filled, _, _ = work
    for n in range(len(X)):
        key, missing = slots[n], 0
        for j in range(X.shape[1]):
            if not np.isnan(X[n, j]):
                continue
            missing += 1
            if policies[j] < 2:
                verdict[n] = 1
            elif verdict[n] == 0 and (seen[key, j] == 0 or (policies[j] == 2 and abs(times[n] - since[key, j]) > hold_for)):
                verdict[n] = 2
        for j in range(X.shape[1]):
            if np.isnan(X[n, j]):
                if verdict[n] == 0:
                    X[n, j] = last[key, j] if policies[j] == 2 else means[key, j]
            else:
                last[key, j], since[key, j] = X[n, j], times[n]
                seen[key, j] += 1
                gap = X[n, j] - means[key, j]
                if np.isinf(gap):  # of numbers beyond 1e308
                    means[key, j] += X[n, j] / seen[key, j] - means[key, j] / seen[key, j]
                else:
                    means[key, j] += gap / seen[key, j]
        if verdict[n] == 0:
            filled[key] += missing
        total[n] = filled[key]


@compiled
def _tell(work, slots, total, filled):
    before = Work(*work).in_rows
    for n in range(len(slots)):
        filled[n] = max(0, total[n] - before[slots[n]])
        before[slots[n]] = max(total[n], before[slots[n]])

"""Targets of a regression, clipped to what is usual for their key before the head learns, so that one wild number does not
ruin what thousands taught.

A target further from the running mean of its key's targets than `clip` running deviations is learned as if it were there.
Predictions, and the y of outputs, stay as they are. Mean and deviation fade with a memory of 100 targets and take what was
learned, so an outlier hardly moves them. Each clipped target in a row doubles the distance allowed, so a change of level is
followed: one of 50 deviations after 2 clipped targets, of 1000 after 4, of a million after 6. A deviation never counts for
less than 10^-4 of the largest one so far. The first 20 targets are not clipped, nor those of a key if its targets were all
the same.
Cost of a row: O(targets).  State: 4 targets + 1 numbers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN, LEARN_HEAD, Array, require
from streamjobs.stages.stage import JobStage, Shape

FIRST = 20  # targets of a key that are not clipped
RATE = 0.01  # weight of a target in mean and variance
LEAST = 1e-4  # of the largest deviation so far: a smaller one counts as that
MOST_DOUBLED = 1_000  # more would leave the floating-point range


class ClipTargetsState(NamedTuple):
    mean: Array  # (targets,) fading
    variance: Array  # (targets,) fading
    largest: Array  # (targets,) largest deviation so far
    in_a_row: Array  # (targets,) int64, clipped targets since the last one that was not
    seen: int  # targets so far


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipTargets(JobStage):
    """Clips known targets of rows that are learned.

    >>> stage = ClipTargets(clip=3.0)
    >>> fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> work = stage.holding(fresh)
    >>> Y = np.resize([[1.0], [-1.0]], (24, 1))
    >>> Y[21] = 1e6
    >>> clipped, count = stage.advance(work, np.zeros(24, np.int64), Y, np.full(24, 3, np.int8))
    >>> clipped[20:].round(2).ravel(), count
    (array([ 1.  ,  3.04,  1.  , -1.  ]), 1)
    """

    persisted_name: ClassVar[str] = "ClipTargets"
    described = "name"  # another `clip` changes nothing in what the arrays mean
    signal = True  # what is usual is the key's own: a new key finds out
    finite = True
    ranges = (("variance", 0.0, np.inf), ("largest", 0.0, np.inf), ("in_a_row", 0, MOST_DOUBLED))

    clip: float = 10.0  # running deviations

    def __post_init__(self) -> None:
        require(self, "clip", 0 < self.clip < np.inf, "above 0")

    def begin(self, shape: Shape, seed: int) -> ClipTargetsState:
        zeros = np.zeros(shape.label_width)
        return ClipTargetsState(zeros, zeros.copy(), zeros.copy(), np.zeros(shape.label_width, np.int64), 0)

    def warm_up(self, state: ClipTargetsState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.zeros((1, shape.label_width)), np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, Y: Array, learn: Array) -> tuple[Array, int]:
        """Targets Y (n, targets) of many keys in order, NaN unknown: what is learned of them, and how many were clipped."""
        learned = np.array(Y, np.float64, order="C")
        return learned, int(_loop(work.arrays, slots, learned, learn, float(self.clip)))


@compiled
def _loop(work, slots, Y, learn, clip):
    means, variances, largest, in_a_row, seen, _ = work
    clipped = 0
    for n in range(len(Y)):
        key, outlier = slots[n], False
        if learn[n] & LEARN_HEAD == 0 or missing(Y[n]):
            continue
        seen[key] += 1
        rate = max(1.0 / seen[key], RATE)
        for t in range(Y.shape[1]):
            mean, variance = means[key, t], variances[key, t]
            deviation = max(np.sqrt(variance), LEAST * largest[key, t])
            gap, limit = Y[n, t] - mean, clip * deviation * 2.0 ** in_a_row[key, t]
            if seen[key] > FIRST and limit > 0.0 and abs(gap) > limit:
                gap, outlier = np.copysign(limit, gap), True
                Y[n, t] = mean + gap
                in_a_row[key, t] = min(in_a_row[key, t] + 1, MOST_DOUBLED)
            else:
                in_a_row[key, t] = 0
            variance = (1.0 - rate) * (variance + rate * gap * gap)
            if np.isfinite(mean + gap) and np.isfinite(variance):
                means[key, t], variances[key, t] = mean + rate * gap, variance
                largest[key, t] = max(largest[key, t], np.sqrt(variance))
        clipped += outlier
    return clipped

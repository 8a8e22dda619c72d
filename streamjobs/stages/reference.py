"""The rows of a key that are treated as normal: how far its reference is, by [drift] reference.

In the first half of it the extractor and its scale learn, in the second the detector learns how large the errors of the two
are, and after it nothing of this learns any more. A detector of columns learns from both halves.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, require
from streamjobs.stages.stage import JobStage, Shape

FIRST_HALF, SECOND_HALF, OVER = 0, 1, 2  # phases


class ReferenceState(NamedTuple):
    begun: float  # event time of its first row; -inf: none came
    rows: int  # that it has
    phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(JobStage):
    """Says of every row whether it belongs to its key's reference: the first `rows`, or those of the first `seconds`.

    Once it is over it stays so, whatever times come then.

    >>> stage = Reference(rows=4)
    >>> fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> work = stage.holding(fresh)
    >>> stage.advance(work, np.zeros(6, np.int64), np.arange(6.0), np.array([True, False, True, True, True, True]))
    array([0, 0, 0, 1, 1, 2], dtype=int8)
    """

    persisted_name: ClassVar[str] = "Reference"
    knows_normal = True
    times = ("begun",)
    ranges = (("phase", 0, OVER),)

    rows: int = 0  # 0: as `seconds` say
    seconds: float = 0.0  # of event time
    least: int = 0  # rows of each half, where the seconds have fewer

    def __post_init__(self) -> None:
        require(self, "rows", self.rows >= 0, "0 or more")
        require(self, "seconds", 0 <= self.seconds < np.inf, "0 or more")

    def begin(self, shape: Shape, seed: int) -> ReferenceState:
        return ReferenceState(-np.inf, 0, FIRST_HALF)

    def warm_up(self, state: ReferenceState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_))

    def over(self, work: Any, slots: Array) -> Array:
        """(n,) bool: of the key of each slot, before its next row."""
        return np.asarray(work["phase"][slots] == OVER)

    def advance(self, work: Any, slots: Array, times: Array, counts: Array) -> Array:
        """The phase (n,) int8 of each row; counts (n,) bool: the row belongs to the reference, if that is not over."""
        phases = np.empty(len(slots), np.int8)
        _loop(work.arrays, slots, times, counts, self.rows, float(self.seconds), self.least, phases)
        return phases


@compiled
def _loop(work, slots, times, counts, rows, seconds, least, phases):
    begun, had, phase, _ = work
    for n in range(len(slots)):
        key = slots[n]
        if counts[n] and phase[key] < OVER:
            if had[key] == 0:
                begun[key] = times[n]
            if rows > 0:
                half, whole = had[key] >= rows // 2, had[key] >= rows
            else:
                lasted = times[n] - begun[key]
                half = 2.0 * lasted >= seconds and had[key] >= least
                whole = lasted >= seconds and had[key] >= 2 * least
            if phase[key] == SECOND_HALF and whole:
                phase[key] = OVER
            elif phase[key] == FIRST_HALF and half:
                phase[key] = SECOND_HALF
            if phase[key] < OVER:
                had[key] += 1
        phases[n] = phase[key]

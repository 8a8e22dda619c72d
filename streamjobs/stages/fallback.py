"""The class of a row without scores: the last one that the key's head learned, if any."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import LEARN, LEARN_HEAD, Array, unknown
from algorithms.common.workspace import Workspace
from streamjobs.stages.stage import JobStage, Shape


class FallbackState(NamedTuple):
    latest: int  # column of the last class learned, -1 before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback(JobStage):
    """Rows that nothing was chosen for get the last label.

    >>> stage, nothing = Fallback(), np.full(3, -1)
    >>> fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=5), seed=0)
    >>> work = stage.holding(fresh)
    >>> stage.advance(work, np.zeros(3, np.int64), nothing, np.array([np.nan, 4.0, np.nan]), np.full(3, 3, np.int8))
    >>> nothing
    array([-1, -1,  4])
    """

    persisted_name: ClassVar[str] = "Fallback"
    described = "nothing"
    class_columns = ("latest",)

    def begin(self, shape: Shape, seed: int) -> FallbackState:
        return FallbackState(-1)

    def warm_up(self, state: FallbackState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.full(1, -1), unknown((1,)), np.full(1, LEARN, np.int8))

    def advance(self, work: Workspace, slots: Array, chosen: Array, codes: Array, learn: Array) -> None:
        """Fills -1 in `chosen (n,)`; `codes (n,)` are the true classes, NaN unknown."""
        _loop(work["latest"], slots, chosen, codes, learn)


@compiled
def _loop(all_latest, slots, chosen, codes, learn):
    for n in range(len(slots)):
        key = slots[n]
        if chosen[n] < 0:
            chosen[n] = all_latest[key]
        if learn[n] & LEARN_HEAD and np.isfinite(codes[n]):
            all_latest[key] = int(codes[n])

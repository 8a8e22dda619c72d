"""What is said of a row without scores: the last class the key's head learned, if any."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import LEARN_HEAD, Array, Stage, Workspace


class FallbackState(NamedTuple):
    latest: int  # column of the last class learned, -1 before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback(Stage):
    """Rows that nothing was chosen for get the last label.

    >>> stage, nothing = Fallback(), np.full(3, -1)
    >>> work = stage.workspace(stage.init())
    >>> stage.load(work, 0, stage.init())
    >>> stage.advance(work, np.zeros(3, np.int64), nothing, np.array([np.nan, 4.0, np.nan]), np.full(3, 3, np.int8))
    >>> nothing
    array([-1, -1,  4])
    """

    persisted_name: ClassVar[str] = "Fallback"

    def init(self) -> FallbackState:
        return FallbackState(-1)

    def advance(self, work: Workspace, slots: Array, chosen: Array, codes: Array, learn: Array) -> None:
        """Fills -1 in `chosen (n,)`; `codes (n,)` are the true classes, NaN unknown."""
        _loop(work.arrays[0], slots, chosen, codes, learn)


@compiled
def _loop(all_latest, slots, chosen, codes, learn):
    for n in range(len(slots)):
        key = slots[n]
        if chosen[n] < 0:
            chosen[n] = all_latest[key]
        if learn[n] & LEARN_HEAD and np.isfinite(codes[n]):
            all_latest[key] = int(codes[n])

"""Finds the first row after a pause of its key, which cannot be compared with a forecast from the rows before.

Symbols: usual, a mean of about MEMORY pauses between two rows of the key, of which each counts MANY times the usual at most.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array
from streamjobs.stages.stage import LARGEST, JobStage, Shape

MANY, MEMORY = 5.0, 50.0


class PausesState(NamedTuple):
    newest: float  # event time of the newest row, seconds; -inf: none yet
    usual: float  # seconds between two rows; 0: not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses(JobStage):
    """Finds rows that come later than MANY usual pauses after the key's row before.

    >>> pauses = Pauses()
    >>> fresh = pauses.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> work = pauses.holding(fresh)
    >>> pauses.advance(work, np.zeros(6, np.int64), np.array([0.0, 1.0, 2.0, 5.0, 20.0, 21.0]))
    array([False, False, False, False,  True, False])
    """

    persisted_name: ClassVar[str] = "Pauses"
    described = "name"
    signal = True
    survives = True
    times = ("newest",)
    ranges = (("usual", 0.0, LARGEST),)

    def begin(self, shape: Shape, seed: int) -> PausesState:
        return PausesState(-np.inf, 0.0)

    def warm_up(self, state: Any, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.zeros(1))

    def advance(self, work: Any, slots: Array, times: Array) -> Array:
        """Rows of many keys, slots and times (n,); gives (n,) bool. Late rows are not after a pause."""
        after = np.zeros(len(slots), np.bool_)
        _loop(work.arrays, slots, times, after)
        return after


@compiled
def _loop(work, slots, times, after):
    newest, usual, _ = work
    for n in range(slots.size):
        key = slots[n]
        pause = times[n] - newest[key]
        if not pause > 0.0:
            continue
        newest[key] = times[n]
        if pause == np.inf:  # the key's first row
            continue
        if usual[key] == 0.0:
            usual[key] = pause
            continue
        after[n] = pause > MANY * usual[key]
        usual[key] += (min(pause, MANY * usual[key]) - usual[key]) / MEMORY

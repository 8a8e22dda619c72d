"""Samples of an idle sensor: one that goes on repeating its last sample, bit for bit, has nothing to say about drift.

A sensor that lies still still measures noise; one that sleeps, hangs or was unplugged repeats itself. A key that stands
still before it has had FIRST other samples may do so always, such as a valve: LONG times as many repeats are its normal
values, so that detectors learn them and see the first one that differs.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import LEARN, Array, require
from streamjobs.stages.stage import JobStage, Shape

FIRST, LONG = 500, 20
MANY = 1 << 32  # more than repeats are counted
UNSEEN = 5e-324  # instead of the first number of a sample: none came yet
AWAKE = 4  # a bit of a sample's `learn`, apart from the learners' bits; windows keep it if all their samples have it


class IdleState(NamedTuple):
    sample: Array  # (dim,) the last one
    # How many like it came after the first, and MANY for each of the FIRST others that are still to come: earlier releases,
    # which read this as repeats, take no negative number, and count from 0 again with the next other sample.
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle(JobStage):
    """Tells idle samples: those that repeat the one before for more than the `after`-th time.

    >>> idle = Idle(after=1)
    >>> fresh = idle.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> work = idle.holding(fresh)
    >>> learn = np.full(5, 3, np.int8)
    >>> idle.advance(work, np.zeros(5, np.int64), np.array([[2.0], [7.0], [7.0], [7.0], [2.0]]), learn)
    >>> learn & AWAKE > 0
    array([ True,  True,  True, False,  True])
    """

    persisted_name: ClassVar[str] = "Idle"
    signal = True
    survives = True

    after: int  # repeats of a sample that are treated as chance

    def __post_init__(self) -> None:
        require(self, "after", self.after >= 1, "1 or more")

    def begin(self, shape: Shape, seed: int) -> IdleState:
        sample = np.zeros(shape.dim)
        sample[0] = UNSEEN
        return IdleState(sample, 0)

    def warm_up(self, state: IdleState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.zeros((1, shape.dim)), np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, X: Array, learn: Array) -> None:
        """Adds the bit AWAKE to `learn` (n,) of every sample X (n, dim) that is not idle."""
        _loop(work.arrays, slots, X, learn, self.after)


@compiled
def _loop(work, slots, X, learn, after):
    samples, repeats, _ = work
    for n in range(len(X)):
        key, same = slots[n], True
        if samples[key, 0] == UNSEEN:
            samples[key, 0], repeats[key] = 0.0, FIRST * MANY
        for j in range(X.shape[1]):
            if X[n, j] != samples[key, j]:
                samples[key, j] = X[n, j]
                same = False
        missing, repeated = repeats[key] // MANY, repeats[key] % MANY
        repeated = min(repeated + 1, MANY - 1) if same else 0
        if repeated <= after or (missing > 0 and repeated > LONG * after):
            learn[n] |= AWAKE
        if repeated <= after and missing > 0:
            missing -= 1
        repeats[key] = missing * MANY + repeated

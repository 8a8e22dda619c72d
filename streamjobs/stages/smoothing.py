"""Scores smoothed over a key's present rows, so that one odd window does not decide.

A stage behind a head, not part of it: smoothing follows the rows as they come, whoever learns, and a label that came late
must not touch it. Both the head's own score and the smoothed one are there to be shown.
Cost of a row: O(targets).  State: targets + 1 numbers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, Array, require, unknown
from streamjobs.stages.stage import JobStage, Shape


class SmoothingState(NamedTuple):
    smoothed: Array  # (targets,) scores of the last present row, smoothed
    rows: int  # present rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing(JobStage):
    """Smoothed score = smooth times the smoothed score before + (1 - smooth) times the score.

    >>> stage = Smoothing(smooth=0.5)
    >>> work = stage.workspace(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    >>> scores, learn = np.array([[4.0], [0.0], [9.0], [0.0]]), np.array([1, 1, 2, 1], np.int8)
    >>> stage.advance(work, np.zeros(4, np.int64), scores, learn).ravel()  # the third row is a label that came late
    array([4. , 2. , 5.5, 1. ])
    """

    persisted_name: ClassVar[str] = "Smoothing"
    finite = True

    smooth: float = 0.3  # in [0, 1); share of the row before, 0 = off

    def __post_init__(self) -> None:
        require(self, "smooth", 0 <= self.smooth < 1, "0 or more, below 1")

    def begin(self, shape: Shape, seed: int) -> SmoothingState:
        return SmoothingState(np.zeros(shape.targets), 0)

    def warm_up(self, state: SmoothingState, shape: Shape) -> None:
        work = self.workspace(state)
        self.load(work, 0, state)
        self.advance(work, np.zeros(1, np.int64), unknown((1, shape.targets)), np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, scores: Array, learn: Array) -> Array:
        """Smoothed scores (n, targets); rows with bit 1 of `learn` are remembered, NaN stays NaN and is not."""
        smoothed = np.full(scores.shape, np.nan)
        _loop(work.arrays, slots, scores, learn, smoothed, self.smooth)
        return smoothed


@compiled
def _loop(work, slots, scores, learn, smoothed, smooth):
    all_before, rows, _ = work
    for n in range(len(scores)):
        key, before, now = slots[n], all_before[slots[n]], smoothed[n]
        if missing(scores[n]):
            continue
        for t in range(now.size):
            now[t] = smooth * before[t] + (1.0 - smooth) * scores[n, t] if rows[key] > 0 else scores[n, t]
        if learn[n] & LEARN_EXTRACTOR:
            rows[key] += 1
            for t in range(now.size):
                before[t] = now[t]

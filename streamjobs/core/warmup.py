"""Every compiled loop of a job, run once on a throwaway state, so that no record waits for the compiler."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from algorithms import Learner
from algorithms.common.protocol import LEARN, Stage, unknown
from algorithms.heads.smoothing import Smoothing
from streamjobs.stages.class_counts import Books, targets_of
from streamjobs.stages.fallback import Fallback
from streamjobs.stages.idle import Idle
from streamjobs.stages.late_labels import Waiting
from streamjobs.stages.order import Order
from streamjobs.stages.rows import Rows
from streamjobs.stages.windows import Windows


def warm_up(stages: Mapping[str, Stage], states: Mapping[str, Any], dim: int, labels: int) -> None:
    """One row through each stage. states: of a new key; dim: of a sample; labels: numbers in a label's code."""
    slot, owner, times, learn = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.full(1, LEARN, np.int8)
    X, L = np.zeros((1, dim)), unknown((1, labels))
    for name, stage in stages.items():
        state = states[name]
        work = stage.workspace(state)
        stage.load(work, 0, state)
        if isinstance(stage, Order):
            stage.advance(work, slot, times, X, L, owner)
        elif isinstance(stage, Windows):
            stage.advance(work, slot, times, X, L, owner, learn)
        elif isinstance(stage, Idle):
            stage.advance(work, slot, X, learn.copy())
        elif isinstance(stage, Waiting):
            one = Rows(slot, times, np.zeros((1, state.X.shape[1])), L, owner, learn)
            stage.advance(work, one, one)
            stage.remember(work, slot, owner)
        elif isinstance(stage, Books):
            scores, before = unknown((1, stage.classes)), np.zeros((1, stage.classes), np.int8)
            stage.decide(work, slot, scores, L[:, 0].copy(), learn, before)
            stage.number(work, slot)
            targets_of(L[:, 0].copy(), stage.classes)
        elif isinstance(stage, Smoothing):
            stage.advance(work, slot, unknown((1, len(state.smoothed))), learn)
        elif isinstance(stage, Fallback):
            stage.advance(work, slot, np.full(1, -1), L[:, 0].copy(), learn)
        else:
            assert isinstance(stage, Learner)
            width, targets = stage.dim(state), stage.targets(state)
            stage.advance(work, slot, np.zeros((1, width)), unknown((1, targets)), stage.outputs(1, width, targets), learn)

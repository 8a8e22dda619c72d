"""Nearest neighbour: the label of the nearest of the latest samples.

Source: Cover, Hart (1967), Nearest neighbor pattern classification; here for regression, on a window.
Symbols: none beyond the names.
Cost of a row: O(memory dim).  State: memory (dim + targets) + 1 numbers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import distance2, missing, put, remove_row
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot


class NearestState(NamedTuple):
    samples: Array  # (m, dim) the latest labelled samples, oldest first
    labels: Array  # (m, targets)
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestLabel(Learner):
    """Predicts what the most similar of the last `memory` labelled rows had; 0 while there is none.

    >>> learner = NearestLabel(memory=2)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [5.0], [4.0]], [[1.0], [2.0], [3.0]])
    >>> out.prediction.ravel(), state.samples.ravel()
    (array([0., 1., 2.]), array([5., 4.]))
    """

    name: ClassVar[str] = "nearest_label"
    persisted_name: ClassVar[str] = "NearestLabel"
    kind: ClassVar[str] = "regression"
    stored: ClassVar[tuple[str, ...]] = ("samples", "labels")
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "labels"),)

    memory: int = 50  # most stored samples

    def __post_init__(self) -> None:
        require(self, "memory", self.memory >= 1, "1 or more")

    def room(self, field: str) -> int | None:
        return self.memory

    def init(self, *, dim: int, targets: int, seed: int) -> NearestState:
        return NearestState(np.empty((0, dim)), np.empty((0, targets)), 0)

    def dim(self, state: NearestState) -> int:
        return int(state.samples.shape[1])

    def targets(self, state: NearestState) -> int:
        return int(state.labels.shape[1])

    def derive(self, own: Slot) -> None:
        if own.rows("samples") > self.memory:
            raise ValueError(
                f"NearestLabel: the state stores {own.rows('samples')} samples, this learner's memory is {self.memory}."
            )

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, self.memory)


@compiled
def _loop(work, slots, X, Y, learn, out, memory):
    all_samples, all_labels, seen, counts = work
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        samples, labels, count = all_samples[key], all_labels[key], counts[key, 0]
        if missing(x):
            continue

        # Predict with what earlier rows taught.
        nearest, least = -1, np.inf
        for i in range(count):
            gap2 = distance2(x, samples[i])
            if gap2 < least:
                nearest, least = i, gap2
        for t in range(prediction.size):
            prediction[t] = labels[nearest, t] if nearest >= 0 else 0.0
        if not missing(y):
            out.loss[n] = distance2(y, prediction)

        # Store the row; the oldest leaves.
        if not learn[n] & LEARN_HEAD:
            continue
        seen[key] += 1
        if missing(y):
            continue
        if count == memory:
            remove_row(samples, 0, count)
            remove_row(labels, 0, count)
            count -= 1
            out.evicted[n] = 1
        put(samples[count], x)
        put(labels[count], y)
        out.admitted[n] = 1
        counts[key, 0], counts[key, 1] = count + 1, count + 1

"""A learner without faults, plainly written, that the checks must pass; `broken.py` gives it one fault after another.

Source: normalised least mean squares over the last samples, written plainly; nothing here is for use.
Symbols: none beyond the names.
Cost of a row: O(memory dim).  State: (memory + targets) dim numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot


class SteadyState(NamedTuple):
    weights: Array  # (dim, targets)
    samples: Array  # (m, dim) the latest labelled samples, oldest first
    answers: Array  # (m, targets) their labels
    seen: int


class Fields(NamedTuple):
    """The workspace's arrays by name."""

    weights: Array
    samples: Array
    answers: Array
    seen: Array
    counts: Array
    power: Array  # the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady(Learner):
    """The learner without faults; its cache is the stored samples' mean square, recomputed from them.

    >>> Steady(memory=3).room("samples")
    4
    """

    kind: ClassVar[str] = "regression"
    name: ClassVar[str] = "steady"
    persisted_name: ClassVar[str] = "Steady"
    stored: ClassVar[tuple[str, ...]] = ("samples", "answers")
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "answers"),)

    memory: int = 5
    step_size: float = 0.5

    def __post_init__(self) -> None:
        require(self, "memory", self.memory >= 1, "1 or more")
        require(self, "step_size", 0 < self.step_size < 2, "in (0, 2)")

    def room(self, field: str) -> int | None:
        return self.memory + 1

    def init(self, *, dim: int, targets: int, seed: int) -> Any:
        return SteadyState(np.zeros((dim, targets)), np.empty((0, dim)), np.empty((0, targets)), 0)

    def dim(self, state: Any) -> int:
        return state.weights.shape[0]

    def targets(self, state: Any) -> int:
        return state.weights.shape[1]

    def caches(self, state: Any, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"power": np.zeros(1)}

    def derive(self, own: Slot) -> None:
        own["power"][0] = mean_square(own["samples"][: own.rows("samples")])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        with np.errstate(all="ignore"):
            for n in range(len(X)):
                if self.usable(X[n]):
                    self.row(tuple(work), slots[n], X[n], Y[n], learn[n], Outputs(*(array[n : n + 1] for array in out)))

    def usable(self, x: Array) -> bool:
        return bool(np.isfinite(x).all())

    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        out.prediction[0] = x @ Fields(*work).weights[key]
        if np.isfinite(y).all():
            out.loss[0] = ((y - out.prediction[0]) ** 2).sum()
        if learn & 2:
            self.learn(work, key, x, y, out)

    def learn(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        fields = Fields(*work)
        fields.seen[key] += 1
        if not np.isfinite(y).all():
            return
        weights, size = fields.weights[key], 1e-3 + fields.power[key, 0] + x @ x
        moved = weights + np.outer(x, self.step_size * (y - x @ weights) / size)
        if np.isfinite(moved).all():
            weights[:] = moved
        self.store(work, key, x, y, out)

    def store(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        fields = Fields(*work)
        samples, answers, count = fields.samples[key], fields.answers[key], fields.counts[key, 0]
        samples[count], answers[count] = x, y
        out.admitted[0] = 1
        if count == self.memory:
            for array in (samples, answers):
                array[:count] = array[1 : count + 1].copy()
            out.evicted[0] = 1
        fields.counts[key] = min(count + 1, self.memory)
        fields.power[key, 0] = mean_square(samples[: fields.counts[key, 0]])


def mean_square(samples: Array) -> float:
    with np.errstate(all="ignore"):
        return float((samples**2).sum() / max(1, len(samples)))

"""Least mean squares (LMS): a linear model moved along each row's error.

Source: Widrow, Hoff (1960); with the ridge of paper 000, Section VII (regularised LMS).
Symbols: mu = step_size, lambda = ridge, w = weights.
Cost of a row: O(d targets).  State: d targets numbers.
Departs from the source: a step that would leave the finite numbers is not taken.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.common import carry, score, squared_loss


class LmsState(NamedTuple):
    weights: Array  # (dim, targets)
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Lms(Learner):
    """Linear regression by stochastic gradient steps.

    >>> learner = Lms(step_size=0.5)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0., 1.]), array([1.5]))
    """

    kind: ClassVar[str] = "regression"

    step_size: float = 0.1  # above 0
    ridge: float = 0.0  # 0 or more; shrinks the weights by step_size * ridge a row

    def __post_init__(self) -> None:
        require(self, "step_size", self.step_size > 0, "above 0")
        require(self, "ridge", self.ridge >= 0, "0 or more")

    def init(self, *, dim: int, targets: int, seed: int) -> LmsState:
        return LmsState(np.zeros((dim, targets)), 0)

    def dim(self, state: LmsState) -> int:
        return len(state.weights)

    def targets(self, state: LmsState) -> int:
        return state.weights.shape[1]

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, basis, self.step_size, self.ridge)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, step_size, ridge):
    all_weights, seen, _ = work
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, prediction = all_weights[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, x, prediction)
            if not missing(y):
                out.loss[n] = squared_loss(prediction, y)

        # Learn; a step that would leave the finite numbers is not taken.
        if learn[n] & 2 and not missing(x):
            seen[key] += 1
            if not missing(y) and not missing(prediction):
                for i in range(x.size):
                    for t in range(y.size):
                        step = step_size * ((y[t] - prediction[t]) * x[i] - ridge * weights[i, t])
                        if np.isfinite(weights[i, t] + step):
                            weights[i, t] += step
        carry(basis, n, weights)

"""Least mean squares (LMS): a linear model moved along each row's error.

Source: Widrow, Hoff (1960); with the ridge of paper 000, Section VII (regularised LMS).
Symbols: mu = step_size, lambda = ridge, w = weights.
Cost of a row: O(d targets).  State: (d + 1) targets numbers.
Departs from the source: a step that would leave the finite numbers is not taken.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.linear import carry, score, squared_loss, step


class LmsState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Lms(Learner):
    """Linear regression by stochastic gradient steps; stable while step_size |x|^2 < 2.

    >>> learner = Lms(step_size=0.5)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0., 1.]), array([1.5]))
    """

    name: ClassVar[str] = "lms"
    persisted_name: ClassVar[str] = "Lms"
    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    step_size: float = 0.005  # above 0
    ridge: float = 0.0  # 0 to 1 / step_size; shrinks the weights by step_size * ridge a row
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "step_size", 0 < self.step_size < np.inf, "above 0")
        require(self, "ridge", 0 <= self.ridge * self.step_size <= 1, "0 to 1 / step_size")

    def init(self, *, dim: int, targets: int, seed: int) -> LmsState:
        return LmsState(np.zeros((dim, targets)), np.zeros(targets), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, basis, self.step_size, self.ridge, self.intercept)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, step_size, ridge, intercept):
    all_weights, all_bias, seen, _ = work
    along = np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, prediction = all_weights[key], all_bias[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                out.loss[n] = squared_loss(prediction, y)

            # Learn.
            if learn[n] & 2:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    for t in range(y.size):
                        along[t] = step_size * (y[t] - prediction[t])
                    step(weights, bias, x, 1.0 - step_size * ridge, along, intercept)
        carry(basis, n, weights)

"""Normalised least mean squares (NLMS): LMS with each step measured by the length of its input.

Source: Haykin, Adaptive Filter Theory, the epsilon-NLMS algorithm.
Symbols: mu = step_size, epsilon = ridge, w = weights.
Cost of a row: O(d targets).  State: (d + 1) targets numbers.
Departs from the source: a step that would leave the finite numbers is not taken; an input of zeros moves nothing.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.linear import carry, length2, score, squared_loss, step


class NlmsState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Nlms(Learner):
    """Linear regression by steps that close the share `step_size` of each row's error, whatever the scale of x.

    >>> learner = Nlms(step_size=0.5, ridge=0.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [10.0]], [[2.0], [20.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([ 0., 10.]), array([1.5]))
    """

    name: ClassVar[str] = "nlms"
    persisted_name: ClassVar[str] = "Nlms"
    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    step_size: float = 0.1  # in (0, 2)
    ridge: float = 1e-6  # 0 or more; added to |x|^2
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "step_size", 0 < self.step_size < 2, "in (0, 2)")
        require(self, "ridge", 0 <= self.ridge < np.inf, "0 or more")

    def init(self, *, dim: int, targets: int, seed: int) -> NlmsState:
        return NlmsState(np.zeros((dim, targets)), np.zeros(targets), 0)

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
                    length = ridge + length2(x, intercept)
                    for t in range(y.size):
                        along[t] = step_size * (y[t] - prediction[t]) / length if length > 0.0 else 0.0
                    step(weights, bias, x, 1.0, along, intercept)
        carry(basis, n, weights)

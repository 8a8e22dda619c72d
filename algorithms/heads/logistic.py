"""Logistic regression by stochastic gradient steps: softmax over several targets, sigmoid for one.

Source: Bishop, Pattern Recognition and Machine Learning, 4.3.4, as one gradient step a row.
Symbols: eta = step_size, lambda = ridge, w = weights, p = chances.
Cost of a row: O(d targets).  State: (d + 1) targets numbers.
Readings: the class of a row is its largest target (first on ties), of a single target +1 above 0, else -1; the
prediction is the score w'x, the log-odds up to a constant, so that 0 parts the two classes of a single target.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.linear import carry, score, step


class LogisticState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic(Learner):
    """Linear classification with a log loss; the class is the largest score (or the sign of the only one).

    >>> learner = Logistic(step_size=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=2, seed=0), [[1.0], [1.0]], [[1, 0], [1, 0]])
    >>> out.loss.round(3), state.weights.round(3).ravel()
    (array([0.693, 0.313]), array([ 0.769, -0.769]))
    """

    name: ClassVar[str] = "logistic"
    persisted_name: ClassVar[str] = "Logistic"
    kind: ClassVar[str] = "classification"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    step_size: float = 0.05  # above 0
    ridge: float = 0.0  # 0 to 1 / step_size; shrinks the weights by step_size * ridge a row
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "step_size", 0 < self.step_size < np.inf, "above 0")
        require(self, "ridge", 0 <= self.ridge * self.step_size <= 1, "0 to 1 / step_size")

    def init(self, *, dim: int, targets: int, seed: int) -> LogisticState:
        return LogisticState(np.zeros((dim, targets)), np.zeros(targets), 0)

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
                out.loss[n] = _log_loss(prediction, y)

            # Learn.
            if learn[n] & 2:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    _slopes(prediction, y, along)
                    for t in range(y.size):
                        along[t] *= step_size
                    step(weights, bias, x, 1.0 - step_size * ridge, along, intercept)
        carry(basis, n, weights)


@compiled
def _softplus(s):
    """log(1 + exp(s)) without overflow."""
    return max(s, 0.0) + np.log1p(np.exp(-abs(s)))


@compiled
def _first_largest(a):
    best = 0
    for t in range(1, a.size):
        if a[t] > a[best]:
            best = t
    return best


@compiled
def _log_loss(prediction, y):
    """-log of the chance given to the true class."""
    if y.size == 1:
        return _softplus(-prediction[0] if y[0] > 0.0 else prediction[0])
    top = prediction[_first_largest(prediction)]
    total = 0.0
    for t in range(y.size):
        total += np.exp(prediction[t] - top)
    return np.log(total) + top - prediction[_first_largest(y)]


@compiled
def _slopes(prediction, y, along):
    """along = (class as one-hot) - chances: where the log loss falls."""
    if y.size == 1:
        chance = np.exp(-_softplus(-prediction[0]))
        along[0] = (1.0 if y[0] > 0.0 else 0.0) - chance
        return
    top = prediction[_first_largest(prediction)]
    total = 0.0
    for t in range(y.size):
        along[t] = np.exp(prediction[t] - top)
        total += along[t]
    for t in range(y.size):
        along[t] = -along[t] / total
    along[_first_largest(y)] += 1.0

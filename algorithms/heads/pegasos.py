"""Pegasos: a linear support vector machine by stochastic subgradients of step 1 / (ridge t).

Source: Shalev-Shwartz, Singer, Srebro, Cotter (2011), Fig. 1 (one example a step, no projection), as paper 000 uses it.
Symbols: lambda = 1/C = ridge, t = steps, w = weights, y = -1/+1.
Cost of a row: O(d targets).  State: (d + 1) targets + 1 numbers.
Readings: w shrinks by 1 - 1/t first and the margin is that of the shrunk w; t counts rows with a target; several targets
are binary problems side by side (one against the rest) that share t; a target of 0 or below is the label -1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.losses import hinge_loss, side
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.linear import carry, score, step


class PegasosState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    steps: int  # rows learned from, t
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegasos(Learner):
    """Linear classification with a hinge loss; the prediction is a score per target, the class its largest (or its sign).

    >>> learner = Pegasos(ridge=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [-1.0]], [[1.0], [-1.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([ 0., -1.]), array([1.]))
    """

    name: ClassVar[str] = "pegasos"
    persisted_name: ClassVar[str] = "Pegasos"
    kind: ClassVar[str] = "classification"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True
    binary_targets: ClassVar[bool] = True  # several targets are binary problems side by side

    ridge: float = 0.03  # above 0; 1/C
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "ridge", 0 < self.ridge < np.inf, "above 0")

    def init(self, *, dim: int, targets: int, seed: int) -> PegasosState:
        return PegasosState(np.zeros((dim, targets)), np.zeros(targets), 0, 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, basis, self.ridge, self.intercept)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, ridge, intercept):
    all_weights, all_bias, steps, seen, _ = work
    along = np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, prediction = all_weights[key], all_bias[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                out.loss[n] = hinge_loss(prediction, y)

            # Learn.
            if learn[n] & 2:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    steps[key] += 1
                    rate = 1.0 / steps[key]
                    for t in range(y.size):
                        label = side(y[t])
                        along[t] = label * rate / ridge if label * (1.0 - rate) * prediction[t] < 1.0 else 0.0
                    step(weights, bias, x, 1.0 - rate, along, intercept)
        carry(basis, n, weights)

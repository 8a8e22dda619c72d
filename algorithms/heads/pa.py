"""Passive-aggressive (PA-I): the smallest step that gives each row its margin, up to a limit.

Source: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (2006), Fig. 1, PA-I.
Symbols: C = aggressiveness, tau = along, l = hinge loss, w = weights, y = -1/+1.
Cost of a row: O(d targets).  State: (d + 1) targets numbers.
Readings: several targets are binary problems side by side (one against the rest); a target of 0 or below is the label -1;
an input of zeros moves nothing.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.losses import hinge_loss, side
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.heads.linear import carry, length2, score, step


class PaState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Pa(Learner):
    """Linear classification with a hinge loss; the prediction is a score per target, the class its largest (or its sign).

    >>> learner = Pa(aggressiveness=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[2.0], [2.0]], [[1.0], [1.0]])
    >>> out.prediction.ravel(), out.loss, state.weights.ravel()
    (array([0., 1.]), array([1., 0.]), array([0.5]))
    """

    name: ClassVar[str] = "pa"
    persisted_name: ClassVar[str] = "Pa"
    kind: ClassVar[str] = "classification"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True
    binary_targets: ClassVar[bool] = True  # several targets are binary problems side by side

    aggressiveness: float = 0.03  # above 0; most weight of one row
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "aggressiveness", 0 < self.aggressiveness < np.inf, "above 0")

    def init(self, *, dim: int, targets: int, seed: int) -> PaState:
        return PaState(np.zeros((dim, targets)), np.zeros(targets), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, basis, self.aggressiveness, self.intercept)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, aggressiveness, intercept):
    all_weights, all_bias, seen, _ = work
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
                    length = length2(x, intercept)
                    for t in range(y.size):
                        label = side(y[t])
                        hinge = max(0.0, 1.0 - label * prediction[t])
                        along[t] = label * min(aggressiveness, hinge / length) if length > 0.0 else 0.0
                    step(weights, bias, x, 1.0, along, intercept)
        carry(basis, n, weights)

"""Recursive least squares (RLS): the exact ridge regression of all rows so far, kept row by row.

Source: Haykin, Adaptive Filter Theory, the RLS algorithm; used by paper 002 as its strongest head.
Symbols: lambda = forgetting, delta = delta (P starts at delta I, so the ridge is 1 / delta), w = weights, P = inverse
correlation matrix of the inputs.
Cost of a row: O(d^2 + d targets); n = d, one more with the intercept.  State: (d + 1) targets + n (n + 1) / 2 numbers.
Departs from the source: P is downdated by u u' with u = P z / sqrt(lambda + z'P z), so it is symmetric to the last bit and
a state holds its lower triangle only; forgetting pauses while the trace of P would exceed 10^4 times that of its start
(an idle input would otherwise wind it up without limit); P starts again from delta I should rounding ever leave it
indefinite. When the basis of the features turns by T, P becomes T P T' + delta (I - T T').
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs, require
from algorithms.common.triangle import packed
from algorithms.heads.covariance_head import CovarianceHead
from algorithms.heads.linear import carry, score, squared_loss


class RlsState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    P: Array  # (n (n + 1) / 2,) lower triangle by rows; the constant input comes last
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Rls(CovarianceHead):
    """Least squares for several targets at once; the targets share P.

    >>> learner = Rls(delta=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.round(3).ravel()  # of 2 rows and a ridge of 1: 4 / (2 + 1)
    (array([0., 1.]), array([1.333]))
    """

    name: ClassVar[str] = "rls"
    persisted_name: ClassVar[str] = "Rls"
    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    forgetting: float = 1.0  # in (0, 1]; weight of a row after n more rows is forgetting^n
    delta: float = 100.0  # above 0; start of P, 1 / ridge
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "forgetting", 0 < self.forgetting <= 1, "in (0, 1]")
        require(self, "delta", 0 < self.delta <= 1e12, "above 0, at most 1e12")

    def init(self, *, dim: int, targets: int, seed: int) -> RlsState:
        P = self.delta * np.eye(dim + self.intercept)
        return RlsState(np.zeros((dim, targets)), np.zeros(targets), packed(P), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, basis, self.forgetting, self.delta)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, forgetting, delta):
    all_weights, all_bias, all_P, seen, _ = work
    size = all_P.shape[1]  # with or without the constant input
    z, u, gain, along = np.ones(size), np.empty(size), np.empty(size), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, P, prediction = all_weights[key], all_bias[key], all_P[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                out.loss[n] = squared_loss(prediction, y)

            # Learn.
            if learn[n] & LEARN_HEAD:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    rls.learn(weights, bias, P, x, y, prediction, z, u, gain, along, forgetting, delta)
        if basis.moved.size > 0 and basis.moved[n] != 0:
            carry(basis, n, weights)
            rls.carry_covariance(basis.transfer[n], P, delta)

"""Extended recursive least squares (Ex-RLS): a Kalman filter with the weights of a linear model as its state.

Source: Haykin, Sayed, Zeidler, Yee, Wei (1997), IEEE TSP 45(5):1118-1128, A = alpha I; paper 002, Algorithm 3.
Symbols: alpha = transition, lambda = forgetting, q = state_noise, delta = 1 / ridge (P starts at delta I), w = weights.
One row: g = P x / (lambda + x'P x); w = alpha (w + g e); P = alpha^2 (P - g x'P) / lambda + lambda q I.
Cost of a row: O(n^2 + d targets); n = d, one more with the intercept.  State: (d + 1) targets + n (n + 1) / 2 + 1 numbers.
Readings: paper 002 prints A twice, in the gain and around P; this is the consistent Kalman form. Time passes with rows that
have a target.
Departs from the source: as `rls`: P is symmetric to the last bit and half of it stored; forgetting and noise pause while the
trace of P would exceed 10^4 times that of its start; a turning basis takes P to T P T' + delta (I - T T').
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


class ExrlsState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    P: Array  # (n (n + 1) / 2,) lower triangle by rows; the constant input comes last
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Exrls(CovarianceHead):
    """Least squares for weights that drift as a random walk, or fade where transition is below 1.

    >>> learner = Exrls(ridge=1.0, state_noise=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()  # gains 1/2, then 1.5 / 2.5
    (array([0., 1.]), array([1.6]))
    """

    name: ClassVar[str] = "exrls"
    persisted_name: ClassVar[str] = "Exrls"
    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    transition: float = 1.0  # in (0, 1]; the weights fade by this factor a row
    forgetting: float = 1.0  # in (0, 1]; weight of a row after n more rows is forgetting^n
    state_noise: float = 1e-4  # 0 or more; variance that each weight gains a row
    ridge: float = 0.01  # above 0; 1 / variance of each weight at the start
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "transition", 0 < self.transition <= 1, "in (0, 1]")
        require(self, "forgetting", 0 < self.forgetting <= 1, "in (0, 1]")
        require(self, "state_noise", 0 <= self.state_noise < np.inf, "0 or more")
        require(self, "ridge", 1e-12 <= self.ridge < np.inf, "1e-12 or more")

    def init(self, *, dim: int, targets: int, seed: int) -> ExrlsState:
        P = np.eye(dim + self.intercept) / self.ridge
        return ExrlsState(np.zeros((dim, targets)), np.zeros(targets), packed(P), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        model = (float(self.transition), float(self.forgetting), float(self.state_noise), 1.0 / self.ridge)
        _loop(tuple(work), slots, X, Y, learn, out, basis, model)


@compiled
def _loop(work, slots, X, Y, learn, out, basis, model):
    all_weights, all_bias, all_P, seen, _ = work
    size = all_P.shape[1]  # with or without the constant input
    z, u, gain, along = np.ones(size), np.empty(size), np.empty(size), np.empty(Y.shape[1])
    transition, forgetting, state_noise, delta = model
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, P, prediction = all_weights[key], all_bias[key], all_P[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                out.loss[n] = squared_loss(prediction, y)

            # Learn, then one step on in time.
            if learn[n] & LEARN_HEAD:
                seen[key] += 1
                known = not missing(y) and not missing(prediction)
                if known and rls.learn(weights, bias, P, x, y, prediction, z, u, gain, along, forgetting, delta):
                    rls.move_on(weights, bias, P, transition, forgetting * state_noise, delta)
        if basis.moved.size > 0 and basis.moved[n] != 0:
            carry(basis, n, weights)
            rls.carry_covariance(basis.transfer[n], P, delta)

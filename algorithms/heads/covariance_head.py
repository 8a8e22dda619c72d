"""What linear heads with a covariance matrix P share. A state has its lower triangle, a workspace the whole matrix.

The whole matrix takes twice the memory, but vector instructions can read its rows.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import distance2, missing
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Learner, Outputs
from algorithms.common.workspace import packed
from algorithms.heads.linear import carry, score


class CovarianceState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    P: Array  # (n (n + 1) / 2,) lower triangle by rows; the constant input comes last
    seen: int  # rows so far


class Model(NamedTuple):
    """Settings as compiled code reads them."""

    transition: float
    forgetting: float
    state_noise: float
    delta: float  # start of P


class CovarianceHead(Learner, abstract=True):
    """A base, not a learner: its subclasses have states with `weights (dim, targets)` and `P`, lower triangle by rows."""

    __slots__ = ()
    intercept: bool  # a constant input besides the features

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"P": len(state.weights) + self.intercept}


class LeastSquares(CovarianceHead, abstract=True):
    """A base, not a learner: each row takes a step of least squares, and then the weights move on in time, if they do."""

    __slots__ = ()
    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    delta: float  # start of P, on its diagonal

    @property
    def model(self) -> Model:
        raise NotImplementedError

    def init(self, *, dim: int, targets: int, seed: int) -> CovarianceState:
        P = self.delta * np.eye(dim + self.intercept)
        return CovarianceState(np.zeros((dim, targets)), np.zeros(targets), packed(P), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(work.arrays, slots, X, Y, learn, (out.prediction, out.loss), tuple(basis), tuple(self.model))


@compiled
def _loop(work, slots, X, Y, learn, out, basis, model):
    all_weights, all_bias, all_P, seen, _ = work
    predictions, losses = out
    basis = Basis(*basis)
    size = all_P.shape[1]  # with or without the constant input
    z, u, gain, along = np.ones(size), np.empty(size), np.empty(size), np.empty(Y.shape[1])
    transition, forgetting, state_noise, delta = model
    moves = transition != 1.0 or state_noise != 0.0
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, P, prediction = all_weights[key], all_bias[key], all_P[key], predictions[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                losses[n] = distance2(y, prediction)

            # Learn, then one step on in time.
            if learn[n] & LEARN_HEAD:
                seen[key] += 1
                known = not missing(y) and not missing(prediction)
                if known and rls.learn(weights, bias, P, x, y, prediction, z, u, gain, along, forgetting, delta) and moves:
                    rls.move_on(weights, bias, P, transition, forgetting * state_noise, delta)
        if basis.moved.size > 0 and basis.moved[n] != 0:
            carry(basis, n, weights)
            rls.carry_covariance(basis.transfer[n], P, delta)

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

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Learner, Outputs, Workspace, require
from algorithms.heads.common import LARGEST_STEP, carry, largest, score, squared_loss

WIND_UP = 1e4  # most growth of P's trace beyond its start


class RlsState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    P: Array  # (n (n + 1) / 2,) lower triangle by rows; the constant input comes last
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Rls(Learner):
    """Least squares for several targets at once; the targets share P.

    >>> learner = Rls(delta=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.round(3).ravel()  # of 2 rows and a ridge of 1: 4 / (2 + 1)
    (array([0., 1.]), array([1.333]))
    """

    kind: ClassVar[str] = "regression"
    carries: ClassVar[bool] = True  # its weights follow a turning basis

    forgetting: float = 1.0  # in (0, 1]; weight of a row after n more rows is forgetting^n
    delta: float = 100.0  # above 0; start of P, 1 / ridge
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "forgetting", 0 < self.forgetting <= 1, "in (0, 1]")
        require(self, "delta", 0 < self.delta <= 1e12, "above 0, at most 1e12")

    def init(self, *, dim: int, targets: int, seed: int) -> RlsState:
        P = self.delta * np.eye(dim + self.intercept)
        return RlsState(np.zeros((dim, targets)), np.zeros(targets), packed(P), 0)

    def dim(self, state: RlsState) -> int:
        return len(state.weights)

    def targets(self, state: RlsState) -> int:
        return state.weights.shape[1]

    # In a workspace P is whole: twice the memory, but its rows are what vector instructions want.
    def workspace(self, state: RlsState, *, slots: int = 1, extra: int = 0) -> Workspace:
        return Learner.workspace(self, self._whole(state), slots=slots, extra=extra)

    def load(self, work: Any, slot: int, state: RlsState) -> None:
        Learner.load(self, work, slot, self._whole(state))

    def save(self, work: Any, slot: int, like: RlsState) -> RlsState:
        state = Learner.save(self, work, slot, like)
        return state._replace(P=packed(state.P))

    def _whole(self, state: RlsState) -> RlsState:
        n = len(state.weights) + self.intercept
        if state.P.shape != (n * (n + 1) // 2,):
            raise ValueError(f"Rls: expected P of {n * (n + 1) // 2} numbers ({n} inputs), got shape {state.P.shape}.")
        return state._replace(P=unpacked(state.P, n))

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

            # Learn: gain = P z / (lambda + z'P z), w += gain (y - prediction)', P = (P - gain z'P) / lambda.
            if learn[n] & 2:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    for i in range(x.size):
                        z[i] = x[i]
                    for t in range(y.size):
                        along[t] = y[t] - prediction[t]
                    spread = _product(P, z, u)
                    if not spread >= 0.0:  # rounding left P indefinite
                        _restart(P, delta)
                        spread = _product(P, z, u)
                    total = forgetting + spread
                    for i in range(size):
                        gain[i] = u[i] / total
                        u[i] /= np.sqrt(total)
                    if largest(along) * largest(gain) < LARGEST_STEP and total < LARGEST_STEP * LARGEST_STEP:
                        for i in range(x.size):
                            for t in range(y.size):
                                weights[i, t] += gain[i] * along[t]
                        if size > x.size:
                            for t in range(y.size):
                                bias[t] += gain[x.size] * along[t]
                        _downdate(P, u, forgetting, delta)
        if basis.moved.size > 0 and basis.moved[n] != 0:
            carry(basis, n, weights)
            _carry_covariance(basis.transfer[n], P, delta)


@compiled
def _product(P, z, u):
    """u = P z; gives z'u. By rows of P, so that the compiler can use vector instructions without changing the sums."""
    for j in range(z.size):
        u[j] = 0.0
    for i in range(z.size):
        factor = z[i]
        for j in range(z.size):
            u[j] += P[i, j] * factor
    total = 0.0
    for j in range(z.size):
        total += z[j] * u[j]
    return total


@compiled
def _downdate(P, u, forgetting, delta):
    """P = (P - u u') / forgetting, symmetric to the last bit because u_i u_j is."""
    trace = 0.0
    for i in range(u.size):
        trace += P[i, i] - u[i] * u[i]
    grow = 1.0 / forgetting
    if not trace * grow <= WIND_UP * delta * u.size:
        grow = 1.0
    for i in range(u.size):
        factor = u[i]
        for j in range(u.size):
            P[i, j] = (P[i, j] - factor * u[j]) * grow


@compiled
def _restart(P, delta):
    for i in range(len(P)):
        for j in range(len(P)):
            P[i, j] = delta if i == j else 0.0


@compiled
def _carry_covariance(T, P, delta):
    """P = T P T' + delta (I - T T'); the constant input is not turned."""
    r, size = len(T), len(P)
    Tt, half, turned = np.empty((r, r)), np.zeros((r, size)), np.zeros((r, r))
    for i in range(r):
        for j in range(r):
            Tt[j, i] = T[i, j]
    for i in range(r):
        for k in range(r):
            factor = T[i, k]
            for j in range(size):
                half[i, j] += factor * P[k, j]
    for i in range(r):
        for k in range(r):
            factor = half[i, k] - delta * T[i, k]  # (T P - delta T) T', its lower triangle
            for j in range(i + 1):
                turned[i, j] += factor * Tt[k, j]
    for i in range(r):
        for j in range(i + 1):
            P[i, j] = turned[i, j] + (delta if i == j else 0.0)
            P[j, i] = P[i, j]
        for j in range(r, size):
            P[i, j] = half[i, j]
            P[j, i] = half[i, j]
    for i in range(r):
        if not 0.0 < P[i, i] < np.inf:
            _restart(P, delta)
            return


@compiled
def packed(P: Array) -> Array:
    """The lower triangle of a symmetric matrix by rows."""
    triangle = np.empty(len(P) * (len(P) + 1) // 2)
    at = 0
    for i in range(len(P)):
        for j in range(i + 1):
            triangle[at] = P[i, j]
            at += 1
    return triangle


@compiled
def unpacked(triangle: Array, size: int) -> Array:
    """The symmetric matrix of a lower triangle by rows."""
    P = np.empty((size, size))
    at = 0
    for i in range(size):
        for j in range(i + 1):
            P[i, j] = triangle[at]
            P[j, i] = triangle[at]
            at += 1
    return P

"""Extended kernel recursive least squares (Ex-KRLS): a Kalman filter with the function itself as its state.

Source: Liu, Park, Wang, Principe (2009), IEEE TSP 57(10):3801-3814, the extended KRLS for tracking, A = alpha I.
Symbols: alpha = transition, beta = forgetting, q = state_noise, lambda = ridge, a = weights, D = dictionary,
k = kernel row of x, s_i = beta^i rho(i - 1) = noise.
Model: f_i = alpha f_(i-1) + noise of variance q in every direction, y_i = f_i(x_i) + noise of variance 1; f_0 has variance
1 / lambda in every direction.
One row: z = Q k; r = s + kappa(x, x) - k'z; a = alpha [a - z e / r; e / r];
c = alpha^2 / (alpha^2 + q s); Q = c [Q + z z'/r, -z/r; -z'/r, 1/r]; s = beta s / (alpha^2 + q s).
Cost of a row: O(m d + 2 m^2), with a full budget O(m^3).  State: m (d + targets) + m (m + 1) / 2 + 2 numbers, m <= budget.
Readings: rho(0) = lambda, so rho(1) = lambda / (alpha^2 + beta lambda q); the printed rho(1) contradicts the recursion.
beta^i and rho appear only as their product, which does not underflow. Time passes with rows that have a target.
Departs from the source: s stays within 10^-9 and 10^9 of its start, with a budget above a third of it (forgetting winds
up otherwise: f would go through every row). A budget: when it is full the sample leaves without which f changes least,
argmin |a_i|^2 / [inv(K)]_ii, the newcomer included; the others take over, and what was known across their span is
forgotten. Where rounding has spoiled Q (k'Q k well above kappa(x, x)) the filter starts over. Without a budget (0) every row
is stored and jobs refuse it. A state built by hand without Q has inv(K + lambda I), that of a filter at rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.adaptive.expansion import KernelFilter, take_over
from algorithms.common import gram_factor as gram
from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, distance2, dot, largest, missing, put, remove_row
from algorithms.common.losses import foretell
from algorithms.common.protocol import Array, Basis, Outputs
from algorithms.common.workspace import Slot, packed

SPOILED = 1e-6  # of kappa(x, x): a variance of f so far below 0 is more than rounding leaves in a sound Q
SMALLEST = 1e-300  # alpha^2 at least: 0 would be divided by 0
JITTER = 1e-8  # on the diagonal of the gram matrix where its inverse decides which sample leaves
RANGE = 1e9  # of s, up and down from its start, ...
WIND_UP = 3.0  # ... with a budget down: what leaves comes back as unknown, and is not a known value


class ExkrlsState(NamedTuple):
    dictionary: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    Q: Array  # (m (m + 1) / 2,) lower triangle by rows; the covariance of f is proportional to kappa - k'Q k
    noise: float  # s, variance of a target in addition to that of f
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Exkrls(KernelFilter):
    """Regression of a function that drifts as a random walk; with a transition below 1 it also fades.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Exkrls(ridge=1.0, state_noise=0.0, transition=1.0, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.0], [99.0]], [[2.0], [2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel().round(3)  # ridge regression: (K + I)^-1 y
    (array([0., 1., 0.]), array([0.667, 0.667, 1.   ]))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("dictionary", "weights"), ("Q",))
    triangles: ClassVar[Mapping[str, str]] = {"Q": "dictionary"}
    may_be_empty: ClassVar[tuple[str, ...]] = ("Q",)

    transition: Annotated[float, "in (0, 1]"] = 1.0  # f fades by this factor a row
    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # weight of a row after n more rows is forgetting^n
    state_noise: Annotated[float, "0 or more"] = 1e-4  # variance that f gains a row
    ridge: Annotated[float, "above 0"] = 0.1  # 1 / variance of f at the start
    budget: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    def init(self, *, dim: int, targets: int, seed: int) -> ExkrlsState:
        return ExkrlsState(np.empty((0, dim)), np.empty((0, targets)), np.empty(0), self.forgetting * float(self.ridge), 0)

    def caches(self, state: ExkrlsState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        side = rows["dictionary"] if self.budget else 0
        return {"gram_factor": np.zeros((side, side))}

    def derive(self, own: Slot) -> None:
        code, dictionary = self.kernel.code, own["dictionary"]
        held = own.rows_within(self, "dictionary", self.budget)
        if own.rows("Q") == 0:
            U = np.zeros((len(dictionary), len(dictionary)))
            gram.factor(code, dictionary, 0, held, float(self.ridge), U)
            inverse, size = np.eye(held), held * (held + 1) // 2  # U^-1 U'^-1
            for column in inverse:
                gram.whiten(U, held, column)
                gram.unwhiten(U, held, column)
            own["Q"][:size] = packed(inverse)
            own.set_rows("Q", size)
        if self.budget:
            gram.factor(code, dictionary, 0, held, JITTER, own["gram_factor"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        start = self.forgetting * float(self.ridge)
        least = start / (WIND_UP if self.budget else RANGE)
        model = (float(self.transition), float(self.forgetting), float(self.state_noise), least, start * RANGE)
        _loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, model, self.budget)


@compiled
def _loop(work, slots, X, Y, learn, out, code, model, budget):
    dictionaries, all_weights, triangles, noise, seen, counts, factors = work
    room = dictionaries.shape[1]
    k, z, along = np.empty(room), np.empty(room), np.empty(Y.shape[1])
    alpha, beta, q, least, most = model
    square = max(alpha * alpha, SMALLEST)
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        dictionary, weights, Q, s = dictionaries[key], all_weights[key], triangles[key], noise[key]
        count = counts[key, 0]

        # Predict with what earlier rows taught.
        kxx, teaches = foretell(code, dictionary, weights, count, x, y, k, prediction, learn[n], seen, key)
        if not (np.isnan(kxx) or missing(y)):
            out.loss[n] = distance2(y, prediction)
        if not teaches:
            continue

        # The innovation and its variance.
        gram.triangle_product(Q, count, k, z)
        variance = kxx - dot(k[:count], z[:count])
        if variance < -SPOILED * kxx:  # rounding has spoiled Q: the filter starts over
            counts[key, :3], noise[key], out.evicted[n] = 0, most / RANGE, 1
            continue
        r = s + max(variance, 0.0)
        for t in range(y.size):
            along[t] = (y[t] - prediction[t]) / r
        if not largest(along) * max(largest(z[:count]), 1.0) < LARGEST_STEP or not r < LARGEST_STEP:
            continue

        # f moves towards y, and one step on in time.
        for i in range(count):
            for t in range(y.size):
                weights[i, t] = alpha * (weights[i, t] - z[i] * along[t])
        for t in range(y.size):
            weights[count, t] = alpha * along[t]
        put(dictionary[count], x)
        z[count] = -1.0
        keep = square / (square + q * s)
        _update(Q, count, z, r, keep)
        noise[key] = min(max(beta * s / (square + q * s), least), most)
        out.admitted[n] = 1

        # Over budget the most redundant leaves.
        if budget > 0:
            put(z, k[:count])
            U = factors[key]
            gram.whiten(U, count, z)
            gram.extend(U, count, z, kxx, JITTER)
        count += 1
        if budget > 0 and count > budget:
            leaving, _ = gram.most_redundant(U, weights, count, z)
            gram.heirs(U, leaving, count, z)
            take_over(weights, leaving, count, z)
            _project(Q, leaving, count, z)
            remove_row(dictionary, leaving, count)
            remove_row(weights, leaving, count)
            gram.remove_from_triangle(Q, leaving, count)
            count -= 1
            gram.factor(code, dictionary, leaving, count, JITTER, U)
            out.evicted[n] = 1
        counts[key, 0], counts[key, 1], counts[key, 2] = count, count, count * (count + 1) // 2


@compiled
def _update(Q, count, z, r, keep):
    """Q = keep ([Q, 0; 0, 0] + z z' / r), z having -1 in its last place."""
    at = count * (count + 1) // 2
    for j in range(count + 1):
        Q[at + j] = 0.0
    at = 0
    for i in range(count + 1):
        scale = z[i] / r
        for j in range(i + 1):
            Q[at + j] = keep * (Q[at + j] + scale * z[j])
        at += i + 1


@compiled
def _project(Q, leaving, count, along):
    """Q of the others once they express what leaves: Q_ij + c_i Q_vj + Q_iv c_j + c_i c_j Q_vv, c = along."""
    column = np.empty(count)
    for j in range(count):
        top, low = max(j, leaving), min(j, leaving)
        column[j] = Q[top * (top + 1) // 2 + low]
    own = column[leaving]
    for i in range(count):
        if i == leaving:
            continue
        at = i * (i + 1) // 2
        for j in range(i + 1):
            if j != leaving:
                Q[at + j] += along[i] * column[j] + column[i] * along[j] + along[i] * along[j] * own

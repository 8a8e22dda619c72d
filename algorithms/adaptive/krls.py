"""Kernel recursive least squares (KRLS) on an ALD dictionary: least squares of all rows so far, updated row by row.

Source: Engel, Mannor, Meir (2004), IEEE TSP 52(8):2275-2285, Fig. 1; a comparator of the SPEED paper, Fig. 7.
Symbols: nu = ald_above, lambda = forgetting, D = dictionary, alpha = weights, K = gram matrix of D, k = kernel row of x,
a = inv(K) k, delta = kappa(x, x) - k'a, P = inv(A'A) with the rows a so far in A.
Cost of a row: O(m d + 3 m^2), with an eviction O(m^3).  State: m (d + targets) + m (m + 1) / 2 + 1 numbers, m <= budget.
Departs from the source: exponential forgetting, P / lambda a row, paused while the trace of P would exceed 10^4 m; a budget.
When it is full the sample leaves without which f changes least, by |alpha_i|^2 / [inv(K)]_ii, if x would change f more
(delta e^2 / (1 + delta)^2, its step at a noise of 1), and else x counts as spanned. The others take over, so that f keeps
its values on them, and P, the covariance of those values, loses its row and column.
P is downdated by u u' with u = P a / sqrt(lambda + a'P a) and a state holds its lower triangle; without one (a state built
by hand) it is I. Without a budget (0) a state grows with the square of its dictionary: jobs refuse it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.adaptive.expansion import KernelFilter, take_over
from algorithms.common import gram_factor as gram
from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, distance2, dot, largest, missing, norm2, put, remove_row
from algorithms.common.losses import foretell
from algorithms.common.protocol import Array, Basis, Outputs
from algorithms.common.workspace import Slot

WIND_UP = 1e4  # most growth of P's trace, in units of its size


class KrlsState(NamedTuple):
    dictionary: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    P: Array  # (m (m + 1) / 2,) lower triangle by rows
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Krls(KernelFilter):
    """Least-squares regression; stores a sample only if the stored samples do not span it.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Krls(ald_above=0.1, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [9.0], [0.0]], [[2.0], [5.0], [4.0]])
    >>> out.ls_error.round(3), state.weights.ravel().round(3)  # two rows at 0: their mean
    (array([1., 1., 0.]), array([3., 5.]))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("dictionary", "weights"), ("P",))
    triangles: ClassVar[Mapping[str, str]] = {"P": "dictionary"}
    may_be_empty: ClassVar[tuple[str, ...]] = ("P",)

    ald_above: Annotated[float, "above 0"] = 0.01  # residual from which x is stored, on the scale of kappa(x, x)
    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # weight of a row after n more rows is forgetting^n
    budget: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    def init(self, *, dim: int, targets: int, seed: int) -> KrlsState:
        return KrlsState(np.empty((0, dim)), np.empty((0, targets)), np.empty(0), 0)

    def caches(self, state: KrlsState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"gram_factor": np.zeros((rows["dictionary"], rows["dictionary"]))}

    def derive(self, own: Slot) -> None:
        held = own.rows_within(self, "dictionary", self.budget)
        if own.rows("P") == 0:
            _identity(own["P"], held)
            own.set_rows("P", held * (held + 1) // 2)
        gram.factor(self.kernel.code, own["dictionary"], 0, held, 0.0, own["gram_factor"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        above, forgetting = float(self.ald_above), float(self.forgetting)
        _loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, above, forgetting, self.budget)


@compiled
def _loop(work, slots, X, Y, learn, out, code, above, forgetting, budget):
    dictionaries, all_weights, triangles, seen, counts, factors = work
    room = dictionaries.shape[1]
    k, z, a, u, along = np.empty(room), np.empty(room), np.empty(room), np.empty(room), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        dictionary, weights, P, U = dictionaries[key], all_weights[key], triangles[key], factors[key]
        count = counts[key, 0]

        # Predict with what earlier rows taught; the residual of linear dependence.
        kxx, teaches = foretell(code, dictionary, weights, count, x, y, k, prediction, learn[n], seen, key)
        if np.isnan(kxx):
            continue
        put(z, k[:count])
        gram.whiten(U, count, z)
        delta = max(kxx - norm2(z[:count]), 0.0)
        out.ls_error[n] = delta if np.isfinite(delta) else np.nan
        if not missing(y):
            out.loss[n] = distance2(y, prediction)
        if not teaches or not np.isfinite(delta):
            continue
        for t in range(y.size):
            along[t] = y[t] - prediction[t]

        # Over budget the most redundant leaves, if x is worth more.
        leaving = -1
        if budget > 0 and count >= budget and delta > above:
            leaving, loss = gram.most_redundant(U, weights, count, a)
            if not delta * norm2(along) / (1.0 + delta) ** 2 > loss:
                leaving = count
        put(a, z[:count])
        gram.unwhiten(U, count, a)

        # What the dictionary spans, or x is not worth a place: a step of least squares.
        if delta <= above or leaving == count:
            gram.triangle_product(P, count, a, u)
            total = forgetting + dot(a[:count], u[:count])
            if not total >= forgetting:  # rounding left P indefinite
                _identity(P, count)
                gram.triangle_product(P, count, a, u)
                total = forgetting + dot(a[:count], u[:count])
            put(a, u[:count])
            gram.whiten(U, count, a)
            gram.unwhiten(U, count, a)
            if largest(along) * max(largest(a[:count]), 1.0) < LARGEST_STEP * total and total < LARGEST_STEP:
                for i in range(count):
                    for t in range(y.size):
                        weights[i, t] += a[i] / total * along[t]
                _downdate(P, count, u, total, forgetting)
            continue

        # Otherwise it enters: f goes through the new sample.
        if not largest(along) * max(largest(a[:count]), 1.0) < LARGEST_STEP * min(delta, 1.0):
            continue
        for t in range(y.size):
            along[t] /= delta
        for i in range(count):
            for t in range(y.size):
                weights[i, t] -= a[i] * along[t]
        put(dictionary[count], x)
        put(weights[count], along)
        _forget(P, count, forgetting)
        at = count * (count + 1) // 2
        for j in range(count):
            P[at + j] = 0.0
        P[at + count] = 1.0
        gram.extend(U, count, z, kxx, 0.0)
        count += 1
        out.admitted[n] = 1

        if leaving >= 0:
            gram.heirs(U, leaving, count, a)
            take_over(weights, leaving, count, a)
            remove_row(dictionary, leaving, count)
            remove_row(weights, leaving, count)
            gram.remove_from_triangle(P, leaving, count)
            count -= 1
            gram.factor(code, dictionary, leaving, count, 0.0, U)
            out.evicted[n] = 1
        counts[key, 0], counts[key, 1], counts[key, 2] = count, count, count * (count + 1) // 2


@compiled
def _downdate(P, count, u, total, forgetting):
    """P = (P - u u' / total) / forgetting, forgetting as far as the limit of P allows."""
    root = np.sqrt(total)
    for i in range(count):
        u[i] /= root
    at = 0
    for i in range(count):
        for j in range(i + 1):
            P[at + j] -= u[i] * u[j]
        at += i + 1
    _forget(P, count, forgetting)


@compiled
def _forget(P, count, forgetting):
    if forgetting == 1.0:
        return
    trace = 0.0
    for i in range(count):
        trace += abs(P[i * (i + 1) // 2 + i])
    if trace <= WIND_UP * forgetting * count:
        for at in range(count * (count + 1) // 2):
            P[at] /= forgetting


@compiled
def _identity(triangle: Array, count: int) -> None:
    """The lower triangle of the identity of size `count`, by rows, in place."""
    for i in range(count):
        at = i * (i + 1) // 2
        for j in range(i):
            triangle[at + j] = 0.0
        triangle[at + i] = 1.0

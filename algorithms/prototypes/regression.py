"""Ridge regression on prototypes, row by row, that survives a change of the set.

Three forms, with eta = regress_ridge and sums over all labelled rows so far: `nystrom` min |y - f|^2 + eta |f|^2 in the
kernel's space, which is ridge regression on the whitened features z; `features` min |y - k'w|^2 + eta |w|^2 on the kernel
row k; `labels` (K_S + eta I) w = y_S on the prototypes' own labels (paper 004, Section 6). The first two keep P, the inverse
of sum v v' + eta I (v = z or k), and take a step of recursive least squares a row. When a prototype is replaced, `transfer`
turns the sums as if every earlier row lay in the span of the old set, v' = T v: the sum becomes T (sum v v') T'.
"""

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import cholesky, distance2, dot, missing, put, solve_lower, solve_lower_transposed
from algorithms.common.protocol import Array
from algorithms.prototypes import inverse
from algorithms.prototypes.turning_map import turn_rows, turn_vector

FORMS = ("none", "nystrom", "features", "labels")
NONE, NYSTROM, FEATURES, LABELS = range(4)
LARGEST_LABEL = 1e100  # beyond, a label is as good as unknown


@compiled
def predict(form: int, weights: Array, z: Array, k: Array, count: int, y: Array, prediction: Array) -> float:
    """The prediction of a row with features z and kernel row k; gives its squared loss, NaN without a label."""
    for t in range(prediction.size):
        prediction[t] = 0.0
    for i in range(count):
        value = z[i] if form == NYSTROM else k[i]
        for t in range(prediction.size):
            prediction[t] += value * weights[i, t]
    return np.nan if missing(y) else distance2(y, prediction)


@compiled
def labelled(form: int, learn: int, y: Array) -> bool:
    """The row teaches a regression."""
    if form == NONE or not learn & 2 or missing(y):
        return False
    for t in range(y.size):
        if not abs(y[t]) < LARGEST_LABEL:
            return False
    return True


@compiled
def reset(weights: Array, P: Array, ridge: float) -> None:
    """As before the first label."""
    for i in range(len(weights)):
        for t in range(weights.shape[1]):
            weights[i, t] = 0.0
    for i in range(len(P)):
        for j in range(len(P)):
            P[i, j] = 1.0 / ridge if i == j else 0.0


@compiled
def label_weights(Q: Array, labels: Array, count: int, weights: Array) -> None:
    """w = Q y of the first `count` prototypes."""
    for i in range(count):
        for t in range(weights.shape[1]):
            weights[i, t] = 0.0
        row = Q[i]
        for j in range(count):
            for t in range(weights.shape[1]):
                weights[i, t] += row[j] * labels[j, t]


@compiled
def carry_whitened(weights: Array, P: Array, ridge: float, first: int, count: int, turns: Array, kept: float) -> None:
    """P and weights under z' = T z, T the rotations `turns` with the last row times `kept`; O(m^2).

    With the last row and column of the turned P = (p, pi): the border of the sum there is -p / pi times the rest of it,
    which T scales by `kept`.
    """
    last = count - 1
    turn_rows(weights, first, count, turns)
    turn_rows(P, first, count, turns)
    for i in range(count):
        turn_vector(P[i], first, count, turns)
        for j in range(i):  # symmetric to the last bit: a state holds this half
            P[j, i] = P[i, j]
    pi = P[last, last]
    if not pi > 0.0:
        reset(weights, P, ridge)
        return
    schur = kept * kept * max(1.0 / pi - ridge, 0.0) + ridge
    scale = (kept * kept / (schur * pi) - 1.0) / pi
    p = np.empty(last)
    for i in range(last):
        p[i] = P[last, i]
    for t in range(weights.shape[1]):
        own = weights[last, t]
        weights[last, t] = kept * own / (pi * schur)
        along = (own - kept * weights[last, t]) / pi
        for i in range(last):
            weights[i, t] -= p[i] * along
    for i in range(last):
        row = P[i]
        for j in range(last):
            row[j] += scale * (p[i] * p[j])
        row[last] = kept * p[i] / (pi * schur)
        P[last, i] = row[last]
    P[last, last] = 1.0 / schur
    _check(weights, P, ridge)


@compiled
def carry_kernel_row(weights: Array, P: Array, ridge: float, slot: int, count: int, c: Array) -> None:
    """P and weights after the kernel value of `slot` (or a new one, slot = count) became c'k; O(m^3 / 6), for P^-1 c."""
    L, y, m, u = np.zeros((count, count)), np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        y[i] = c[i]
    if cholesky(P, count, 0.0, 0.0, 1e-14, L) < count:
        reset(weights, P, ridge)
        return
    solve_lower(L, count, y)
    solve_lower_transposed(L, count, y)
    for i in range(count):
        m[i] = y[i] - ridge * c[i]
    corner = dot(c[:count], m) + ridge
    wanted = np.zeros(weights.shape[1])
    for t in range(weights.shape[1]):
        for i in range(count):
            wanted[t] += y[i] * weights[i, t]
    if slot < count:
        m[slot] = 0.0
        for t in range(weights.shape[1]):
            along = weights[slot, t] / P[slot, slot]
            for i in range(count):
                weights[i, t] -= P[slot, i] * along
        schur = inverse.replace(P, count, slot, m, corner, ridge, u)
    else:
        schur = inverse.append(P, count, m, corner, ridge, u)
    for t in range(weights.shape[1]):
        for i in range(count):
            wanted[t] -= m[i] * weights[i, t]
        own = wanted[t] / schur
        for i in range(count):
            weights[i, t] += P[slot, i] * schur * own
        weights[slot, t] = own
    _check(weights, P, ridge)


@compiled
def follow_swap(form, weights, P, ridge, resets, slot, first, count, turns, kept, c):
    """After another sample took over `slot`: NYSTROM by the turns of the map, FEATURES by c, both anew if it `resets`."""
    if form != NONE and resets:
        reset(weights, P, ridge)
    elif form == NYSTROM:
        carry_whitened(weights, P, ridge, first, count, turns, kept)
    elif form == FEATURES:
        carry_kernel_row(weights, P, ridge, slot, count, c)


@compiled
def learn(form, weights, P, z, k, count, y, ridge, v, c, u, gain, along):
    """A step of recursive least squares on z or k, by the set as it is now; v, c, u, gain (budget,), along are scratch."""
    for i in range(v.size):
        v[i] = 0.0
    put(v, z[:count] if form == NYSTROM else k[:count])
    predict(form, weights, z, k, count, y, along)
    rls.learn(weights, np.zeros(y.size), P, v, y, along.copy(), c, u, gain, along, 1.0, 1.0 / ridge)


@compiled
def _check(weights: Array, P: Array, ridge: float) -> None:
    for i in range(len(P)):
        if missing(weights[i]) or not 0.0 < P[i, i] < np.inf or missing(P[i]):
            reset(weights, P, ridge)
            return

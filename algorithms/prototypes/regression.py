"""Ridge regression on prototypes, row by row, that survives a change of the set.

Three forms, with eta = regress_ridge and sums over all labelled rows so far: `nystrom` min |y - f|^2 + eta |f|^2 in the
kernel's space, which is ridge regression on the whitened features z; `features` min |y - k'w|^2 + eta |w|^2 on the kernel
row k; `labels` (K_S + eta I) w = y_S on the prototypes' own labels (BlockGreedy, Sec. 6). The first two keep P, the inverse
of sum v v' + eta I (v = z or k), and take a step of recursive least squares a row. When a prototype is replaced, `transfer`
turns the sums as if every earlier row lay in the span of the old set, v' = T v: the sum becomes T (sum v v') T'.
"""

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, own_value
from algorithms.common.linalg import distance2, dot, missing, norm2, put
from algorithms.common.protocol import LEARN_HEAD, Array
from algorithms.prototypes import inverse
from algorithms.prototypes.turning_map import turn_rows, turn_vector

FORMS = ("none", "nystrom", "features", "labels")
NONE, NYSTROM, FEATURES, LABELS = range(4)
LARGEST_LABEL = 1e100  # a larger label counts as unknown
LONGEST = 1e10  # of |v|^2 / eta: a longer row counts as one of this length, or rounding would spoil P


@compiled
def predict(form: int, weights: Array, z: Array, k: Array, count: int, y: Array, prediction: Array) -> float:
    """The prediction of a row with features z and kernel row k; gives its squared loss, NaN without a label."""
    prediction[:] = 0.0
    for i in range(count):
        value = z[i] if form == NYSTROM else k[i]
        for t in range(prediction.size):
            prediction[t] += value * weights[i, t]
    return np.nan if missing(y) else distance2(y, prediction)


@compiled
def labelled(form: int, learn: int, y: Array) -> bool:
    """The row teaches a regression."""
    if form == NONE or not learn & LEARN_HEAD or missing(y):
        return False
    for t in range(y.size):
        if not abs(y[t]) < LARGEST_LABEL:
            return False
    return True


@compiled
def reset(weights: Array, P: Array, ridge: float) -> None:
    """As before the first label."""
    weights[:] = 0.0
    for i in range(len(P)):
        for j in range(len(P)):
            P[i, j] = 1.0 / ridge if i == j else 0.0


@compiled
def label_weights(Q: Array, labels: Array, count: int, weights: Array) -> None:
    """w = Q y of the first `count` prototypes."""
    for i in range(count):
        weights[i] = 0.0
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
def carry_kernel_row(weights: Array, P: Array, ridge: float, slot: int, count: int, c: Array, u: Array) -> None:
    """P and weights after the kernel value of `slot` (or a new one, slot = count) became c'k; O(m^2), u is room to work in.

    With S = P^-1 the sum, the border of c'k is m = (S - ridge I) c, so that u = P m = c - ridge P c and its Schur complement
    is ridge (1 + c'u): nothing large cancels. The coordinate c'k enters as one more, then that of `slot` leaves.
    """
    inverse.product(P, count, c, u)
    for i in range(count):
        u[i] = c[i] - ridge * u[i]
    schur = ridge * (1.0 + max(dot(c[:count], u[:count]), 0.0))
    own, out, pivot = np.zeros(weights.shape[1]), np.zeros(count), 1.0
    for t in range(weights.shape[1]):
        for i in range(count):
            own[t] += c[i] * weights[i, t]
        own[t] *= ridge / schur
        for i in range(count):
            weights[i, t] -= u[i] * own[t]
    root, last = np.sqrt(schur), 0.0
    for i in range(count):
        u[i] /= root
    if slot < count:
        last = u[slot]
        pivot = P[slot, slot] + last * last
        if not pivot > 0.0:
            reset(weights, P, ridge)
            return
        for i in range(count):
            out[i] = (P[slot, i] + last * u[i]) / np.sqrt(pivot)
    last /= np.sqrt(pivot)
    for t in range(weights.shape[1] if slot < count else 0):
        along = weights[slot, t] / np.sqrt(pivot)
        for i in range(count):
            weights[i, t] -= out[i] * along
        own[t] += last / root * along
    for i in range(count):
        row = P[i]
        for j in range(count):
            row[j] += u[i] * u[j] - out[i] * out[j]
    for i in range(count):
        P[slot, i] = (out[i] * last - u[i]) / root
        P[i, slot] = P[slot, i]
    P[slot, slot] = (1.0 - last * last) / schur
    for t in range(weights.shape[1]):
        weights[slot, t] = own[t]
    _check(weights, P, ridge)


@compiled
def follow_swap(form, weights, P, ridge, resets, slot, first, count, turns, kept, c, u):
    """After another sample took over `slot`: NYSTROM by the turns of the map, FEATURES by c, both rebuilt if it `resets`."""
    if form != NONE and resets:
        reset(weights, P, ridge)
    elif form == NYSTROM:
        carry_whitened(weights, P, ridge, first, count, turns, kept)
    elif form == FEATURES:
        carry_kernel_row(weights, P, ridge, slot, count, c, u)


@compiled
def longest(form: int, code: Code, prototypes: Array, count: int) -> float:
    """Most |v|^2 of a row of the size of the prototypes; 0 for the forms without P."""
    if form in (NONE, LABELS):
        return 0.0
    most, total = 1.0, float(count)
    if code[0] == 2.0 or code[0] == 3.0:  # the others have kappa(x, x) = 1
        most, total = 0.0, 0.0
        for i in range(count):
            own = own_value(code, prototypes[i])
            most, total = max(most, own), total + own
    return most if form == NYSTROM else most * total


@compiled
def outgrow(form, code, prototypes, count, before, weights, P, ridge):
    """After a change of the set: where `longest` doubled, beyond what P can bear, learning begins again.

    Rows count less as `longest` grows, so that the earlier and smaller ones would outweigh all later ones.
    """
    now = longest(form, code, prototypes, count)
    if now > LONGEST * ridge and now > 2.0 * before:
        reset(weights, P, ridge)


@compiled
def learn(form, code, prototypes, weights, P, z, k, count, y, ridge, v, c, u, gain, along):
    """A step of recursive least squares on z or k, by the set as it is now; v, c, u, gain (budget,), along are scratch."""
    v[:] = 0.0
    put(v, z[:count] if form == NYSTROM else k[:count])
    predict(form, weights, z, k, count, y, along)
    error, length2 = y - along, max(norm2(v), longest(form, code, prototypes, count))
    if length2 > LONGEST * ridge:
        share = np.sqrt(LONGEST * ridge / length2)
        for i in range(v.size):
            v[i] *= share
        error *= share
    rls.learn(weights, along, P, v, error, np.zeros(y.size), c, u, gain, along.copy(), 1.0, 1.0 / ridge)


@compiled
def _check(weights: Array, P: Array, ridge: float) -> None:
    for i in range(len(P)):
        if missing(weights[i]) or not 0.0 < P[i, i] < np.inf or missing(P[i]):
            reset(weights, P, ridge)
            return

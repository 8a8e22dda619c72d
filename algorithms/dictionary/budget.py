"""Evictions from a full budget: which sample leaves, and what the others take over of its part in the atoms.

P = (K + E)^-1 over the stored samples, E = eps diag(max(1, kappa(x_i, x_i))), as a lower triangle by rows. With b_j =
-P_jv / P_vv the others span the leaving phi_v up to e = phi_v - sum b_j phi_j, and D loses e times its row of weights:
the change of D is |w_v|^2 / P_vv, its least.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import triangle_product
from algorithms.common.kernels import Code, fill_row, own_value
from algorithms.common.linalg import cholesky, dot, invert_lower, norm2, solve_lower, solve_lower_transposed
from algorithms.common.protocol import Array
from algorithms.dictionary.coding import against, rank_two

EVICTIONS = ("projected_grace", "projected", "norm", "oldest")
OLDEST = 3  # index in EVICTIONS
EPS = 1e-6
NOTHING = 0.01  # least share of the weights, squared, that is worth to be trimmed
GRACE = 5  # projected_grace never evicts the newest budget // GRACE


@compiled
def ridge_of(kxx: float) -> float:
    return EPS * max(1.0, kxx)


@compiled
def factor(code: Code, samples: Array, count: int, L: Array) -> bool:
    """L L' = K + E; False where that is out of range."""
    M = np.empty((count, count))
    for i in range(count):
        fill_row(code, samples, i + 1, samples[i], M[i])
        M[i, i] += ridge_of(M[i, i])
    return cholesky(M, count, 0.0, 0.0, 0.0, L) == count


@compiled
def inverse(L: Array, count: int, P: Array) -> None:
    """P from its factor."""
    W = np.empty((count, count))
    invert_lower(L, count, W)
    at = 0
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for t in range(i, count):
                total += W[i, t] * W[j, t]
            P[at] = total
            at += 1


@compiled
def trim(code: Code, samples: Array, weights: Array, count: int, L: Array) -> None:
    """Where samples depend on each other: what of the weights is nothing in feature space goes, w -= (K + E)^-1 E w.

    Left alone the steps of the discriminative form let it grow until rounding makes it matter.
    """
    column, gone, whole = np.empty((weights.shape[1], count)), 0.0, 0.0
    for c in range(len(column)):
        for i in range(count):
            column[c, i] = ridge_of(own_value(code, samples[i])) * weights[i, c]
            whole += weights[i, c] * weights[i, c]
        solve_lower(L, count, column[c])
        solve_lower_transposed(L, count, column[c])
        gone += norm2(column[c])
    if gone > NOTHING * whole:
        for c in range(len(column)):
            for i in range(count):
                weights[i, c] -= column[c, i]


@compiled
def extend(P: Array, count: int, k: Array, kxx: float, u: Array) -> bool:
    """P with one more sample, with the kernel row k against the others; False where rounding has spoiled it."""
    triangle_product(P, count, k, u)
    schur = kxx + ridge_of(kxx) - dot(k[:count], u[:count])
    schur = max(schur, ridge_of(kxx))  # without rounding it is not smaller
    at = 0
    for i in range(count):
        row, share = P[at : at + i + 1], u[i] / schur
        for j in range(row.size):
            row[j] += share * u[j]
        at += row.size
    row = P[at : at + count + 1]
    for i in range(count):
        row[i] = -u[i] / schur
    row[count] = 1.0 / schur
    for i in range(count):
        if not P[i * (i + 1) // 2 + i] > 0.0:
            return False
    return np.isfinite(row[count])


@compiled
def victim(rule: int, grace: int, weights: Array, P: Array, count: int) -> int:
    """The sample to leave, the first of equals; the newest `grace` stay."""
    if rule == OLDEST:
        return 0
    leaver, least = 0, np.inf
    for i in range(count - grace):
        cost = norm2(weights[i])
        if rule <= 1:
            cost /= P[i * (i + 1) // 2 + i]
        if cost < least:
            leaver, least = i, cost
    return leaver


@compiled
def hand_over(code: Code, samples: Array, weights: Array, H: Array, P: Array, v: int, count: int, b: Array) -> None:
    """The others take over what they span of sample v; H and P follow. The sample itself is left to the caller."""
    pivot = P[v * (v + 1) // 2 + v]
    for j in range(count):
        b[j] = P[j * (j + 1) // 2 + v] if j > v else P[v * (v + 1) // 2 + j]
    _shrink(P, v, count, b, pivot)

    # <phi_j, e> = E_jj b_j for the others, <phi_v, e> = 1 / P_vv - E_vv.
    row = weights[v]
    own = 1.0 / pivot - ridge_of(own_value(code, samples[v]))
    length2, t = own, np.empty(row.size)
    for c in range(row.size):
        t[c] = own * row[c]
    for j in range(count):
        if j == v:
            continue
        share = -b[j] / pivot
        rest = ridge_of(own_value(code, samples[j])) * share
        length2 -= rest * share
        other = weights[j]
        for c in range(row.size):
            t[c] += rest * other[c]
        for c in range(row.size):
            other[c] += share * row[c]
    _lose(H, row, t, length2)


@compiled
def _shrink(P, v, count, b, pivot):
    """P without sample v, P - b b' / pivot with its row and column left out."""
    to = 0
    for i in range(count):
        if i == v:
            continue
        start, share, before = i * (i + 1) // 2, b[i] / pivot, min(v, i + 1)
        old, new = P[start : start + i + 1], P[to : to + i + 1]
        for j in range(before):
            new[j] = old[j] - share * b[j]
        old, new, later = old[before + 1 :], new[before:], b[before + 1 :]
        for j in range(old.size):
            new[j] = old[j] - share * later[j]
        to += before + old.size


@compiled
def drop(code: Code, samples: Array, weights: Array, H: Array, v: int, count: int, k: Array) -> None:
    """Sample v leaves with its part of the atoms; H follows."""
    fill_row(code, samples, count, samples[v], k)
    t = np.empty(len(H))
    against(weights, k, count, t)
    _lose(H, weights[v], t, k[v])


@compiled
def _lose(H, row, t, length2):
    """H of D - e row', t = D'e, length2 = |e|^2."""
    for c in range(row.size):
        t[c] = 0.5 * length2 * row[c] - t[c]
    rank_two(H, 1.0, row, t)

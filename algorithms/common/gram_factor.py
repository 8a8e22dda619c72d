"""The gram matrix of samples that come one by one, as a triangular factor; and triangles kept by rows.

With K the gram matrix and K + ridge I = U'U, U upper, coordinate i of U'^-1 k depends on the first i + 1 samples only, so a
new sample appends a column and leaves the others alone, to the last bit. A factor is always the one made from the samples
in their order, whatever left before: a state need not store it.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row
from algorithms.common.linalg import norm2
from algorithms.common.protocol import Array

LOST = 1e-12  # a pivot this small relative to its diagonal entry is rounding noise: its coordinate stays 0


@compiled
def whiten(U: Array, count: int, k: Array) -> None:
    """k = U'^-1 k in place over the first `count`; by rows of U, four at a time, which vector instructions like."""
    whole = count - count % 4
    for j in range(0, whole, 4):
        k1, k2, k3, k4 = _corner(U, j, k)
        row1, row2, row3, row4 = U[j], U[j + 1], U[j + 2], U[j + 3]
        for t in range(np.uint64(j + 4), np.uint64(count)):  # of signed ones numba looks for negative indices
            k[t] -= row1[t] * k1 + row2[t] * k2 + row3[t] * k3 + row4[t] * k4
    for i in range(whole, count):
        row = U[i]
        k[i] = _over(k[i], row[i])
        for t in range(i + 1, count):
            k[t] -= row[t] * k[i]


@compiled
def _corner(U: Array, j: int, k: Array) -> tuple[float, float, float, float]:
    """k[j : j + 4] solved by their own corner of U: written out, for loops this short cost more than what they compute."""
    row1, row2, row3 = U[j], U[j + 1], U[j + 2]
    k1 = _over(k[j], row1[j])
    k2 = _over(k[j + 1] - row1[j + 1] * k1, row2[j + 1])
    k3 = _over(k[j + 2] - row1[j + 2] * k1 - row2[j + 2] * k2, row3[j + 2])
    k4 = _over(k[j + 3] - row1[j + 3] * k1 - row2[j + 3] * k2 - row3[j + 3] * k3, U[j + 3, j + 3])
    k[j], k[j + 1], k[j + 2], k[j + 3] = k1, k2, k3, k4
    return k1, k2, k3, k4


@compiled
def _over(value: float, pivot: float) -> float:
    return value / pivot if pivot != 0.0 else 0.0


@compiled
def unwhiten(U: Array, count: int, k: Array) -> None:
    """k = U^-1 k in place over the first `count`; after `whiten` that is (K + ridge I)^-1 k."""
    for i in range(count - 1, -1, -1):
        row = U[i]
        total = k[i]
        for t in range(i + 1, count):
            total -= row[t] * k[t]
        k[i] = _over(total, row[i])


@compiled
def extend(U: Array, count: int, z: Array, kxx: float, ridge: float) -> None:
    """Column `count` of U, from the whitened kernel row z and kappa(x, x) of the new sample."""
    pivot = kxx + ridge
    for i in range(count):
        U[i, count] = z[i]
        pivot -= z[i] * z[i]
    U[count, count] = np.sqrt(pivot) if pivot > LOST * (kxx + ridge) else 0.0


@compiled
def factor(code: Code, samples: Array, first: int, count: int, ridge: float, U: Array) -> None:
    """Columns first .. count - 1 of U, as they are when the samples come one by one; needs the columns before."""
    row = np.empty(len(samples))
    for i in range(first, count):
        fill_row(code, samples, i + 1, samples[i], row)
        kxx = row[i]
        whiten(U, i, row)
        extend(U, i, row[:i], kxx, ridge)


@compiled
def most_redundant(U: Array, weights: Array, count: int, along: Array) -> tuple[int, float]:
    """The sample without which the function sum_i weights[i] kappa(x_i, .) changes least, the others taking over.

    That is argmin |weights[i]|^2 / [K^-1]_ii, the first of equals, and that least squared change. O(count^3 / 3); `along`
    is scratch space.
    """
    redundant, least = 0, np.inf
    for i in range(count):
        inverse = _column_of_inverse(U, i, count, along)
        change = norm2(weights[i]) / inverse if inverse > 0.0 else 0.0  # without a pivot it is a copy of others
        if change < least:
            redundant, least = i, change
    return redundant, least


@compiled
def heirs(U: Array, leaving: int, count: int, along: Array) -> None:
    """along[j] = -[K^-1]_jv / [K^-1]_vv: what sample j takes over of the weight of v, which leaves (-1 at v itself)."""
    scale = _column_of_inverse(U, leaving, count, along)
    unwhiten(U, count, along)
    for j in range(count):
        along[j] = -along[j] / scale if scale > 0.0 else 0.0
    along[leaving] = -1.0


@compiled
def _column_of_inverse(U: Array, i: int, count: int, along: Array) -> float:
    """along = U'^-1 e_i; gives its squared length, [K^-1]_ii. Entries before i are 0."""
    for j in range(count):
        along[j] = 0.0
    along[i] = 1.0
    total = 0.0
    for j in range(i, count):
        row = U[j]
        along[j] = along[j] / row[j] if row[j] != 0.0 else 0.0
        for t in range(j + 1, count):
            along[t] -= row[t] * along[j]
        total += along[j] * along[j]
    return total


@compiled
def triangle_product(P: Array, count: int, z: Array, u: Array) -> None:
    """u = P z, P symmetric of size `count` as a lower triangle by rows."""
    at = 0
    for i in range(count):
        row = P[at : at + i + 1]
        total1, total2, total3, total4 = 0.0, 0.0, 0.0, 0.0
        whole = i - i % 4
        factor_i = z[i]
        for j in range(0, whole, 4):
            total1 += row[j] * z[j]
            total2 += row[j + 1] * z[j + 1]
            total3 += row[j + 2] * z[j + 2]
            total4 += row[j + 3] * z[j + 3]
        for j in range(whole, i):
            total1 += row[j] * z[j]
        for j in range(i):
            u[j] += row[j] * factor_i
        u[i] = (total1 + total2) + (total3 + total4) + row[i] * factor_i
        at += i + 1


@compiled
def remove_from_triangle(P: Array, index: int, count: int) -> None:
    """Drop row and column `index` of a symmetric matrix of size `count` kept as a lower triangle by rows."""
    to = index * (index + 1) // 2
    for i in range(index + 1, count):
        start = i * (i + 1) // 2
        for j in range(i + 1):
            if j != index:
                P[to] = P[start + j]
                to += 1

"""Small dense linear algebra as scalar loops: compiled in tenths of a second, and the same bits on every run."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array


@compiled
def distance2(a: Array, b: Array) -> float:
    """Squared Euclidean distance of two vectors, from differences; four sums that need not wait for one another."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = a.size - a.size % 4
    for i in range(0, whole, 4):
        gap = a[i] - b[i]
        first += gap * gap
        gap = a[i + 1] - b[i + 1]
        second += gap * gap
        gap = a[i + 2] - b[i + 2]
        third += gap * gap
        gap = a[i + 3] - b[i + 3]
        fourth += gap * gap
    for i in range(whole, a.size):
        gap = a[i] - b[i]
        first += gap * gap
    return (first + second) + (third + fourth)


@compiled
def dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled
def norm2(a: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * a[i]
    return total


@compiled
def missing(a: Array) -> bool:
    """True when any entry is NaN or infinite (or there is none): an unknown target, a row not to be learned from."""
    if a.size == 0:
        return True
    for i in range(a.size):
        if not np.isfinite(a[i]):
            return True
    return False


@compiled
def put(target: Array, source: Array) -> None:
    for i in range(source.size):
        target[i] = source[i]


@compiled
def remove_row(rows: Array, index: int, count: int) -> None:
    """Drop row `index` of the first `count`; the later ones move up."""
    for i in range(index, count - 1):
        for j in range(rows.shape[1]):
            rows[i, j] = rows[i + 1, j]


@compiled
def remove_at(values: Array, index: int, count: int) -> None:
    """Drop entry `index` of the first `count` of a vector; the later ones move up."""
    for i in range(index, count - 1):
        values[i] = values[i + 1]


@compiled
def remove_row_and_column(M: Array, index: int, count: int) -> None:
    """Drop row and column `index` of the leading count x count block."""
    for i in range(count - 1):
        above = i if i < index else i + 1
        for j in range(count - 1):
            M[i, j] = M[above, j if j < index else j + 1]


@compiled
def cholesky(M: Array, n: int, ridge: float, jitter: float, lost: float, R: Array) -> int:
    """Upper R with R'R = M + ridge I + jitter diag(M) over the first n rows; gives the number of pivots kept.

    A pivot that is not above `lost` times its diagonal entry is noise: its row of R becomes 0 and the solves below
    leave that coordinate at 0. Only the upper triangle of M is read, only that of R is written.
    """
    kept = n
    for i in range(n):
        for j in range(i, n):
            R[i, j] = M[i, j]
        R[i, i] += ridge + jitter * M[i, i]
    for k in range(n):
        pivot = R[k, k]
        if not pivot > lost * (M[k, k] + ridge):
            kept -= 1
            for j in range(k, n):
                R[k, j] = 0.0
            continue
        root = np.sqrt(pivot)
        R[k, k] = root
        for j in range(k + 1, n):
            R[k, j] /= root
        for i in range(k + 1, n):
            scale = R[k, i]
            for j in range(i, n):
                R[i, j] -= scale * R[k, j]
    return kept


@compiled
def solve_transposed(R: Array, n: int, b: Array) -> None:
    """b = R'^-1 b in place, R upper; a coordinate without a pivot becomes 0."""
    for i in range(n):
        if R[i, i] == 0.0:
            b[i] = 0.0
            continue
        b[i] /= R[i, i]
        scale = b[i]
        for j in range(i + 1, n):
            b[j] -= scale * R[i, j]


@compiled
def solve_upper(R: Array, n: int, b: Array) -> None:
    """b = R^-1 b in place, R upper; a coordinate without a pivot becomes 0."""
    for i in range(n - 1, -1, -1):
        if R[i, i] == 0.0:
            b[i] = 0.0
            continue
        total = b[i]
        for j in range(i + 1, n):
            total -= R[i, j] * b[j]
        b[i] = total / R[i, i]


@compiled
def invert_upper(R: Array, n: int, W: Array) -> None:
    """W = R^-1 over the first n rows, both upper; needs every pivot."""
    for i in range(n - 1, -1, -1):
        for j in range(n):
            W[i, j] = 0.0
        W[i, i] = 1.0
        for k in range(i + 1, n):
            scale = R[i, k]
            for j in range(k, n):
                W[i, j] -= scale * W[k, j]
        for j in range(i, n):
            W[i, j] /= R[i, i]

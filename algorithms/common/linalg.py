"""Small dense linear algebra as scalar loops: compiled in tenths of a second, and the same bits on every run."""

import numpy as np

from algorithms.common.compiled import compiled, compiled_in_place
from algorithms.common.protocol import Array

# Deviations of a column that count as rounding of a constant: as a share of |mean|, and the least that float32 has room for.
NO_SPREAD_RELATIVE, NO_SPREAD = 1e-10, 1e-35
LARGEST_STEP = 1e150  # a step beyond is refused: what is left of the floating-point range bounds 10^150 more of them


@compiled
def distance2(a: Array, b: Array) -> float:
    """Squared Euclidean distance of two vectors, from differences."""
    total = 0.0
    for i in range(a.size):
        gap = a[i] - b[i]
        total += gap * gap
    return total


@compiled
def distances2(rows: Array, count: int, x: Array, out: Array) -> None:
    """out[i] = distance2(rows[i], x), the same bits; four rows at a time, so that no sum waits for the one before."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        row1, row2, row3, row4 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        total1, total2, total3, total4 = 0.0, 0.0, 0.0, 0.0
        for j in range(x.size):
            gap1, gap2, gap3, gap4 = row1[j] - x[j], row2[j] - x[j], row3[j] - x[j], row4[j] - x[j]
            total1 += gap1 * gap1
            total2 += gap2 * gap2
            total3 += gap3 * gap3
            total4 += gap4 * gap4
        out[i], out[i + 1], out[i + 2], out[i + 3] = total1, total2, total3, total4
    for i in range(whole, count):
        out[i] = distance2(rows[i], x)


@compiled
def dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled
def dots(rows: Array, count: int, x: Array, out: Array) -> None:
    """out[i] = rows[i]'x, the same bits as `dot`; four rows at a time, so that no sum waits for the one before."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        row1, row2, row3, row4 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        total1, total2, total3, total4 = 0.0, 0.0, 0.0, 0.0
        for j in range(x.size):
            total1 += row1[j] * x[j]
            total2 += row2[j] * x[j]
            total3 += row3[j] * x[j]
            total4 += row4[j] * x[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = total1, total2, total3, total4
    for i in range(whole, count):
        out[i] = dot(x, rows[i])  # rows may be longer than x


@compiled
def norm2(a: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * a[i]
    return total


@compiled
def largest(a: Array) -> float:
    """max |a_i| of finite numbers, 0 for none."""
    top = 0.0
    for i in range(a.size):
        top = max(top, abs(a[i]))
    return top


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


@compiled_in_place
def add_four(row: Array, matrix: Array, at: int, numbers: Array) -> None:
    """Add four rows of a matrix times four numbers, from `at` on: in their order, so that `row` is read and written less."""
    a, b, c, d = matrix[at], matrix[at + 1], matrix[at + 2], matrix[at + 3]
    s, t, u, v = numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]
    for j in range(len(row)):
        row[j] = (((row[j] + s * a[j]) + t * b[j]) + u * c[j]) + v * d[j]


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
        row = M[i]
        if i < index:
            for j in range(index, count - 1):
                row[j] = row[j + 1]
            continue
        below = M[i + 1]
        for j in range(index):
            row[j] = below[j]
        for j in range(index, count - 1):
            row[j] = below[j + 1]


@compiled
def transposed_product(P: Array, Q: Array, n: int, rows: int, out: Array) -> None:
    """The first `rows` rows of out = P'Q, summed over the first n rows of both; four at a time."""
    whole = n - n % 4
    for i in range(rows):
        row = out[i]
        for c in range(row.size):
            row[c] = 0.0
        for j in range(0, whole, 4):
            w1, w2, w3, w4 = P[j, i], P[j + 1, i], P[j + 2, i], P[j + 3, i]
            row1, row2, row3, row4 = Q[j], Q[j + 1], Q[j + 2], Q[j + 3]
            for c in range(row.size):
                row[c] += w1 * row1[c] + w2 * row2[c] + w3 * row3[c] + w4 * row4[c]
        for j in range(whole, n):
            weight, row1 = P[j, i], Q[j]
            for c in range(row.size):
                row[c] += weight * row1[c]


@compiled
def cholesky(M: Array, n: int, ridge: float, jitter: float, lost: float, L: Array) -> int:
    """Lower L with L L' = M + ridge I + jitter diag(M) over the first n rows; gives the number of pivots kept.

    A pivot that is not above `lost` times its diagonal entry is noise: its column of L becomes 0 and the solves below
    leave that coordinate at 0. Only the lower triangle of M is read, only that of L is written.
    """
    kept, last = n, n - 1
    for j in range(n):
        row = L[j]
        start = M[j, j] + ridge
        pivot = start + jitter * M[j, j]
        # Four rows at a time, so that no sum waits for the one before; of the last four some may be the last row again.
        i1, i2, i3, i4 = min(j + 1, last), min(j + 2, last), min(j + 3, last), min(j + 4, last)
        row1, row2, row3, row4 = L[i1], L[i2], L[i3], L[i4]
        total1, total2, total3, total4 = M[i1, j], M[i2, j], M[i3, j], M[i4, j]
        for t in range(j):
            other = row[t]
            pivot -= other * other
            total1 -= row1[t] * other
            total2 -= row2[t] * other
            total3 -= row3[t] * other
            total4 -= row4[t] * other
        good = pivot > lost * start
        root = np.sqrt(pivot) if good else 0.0
        scale = 1.0 / root if good else 0.0
        kept -= not good
        row1[j], row2[j], row3[j], row4[j] = total1 * scale, total2 * scale, total3 * scale, total4 * scale
        row[j] = root
        for i in range(j + 5, n, 4):
            i2, i3, i4 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            row1, row2, row3, row4 = L[i], L[i2], L[i3], L[i4]
            total1, total2, total3, total4 = M[i, j], M[i2, j], M[i3, j], M[i4, j]
            for t in range(j):
                total1 -= row1[t] * row[t]
                total2 -= row2[t] * row[t]
                total3 -= row3[t] * row[t]
                total4 -= row4[t] * row[t]
            row1[j], row2[j], row3[j], row4[j] = total1 * scale, total2 * scale, total3 * scale, total4 * scale
    return kept


@compiled
def cholesky_twice(M: Array, n: int, ridge: float, lost: float, L: Array, lost2: float, L2: Array) -> None:
    """L L' = M + ridge I and L2 L2' = M, the same bits as `cholesky`, side by side: neither waits for its own roots."""
    last = n - 1
    for j in range(n):
        row, other = L[j], L2[j]
        start, start2 = M[j, j] + ridge, M[j, j]
        pivot, pivot2 = start, start2
        for t in range(j):
            pivot -= row[t] * row[t]
            pivot2 -= other[t] * other[t]
        good, good2 = pivot > lost * start, pivot2 > lost2 * start2
        root, root2 = np.sqrt(pivot) if good else 0.0, np.sqrt(pivot2) if good2 else 0.0
        scale, scale2 = 1.0 / root if good else 0.0, 1.0 / root2 if good2 else 0.0
        row[j], other[j] = root, root2
        for i in range(j + 1, n, 2):
            after = min(i + 1, last)  # of the last two one may be the last row again
            row1, row2, other1, other2 = L[i], L[after], L2[i], L2[after]
            total1, total2 = M[i, j], M[after, j]
            sum1, sum2 = total1, total2
            for t in range(j):
                total1 -= row1[t] * row[t]
                total2 -= row2[t] * row[t]
                sum1 -= other1[t] * other[t]
                sum2 -= other2[t] * other[t]
            row1[j], row2[j], other1[j], other2[j] = total1 * scale, total2 * scale, sum1 * scale2, sum2 * scale2


@compiled
def solve_lower(L: Array, n: int, b: Array) -> None:
    """b = L^-1 b in place; a coordinate without a pivot becomes 0."""
    for i in range(n):
        row = L[i]
        total = b[i]
        for j in range(i):
            total -= row[j] * b[j]
        b[i] = total / row[i] if row[i] != 0.0 else 0.0


@compiled
def solve_lower_transposed(L: Array, n: int, b: Array) -> None:
    """b = L'^-1 b in place; a coordinate without a pivot becomes 0."""
    for i in range(n - 1, -1, -1):
        row = L[i]
        b[i] = b[i] / row[i] if row[i] != 0.0 else 0.0
        scale = b[i]
        for j in range(i):
            b[j] -= scale * row[j]


@compiled
def invert_lower(L: Array, n: int, W: Array) -> None:
    """W = (L^-1)' over the first n rows, upper; needs every pivot. Four columns of L^-1 at a time."""
    for i in range(n):
        row = L[i]
        pivot = row[i]
        whole = i - i % 4
        for j in range(0, whole, 4):
            column1, column2, column3, column4 = W[j], W[j + 1], W[j + 2], W[j + 3]
            total1 = 0.0 - row[j] * column1[j] - row[j + 1] * column1[j + 1] - row[j + 2] * column1[j + 2]
            total2 = 0.0 - row[j + 1] * column2[j + 1] - row[j + 2] * column2[j + 2]
            total3 = 0.0 - row[j + 2] * column3[j + 2]
            total4 = 0.0
            for t in range(j + 3, i):
                total1 -= row[t] * column1[t]
                total2 -= row[t] * column2[t]
                total3 -= row[t] * column3[t]
                total4 -= row[t] * column4[t]
            column1[i], column2[i], column3[i], column4[i] = total1 / pivot, total2 / pivot, total3 / pivot, total4 / pivot
        for j in range(whole, i):
            column = W[j]
            total = 0.0
            for t in range(j, i):
                total -= row[t] * column[t]
            column[i] = total / pivot
        W[i, i] = 1.0 / pivot

"""Eigenvectors with a fixed sign and order: the one place that calls LAPACK, from compiled code or from Python.

Largest eigenvalue first; the entry of largest size in a vector is positive (the first of equals, up to rounding).
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array

CUT = 1e-10  # eigenvalues below this share of the largest count as 0


@compiled
def symmetric(M: Array, n: int) -> tuple[Array, Array]:
    """Eigenvalues (n,) and vectors (n, n), a column each, of the leading n x n block of a symmetric matrix.

    Numbers must be finite (LAPACK does not return otherwise); the caller checks.
    """
    block = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            block[i, j] = 0.5 * (M[i, j] + M[j, i])
    rising, columns = np.linalg.eigh(block)
    values, vectors = np.empty(n), np.empty((n, n))
    for c in range(n):
        from_end = n - 1 - c
        values[c] = rising[from_end]
        peak = 0
        for i in range(1, n):
            if abs(columns[i, from_end]) > abs(columns[peak, from_end]) * (1 + 1e-9):
                peak = i
        sign = -1.0 if columns[peak, from_end] < 0.0 else 1.0
        for i in range(n):
            vectors[i, c] = sign * columns[i, from_end]
    return values, vectors


@compiled
def square_root(M: Array, n: int, root: Array) -> None:
    """root = M^(1/2), the symmetric one, of the leading n x n block; negative eigenvalues count as 0."""
    values, vectors = symmetric(M, n)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for c in range(n):
                if values[c] > 0.0:
                    total += vectors[i, c] * np.sqrt(values[c]) * vectors[j, c]
            root[i, j] = total


def leading(K: Array, rank: int) -> tuple[Array, Array]:
    """Of the `rank` largest eigenvalues of a symmetric matrix those that are not 0, (k,), and their vectors (n, k)."""
    values, vectors = symmetric(K, len(K))
    kept = int((values[:rank] > CUT * values[0]).sum())
    return values[:kept], vectors[:, :kept]

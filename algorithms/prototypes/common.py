"""The feature map that prototypes define: kernel rows whitened by a triangular factor.

With K the gram matrix of the prototypes and K + ridge I = U'U, U upper, the features of x are z = U'^-1 k: coordinates of
phi(x) along the prototypes, each made orthogonal to those before it. Coordinate i depends on the first i + 1 prototypes
only, so a new prototype appends a coordinate and leaves the others alone, to the last bit.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row
from algorithms.common.linalg import norm2, put
from algorithms.common.protocol import Array

LOST = 1e-12  # a pivot this small beside its diagonal entry is rounding noise: its coordinate stays 0


@compiled
def whiten(U: Array, count: int, k: Array) -> None:
    """k = U'^-1 k in place over the first `count`; by rows of U, four at a time, which vector instructions like."""
    whole = count - count % 4
    for j in range(0, count, 4):
        last = min(j + 4, count)
        for i in range(j, last):  # the corner of these four
            row = U[i]
            k[i] = k[i] / row[i] if row[i] != 0.0 else 0.0
            for t in range(i + 1, last):
                k[t] -= row[t] * k[i]
        if j < whole:
            k1, k2, k3, k4 = k[j], k[j + 1], k[j + 2], k[j + 3]
            row1, row2, row3, row4 = U[j], U[j + 1], U[j + 2], U[j + 3]
            for t in range(last, count):
                k[t] -= row1[t] * k1 + row2[t] * k2 + row3[t] * k3 + row4[t] * k4


@compiled
def extend(U: Array, count: int, z: Array, kxx: float, ridge: float) -> None:
    """Column `count` of U, from the features z and kappa(x, x) of the new prototype."""
    pivot = kxx + ridge
    for i in range(count):
        U[i, count] = z[i]
        pivot -= z[i] * z[i]
    U[count, count] = np.sqrt(pivot) if pivot > LOST * (kxx + ridge) else 0.0


@compiled
def factor(code: Code, prototypes: Array, first: int, count: int, ridge: float, U: Array) -> None:
    """Columns first .. count - 1 of U, as they are when the prototypes come one by one; needs the columns before."""
    row = np.empty(len(prototypes))
    for i in range(first, count):
        fill_row(code, prototypes, i + 1, prototypes[i], row)
        kxx = row[i]
        whiten(U, i, row)
        extend(U, i, row[:i], kxx, ridge)


@compiled
def locate(code: Code, prototypes: Array, count: int, x: Array, kxx: float, U: Array, k: Array, features: Array) -> float:
    """Kernel row k and features of x, zeros behind the `count` prototypes; gives the ALD residual, NaN out of range."""
    fill_row(code, prototypes, count, x, k)
    put(features, k[:count])
    whiten(U, count, features)
    residual = kxx - norm2(features[:count])
    if not np.isfinite(residual):
        features[:] = np.nan
        return np.nan
    features[count:] = 0.0
    return max(residual, 0.0)

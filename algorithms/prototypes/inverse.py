"""The inverse of a gram matrix with a ridge, Q = (K + ridge I)^-1, while samples enter and take each other's places.

Each change is a border or a rank-one update, O(m^2). Products are of one vector with itself, so Q stays symmetric to the
last bit. A Schur complement is never below the ridge in exact arithmetic; rounding that says otherwise is corrected.

A border loses about 1e-16 (kappa(x, x) / ridge)^2 of the accuracy of Q where samples depend on each other. Each sample
therefore has a ridge of its own, at least `FLOOR` of its kappa(x, x). Kernels with kappa(x, x) = 1 meet it only where the
ridge is below 1e-6.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row, own_value
from algorithms.common.linalg import dot
from algorithms.common.protocol import Array

FLOOR, FLOOR_SAMPLES = 1e-6, 128  # least ridge to kappa(x, x), and how many samples it is enough for


@compiled
def ridge_of(kxx: float, ridge: float, count: int) -> float:
    """The ridge of a sample that joins `count` others."""
    return max(ridge, FLOOR * max(1.0, count / FLOOR_SAMPLES) * kxx)


@compiled
def product(Q: Array, count: int, k: Array, u: Array) -> None:
    """u = Q k over the first `count`; by rows of Q, four at a time, which vector instructions like."""
    for j in range(count):
        u[j] = 0.0
    whole = count - count % 4
    for i in range(0, whole, 4):
        k1, k2, k3, k4 = k[i], k[i + 1], k[i + 2], k[i + 3]
        row1, row2, row3, row4 = Q[i], Q[i + 1], Q[i + 2], Q[i + 3]
        for j in range(count):
            u[j] += (row1[j] * k1 + row2[j] * k2) + (row3[j] * k3 + row4[j] * k4)
    for i in range(whole, count):
        k1, row1 = k[i], Q[i]
        for j in range(count):
            u[j] += row1[j] * k1


@compiled
def append(Q: Array, count: int, k: Array, kxx: float, ridge: float, u: Array) -> float:
    """Q with one more sample, k its kernel row against the first `count`; gives the Schur complement."""
    own = ridge_of(kxx, ridge, count)
    product(Q, count, k, u)
    schur = max(kxx + own - dot(k[:count], u[:count]), own)
    _add(Q, count, count, schur, u)
    return schur


@compiled
def replace(Q: Array, count: int, slot: int, k: Array, kxx: float, ridge: float, u: Array) -> bool:
    """Q after another sample took `slot`, k (k[slot] = 0) its kernel row; False where rounding has spoiled Q."""
    if not Q[slot, slot] > 0.0:
        return False
    own = ridge_of(kxx, ridge, count)
    take_away(Q, count, slot, u)
    product(Q, count, k, u)
    schur = max(kxx + own - dot(k[:count], u[:count]), own)
    _add(Q, count, slot, schur, u)
    return np.isfinite(schur)


@compiled
def take_away(Q: Array, count: int, slot: int, r: Array) -> None:
    """Q of the matrix without row and column `slot`, which are 0 in Q then; r is room to work in."""
    root = np.sqrt(Q[slot, slot])
    for j in range(count):
        r[j] = Q[slot, j] / root
    for i in range(count):
        factor, row = r[i], Q[i]
        for j in range(count):
            row[j] -= factor * r[j]
    for j in range(count):
        Q[slot, j] = 0.0
        Q[j, slot] = 0.0


@compiled
def _add(Q: Array, count: int, slot: int, schur: float, u: Array) -> None:
    """The border of `slot`: Q + u u' / s, -u / s, 1 / s; u[slot] counts as 0. The row of `slot` is written last."""
    root = np.sqrt(schur)
    for j in range(count):
        u[j] /= root
    if slot < count:
        u[slot] = 0.0
    for i in range(count):
        factor, row = u[i], Q[i]
        for j in range(count):
            row[j] += factor * u[j]
    for j in range(count):
        Q[slot, j] = -u[j] / root
        Q[j, slot] = -u[j] / root
    Q[slot, slot] = 1.0 / schur


@compiled
def invert(code: Code, samples: Array, count: int, ridge: float, Q: Array) -> float:
    """Q of the first `count` samples, in their order; gives log det (K + ridge I)."""
    k, u, total = np.empty(len(Q)), np.empty(len(Q)), 0.0
    for i in range(count):
        fill_row(code, samples, i, samples[i], k)
        total += np.log(append(Q, i, k, own_value(code, samples[i]), ridge, u))
    return total

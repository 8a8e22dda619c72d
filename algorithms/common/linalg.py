"""Small dense linear algebra as scalar loops: compiled in tenths of a second, and the same bits on every run."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array


@compiled
def distance2(a: Array, b: Array) -> float:
    """Squared Euclidean distance of two vectors, from differences."""
    total = 0.0
    for i in range(a.size):
        gap = a[i] - b[i]
        total += gap * gap
    return total


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

"""Symmetric matrices as their lower triangle by rows: half the numbers, for states."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.common.compiled import compiled

Array = NDArray[Any]


@compiled
def packed(P: Array) -> Array:
    """The lower triangle of a symmetric matrix by rows."""
    triangle = np.empty(len(P) * (len(P) + 1) // 2)
    at = 0
    for i in range(len(P)):
        for j in range(i + 1):
            triangle[at] = P[i, j]
            at += 1
    return triangle


@compiled
def unpacked(triangle: Array, size: int) -> Array:
    """The symmetric matrix of a lower triangle by rows."""
    P = np.empty((size, size))
    at = 0
    for i in range(size):
        for j in range(i + 1):
            P[i, j] = triangle[at]
            P[j, i] = triangle[at]
            at += 1
    return P

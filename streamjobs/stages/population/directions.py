"""Fewer numbers for a person's head: combinations of all that it would see, in which people differ. `fit` learns them.

They keep no state. A head on them says what the population's head says, to rounding, and learns about as much of a person.
Its state grows with the square of their number, instead of the square of all numbers.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled_in_place
from algorithms.common.linalg import add_four
from algorithms.common.protocol import Array

JOINT = 32  # first directions of which a person's P has the covariances


def joint_of(count: int) -> int:
    """Of so many directions, those that the heads of a new population learn together; 0: all."""
    return JOINT if count - 1 > JOINT else 0


class Directions(NamedTuple):
    """From `width` numbers to `count`."""

    matrix: Array  # (width, count) of numbers that float32 has; of any where an earlier release learned them
    offset: Array  # (count,)

    def rows(self, X: Array) -> Array:
        """Of rows X (n, width) (n, count); NaN where a number is missing."""
        out = np.empty((len(X), len(self.offset)))
        _project(np.ascontiguousarray(X), *self, out)
        return out


@compiled_in_place
def _project(X, matrix, offset, out):
    for n in range(len(X)):
        row, whole = out[n], X.shape[1] - X.shape[1] % 4
        for d in range(len(row)):
            row[d] = offset[d]
        for i in range(0, whole, 4):
            add_four(row, matrix, i, X[n])
        for i in range(whole, X.shape[1]):
            for d in range(len(row)):
                row[d] += X[n, i] * matrix[i, d]

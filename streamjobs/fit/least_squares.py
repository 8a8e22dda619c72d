"""What least squares learns of rows, from sums over them: a hundredth of the time of one row after the other."""

from typing import NamedTuple

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array
from algorithms.common.workspace import packed
from algorithms.heads.rls import Rls, RlsState
from streamjobs.stages.class_counts import targets_of
from streamjobs.stages.population.directions import Directions


class Sums(NamedTuple):
    """What least squares needs of rows, the constant input last."""

    gram: Array  # (width + 1, width + 1)
    along: Array  # (width + 1, classes)
    rows: int

    def of(self, columns: Array) -> "Sums":
        """Of these inputs alone, and the constant."""
        kept = np.r_[columns, len(self.gram) - 1]
        return Sums(self.gram[np.ix_(kept, kept)], self.along[kept], self.rows)

    def through(self, directions: Directions) -> "Sums":
        """Of the rows in these directions, and the constant."""
        turned = np.vstack([directions.matrix, directions.offset])
        turned = np.hstack([turned, np.eye(len(turned))[:, -1:]])
        return Sums(turned.T @ self.gram @ turned, turned.T @ self.along, self.rows)


def sums_of(Z: Array, activity: Array, classes: int) -> Sums:
    """Z (n, width), activity (n,)."""
    A = np.hstack([Z, np.ones((len(Z), 1))])
    with ONE_THREAD:
        return Sums(A.T @ A, A.T @ targets_of(activity.astype(float), classes), len(Z))


def head_of(teacher: Rls, sums: list[Sums]) -> RlsState:
    """What `rls` learns of the rows behind the sums, in any order; with forgetting 1."""
    gram, along = np.sum([one.gram for one in sums], axis=0), np.sum([one.along for one in sums], axis=0)
    width = len(gram) if teacher.intercept else len(gram) - 1
    with ONE_THREAD:
        inverse = np.linalg.inv(gram[:width, :width] + np.eye(width) / teacher.delta)
        P = (inverse + inverse.T) / 2
        weights = P @ along[:width]
    dim = len(gram) - 1
    bias = weights[dim] if teacher.intercept else np.zeros(weights.shape[1])
    return RlsState(
        np.ascontiguousarray(weights[:dim]), np.ascontiguousarray(bias), packed(P), sum(one.rows for one in sums)
    )

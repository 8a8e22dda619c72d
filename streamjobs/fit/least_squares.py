"""What least squares learns of rows, from sums over them: a hundredth of the time of one row after the other.

Also the directions in which people differ, for [population] directions. In coordinates in which all windows together have
the same spread everywhere, the first directions are the population's weights, so that its head is kept. The next ones are
where the windows of one person at one activity leave an error that the population's head does not explain: the steps that a
head takes when it learns from a person.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common import eigen
from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array
from algorithms.common.workspace import packed
from algorithms.heads.rls import Rls, RlsState
from streamjobs.errors import ConfigError
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


def learn_directions(Z: Array, activity: Array, person: Array, count: int, ridge: float) -> Directions:
    """Of all that a head would see, Z (n, width); ridge: added to the sums of squares. Raises ConfigError."""
    classes = int(activity.max()) + 1
    if not classes <= count < Z.shape[1]:
        raise ConfigError(
            f"[population] directions: expected at least the number of activities ({classes}) and fewer than the "
            f"{Z.shape[1]} numbers that the head sees without it; got {count}."
        )
    with ONE_THREAD:
        A = np.hstack([Z, np.ones((len(Z), 1))])
        Y = targets_of(activity.astype(float), classes)
        root = np.linalg.inv(np.linalg.cholesky(A.T @ A + ridge * np.eye(A.shape[1]))).T
        weights = root.T @ (A.T @ Y)
        errors = Y - A @ (root @ weights)
        places = person.astype(np.int64) * classes + activity
        steps = np.hstack([root.T @ (A[places == one].T @ errors[places == one]) for one in np.unique(places)])
        kept = np.linalg.qr(weights)[0]
        steps -= kept @ (kept.T @ steps)
        _, vectors = eigen.symmetric(steps @ steps.T, len(steps))
        found = np.linalg.qr(np.hstack([kept, vectors]))[0][:, :count]
        whole = np.sqrt(len(Z)) * (root @ found)
    matrix = whole[:-1].astype(np.float32).astype(np.float64)  # in memory float32, which takes less time to read
    return Directions(matrix, np.ascontiguousarray(whole[-1]))

"""Learns the directions in which people differ: `[population] directions`.

In coordinates in which all windows together have the same spread everywhere, the first directions are the population's
weights, so that its head is kept. The next ones are where the windows of one person at one activity leave an error that the
population's head does not explain: the steps that a head takes when it learns from a person.
"""

import numpy as np

from algorithms.common import eigen
from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array
from streamjobs.errors import ConfigError
from streamjobs.stages.class_counts import targets_of
from streamjobs.stages.population.directions import Directions


def learn(Z: Array, activity: Array, person: Array, count: int, ridge: float) -> Directions:
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
    return Directions(np.ascontiguousarray(whole[:-1]), np.ascontiguousarray(whole[-1]))

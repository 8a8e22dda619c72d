"""Scaling as its definition says: mean and standard deviation of all earlier rows, computed again for every row."""

import numpy as np

from algorithms.common.protocol import Array


def scaled(X: Array, *, unit_norm: bool = False, freeze_after: int = 0, clip: float = 0.0) -> Array:
    """Features (n, d) of the rows of X."""
    rows = []
    for n, x in enumerate(X):
        known = X[: min(n, freeze_after) if freeze_after else n]
        if len(known) < 2:
            z = np.zeros(len(x))
        else:
            deviation = known.std(axis=0)
            z = np.where(deviation > 0, (x - known.mean(axis=0)) / np.where(deviation > 0, deviation, 1), 0)
        if clip:
            z = np.clip(z, -clip, clip)
        if unit_norm and np.linalg.norm(z) > 0:
            z = z / np.linalg.norm(z)
        rows.append(z)
    return np.array(rows)

"""USPS digits as the scripts on dictionary learning take them: two halves, 250 images a class, rows of length 1.

Images are scaled to [0, 1] and to length 1, the kernel is ((x.y + 1) / 2)^4. Rows 4649 of `half` 0 are for training.
"""

import functools
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from tests.data import dataset

KERNEL = {"name": "polynomial", "degree": 4, "offset": 0.5, "scale": 2.0}
CLASSES, EACH = 10, 250


class Digits(NamedTuple):
    X: Array  # (CLASSES, EACH, 256) for training, by class
    testX: Array  # (4649, 256)
    test: Array  # (4649,) digits


@functools.lru_cache(maxsize=1)
def _rows() -> tuple[Array, Array, Array]:
    data = dataset("usps")
    X = (data["X"].astype(float) + 1.0) / 2.0
    return X / np.linalg.norm(X, axis=1)[:, None], data["y"].astype(int), data["half"] != 0


def digits(seed: int) -> Digits:
    """250 random images of each class of one half, and the whole other half."""
    X, y, other = _rows()
    random = np.random.default_rng(seed)
    chosen = [random.permutation(np.flatnonzero((y == digit) & ~other))[:EACH] for digit in range(CLASSES)]
    return Digits(np.array([X[rows] for rows in chosen]), np.ascontiguousarray(X[other]), y[other])


def passes(rows: int, events: int, seed: int) -> Array:
    """Each row in turn, then rows at random; (events,)."""
    random = np.random.default_rng([seed, rows])
    return np.concatenate([np.arange(rows), random.integers(0, rows, max(0, events - rows))])[:events]

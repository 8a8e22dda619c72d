"""Rows whose scores resemble no known class are unknown. It keeps no state: turning it on or off changes none."""

from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array


class Rejection(NamedTuple):
    """A threshold that `fit` learned from people who were left out."""

    share: float  # most of the windows of known activities that are rejected, on average
    above: float  # a row further than this from any answer is unknown

    def unknown(self, scores: Array, chosen: Array) -> Array:
        """(n,) bool, of scores (n, classes) that decided and the columns chosen (n,), -1 none. False without scores."""
        return np.asarray(distance(scores, chosen) > self.above)


def distance(scores: Array, chosen: Array) -> Array:
    """Squared distance (n,) of scores from a certain answer: 1 for the class chosen, 0 for all others; NaN without one.

    >>> distance(np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]), np.array([1, 0, -1]))
    array([0. , 0.5, nan])
    """
    total = np.zeros(len(scores))
    for column in range(scores.shape[1]):  # column by column: the same bits, whatever rows stand beside one another
        with np.errstate(over="ignore"):
            total += (scores[:, column] - (chosen == column)) ** 2
    return np.where(chosen >= 0, total, np.nan)


def threshold(distances: Array, share: float) -> float:
    """The smallest distance of known rows (n,) that at most this share of them exceeds.

    >>> threshold(np.arange(100.0), 0.05)
    94.0
    """
    known = np.sort(distances[np.isfinite(distances)])
    return float(known[len(known) - 1 - int(share * len(known))])

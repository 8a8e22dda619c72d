"""Rows that resemble no known class are unknown. It keeps no state: turning it on or off changes none.

Three measures of how unlike the known classes a row is:

    answer    squared distance of the scores that decided from a certain answer, 1 for the class chosen and 0 for the others
    scores    squared Mahalanobis distance of those scores from what they are in the nearest class: a class that is always
              mistaken for another in the same way is known all the same
    windows   leverage of the scaled row in the n rows that taught, n x' (X'X)^-1 x: how little of them lies in its direction

With a filter, the scores are those of the head: probabilities of what goes on soon say that any answer is certain.
Each is divided by its usual value among known rows of the class chosen, and the row is unknown where the sum of the
logarithms is above a threshold. Cost of a row: O(classes^2 + width^2).
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array

MEASURES = ("answer", "scores", "windows")
OF_HEAD = ("answer of the head", "scores of the head", "windows")
ANSWER, SCORES, WINDOWS = range(len(MEASURES))


class Measures(NamedTuple):
    """What known rows of people left out look like, C classes in the order of the head's columns."""

    whitening: Array  # (C, C) of scores: s @ whitening has a covariance of 1 within the classes
    centres: Array  # (C, C) mean scores of each class, whitened
    factor: Array  # ((width + 1) (width + 2) / 2,) lower triangle F by rows, F F' = (X'X)^-1 of rows [x, 1] that taught
    usual: Array  # (3, C) of each measure by class chosen: what few known rows exceed

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return int(np.sqrt(2 * len(self.factor))) - 1


class Rejection(NamedTuple):
    """A threshold that `fit` learned from people who were left out."""

    share: float  # most of the windows of known activities that are rejected, on average
    above: float  # a row further than this from any answer is unknown; with measures: the sum of their logarithms
    measures: Measures | None = None  # None in a population's file that knows the distance from an answer alone
    of_head: bool = False  # of the head's scores, where a filter follows; older files: of those that decided

    def unknown(self, scores: Array, chosen: Array, X: Array) -> Array:
        """(n,) bool, of scores (n, classes), the columns chosen (n,), -1 none, and scaled rows X (n, width).

        False without scores.
        """
        if self.measures is None:
            return np.asarray(distance(scores, chosen) > self.above)
        return np.asarray(measured(self.measures, scores, chosen, X)[1] > self.above)


def distance(scores: Array, chosen: Array) -> Array:
    """Squared distance (n,) of scores from a certain answer: 1 for the class chosen, 0 for all others; NaN without one.

    >>> distance(np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]), np.array([1, 0, -1]))
    array([0. , 0.5, nan])
    """
    total = np.zeros(len(scores))
    for column in range(scores.shape[1]):  # column by column: the same bits for any split of the rows
        with np.errstate(over="ignore"):
            total += (scores[:, column] - (chosen == column)) ** 2
    return np.where(chosen >= 0, total, np.nan)


def measured(measures: Measures, scores: Array, chosen: Array, X: Array) -> tuple[Array, Array]:
    """The measures (n, 3) of rows and the sum of their logarithms (n,): -inf for a perfect answer, NaN without one.

    A class that the person alone has taught, a column beyond those of the measures, knows its answer only: there all three
    are the distance from it.
    """
    out, total = np.full((len(scores), len(MEASURES)), np.nan), np.full(len(scores), np.nan)
    of_own = np.full((len(MEASURES), 1), measures.usual[ANSWER].mean())
    usual = np.ascontiguousarray(np.hstack([measures.usual, of_own]))
    rows = np.ascontiguousarray(scores), np.ascontiguousarray(chosen, np.int64), np.ascontiguousarray(X)
    _loop(*rows, *measures[:3], usual, out, total)
    return out, total


def threshold(distances: Array, share: float) -> float:
    """The smallest distance of known rows (n,) that at most this share of them exceeds.

    >>> threshold(np.arange(100.0), 0.05)
    94.0
    """
    known = np.sort(distances[~np.isnan(distances)])
    return float(known[len(known) - 1 - int(share * len(known))])


@compiled
def _loop(scores, chosen, X, whitening, centres, factor, usual, out, total):
    classes, width = len(whitening), X.shape[1]
    white, along = np.empty(classes), np.empty(width + 1)
    for n in range(len(scores)):
        s = scores[n]
        if chosen[n] < 0 or missing(s):
            continue
        answer = 0.0
        for t in range(s.size):
            off = s[t] - 1.0 if t == chosen[n] else s[t]
            answer += off * off
        known = chosen[n] < classes
        out[n, 0] = out[n, 1] = out[n, 2] = answer
        if known:
            out[n, 1] = _to_nearest(s, whitening, centres, white)
            out[n, 2] = _leverage(X[n], factor, along)
        of = chosen[n] if known else classes
        total[n] = np.log(out[n, 0] / usual[0, of]) + np.log(out[n, 1] / usual[1, of]) + np.log(out[n, 2] / usual[2, of])
        if np.isnan(total[n]):  # numbers too large to be measured resemble nothing
            total[n] = np.inf


@compiled
def _to_nearest(s, whitening, centres, white):
    """Squared distance of the whitened scores to the nearest centre."""
    classes = len(whitening)
    for j in range(classes):
        white[j] = 0.0
    for i in range(classes):
        for j in range(classes):
            white[j] += s[i] * whitening[i, j]
    nearest = np.inf
    for c in range(classes):
        apart = 0.0
        for j in range(classes):
            off = white[j] - centres[c, j]
            apart += off * off
        nearest = min(nearest, apart)
    return nearest


@compiled
def _leverage(x, factor, along):
    """|F' [x, 1]|^2."""
    size, at, leverage = along.size, 0, 0.0
    for j in range(size):
        along[j] = 0.0
    for i in range(size):
        value = x[i] if i < x.size else 1.0
        for j in range(i + 1):
            along[j] += value * factor[at + j]
        at += i + 1
    for j in range(size):
        leverage += along[j] * along[j]
    return leverage

"""The measures of [head] reject, learned from windows of people who were left out."""

from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.workspace import packed
from streamjobs.stages.population.reject import MEASURES, SCORES, Measures, measured

SPREAD = 0.03  # of the scores' mean variance, added to each: classes that are never mistaken for another have none
RIDGE = 1e-6  # of a column's mean square, added to it
LEAST = 1e-12  # for what has no spread at all
USUAL = 0.95  # share of the known windows of a class that a measure's usual value is not exceeded by
BORROWED = 200  # windows of all classes that stand next to those of one
FURTHEST = 1e6  # of sums of logarithms: further is as far
_NO_FACTOR = np.zeros(1)  # of rows without a number


class Said(NamedTuple):
    """What was said of windows of people left out, and of what they are."""

    scores: Array  # (n, classes) that decided, or the head's where a filter follows
    chosen: Array  # (n,) column
    leverage: Array  # (n,) in the windows that taught
    truth: Array  # (n,) column, -1 for an activity that was not taught
    person: Array  # (n,)

    def of(self, which: Array) -> "Said":
        return Said(*(column[which] for column in self))


def factor_of(X: Array) -> Array:
    """Lower triangle by rows of F, F F' = n (A'A + ridge)^-1 for A = [X, 1], X (n, width) scaled.

    The leverage of n windows falls as 1 / n; times n it is the same for the parts of the people and for all of them.
    """
    A = np.hstack([X, np.ones((len(X), 1))])
    gram = A.T @ A
    mean = float(np.trace(gram)) / len(gram)
    gram[np.diag_indices_from(gram)] += RIDGE * (np.diag(gram) + mean) + LEAST
    inverse = np.linalg.inv(gram)
    return packed(np.linalg.cholesky(len(X) * (inverse + inverse.T) / 2))


def leverage(factor: Array, X: Array, classes: int) -> Array:
    """The third measure (n,) of scaled windows X (n, width), by the loop that a worker runs."""
    nothing, ones = np.zeros((classes, classes)), np.ones((len(MEASURES), classes))
    alone = Measures(nothing, nothing, factor, ones)
    found, _ = measured(alone, np.zeros((len(X), classes)), np.zeros(len(X), np.int64), X)
    return np.ascontiguousarray(found[:, -1])


def learn(known: Said, factor: Array = _NO_FACTOR) -> Measures:
    """Measures from known windows; factor: of the windows that taught, absent where `sums` is all they are for."""
    classes = known.scores.shape[1]
    means, scatter = np.eye(classes), np.zeros((classes, classes))  # a class without windows is where it should be
    for c in np.unique(known.truth).tolist():
        own = known.scores[known.truth == c]
        means[c] = own.mean(axis=0)
        scatter += (own - means[c]).T @ (own - means[c])
    scatter /= max(1, len(known.truth))
    scatter[np.diag_indices(classes)] += SPREAD * float(np.trace(scatter)) / classes + LEAST
    inverse = np.linalg.inv(scatter)
    whitening = np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2))
    measures = Measures(whitening, np.ascontiguousarray(means @ whitening), factor, np.ones((len(MEASURES), classes)))
    return measures._replace(usual=_usual(values(measures, known), known.chosen, classes))


def values(measures: Measures, said: Said) -> Array:
    """The measures (n, 3) of windows; their leverage is what it was in the windows that taught without their person."""
    nowhere = np.zeros((len(said.chosen), measures.width))
    found, _ = measured(measures, said.scores, said.chosen, nowhere)
    return np.column_stack([found[:, : SCORES + 1], said.leverage])


def sums(measures: Measures, said: Said) -> Array:
    """Sum of the measures' logarithms (n,), as a worker takes it."""
    with np.errstate(divide="ignore"):
        logs = np.log(values(measures, said) / measures.usual[:, said.chosen].T)
    return np.asarray(np.clip(logs.sum(axis=1), -FURTHEST, FURTHEST))


def _usual(found: Array, chosen: Array, classes: int) -> Array:
    """(3, classes) quantiles of the measures found (n, 3) by the class chosen, shrunk to those of all classes."""
    everywhere = np.quantile(found, USUAL, axis=0)
    usual = np.tile(everywhere[:, None], classes)
    for c in range(classes):
        own = found[chosen == c]
        if len(own):
            usual[:, c] = (len(own) * np.quantile(own, USUAL, axis=0) + BORROWED * everywhere) / (len(own) + BORROWED)
    return np.asarray(np.maximum(usual, LEAST))

"""Scores of people left out within a population, to choose by: scale and map are everybody's, heads are not.

A scale and a map know no labels, so they are learned once. A head is learned anew without each group of people; with a
forgetting of 1 it follows from sums over people, which takes a hundredth of the time.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN_HEAD, PREDICT_ONLY, Array
from algorithms.common.triangle import packed
from algorithms.heads.rls import Rls, RlsState
from streamjobs.fit.learning import Learned, Recipe, Start, scores_of
from streamjobs.fit.recordings import Recordings, Stream, arriving, shuffled
from streamjobs.stages.class_counts import targets_of

GROUPS = 8  # of people, each left out together


class Inner(NamedTuple):
    """A person left out: scores of the windows as they came, before anything follows the row before."""

    scores: Array  # (n, classes)
    stream: Stream
    person: int


def left_out(
    data: Recordings, recipe: Recipe, learned: Learned, Z: Array, late: int, start: Start = "gated"
) -> Iterator[Inner]:
    """Every person of the population, served by heads of the others.

    Z (n, width): what a head sees of the windows of `data`. learned: of everybody, of whom scale and map are used.
    """
    classes, teacher, people = len(data.names), recipe.teacher, np.unique(data.person)
    groups = [people[first::GROUPS] for first in range(min(GROUPS, len(people)))]
    sums = [sums_of(Z[inside], data.activity[inside], classes) for inside in (np.isin(data.person, g) for g in groups)]
    for number, group in enumerate(groups):
        others = [one for at, one in enumerate(sums) if at != number]
        if not others:
            return
        rest = learned._replace(head=head_of(teacher, others), people=len(people) - len(group))
        for person in group.tolist():
            own = shuffled(data._replace(X=Z), data.person == person, [1, person, 0], late)
            yield served(recipe, start, rest, own, person)


def served(recipe: Recipe, start: Start, learned: Learned, own: Stream, person: int) -> Inner:
    """A person by the head of the others; own: with what the head sees for windows."""
    rows, label = arriving(len(own.X), own.late)
    Y = targets_of(np.where(label, own.activity[rows], np.nan), len(learned.head.bias))
    learns = PREDICT_ONLY if start == "frozen" else LEARN_HEAD
    learn = np.where(label, learns, PREDICT_ONLY).astype(np.int8)
    return Inner(scores_of(recipe, start, learned, own.X[rows], Y, learn).prediction[~label], own, person)


class Sums(NamedTuple):
    """What least squares needs of rows, the constant input last."""

    gram: Array  # (width + 1, width + 1)
    along: Array  # (width + 1, classes)
    rows: int

    def of(self, columns: Array) -> "Sums":
        """Of these inputs alone, and the constant."""
        kept = np.r_[columns, len(self.gram) - 1]
        return Sums(self.gram[np.ix_(kept, kept)], self.along[kept], self.rows)


def sums_of(Z: Array, activity: Array, classes: int) -> Sums:
    """Z (n, width), activity (n,)."""
    A = np.hstack([Z, np.ones((len(Z), 1))])
    return Sums(A.T @ A, A.T @ targets_of(activity.astype(float), classes), len(Z))


def head_of(teacher: Rls, sums: list[Sums]) -> RlsState:
    """What `rls` learns of the rows behind the sums, in any order; with forgetting 1."""
    gram, along = np.sum([one.gram for one in sums], axis=0), np.sum([one.along for one in sums], axis=0)
    width = len(gram) if teacher.intercept else len(gram) - 1
    inverse = np.linalg.inv(gram[:width, :width] + np.eye(width) / teacher.delta)
    P = (inverse + inverse.T) / 2
    weights = P @ along[:width]
    dim = len(gram) - 1
    bias = weights[dim] if teacher.intercept else np.zeros(weights.shape[1])
    return RlsState(
        np.ascontiguousarray(weights[:dim]), np.ascontiguousarray(bias), packed(P), sum(one.rows for one in sums)
    )

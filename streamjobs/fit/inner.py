"""Scores of people left out within a population, to choose by: scale and map are everybody's, heads are not.

A scale and a map know no labels, so they are learned once. A head is learned anew without each group of people; with a
forgetting of 1 it follows from sums over people, which takes a hundredth of the time.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN_HEAD, PREDICT_ONLY, Array
from algorithms.common.triangle import packed
from algorithms.heads.rls import Rls, RlsState
from streamjobs.fit.learning import Learned, Recipe, Start, scores_of
from streamjobs.fit.recordings import Recordings, arriving, shuffled
from streamjobs.stages.class_counts import targets_of

GROUPS = 8  # of people, each left out together


class Inner(NamedTuple):
    """A person left out: scores of the windows as they came, before anything follows the row before."""

    scores: Array  # (n, classes)
    truth: Array  # (n,)
    fresh: Array  # (n,) bool: before the first label of the recording
    person: int


def left_out(
    data: Recordings,
    recipe: Recipe,
    learned: Learned,
    Z: Array,
    late: int,
    start: Start = "gated",
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Inner]:
    """Every person of the population, served by heads of the others.

    Z (n, width): what a head sees of the windows of `data`. learned: of everybody, of whom scale and map are used.
    """
    classes, teacher, people = len(data.names), recipe.teacher, np.unique(data.person)
    groups = [people[first::GROUPS] for first in range(min(GROUPS, len(people)))]
    sums = [_sums(Z[inside], data.activity[inside], classes) for inside in (np.isin(data.person, g) for g in groups)]
    for number, group in enumerate(groups):
        others = [one for at, one in enumerate(sums) if at != number]
        if not others:
            return
        rest = learned._replace(head=_head(teacher, others), people=len(people) - len(group))
        for person in group.tolist():
            own = shuffled(data._replace(X=Z), data.person == person, [1, person, 0], late)
            rows, label = arriving(len(own.X), late)
            Y = targets_of(np.where(label, own.activity[rows], np.nan), classes)
            learn = np.where(label, LEARN_HEAD, PREDICT_ONLY).astype(np.int8)
            out = scores_of(recipe, start, rest, own.X[rows], Y, learn)
            yield Inner(out.prediction[~label], own.activity, own.fresh, person)
        progress()


def _sums(Z: Array, activity: Array, classes: int) -> tuple[Array, Array, int]:
    A = np.hstack([Z, np.ones((len(Z), 1))])
    return A.T @ A, A.T @ targets_of(activity.astype(float), classes), len(Z)


def _head(teacher: Rls, sums: list[tuple[Array, Array, int]]) -> RlsState:
    """What `rls` learns of the rows behind the sums, in any order; with forgetting 1."""
    gram, along = np.sum([one[0] for one in sums], axis=0), np.sum([one[1] for one in sums], axis=0)
    width = len(gram) if teacher.intercept else len(gram) - 1
    inverse = np.linalg.inv(gram[:width, :width] + np.eye(width) / teacher.delta)
    P = (inverse + inverse.T) / 2
    weights = P @ along[:width]
    dim = len(gram) - 1
    bias = weights[dim] if teacher.intercept else np.zeros(weights.shape[1])
    return RlsState(np.ascontiguousarray(weights[:dim]), np.ascontiguousarray(bias), packed(P), sum(one[2] for one in sums))

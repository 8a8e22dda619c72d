"""Scores of people left out within a population, to choose by: scale and map are everybody's, heads are not.

A scale and a map know no labels, so they are learned once. A head is learned again without each group of people.

By these scores [head] filter is chosen. Its changes are learned by a logistic regression of whether the activity changes on
how far the scores move.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY, Array
from algorithms.common.workspace import packed, unpacked
from algorithms.heads.gated_rls import GatedRls, GatedRlsState
from streamjobs.fit.learning import Learned, Recipe, Start, scores_of, start_head
from streamjobs.fit.least_squares import head_of, sums_of
from streamjobs.fit.recordings import Recordings, Stream, arriving, shuffled
from streamjobs.stages.class_counts import targets_of
from streamjobs.stages.smoothing import Changes, Refuted, Smoothing, Transitions, count_right
from streamjobs.stages.stage import Shape

GROUPS = 8  # of people, each left out together
WINDOWS = 4  # of a person for each number that a head sees, below which all at once take less time than one by one
MOST_WINDOWS = 3000  # at once: 72 MB
SHARPNESS = (3.0, 5.0, 7.0, 9.0, 13.0, 18.0)
SWITCH = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
SHRINK = 0.1  # of the covariance of moves towards its diagonal
LEAST = 1e-9  # of a move's variance
RIDGE = 1e-3  # of the slope
STEPS = 30  # of Newton's method
BINS = 10  # of probabilities, for the calibration


class Inner(NamedTuple):
    """A person left out: scores of the windows as they came, before anything follows the row before."""

    scores: Array  # (n, classes)
    stream: Stream
    person: int
    labelled: Array  # (n, classes) of the same windows by the head of the time at which their labels come


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
    head, state = start_head(recipe, start, learned)
    few = len(own.X) < min(WINDOWS * own.X.shape[1], MOST_WINDOWS)
    if head.forgetting == 1 and few and start == "gated" and not learned.joint:
        with contextlib.suppress(np.linalg.LinAlgError):  # rounding, with a ridge next to nothing
            scores, labelled = _at_once(head, state, own)
            return Inner(scores, own, person, labelled)
    rows, label = arriving(len(own.X), own.late)
    Y = targets_of(np.where(label, own.activity[rows], np.nan), len(learned.head.bias))
    learns = PREDICT_ONLY if start == "frozen" else LEARN_HEAD
    learn = np.where(label, learns, PREDICT_ONLY).astype(np.int8)
    scores = scores_of(recipe, start, learned, own.X[rows], Y, learn).prediction
    labelled = scores[~label]
    labelled[rows[label]] = scores[label]
    return Inner(scores[~label], own, person, labelled)


def _at_once(head: GatedRls, state: GatedRlsState, own: Stream) -> tuple[Array, Array]:
    """Scores as in `Inner`, which the loop of `gated_rls` gives to rounding, without a P for each label; with forgetting 1.

    Least squares with a prior is a Gaussian process: with L L' = A P A' + I and a = L^-1 (Y - frozen scores), the first k
    labels add L[i, :k] a[:k] to the scores of row i, i >= k.
    """
    n, classes, row = len(own.X), len(state.bias), np.arange(len(own.X))
    A, Y = np.hstack([own.X, np.ones((n, int(head.intercept)))]), targets_of(own.activity.astype(float), classes)
    frozen = own.X @ state.frozen + state.frozen_bias
    errors = Y - frozen
    K = np.zeros((n + classes, n + classes))  # of which the factor reads the lower triangle
    K[n:, :n] = errors.T
    with ONE_THREAD:
        K[:n, :n] = A @ unpacked(state.P, A.shape[1]) @ A.T
        K.flat[:: n + classes + 1] += np.where(np.arange(n + classes) < n, 1.0, 1.0 + np.square(errors).sum())
        L = np.linalg.cholesky(K)  # of which `errors` become a, because the last numbers are large enough for a factor
    L, errors = L[:n, :n], L[n:, :n].T
    came = np.maximum(row - own.late, 0)  # labels before each row
    run = np.maximum.accumulate(np.where(np.diff(own.activity, prepend=-1) != 0, row, 0))  # labels before its run of labels
    counted = np.vstack([np.zeros(classes), np.maximum.accumulate(Y)]) > 0
    steps = [np.where(row < labels[:, None], L, 0.0) @ errors for labels in (came, row, run)]
    beyond, beyond_then = (
        frozen[row, (frozen + step).argmax(axis=1)] == 0.0 for step in steps[:2]
    )  # not the population's class
    adapted, labelled, held = (
        frozen + step * np.where(counted[labels] | alone[:, None], 1.0, head.unlabelled)
        for step, labels, alone in zip(steps, (came, row, run), (beyond, beyond_then, beyond_then), strict=True)
    )
    if head.gate:
        right = [(scores.argmax(axis=1) == own.activity).astype(float) for scores in (frozen, held)]
        ahead = itertools.accumulate((right[0] - right[1]).tolist(), lambda sum, one: head.discount * sum + one, initial=0.0)
        shares = 1.0 / (1.0 + np.exp(head.rate * np.array(list(ahead))))
        adapted, labelled = (
            frozen + (scores - frozen) * np.where(alone, 1.0, shares[labels])[:, None]
            for scores, labels, alone in ((adapted, came, beyond), (labelled, row, beyond_then))
        )
    return adapted, labelled


def learn_transitions(people: Sequence[Inner], switch: float = 0.0) -> Transitions:
    """The pair with the most right windows, every person counted alike; switch: the job's own, where it states one.

    Without people, as in a population of one, it is the middle pair.
    """
    if not people:
        return Transitions(sharpness=SHARPNESS[len(SHARPNESS) // 2], switch=switch or SWITCH[len(SWITCH) // 2])
    changes, chances = learn_changes(people), np.array((switch,) if switch else SWITCH)
    sizes = np.array([len(one.scores) for one in people])
    scores, activity = np.vstack([one.scores for one in people]), np.concatenate([one.stream.activity for one in people])
    person = np.repeat(np.arange(len(people)), sizes)
    right = count_right(scores, activity, person, np.array(SHARPNESS), chances, changes)
    shares = (right / sizes[:, None, None]).mean(axis=0)
    sharpness, chance = np.unravel_index(shares.argmax(), shares.shape)
    return Transitions(sharpness=SHARPNESS[sharpness], switch=float(chances[chance]), changes=changes)


def learn_changes(people: Sequence[Inner]) -> Changes | None:
    """How far scores move within an activity and where it changes; None where they do not move further there."""
    moves = np.vstack([np.diff(one.scores, axis=0) for one in people])
    changed = np.concatenate([np.diff(one.stream.activity) != 0 for one in people])
    between = np.concatenate([np.diff(one.stream.recording) != 0 for one in people])
    if not changed.any() or between.all():
        return None
    own = moves[~(changed | between)]
    covariance = own.T @ own / max(1, len(own))
    covariance = (1 - SHRINK) * covariance + SHRINK * np.diag(np.diag(covariance)) + LEAST * np.eye(len(covariance))
    whitening = np.linalg.cholesky(np.linalg.inv(covariance))
    u = np.log1p(np.square(moves @ whitening).mean(axis=1))
    A, ridge = np.column_stack([u, np.ones(len(u))]), RIDGE * np.diag([1.0, LEAST])
    weights, usual = np.zeros(2), changed.mean()
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(A @ weights)))
        slope = A.T @ (chance - changed) / len(u) + ridge @ weights
        weights -= np.linalg.solve((A.T * (chance * (1 - chance))) @ A / len(u) + ridge, slope)
    if not (np.isfinite(weights).all() and weights[0] > 0):
        return None
    offset = weights[1] - np.log(usual / (1 - usual))
    return Changes(tuple(packed(whitening).tolist()), float(weights[0]), float(offset))


def filtered(stage: Transitions | Smoothing, scores: Array) -> Array:
    """What follows the scores (n, classes) of one person's rows, in order."""
    n, classes = scores.shape
    work = stage.workspace(stage.begin(Shape(dim=1, width=1, label_width=1, targets=classes), 0))
    return stage.advance(work, np.zeros(n, np.int64), np.ascontiguousarray(scores), np.full(n, LEARN, np.int8))


def corrected(stage: Transitions, one: Inner) -> Array:
    """The same for a person, corrected by the labels that come late."""
    n, classes = one.scores.shape
    rows, label = arriving(n, one.stream.late)
    slots, codes = np.zeros(len(rows), np.int64), np.where(label, one.stream.activity[rows], np.nan)
    scores = np.where(label[:, None], one.labelled[rows], one.scores[rows])
    learn = np.where(label, LEARN_HEAD, LEARN_EXTRACTOR).astype(np.int8)
    shape, refuted = Shape(dim=1, width=1, label_width=1, targets=classes), Refuted()
    said = refuted.advance(refuted.holding(refuted.begin(shape, 0)), slots, scores, codes, learn)
    return stage.advance(stage.workspace(stage.begin(shape, 0)), slots, scores, learn, (said, codes))[~label]


def calibration_error(probability: Array, right: Array) -> float:
    """Expected calibration error: how far probabilities (n,) are from the share that is right (n,), on average over windows.

    Source: Naeini, Cooper, Hauskrecht, AAAI 2015; bins of equal width.
    """
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    gaps = np.bincount(bins, probability, BINS) - np.bincount(bins, right, BINS)
    return float(np.abs(gaps).sum() / max(1, counts.sum()))

"""What [head] filter takes from a population, chosen on people left out within it.

Changes are learned by a logistic regression of whether the activity changes on how far the scores move.
"""

from collections.abc import Sequence

import numpy as np

from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, Array
from algorithms.common.workspace import packed
from streamjobs.fit.inner import Inner
from streamjobs.fit.recordings import arriving
from streamjobs.stages.smoothing import Changes, Refuted, Smoothing, Transitions, count_right
from streamjobs.stages.stage import Shape

SHARPNESS = (3.0, 5.0, 7.0, 9.0, 13.0, 18.0)
SWITCH = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
SHRINK = 0.1  # of the covariance of moves towards its diagonal
LEAST = 1e-9  # of a move's variance
RIDGE = 1e-3  # of the slope
STEPS = 30  # of Newton's method
BINS = 10  # of probabilities, for the calibration


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

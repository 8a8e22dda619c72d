"""The two numbers of [head] filter, chosen on people left out within the population."""

import itertools
from collections.abc import Sequence

import numpy as np

from algorithms.common.protocol import LEARN, Array
from streamjobs.fit.inner import Inner
from streamjobs.stages.smoothing import Smoothing, Transitions
from streamjobs.stages.stage import Shape

SHARPNESS = (3.0, 5.0, 7.0, 9.0, 13.0, 18.0)
SWITCH = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
BINS = 10  # of probabilities, for the calibration


def learn_transitions(people: Sequence[Inner], switch: float = 0.0) -> Transitions:
    """The pair with the most right windows, every person counted alike; switch: the job's own, where it states one."""
    best, most = Transitions(sharpness=SHARPNESS[0], switch=switch or SWITCH[0]), -1.0
    for sharpness, chance in itertools.product(SHARPNESS, (switch,) if switch else SWITCH):
        stage = Transitions(sharpness=sharpness, switch=chance)
        right = float(
            np.mean([(filtered(stage, one.scores).argmax(axis=1) == one.stream.activity).mean() for one in people])
        )
        if right > most:
            best, most = stage, right
    return best


def filtered(stage: Transitions | Smoothing, scores: Array) -> Array:
    """What follows the scores (n, classes) of one person's rows, in order."""
    n, classes = scores.shape
    work = stage.workspace(stage.begin(Shape(dim=1, width=1, label_width=1, targets=classes), 0))
    return stage.advance(work, np.zeros(n, np.int64), np.ascontiguousarray(scores), np.full(n, LEARN, np.int8))


def calibration_error(probability: Array, right: Array) -> float:
    """Expected calibration error: how far probabilities (n,) are from the share that is right (n,), on average over windows.

    Source: Naeini, Cooper, Hauskrecht, AAAI 2015; bins of equal width.
    """
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    gaps = np.bincount(bins, probability, BINS) - np.bincount(bins, right, BINS)
    return float(np.abs(gaps).sum() / max(1, counts.sum()))

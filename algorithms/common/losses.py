"""Scores of stored samples, and what the losses of binary targets and of numbers say of a score.

Labels of binary targets are -1/+1; a target of 0 or below is the label -1. Several targets are problems side by side.
"""

from typing import Any, ClassVar

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import KernelLearner, fill_row, own_value
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_HEAD, Array, require

MISTAKES, HINGE, SQUARED, LOGISTIC = 0, 1, 2, 3  # MISTAKES: max(0, -y f), also with a step at y f = 0
LOSSES = {"hinge": HINGE, "squared": SQUARED, "logistic": LOGISTIC}


def check_steps(learner: Any, below: float = np.inf) -> None:
    """The settings step_size, ridge (a decay of step_size ridge a row) and loss. Raises SettingError."""
    expected = "above 0" if below == np.inf else f"above 0, below {below:.0e}".replace("e+0", "e")
    require(learner, "step_size", 0 < learner.step_size < below, expected)
    decays = learner.ridge >= 0 and learner.ridge * learner.step_size < 1
    require(learner, "ridge", decays, "0 or more and below 1 / step_size")
    require(learner, "loss", learner.loss in LOSSES, "one of " + ", ".join(LOSSES))


class LossLearner(KernelLearner, abstract=True):
    """A base, not a learner: several targets are binary problems on one set of samples or features."""

    __slots__ = ()
    binary_targets: ClassVar[bool] = True

    loss: str

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "regression" if self.loss == "squared" else "classification"


@compiled
def evaluate(k: Array, weights: Array, count: int, prediction: Array) -> bool:
    """prediction = weights' k over the first `count`; all NaN and False where that is out of range."""
    for t in range(prediction.size):
        prediction[t] = 0.0
    for i in range(count):
        for t in range(prediction.size):
            prediction[t] += k[i] * weights[i, t]
    if prediction.size and missing(prediction):
        for t in range(prediction.size):
            prediction[t] = np.nan
        return False
    return True


@compiled
def foresee(code, samples, weights, count, x, k, prediction):
    """kappa(x, x), NaN where x cannot be used, and what `evaluate` gives with the kernel row k of x."""
    kxx = np.nan if missing(x) else own_value(code, x)
    if not np.isfinite(kxx):
        return np.nan, False
    fill_row(code, samples, count, x, k)
    return kxx, evaluate(k, weights, count, prediction)


@compiled
def foretell(code, samples, weights, count, x, y, k, prediction, learn, seen, key):
    """`foresee`, and in place of its bool whether the row teaches; a row that may teach counts in `seen`."""
    kxx, within = foresee(code, samples, weights, count, x, k, prediction)
    if np.isnan(kxx) or not learn & LEARN_HEAD:
        return kxx, False
    seen[key] += 1
    return kxx, within and not missing(y)


@compiled
def side(y: float) -> float:
    """The label -1 or +1 of a binary target given as -1/+1 or 0/1."""
    return 1.0 if y > 0.0 else -1.0


@compiled
def hinge_loss(prediction: Array, y: Array) -> float:
    """Sum over the targets, each a binary problem of its own."""
    total = 0.0
    for t in range(y.size):
        total += max(0.0, 1.0 - side(y[t]) * prediction[t])
    return total


@compiled
def slope(loss: int, f: float, y: float) -> float:
    """Minus the slope of the loss at the score f, 0 where there is none to learn from; the squared loss is (y - f)^2 / 2."""
    if loss == SQUARED:
        return y - f
    margin = side(y) * f
    if loss == LOGISTIC:
        return side(y) / (1.0 + np.exp(margin))
    lacks = margin <= 0.0 if loss == MISTAKES else margin < 1.0
    return side(y) if lacks else 0.0


@compiled
def steps(loss: int, f: Array, y: Array, step_size: float, along: Array) -> float:
    """along[t] = step_size times minus the slope at f[t]; gives the sum of the losses.

    That is (y - f)^2 without the 1/2 of a squared loss, and the hinge loss of MISTAKES.
    """
    total = 0.0
    for t in range(y.size):
        along[t] = step_size * slope(loss, f[t], y[t])
        margin = side(y[t]) * f[t]
        if loss == SQUARED:
            total += (y[t] - f[t]) * (y[t] - f[t])
        elif loss == LOGISTIC:
            total += np.log1p(np.exp(-margin)) if margin > -30.0 else -margin
        else:
            total += max(0.0, 1.0 - margin)
    return total

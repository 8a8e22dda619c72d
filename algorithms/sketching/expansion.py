"""What the sketching learners share: binary targets, losses, kernel gradient steps on a buffer, steps on features.

Several targets are binary problems side by side on one buffer and one map. Labels are -1/+1; a target of 0 or below is -1.
"""

from typing import Any

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put
from algorithms.common.protocol import Array, require

HINGE, SQUARED, LOGISTIC = 0, 1, 2
LOSSES = {"hinge": HINGE, "squared": SQUARED, "logistic": LOGISTIC}
AGGRESSIVENESS = 10.0  # most a passive-aggressive step takes of the features; those close to 0 ask for any number
FAR = 1e30  # a row whose kappa(x, x) is not below teaches nothing: its square and those of sums of it stay in range


def check_steps(learner: Any) -> None:
    """The settings of step size, decay and loss."""
    require(learner, "step_size", 0 < learner.step_size < 1e6, "above 0, below 1e6")
    decays = learner.ridge >= 0 and learner.ridge * learner.step_size < 1
    require(learner, "ridge", decays, "0 or more and below 1 / step_size")
    require(learner, "loss", learner.loss in LOSSES, "one of " + ", ".join(LOSSES))


def kind_of(loss: str) -> str:
    return "regression" if loss == "squared" else "classification"


def check_rows(name: str, expected: dict[str, int], rows: dict[str, int]) -> None:
    """Raise ValueError at the first field whose rows are not the expected ones."""
    for field, wanted in expected.items():
        if rows[field] != wanted:
            raise ValueError(f"{name}: expected {wanted} rows of {field} in such a state, got {rows[field]}.")


@compiled
def side(y: float) -> float:
    """The label -1 or +1 of a target given as -1/+1 or 0/1."""
    return 1.0 if y > 0.0 else -1.0


@compiled
def products(v: Array, M: Array, count: int, out: Array) -> bool:
    """out = M'v over the first `count` rows; all NaN and False where that is out of range."""
    for t in range(out.size):
        out[t] = 0.0
    for i in range(count):
        for t in range(out.size):
            out[t] += v[i] * M[i, t]
    if out.size and missing(out):
        for t in range(out.size):
            out[t] = np.nan
        return False
    return True


@compiled
def slope(loss: int, f: float, y: float) -> float:
    """Minus the slope of the loss at the score f, 0 where a hinge loss is 0. The squared loss is (y - f)^2 / 2."""
    if loss == SQUARED:
        return y - f
    margin = side(y) * f
    if loss == HINGE:
        return side(y) if margin < 1.0 else 0.0
    return side(y) / (1.0 + np.exp(margin))


@compiled
def steps(loss: int, f: Array, y: Array, step_size: float, along: Array) -> float:
    """along[t] = step_size times minus the slope at f[t]; gives the sum of the losses, the squared ones without the 1/2."""
    total = 0.0
    for t in range(y.size):
        along[t] = step_size * slope(loss, f[t], y[t])
        margin = side(y[t]) * f[t]
        if loss == SQUARED:
            total += (y[t] - f[t]) * (y[t] - f[t])
        elif loss == HINGE:
            total += max(0.0, 1.0 - margin)
        else:
            total += np.log1p(np.exp(-margin)) if margin > -30.0 else -margin
    return total


@compiled
def learn_step(loss: int, features: Array, scores: Array, y: Array, rates: Array, ridge: float, w: Array) -> None:
    """w = (1 - eta ridge) w - eta loss' features for each column of w; rate 0: passive-aggressive, for hinge losses.

    Columns are rates by targets. A step out of range is not taken.
    """
    length2, top = norm2(features), max(1.0, largest(features))
    for c in range(scores.size):
        rate, wanted = rates[c // y.size], y[c % y.size]
        step = slope(loss, scores[c], wanted)
        if rate > 0.0:
            step *= rate
        elif step != 0.0:
            step *= min(AGGRESSIVENESS, (1.0 - side(wanted) * scores[c]) / length2)
        if abs(step) * top < LARGEST_STEP:
            for i in range(features.size):
                w[i, c] = (1.0 - rate * ridge) * w[i, c] + step * features[i]


@compiled
def buffer_step(support: Array, weights: Array, count: int, x: Array, keep: float, along: Array) -> bool:
    """Kernel gradient step: what is stored decays, and x enters unless its loss has no slope; True where it did."""
    for i in range(count):
        for t in range(along.size):
            weights[i, t] *= keep
    if largest(along) == 0.0:
        return False
    put(support[count], x)
    put(weights[count], along)
    return True

"""Scaling: every column brought to mean 0 and variance 1 by what the key's earlier rows taught.

Source: Welford (1962), running mean and sum of squared deviations.
Symbols: M_k = mean, S_k = squares, k = seen.
Cost of a row: O(d).  State: 2 d + 1 numbers.
Readings: the variance is that of the rows so far (divided by their number). A column without spread - the first rows, a
constant column - scales to 0; spread below 10^-10 of the column's mean is rounding and counts as none.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE, largest, missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Learner, Outputs


class ScalingState(NamedTuple):
    mean: Array  # (dim,)
    squares: Array  # (dim,) sum of squared deviations from the mean
    seen: int  # rows learned; a frozen scale stops counting


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Learner):
    """Features are x in standard deviations from the mean; then, if set, clipped and scaled to length 1.

    >>> learner = Scaling()
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[1.0], [3.0], [4.0]])
    >>> out.features.ravel(), state.mean.round(3)
    (array([0., 0., 2.]), array([2.667]))
    """

    method: Literal["standard", "none"] = "standard"  # none: only clip and unit_norm
    unit_norm: bool = False  # bring every scaled x to length 1; a zero stays zero
    freeze_after: Annotated[int, "0 or more"] = 0  # rows after which mean and variance stand still; 0: never
    clip: Annotated[float, "0 or more"] = 0.0  # cut scaled values at +-clip; 0: off

    def width_for(self, dim: int) -> int:
        return dim

    def init(self, *, dim: int, targets: int, seed: int) -> ScalingState:
        return ScalingState(np.zeros(dim), np.zeros(dim), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        standard = self.method == "standard"
        _loop(work.arrays, slots, X, learn, out.features, standard, self.unit_norm, self.freeze_after, self.clip)


@compiled
def _loop(work, slots, X, learn, features, standard, unit_norm, freeze_after, clip):
    all_mean, all_squares, seen, _ = work
    for n in range(len(X)):
        key, x = slots[n], X[n]
        mean, squares, scaled = all_mean[key], all_squares[key], features[n]
        if missing(x):
            continue

        # Scale with what earlier rows taught.
        for i in range(x.size):
            scaled[i] = _standardised(x[i], mean[i], squares[i], seen[key]) if standard else x[i]
            if clip > 0.0:
                scaled[i] = min(max(scaled[i], -clip), clip)
        if unit_norm:
            _to_unit_length(scaled)
        if missing(scaled):  # x is so far out that its distance is NaN
            scaled[: x.size] = np.nan

        # Learn, unless the scale is frozen or would leave the finite numbers.
        if (
            learn[n] & LEARN_EXTRACTOR
            and (freeze_after == 0 or seen[key] < freeze_after)
            and _finite_after(x, mean, squares)
        ):
            seen[key] += 1
            for i in range(x.size):
                gap = x[i] - mean[i]
                mean[i] += gap / seen[key]
                squares[i] += gap * (x[i] - mean[i])


@compiled
def _standardised(x, mean, squares, seen):
    deviation = np.sqrt(squares / max(seen, 1))
    if not deviation > max(NO_SPREAD, NO_SPREAD_RELATIVE * abs(mean)):
        return 0.0
    return (x - mean) / deviation


@compiled
def _to_unit_length(scaled):
    """By the largest entry first, so that no square overflows."""
    top = largest(scaled)
    if top == 0.0:
        return
    total = 0.0
    for i in range(scaled.size):
        total += (scaled[i] / top) ** 2
    length = np.sqrt(total)
    for i in range(scaled.size):
        scaled[i] = scaled[i] / top / length


@compiled
def _finite_after(x, mean, squares):
    for i in range(x.size):
        gap = x[i] - mean[i]
        if not np.isfinite(squares[i] + gap * gap):
            return False
    return True

"""A watched number in deviations of its key's own: what `standardise = true` puts before a detector with thresholds.

A detector then has one more state field, `scale`, behind its others; without the setting it has none. Mean and deviation
are those of the rows before this one. After MEMORY rows old ones fade, so a level that lasts becomes the usual one.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, unknown
from algorithms.common.workspace import Workspace
from algorithms.drift.report import AFTER, BEFORE

MEAN, VARIANCE, ROWS, SCALE = 0, 1, 2, 3  # columns of `scale`, and how many
MEMORY = 1000  # rows that mean and deviation go back
NO_SPREAD, NO_SPREAD_RELATIVE = 1e-12, 1e-10  # deviations up to this, or this share of |mean|: the number stands still
FARTHEST = 1e150  # largest |x|: squares stay finite


def fresh() -> Array:
    """The scale of a key that has seen nothing."""
    return np.zeros(SCALE)


def demands(work: Workspace, slots: Array) -> Iterator[Demand]:
    scale = work["scale"][slots]
    rows = scale[:, ROWS]
    yield Demand(
        "scale", "mean, variance and a count of rows", (scale[:, VARIANCE] >= 0) & (rows >= 0) & (rows == rows.round())
    )


class Unit(NamedTuple):
    """What one is, in deviations of the watched number, and whether its mean becomes 0."""

    deviations: float = 1.0
    centred: bool = True

    def run(
        self, loop: Callable[..., None], work: Any, slots: Array, X: Array, learn: Array, features: Array, *settings: Any
    ) -> None:
        """The detector's loop on X (n, 1) in this unit. The workspace has the scales before its counts."""
        *own, scales, counts = work
        scaled, back = self._standardised(scales, slots, X, learn)
        loop((*own, counts), slots, scaled, learn, features, *settings)
        for column in (BEFORE, AFTER):  # the means that it reports, back in units of the watched number
            features[:, column] = back[:, 0] + back[:, 1] * features[:, column]

    def _standardised(self, scales: Array, slots: Array, X: Array, learn: Array) -> tuple[Array, Array]:
        """X (n, 1) in this unit, and by row (n, 2) what leads back: its zero and its size. Learns what `learn` allows.

        Values without a scale yet are 0.
        """
        scaled, back = unknown(X.shape), unknown((len(X), 2))
        _standardise(scales, slots, X, learn, self.deviations, self.centred, scaled, back)
        return scaled, back

    def mean_of(self, scale: Array, mean: float) -> float:
        """A mean of standardised values back in units of the watched number, by the newest scale."""
        zero = scale[MEAN] if self.centred else 0.0
        return float(zero + mean * self.deviations * np.sqrt(scale[VARIANCE]))


@compiled
def _standardise(scales, slots, X, learn, deviations, centred, scaled, back):
    for n in range(len(X)):
        scale, x = scales[slots[n]], X[n, 0]
        if not np.isfinite(x):
            continue
        x = min(max(x, -FARTHEST), FARTHEST)
        mean, deviation = scale[MEAN], np.sqrt(scale[VARIANCE])
        zero = mean if centred else 0.0
        stands_still = not deviation > max(NO_SPREAD, NO_SPREAD_RELATIVE * abs(mean))
        scaled[n, 0] = 0.0 if stands_still else (x - zero) / (deviations * deviation)
        back[n, 0], back[n, 1] = zero, deviations * deviation
        if learn[n] & LEARN_EXTRACTOR:
            scale[ROWS] += 1.0
            rate = max(1.0 / scale[ROWS], 1.0 / MEMORY)
            gap = x - mean
            scale[MEAN] += rate * gap
            scale[VARIANCE] = (1.0 - rate) * (scale[VARIANCE] + rate * gap * gap)

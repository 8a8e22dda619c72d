"""What is normal for a detector, learned from other people: how rows differ while a person continues the same activity.

It keeps no state. Rows are scaled as the population's, and projected so that two rows of the same recording differ by about
one deviation in every direction, the directions being those in which recordings differ most. A detector with the limit 1
keeps the stated number, which `fit` has counted on people who were left out.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array

DIRECTIONS = 20  # of a projection; the last ones are 0 where rows are shorter
CLIP = 5.0  # deviations at which scaled rows are cut


class PopulationReference(NamedTuple):
    """Of rows of `width` numbers."""

    rows_between: float  # from one false alarm of a key to the next, on average at least
    mean: Array  # (width,) of all rows
    spread: Array  # (width,) their deviation, above 0
    projection: Array  # (width, DIRECTIONS)

    def rows(self, X: Array) -> Array:
        """(n, DIRECTIONS + width) of rows X (n, width): projected, and behind that as they are; NaN where one is missing."""
        out = np.empty((len(X), DIRECTIONS + X.shape[1]))
        _project(np.ascontiguousarray(X), *self[1:], out)
        return out


@compiled
def _project(X, mean, spread, projection, out):
    directions = projection.shape[1]
    for n in range(len(X)):
        for d in range(directions):
            out[n, d] = 0.0
        for i in range(X.shape[1]):
            scaled = (X[n, i] - mean[i]) / spread[i]
            if scaled > CLIP:  # not min and max: what is missing stays so
                scaled = CLIP
            elif scaled < -CLIP:
                scaled = -CLIP
            out[n, directions + i] = X[n, i]
            for d in range(directions):
                out[n, d] += scaled * projection[i, d]

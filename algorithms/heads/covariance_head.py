"""What linear heads with a covariance matrix P share: a state holds its lower triangle, a workspace the whole of it.

Whole it takes twice the memory, but its rows are what vector instructions want.
"""

from collections.abc import Mapping
from typing import Any

from algorithms.common.protocol import Learner


class CovarianceHead(Learner, abstract=True):
    """A base, not a learner: its subclasses have states with `weights (dim, targets)` and `P`, lower triangle by rows."""

    __slots__ = ()
    intercept: bool  # a constant input besides the features

    def dim(self, state: Any) -> int:
        return len(state.weights)

    def targets(self, state: Any) -> int:
        return int(state.weights.shape[1])

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"P": len(state.weights) + self.intercept}

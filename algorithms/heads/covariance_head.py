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

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"P": len(state.weights) + self.intercept}

"""What linear heads with a covariance matrix P share: a state holds its lower triangle, a workspace the whole of it.

Whole it takes twice the memory, but its rows are what vector instructions want.
"""

from typing import Any

from algorithms.common.protocol import Learner, Workspace
from algorithms.common.rls import packed, unpacked


class CovarianceHead(Learner, abstract=True):
    """A base, not a learner: its subclasses have states with `weights (dim, targets)` and `P`, lower triangle by rows."""

    __slots__ = ()
    intercept: bool  # a constant input besides the features

    def dim(self, state: Any) -> int:
        return len(state.weights)

    def targets(self, state: Any) -> int:
        return int(state.weights.shape[1])

    def workspace(self, state: Any, *, slots: int = 1, extra: int = 0) -> Workspace:
        return Learner.workspace(self, self._with_whole_P(state), slots=slots, extra=extra)

    def load(self, work: Any, slot: int, state: Any) -> None:
        Learner.load(self, work, slot, self._with_whole_P(state))

    def save(self, work: Any, slot: int, like: Any) -> Any:
        state = Learner.save(self, work, slot, like)
        return state._replace(P=packed(state.P))

    def _with_whole_P(self, state: Any) -> Any:
        """Raises ValueError where the triangle does not belong to this many inputs."""
        n = len(state.weights) + self.intercept
        if state.P.shape != (n * (n + 1) // 2,):
            name, expected = type(self).__name__, f"P of {n * (n + 1) // 2} numbers ({n} inputs)"
            raise ValueError(f"{name}: expected {expected}, got shape {state.P.shape}.")
        return state._replace(P=unpacked(state.P, n))

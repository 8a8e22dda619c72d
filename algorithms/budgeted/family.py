"""What the budgeted learners share: scores f_t(x) = sum_i weights[i, t] kappa(support[i], x), and how they are stored.

Several targets are binary problems side by side on one support: a sample is stored where any of them asks for it, with
weight 0 for the others. Labels are -1/+1; a target of 0 or below is the label -1.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing, remove_row
from algorithms.common.losses import hinge_loss
from algorithms.common.protocol import Array, Learner
from algorithms.common.workspace import Slot


class SupportState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    seen: int  # rows so far


class SupportLearner(Learner, abstract=True):
    """Samples and their weights, (m, dim) and (m, targets), oldest first; no learner itself."""

    __slots__ = ()
    kind: ClassVar[str] = "classification"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "weights"),)
    binary_targets: ClassVar[bool] = True  # several targets are binary problems on one support

    @property
    def most(self) -> int:
        """Most stored samples; 0: unlimited."""
        return int(getattr(self, "budget", 0) or getattr(self, "max_terms", 0))

    def init(self, *, dim: int, targets: int, seed: int) -> Any:
        return SupportState(*state_arrays(dim, targets), 0)

    def room(self, field: str) -> int | None:
        return self.most or None

    def derive(self, own: Slot) -> None:
        own.rows_within(self, "support", self.most, limit="limit")


@compiled
def hinge_losses(prediction: Array, y: Array) -> float:
    """The hinge loss, which the mistake-driven ones report too; NaN where a target is unknown."""
    return np.nan if missing(y) else hinge_loss(prediction, y)


@compiled
def drop(support: Array, weights: Array, leaving: int, count: int) -> int:
    """Remove a sample; gives how many are left."""
    remove_row(support, leaving, count)
    remove_row(weights, leaving, count)
    return count - 1


@compiled
def scale(weights: Array, count: int, t: int, by: float) -> None:
    for i in range(count):
        weights[i, t] *= by


def state_arrays(dim: int, targets: int) -> tuple[Any, Any]:
    """No samples, and no weights."""
    return np.empty((0, dim)), np.empty((0, targets))

"""What projectron and projectron_pp share besides their loop: the factor of the gram matrix, derived from the samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from algorithms.budgeted.family import SupportLearner
from algorithms.budgeted.projection_loop import projection_loop
from algorithms.common.gram_factor import factor
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Basis, Outputs, State, require
from algorithms.common.workspace import Slot


class ProjectionLearner(SupportLearner, abstract=True):
    """A base, not a learner. Its subclasses state the settings."""

    __slots__ = ()
    kernel: Kernel
    budget: int

    def __post_init__(self) -> None:
        require(self, "budget", self.budget >= 1, "1 or more")

    @property
    def caution(self) -> float:
        """U of the margin rule; negative: mistakes alone teach."""
        return -1.0

    def caches(self, state: State, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"gram_factor": np.zeros((rows["support"], rows["support"]))}

    def derive(self, own: Slot) -> None:
        self.check_most(own)
        factor(self.kernel.code, own["support"], 0, own.rows("support"), 0.0, own["gram_factor"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        projection_loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.budget, self.caution)

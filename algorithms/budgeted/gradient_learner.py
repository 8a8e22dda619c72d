"""What kogd and norma share: their settings' checks and one step of the loop."""

from typing import Any

from algorithms.budgeted.family import SupportLearner
from algorithms.budgeted.gradient_loop import OLDEST, Rule, gradient_loop
from algorithms.common.kernels import Kernel
from algorithms.common.losses import LOSSES, check_steps, kind_of
from algorithms.common.protocol import Array, Basis, Outputs, require


class GradientLearner(SupportLearner, abstract=True):
    """A base, not a learner: every sample with a loss is stored, the oldest leaves. Its subclasses state the settings."""

    __slots__ = ()
    kernel: Kernel
    step_size: float
    ridge: float
    loss: str
    max_terms: int

    def __post_init__(self) -> None:
        check_steps(self)
        require(self, "max_terms", self.max_terms >= 0, "0 or more")

    @property
    def kind(self) -> str:  # type: ignore[override]
        return kind_of(self.loss)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, counts = work
        step_size, keep = float(self.step_size), 1.0 - self.step_size * self.ridge
        rule = Rule(LOSSES[self.loss], step_size, keep, self.max_terms, OLDEST, False, 0.0)
        gradient_loop(support, weights, seen, seen, counts, slots, X, Y, learn, out, self.kernel.code, rule)

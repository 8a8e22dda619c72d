"""Least mean squares (LMS): a linear model moved along each row's error.

Source: Widrow, Hoff (1960); with the ridge of the OK-FEB paper, Section VII (regularised LMS).
Symbols: mu = step_size, lambda = ridge, w = weights.
Cost of a row: O(d targets).  State: (d + 1) targets + 1 numbers.
Departs from the source: a step that would leave the finite numbers is not taken.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from algorithms.common.protocol import require
from algorithms.heads.linear import LMS, LinearHead, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Lms(LinearHead):
    """Linear regression by stochastic gradient steps; stable while step_size |x|^2 < 2.

    >>> learner = Lms(step_size=0.5)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0., 1.]), array([1.5]))
    """

    kind: ClassVar[str] = "regression"

    step_size: Annotated[float, "above 0"] = 0.005  # mu, of a step along the gradient
    ridge: float = 0.0  # 0 to 1 / step_size; shrinks the weights by step_size * ridge a row
    intercept: bool = False  # a constant input besides the features

    def check(self) -> None:
        require(self, "ridge", 0 <= self.ridge * self.step_size <= 1, "0 to 1 / step_size")

    @property
    def rule(self) -> Rule:
        return Rule(LMS, float(self.step_size), float(self.ridge), self.intercept)

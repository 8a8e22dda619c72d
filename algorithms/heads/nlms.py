"""Normalised least mean squares (NLMS): LMS with each step measured by the length of its input.

Source: Haykin, Adaptive Filter Theory, the epsilon-NLMS algorithm.
Symbols: mu = step_size, epsilon = ridge, w = weights.
Cost of a row: O(d targets).  State: (d + 1) targets numbers.
Departs from the source: a step that would leave the finite numbers is not taken; an input of zeros moves nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from algorithms.common.protocol import require
from algorithms.heads.linear import NLMS, LinearHead, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Nlms(LinearHead):
    """Linear regression; a step removes the share `step_size` of a row's error, at any scale of x.

    >>> learner = Nlms(step_size=0.5, ridge=0.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [10.0]], [[2.0], [20.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([ 0., 10.]), array([1.5]))
    """

    name: ClassVar[str] = "nlms"
    persisted_name: ClassVar[str] = "Nlms"
    kind: ClassVar[str] = "regression"

    step_size: float = 0.1  # in (0, 2)
    ridge: float = 1e-6  # 0 or more; added to |x|^2
    intercept: bool = False  # a constant input besides the features

    def __post_init__(self) -> None:
        require(self, "step_size", 0 < self.step_size < 2, "in (0, 2)")
        require(self, "ridge", 0 <= self.ridge < np.inf, "0 or more")

    @property
    def rule(self) -> Rule:
        return Rule(NLMS, float(self.step_size), float(self.ridge), self.intercept)

"""Normalised least mean squares (NLMS): LMS with each step measured by the length of its input.

Source: Haykin, Adaptive Filter Theory, the epsilon-NLMS algorithm.
Symbols: mu = step_size, epsilon = ridge, w = weights.
Cost of a row: O(d targets).  State: (d + 1) targets + 1 numbers.
Departs from the source: a step that would leave the finite numbers is not taken; an input of zeros moves nothing.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from algorithms.heads.linear import NLMS, LinearHead, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Nlms(LinearHead):
    """Linear regression; a step removes the share `step_size` of a row's error, at any scale of x.

    >>> learner = Nlms(step_size=0.5, ridge=0.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [10.0]], [[2.0], [20.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([ 0., 10.]), array([1.5]))
    """

    kind: ClassVar[str] = "regression"

    step_size: Annotated[float, "in (0, 2)"] = 0.1  # mu; with 1 and ridge 0 the new weights fit the row
    ridge: Annotated[float, "0 or more"] = 1e-6  # added to |x|^2
    intercept: bool = False  # a constant input besides the features

    @property
    def rule(self) -> Rule:
        return Rule(NLMS, float(self.step_size), float(self.ridge), self.intercept)

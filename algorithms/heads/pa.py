"""Passive-aggressive (PA-I): the smallest step that gives each row its margin, up to a limit.

Source: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (2006), Fig. 1, PA-I.
Symbols: C = aggressiveness, tau = along, l = hinge loss, w = weights, y = -1/+1.
Cost of a row: O(d targets).  State: (d + 1) targets + 1 numbers.
Readings: several targets are binary problems side by side (one against the rest); a target of 0 or below is the label -1;
an input of zeros moves nothing.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from algorithms.heads.linear import PA, LinearHead, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Pa(LinearHead):
    """Linear classification with a hinge loss; the class is the target with the highest score, or a single score's sign.

    >>> learner = Pa(aggressiveness=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[2.0], [2.0]], [[1.0], [1.0]])
    >>> out.prediction.ravel(), out.loss, state.weights.ravel()
    (array([0., 1.]), array([1., 0.]), array([0.5]))
    """

    kind: ClassVar[str] = "classification"
    binary_targets: ClassVar[bool] = True  # several targets are binary problems side by side

    aggressiveness: Annotated[float, "above 0"] = 0.03  # most weight of one row
    intercept: bool = False  # a constant input besides the features

    @property
    def rule(self) -> Rule:
        return Rule(PA, float(self.aggressiveness), 0.0, self.intercept)

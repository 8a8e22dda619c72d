"""Logistic regression by stochastic gradient steps: softmax over several targets, sigmoid for one.

Source: Bishop, Pattern Recognition and Machine Learning, 4.3.4, as one gradient step a row.
Symbols: eta = step_size, lambda = ridge, w = weights, p = chances.
Cost of a row: O(d targets).  State: (d + 1) targets + 1 numbers.
Readings: the class of a row is its largest target (first on ties), of a single target +1 above 0, else -1; the
prediction is the score w'x, the log-odds up to a constant, so that 0 parts the two classes of a single target.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from algorithms.common.protocol import require
from algorithms.heads.linear import LOGISTIC, LinearHead, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic(LinearHead):
    """Linear classification with a log loss; the class is the target with the highest score, or a single score's sign.

    >>> learner = Logistic(step_size=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=2, seed=0), [[1.0], [1.0]], [[1, 0], [1, 0]])
    >>> out.loss.round(3), state.weights.round(3).ravel()
    (array([0.693, 0.313]), array([ 0.769, -0.769]))
    """

    kind: ClassVar[str] = "classification"

    step_size: Annotated[float, "above 0"] = 0.05  # mu, of a step along the gradient
    ridge: float = 0.0  # 0 to 1 / step_size; shrinks the weights by step_size * ridge a row
    intercept: bool = False  # a constant input besides the features

    def check(self) -> None:
        require(self, "ridge", 0 <= self.ridge * self.step_size <= 1, "0 to 1 / step_size")

    @property
    def rule(self) -> Rule:
        return Rule(LOGISTIC, float(self.step_size), float(self.ridge), self.intercept)

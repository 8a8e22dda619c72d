"""Pegasos: a linear support vector machine by stochastic subgradients of step 1 / (ridge t).

Source: Shalev-Shwartz, Singer, Srebro, Cotter (2011), Fig. 1 (one example a step, no projection), as in the OK-FEB paper.
Symbols: lambda = 1/C = ridge, t = steps, w = weights, y = -1/+1.
Cost of a row: O(d targets).  State: (d + 1) targets + 2 numbers.
Readings: w shrinks by 1 - 1/t first and the margin is that of the shrunk w; t counts rows with a target; several targets
are binary problems side by side (one against the rest) that share t; a target of 0 or below is the label -1.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from algorithms.heads.linear import PEGASOS, LinearHead, Rule


class PegasosState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    steps: int  # rows learned from, t
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegasos(LinearHead):
    """Linear classification with a hinge loss; the class is the target with the highest score, or a single score's sign.

    >>> learner = Pegasos(ridge=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [-1.0]], [[1.0], [-1.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([ 0., -1.]), array([1.]))
    """

    kind: ClassVar[str] = "classification"
    binary_targets: ClassVar[bool] = True  # several targets are binary problems side by side

    ridge: Annotated[float, "above 0"] = 0.03  # 1/C
    intercept: bool = False  # a constant input besides the features

    def init(self, *, dim: int, targets: int, seed: int) -> PegasosState:
        return PegasosState(np.zeros((dim, targets)), np.zeros(targets), 0, 0)

    @property
    def rule(self) -> Rule:
        return Rule(PEGASOS, 0.0, float(self.ridge), self.intercept)

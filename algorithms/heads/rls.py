"""Recursive least squares (RLS): the exact ridge regression of all rows so far, kept row by row.

Source: Haykin, Adaptive Filter Theory, the RLS algorithm; used by the SPEED paper as its strongest head.
Symbols: lambda = forgetting, delta = delta (P starts at delta I, so the ridge is 1 / delta), w = weights, P = inverse
correlation matrix of the inputs.
Cost of a row: O(d^2 + d targets); n = d, one more with the intercept.  State: (d + 1) targets + n (n + 1) / 2 + 1 numbers.
Departs from the source: P is downdated by u u' with u = P z / sqrt(lambda + z'P z), so it is symmetric to the last bit and
a state holds its lower triangle only; forgetting pauses while the trace of P would exceed 10^4 times that of its start
(an idle input would otherwise increase it without limit); if rounding leaves P indefinite, it starts again from delta I.
When the basis of the features turns by T, P becomes T P T' + delta (I - T T').
"""

from dataclasses import dataclass
from typing import Annotated

from algorithms.heads.covariance_head import CovarianceState, LeastSquares, Model

RlsState = CovarianceState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rls(LeastSquares):
    """Least squares for several targets at once; the targets share the inverse correlation matrix P.

    >>> learner = Rls(delta=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.round(3).ravel()  # of 2 rows and a ridge of 1: 4 / (2 + 1)
    (array([0., 1.]), array([1.333]))
    """

    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # weight of a row after n more rows is forgetting^n
    delta: Annotated[float, "above 0, at most 1e12"] = 100.0  # above 0; start of P, 1 / ridge
    intercept: bool = False  # a constant input besides the features

    @property
    def model(self) -> Model:
        return Model(1.0, float(self.forgetting), 0.0, float(self.delta))

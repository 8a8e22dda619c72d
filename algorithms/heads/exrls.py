"""Extended recursive least squares (Ex-RLS): a Kalman filter with the weights of a linear model as its state.

Source: Haykin, Sayed, Zeidler, Yee, Wei (1997), IEEE TSP 45(5):1118-1128, A = alpha I; the SPEED paper, Algorithm 3.
Symbols: alpha = transition, lambda = forgetting, q = state_noise, delta = 1 / ridge (P starts at delta I), w = weights.
One row: g = P x / (lambda + x'P x); w = alpha (w + g e); P = alpha^2 (P - g x'P) / lambda + lambda q I.
Cost of a row: O(n^2 + d targets); n = d, one more with the intercept.  State: (d + 1) targets + n (n + 1) / 2 + 1 numbers.
Readings: that paper prints A twice, in the gain and around P; this is the consistent Kalman form. Time passes with rows that
have a target.
Departs from the source: as `rls`: P is symmetric to the last bit and half of it stored; forgetting and noise pause while the
trace of P would exceed 10^4 times that of its start; a turning basis takes P to T P T' + delta (I - T T').
"""

from dataclasses import dataclass
from typing import Annotated

from algorithms.heads.covariance_head import LeastSquares, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Exrls(LeastSquares):
    """Least squares for weights that drift as a random walk; with a transition below 1 they also fade.

    >>> learner = Exrls(ridge=1.0, state_noise=1.0)
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0], [1.0]], [[2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()  # gains 1/2, then 1.5 / 2.5
    (array([0., 1.]), array([1.6]))
    """

    transition: Annotated[float, "in (0, 1]"] = 1.0  # the weights fade by this factor a row
    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # weight of a row after n more rows is forgetting^n
    state_noise: Annotated[float, "0 or more"] = 1e-4  # variance that each weight gains a row
    ridge: Annotated[float, "1e-12 or more"] = 0.01  # above 0; 1 / variance of each weight at the start
    intercept: bool = False  # a constant input besides the features

    @property
    def delta(self) -> float:  # type: ignore[override]
        return 1.0 / self.ridge

    @property
    def model(self) -> Model:
        return Model(float(self.transition), float(self.forgetting), float(self.state_noise), self.delta)

"""NORMA: gradient descent on the regularised risk. Its decay makes old samples safe to drop.

Source: Kivinen, Smola, Williamson (2004), IEEE TSP 52(8):2165-2176, Fig. 1 with truncation. Compared in the OK-FEB paper.
Symbols: eta = step_size, lambda = ridge, alpha = weights, tau = max_terms.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m = rows with a loss so far or max_terms.
Readings: margin 1, no offset, a constant step. Losses are max(0, 1 - y f), (y - f)^2 / 2 (`loss` has no 1/2)
or log(1 + exp(-y f)); squared and logistic ones store every row. f decays by 1 - eta lambda at every row with a target, so
a sample that leaves after tau others has at most (1 - eta lambda)^tau of its weight. squared is stable while step_size
kappa(x, x) < 2. Without max_terms (0) the state grows with the stream: jobs refuse it.
"""

from dataclasses import dataclass
from typing import Annotated

from algorithms.budgeted.family import GradientLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class Norma(GradientLearner):
    """Classification, or with loss = "squared" regression, by gradient steps on a regularised risk.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Norma(step_size=0.5, ridge=1.0, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.0], [0.0]], [[1.0], [1.0], [1.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0.  , 0.5 , 0.75]), array([0.125, 0.25 , 0.5  ]))
    """

    ridge: float = 1e-3  # 0 or more, below 1 / step_size; f decays by step_size ridge a row
    max_terms: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

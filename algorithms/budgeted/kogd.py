"""Kernelised online gradient descent (KOGD, OGD): every sample with a loss is stored, weighted by its step.

Source: Kivinen, Smola, Williamson (2001), NIPS 14; OGD of the OK-FEB paper (Fig. 9); stage one of SkeGD.
Symbols: eta = step_size, lambda = ridge, alpha = weights, tau = max_terms.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m = rows with a loss so far or max_terms.
Readings: losses are max(0, 1 - y f), (y - f)^2 / 2 (reported as `loss` without the 1/2) or log(1 + exp(-y f)); squared and
logistic ones store every row. f decays by 1 - eta lambda at every row with a target. squared is stable while step_size
kappa(x, x) < 2.
Departs from the source: with max_terms the oldest sample leaves. Without (0) the state grows with the stream: jobs refuse
it.
"""

from dataclasses import dataclass
from typing import Annotated

from algorithms.budgeted.family import GradientLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class Kogd(GradientLearner):
    """Classification, or with loss = "squared" regression, by gradient steps in the kernel's space.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Kogd(step_size=0.5, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.0], [0.0]], [[1.0], [1.0], [1.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0. , 0.5, 1. ]), array([0.5, 0.5]))
    """

    max_terms: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

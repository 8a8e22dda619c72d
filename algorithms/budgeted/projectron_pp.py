"""Projectron++: the projectron that also learns from rows on the right side with too small a margin.

Source: Orabona, Keshet, Caputo (2009), JMLR 10:2643-2666, Algorithm 3, with the margin rule of the toolboxes LIBOL and
LSOKL. A comparator of the SkeGD paper.
Symbols: B = budget, alpha = weights, K = gram matrix of the support, k = kernel row of x, d* = K^-1 k, l = 1 - y f, delta =
kappa(x, x) - k'd*, U = (1/4) sqrt((B + 1) / log(B + 1)).
Cost of a row: O(m (d + targets)), of one that teaches O(m^2) more.  State: m (d + targets) + 1 numbers, m <= budget; the
factor of K is derived from them.
Readings: mistakes as in `projectron`. At 0 < l < 1, tau = min(l / k'd*, 1) and alpha += y tau d* if beta = tau (2 l - tau
k'd* - 2 U sqrt(delta)) >= 0, also while there is room; such a row is never stored.
"""

import math
from dataclasses import dataclass

from algorithms.budgeted.family import ProjectionLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectronPp(ProjectionLearner):
    """Classification as by `projectron`, but also learns rows with a small margin, within the span of the stored samples.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = ProjectronPp(budget=1, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [1.0], [0.0]], [[1.0], [-1.0], [1.0]])
    >>> out.prediction.ravel().round(3), state.weights.ravel().round(3)  # the third is right, but too close
    (array([0.   , 0.607, 0.393]), array([1.]))
    """

    @property
    def caution(self) -> float:
        """U of the margin rule."""
        return 0.25 * math.sqrt((self.budget + 1) / math.log(self.budget + 1))

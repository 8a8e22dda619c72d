"""Budgeted online gradient descent (BOGD): a random sample leaves, the others make up for it in the mean.

Source: Zhao, Wang, Wu, Jin, Hoi (2012), ICML, Algorithm 1 (uniform sampling), as in the toolbox LSOKL. A comparator of
the OK-FEB and SkeGD papers.
Symbols: B = budget, eta = step_size, lambda = ridge, gamma = coefficient_cap, alpha = weights.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 2 numbers, m <= budget.
Readings: f decays by 1 - eta lambda at every row with a target. When full, one of B leaves, each with the same chance (a
function of (seed, seen)), and the others grow by B / (B - 1); x is stored with -eta loss', and if then the largest |alpha|
is above eta gamma, all shrink together until it is not. Losses are max(0, 1 - y f), (y - f)^2 / 2 (reported as `loss`
without the 1/2) or log(1 + exp(-y f)). The cap limits squared losses too: an error larger than gamma counts as one of gamma.
Departs from the toolbox: its regression drops the oldest without making up for it; here all losses have the rule of the
paper.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from algorithms.budgeted.family import ANY, GradientLearner, Rule, gradient_loop
from algorithms.common.losses import LOSSES
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Bogd(GradientLearner):
    """Classification, or with loss = "squared" regression, by gradient steps on a random part of the samples.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Bogd(budget=2, step_size=0.5, ridge=0.0, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [5.0], [9.0]], [[1.0], [-1.0], [1.0]])
    >>> out.evicted, abs(state.weights.ravel())  # what stays makes up for what left
    (array([0, 0, 1], dtype=int8), array([1. , 0.5]))
    """

    draws: ClassVar[bool] = True

    ridge: float = 1e-4  # 0 or more, below 1 / step_size; f decays by step_size ridge a row
    budget: Annotated[int, "2 or more"] = 100  # most stored samples
    coefficient_cap: Annotated[float, "1 or more"] = 10.0  # most |weight|, in steps

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, seeds, counts = work
        step_size, keep = float(self.step_size), 1.0 - self.step_size * self.ridge
        rule = Rule(LOSSES[self.loss], step_size, keep, self.budget, ANY, True, self.coefficient_cap * step_size)
        gradient_loop(support, weights, seen, seeds, counts, slots, X, Y, learn, out, self.kernel.code, rule)

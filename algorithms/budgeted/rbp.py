"""Randomized budget perceptron (RBP): a kernel perceptron that drops a random sample once it is full.

Source: Cavallanti, Cesa-Bianchi, Gentile (2007), Machine Learning 69(2):143-167, Fig. 3. A comparator of the SkeGD paper.
Symbols: B = budget, alpha = weights.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 2 numbers, m <= budget.
Readings: a score of 0 is a mistake. One of the B stored samples leaves, each with the same chance, before the mistake is
stored; the draw is a function of (seed, seen), so a replay repeats it. `loss` is the hinge loss, steps go by mistakes alone.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from algorithms.budgeted.family import ANY, Rule, SupportLearner, gradient_loop
from algorithms.common.losses import MISTAKES
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rbp(SupportLearner):
    """Classification by a sum over the rows with a wrong prediction; if the budget is full, a random row is removed.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Rbp(budget=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [5.0], [9.0]], [[1.0], [-1.0], [1.0]])
    >>> out.evicted, state.weights.ravel().size
    (array([0, 0, 1], dtype=int8), 2)
    """

    draws: ClassVar[bool] = True

    budget: Annotated[int, "1 or more"] = 100  # most stored samples

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, seeds, counts = work
        rule = Rule(MISTAKES, 1.0, 1.0, self.budget, ANY, False, 0.0)
        gradient_loop(support, weights, seen, seeds, counts, slots, X, Y, learn, out, self.kernel.code, rule)

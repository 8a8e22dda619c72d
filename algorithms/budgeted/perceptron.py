"""Kernel perceptron: every mistake is stored, with its label as weight.

Source: Rosenblatt (1958); with kernels Freund, Schapire (1999), Machine Learning 37(3):277-296. A comparator of the OK-FEB
and SkeGD papers.
Symbols: alpha = weights, tau = max_terms.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m = mistakes so far or max_terms.
Readings: a score of 0 is a mistake (y f <= 0), so that the first row is stored. `loss` is the hinge loss, for comparison
with the others; steps go by mistakes alone.
Departs from the source: with max_terms the oldest sample leaves. Without (0) the state grows with the mistakes: jobs refuse
it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from algorithms.budgeted.family import OLDEST, Rule, SupportLearner, gradient_loop
from algorithms.common.losses import MISTAKES
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Perceptron(SupportLearner):
    """Classification by a sum over the rows with a wrong prediction; the prediction is a score, the class its sign.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Perceptron(kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.1], [9.0]], [[1.0], [1.0], [-1.0]])
    >>> out.prediction.ravel().round(3), state.weights.ravel()
    (array([0.   , 0.995, 0.   ]), array([ 1., -1.]))
    """

    max_terms: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, counts = work
        rule = Rule(MISTAKES, 1.0, 1.0, self.max_terms, OLDEST, False, 0.0)
        gradient_loop(support, weights, seen, seen, counts, slots, X, Y, learn, out, self.kernel.code, rule)

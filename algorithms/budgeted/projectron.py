"""Projectron: once full, a mistake is projected onto the stored samples instead of stored.

Source: Orabona, Keshet, Caputo (2009), JMLR 10:2643-2666, Algorithm 2, on a budget as in the toolboxes LIBOL and LSOKL. A
comparator of the OK-FEB and SkeGD papers.
Symbols: B = budget, alpha = weights, K = gram matrix of the support, k = kernel row of x, d* = K^-1 k.
Cost of a row: O(m (d + targets)), of a mistake O(m^2) more.  State: m (d + targets) + 1 numbers, m <= budget; the factor of
K is derived from them.
Readings: a score of 0 is a mistake. While there is room mistakes are stored, whatever their distance to the span (no
threshold eta); the support never changes afterwards. A mistake that the support spans to 1e-12 of kappa(x, x), a repeated
row say, is projected even while there is room, which is the same function; the toolboxes divide by 0 there. `loss` is the
hinge loss, steps go by mistakes alone.
"""

from dataclasses import dataclass

from algorithms.budgeted.family import ProjectionLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class Projectron(ProjectionLearner):
    """Classification by a perceptron; when the budget is full it learns only within the span of the stored samples.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Projectron(budget=1, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [1.0]], [[1.0], [-1.0]])
    >>> state.support.ravel(), state.weights.ravel().round(3)  # 1 - exp(-1/2)
    (array([0.]), array([0.393]))
    """

"""Forgetron, self-tuned: all weights shrink before the oldest sample leaves, so that it can do little damage.

Source: Dekel, Shalev-Shwartz, Singer (2008), SIAM J. Comput. 37(5):1342-1372, Fig. 3; the toolboxes LIBOL and LSOKL. A
comparator of the OK-FEB and SkeGD papers.
Symbols: B = budget, alpha = weights, sigma = |alpha_1| of the oldest, mu = sign(alpha_1) f(x_1) with the newcomer in f, M =
mistakes, Q = spent, phi = shrink.
Cost of a row: O(m (d + targets)), of a mistake when full twice that.
State: m (d + targets) + 2 targets + 1 numbers, m <= budget.
Readings: a score of 0 is a mistake. Removal after shrinking by phi does the damage Psi = sigma^2 phi^2 kappa(x_1, x_1) +
2 sigma phi (1 - phi mu); phi is the largest number in [0, 1] up to which Q + Psi <= 15/32 M. `loss` is the hinge loss, steps
go by mistakes alone. Of several targets each has its own M, Q and phi.
Departs from the toolboxes: they take kappa = 1, and where the quadratic in phi opens downwards its larger root, which is
above 1 and makes the weights grow (151-fold once on svmguide3, where both err on 35.2 %).
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from algorithms.budgeted.family import SupportLearner, drop, hinge_losses, scale, state_arrays
from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row
from algorithms.common.linalg import put
from algorithms.common.losses import foretell, side
from algorithms.common.protocol import Array, Basis, Outputs

SHARE = 15.0 / 32.0  # of a mistake's worth that removals may cost


class ForgetronState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets), -1 to 1
    mistakes: Array  # (targets,) M
    spent: Array  # (targets,) Q, damage so far
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetron(SupportLearner):
    """Classification by a sum over the rows with a wrong prediction; their weights fade, and the oldest row is removed.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Forgetron(budget=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [5.0], [9.0]], [[1.0], [-1.0], [1.0]])
    >>> out.evicted, state.support.ravel(), state.weights.ravel().round(3), state.spent.round(3)
    (array([0, 0, 1], dtype=int8), array([5., 9.]), array([-1.,  1.]), array([1.]))
    """

    budget: Annotated[int, "1 or more"] = 100  # most stored samples

    def init(self, *, dim: int, targets: int, seed: int) -> ForgetronState:
        return ForgetronState(*state_arrays(dim, targets), np.zeros(targets, np.int64), np.zeros(targets), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.budget)


@compiled
def _loop(work, slots, X, Y, learn, out, code, budget):
    support_of, weights_of, all_mistakes, all_spent, seen, counts = work
    room = support_of.shape[1]
    k, row, along = np.empty(room), np.empty(room), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        support, weights, count = support_of[key], weights_of[key], counts[key, 0]
        mistakes, spent = all_mistakes[key], all_spent[key]

        # Predict with what earlier rows taught.
        kxx, teaches = foretell(code, support, weights, count, x, y, k, prediction, learn[n], seen, key)
        if not np.isnan(kxx):
            out.loss[n] = hinge_losses(prediction, y)
        if not teaches:
            continue
        wrong = False
        for t in range(y.size):
            label = side(y[t])
            mistaken = label * prediction[t] <= 0.0
            along[t] = label if mistaken else 0.0
            wrong = wrong or mistaken
        if not wrong:
            continue

        # A mistake: x enters. If that is one too many, all weights shrink and the oldest leaves.
        if count == budget:
            fill_row(code, support, count, support[0], row)
        for t in range(y.size):
            mistakes[t] += along[t] != 0.0
            if count == budget:
                f = along[t] * k[0]
                for i in range(count):
                    f += row[i] * weights[i, t]
                by = _fade(abs(weights[0, t]), np.sign(weights[0, t]) * f, row[0], mistakes[t], spent, t)
                scale(weights, count, t, by)
                along[t] *= by
        if count == budget:
            count = drop(support, weights, 0, count)
            out.evicted[n] = 1
        put(support[count], x)
        put(weights[count], along)
        out.admitted[n] = 1
        counts[key, 0], counts[key, 1] = count + 1, count + 1


@compiled
def _fade(sigma, mu, own, mistakes, spent, t):
    """The largest phi in [0, 1] up to which the damage a phi^2 + b phi stays within what is left; notes the damage."""
    a, b = sigma * sigma * own - 2.0 * sigma * mu, 2.0 * sigma
    left = max(SHARE * mistakes - spent[t], 0.0)
    if not np.isfinite(a):
        return 0.0
    phi = 1.0
    if a + b > left:
        phi = min(2.0 * left / (b + np.sqrt(max(b * b + 4.0 * a * left, 0.0))), 1.0)
    spent[t] += (a * phi + b) * phi
    return phi

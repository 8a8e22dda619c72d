"""Budgeted passive-aggressive, simple (BPA-S): the newcomer takes over from the one sample that costs least to give up.

Source: Wang, Vucetic (2010), AISTATS, PMLR 9:908-915, the simple version; the toolboxes LIBOL and LSOKL. A comparator of
the OK-FEB and SkeGD papers.
Symbols: B = budget, C = aggressiveness, alpha = weights, tau = the step, beta = the newcomer's weight.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m <= budget.
Readings: where y f < 1, tau = min(C, (1 - y f) / kappa(x, x)). When full, r leaves with the least |f' - f|^2 / 2 + C max(0,
1 - y f'(x)), where f' = f - alpha_r kappa(x_r, .) + beta kappa(x, .) and beta = alpha_r kappa(x_r, x) / kappa(x, x) + y tau,
which is the best weight. Ties: the oldest. Of several targets the costs are added; one without a loss has tau = 0.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from algorithms.budgeted.family import SupportLearner, drop, hinge_losses
from algorithms.common.compiled import compiled
from algorithms.common.kernels import own_value
from algorithms.common.linalg import LARGEST_STEP, largest, put
from algorithms.common.losses import foretell, side
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Bpas(SupportLearner):
    """Classification with a large margin and a fixed number of samples; a step is as long as the loss needs.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Bpas(budget=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [5.0], [0.5]], [[1.0], [-1.0], [1.0]])
    >>> state.support.ravel(), state.weights.ravel().round(3)  # 0.5 takes over from 0.0, with its share of the weight
    (array([5. , 0.5]), array([-1.,  1.]))
    """

    budget: Annotated[int, "1 or more"] = 100  # most stored samples
    aggressiveness: Annotated[float, "above 0"] = 1.0  # the longest step, C

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        aggressiveness = float(self.aggressiveness)
        _loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.budget, aggressiveness)


@compiled
def _loop(work, slots, X, Y, learn, out, code, budget, aggressiveness):
    support_of, weights_of, seen, counts = work
    k, along = np.empty(support_of.shape[1]), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        support, weights, count = support_of[key], weights_of[key], counts[key, 0]

        # Predict with what earlier rows taught.
        kxx, teaches = foretell(code, support, weights, count, x, y, k, prediction, learn[n], seen, key)
        if not np.isnan(kxx):
            out.loss[n] = hinge_losses(prediction, y)
        if not teaches or not kxx > 0.0:
            continue

        # The passive-aggressive step along phi(x).
        for t in range(y.size):
            label = side(y[t])
            along[t] = label * min(aggressiveness, max(0.0, 1.0 - label * prediction[t]) / kxx)
        if largest(along) == 0.0:
            continue

        # When full, the newcomer takes over from the sample that costs least.
        leaving = -1
        if count == budget:
            leaving = _cheapest(code, support, weights, count, k, kxx, prediction, y, along, aggressiveness)
            if leaving < 0:
                continue
            for t in range(y.size):
                along[t] += weights[leaving, t] * k[leaving] / kxx
        if not largest(along) * max(kxx, 1.0) < LARGEST_STEP:
            continue
        if leaving >= 0:
            count = drop(support, weights, leaving, count)
            out.evicted[n] = 1
        put(support[count], x)
        put(weights[count], along)
        out.admitted[n] = 1
        counts[key, 0], counts[key, 1] = count + 1, count + 1


@compiled
def _cheapest(code, support, weights, count, k, kxx, prediction, y, along, aggressiveness):
    """The sample to remove for the least objective with the best weight of the newcomer; -1 if all overflow."""
    cheapest, least = -1, np.inf
    for i in range(count):
        own = own_value(code, support[i]) if code[0] > 1.0 else 1.0
        share, cost = k[i] / kxx, 0.0
        for t in range(y.size):
            alpha, label = weights[i, t], side(y[t])
            beta = alpha * share + along[t]
            moved = alpha * alpha * own + beta * beta * kxx - 2.0 * alpha * beta * k[i]
            lack = max(0.0, 1.0 - label * (prediction[t] - alpha * k[i] + beta * kxx))
            cost += 0.5 * moved + aggressiveness * lack
        if cost < least:
            cheapest, least = i, cost
    return cheapest

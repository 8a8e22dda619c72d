"""Kernel normalised least mean squares (KNLMS) on a dictionary kept incoherent.

Source: Richard, Bermudez, Honeine (2009), IEEE TSP 57(3):1058-1067, KNLMS; with loss = "hinge" the online dictionary learner
that the OK-FEB paper compares with in Fig. 9.
Symbols: eta = step_size, mu_0 = coherence_below, epsilon = ridge, h = kernel row of x, alpha = weights.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m <= budget.
Readings: x is stored where max |kappa(x, x_j)| / sqrt(kappa(x, x) kappa(x_j, x_j)) <= mu_0 and a target is known, whatever
the error; then every weight moves, alpha += eta e h / (epsilon + |h|^2). hinge: e = y - f where y f < 1, else 0; y = +-1.
Departs from the source: a budget. When it is full the lightest term leaves, argmin |alpha_i|^2 kappa(x_i, x_i), the
newcomer included, and the sample most like it takes over its projection. Without a budget (0) only bounded inputs keep
the dictionary finite, so jobs refuse it.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from algorithms.adaptive.expansion import KernelFilter, enter
from algorithms.common.compiled import compiled
from algorithms.common.kernels import value
from algorithms.common.linalg import LARGEST_STEP, distance2, largest, missing, norm2
from algorithms.common.losses import foretell
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Knlms(KernelFilter):
    """Regression, or with loss = "hinge" classification, by normalised steps along the whole kernel row.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Knlms(step_size=0.5, ridge=0.0, coherence_below=0.5, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.1], [9.0]], [[2.0], [2.0], [2.0]])
    >>> out.admitted, state.weights.ravel().round(3)
    (array([1, 0, 1], dtype=int8), array([1.505, 1.   ]))
    """

    binary_targets: ClassVar[bool] = True  # with loss = "hinge", several targets are binary problems on one dictionary

    step_size: Annotated[float, "in (0, 2)"] = 0.2  # share of the error that a step closes
    coherence_below: Annotated[float, "0 to 1"] = 0.5  # x is stored up to this coherence with what is stored
    ridge: Annotated[float, "0 or more"] = 0.01  # added to |h|^2
    loss: Literal["squared", "hinge"] = "squared"  # hinge: targets are -1/+1 or 0/1, one column per class
    budget: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "classification" if self.loss == "hinge" else "regression"

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        step_size, below, ridge = float(self.step_size), float(self.coherence_below), float(self.ridge)
        hinge, code = self.loss == "hinge", self.kernel.code
        _loop(tuple(work), slots, X, Y, learn, out, code, step_size, below, ridge, hinge, self.budget)


@compiled
def _loop(work, slots, X, Y, learn, out, code, step_size, below, ridge, hinge, budget):
    dictionaries, all_weights, seen, counts = work
    h, error, first = np.empty(dictionaries.shape[1]), np.empty(Y.shape[1]), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        dictionary, weights, count = dictionaries[key], all_weights[key], counts[key, 0]

        # Predict with what earlier rows taught.
        kxx, teaches = foretell(code, dictionary, weights, count, x, y, h, prediction, learn[n], seen, key)
        if not (np.isnan(kxx) or missing(y)):
            out.loss[n] = _errors(y, prediction, hinge, error)
        if not teaches:
            continue

        # The coherence rule: what the dictionary does not resemble enters, with weight 0 before the step.
        fresh = kxx > 0.0 and _incoherent(code, dictionary, count, h, kxx, below)
        length = ridge + norm2(h[:count]) + (kxx * kxx if fresh else 0.0)
        scale = step_size / length if length > 0.0 else 0.0
        if not largest(error) * scale * max(kxx, largest(h[:count]), 1.0) < LARGEST_STEP:
            continue
        for i in range(count):
            for t in range(y.size):
                weights[i, t] += scale * error[t] * h[i]
        if fresh:
            for t in range(y.size):
                first[t] = scale * error[t] * kxx
            after = enter(code, dictionary, weights, count, x, first, budget, h)
            out.admitted[n], out.evicted[n] = 1, after == count
            counts[key, 0], counts[key, 1] = after, after


@compiled
def _errors(y, prediction, hinge, error):
    """What each target's function lacks at x; gives the loss."""
    if not hinge:
        for t in range(y.size):
            error[t] = y[t] - prediction[t]
        return distance2(y, prediction)
    total = 0.0
    for t in range(y.size):
        side = 1.0 if y[t] > 0.0 else -1.0
        lack = max(0.0, 1.0 - side * prediction[t])
        error[t] = side * lack
        total += lack
    return total


@compiled
def _incoherent(code, dictionary, count, h, kxx, below):
    for i in range(count):
        size = kxx * value(code, dictionary[i], dictionary[i]) if code[0] > 1.0 else 1.0
        if not h[i] * h[i] <= below * below * size:
            return False
    return True

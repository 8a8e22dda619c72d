"""Distance to the running mean: the plainest control of a tracker's LS error, with no subspace at all.

Source: ours; the mean forgets like an exponentially weighted moving average, exact from the first row on.
Symbols: m = mean, w = weight = sum of decay^i over the rows so far.
Cost of a row: O(d).  State: d + 2 numbers.
Readings: ls_error = |phi(x) - phi(m)|^2 = kappa(x, x) - 2 kappa(x, m) + kappa(m, m), which for a Gaussian lies in [0, 2]
and so suits the same detectors as any other LS error. It gives no features.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import KernelLearner, value
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs


class RunningMeanState(NamedTuple):
    mean: Array  # (dim,)
    weight: float  # of all rows in the mean; 0: none yet
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMean(KernelLearner):
    """LS error: squared distance of phi(x) to phi(running mean of x); a control for drift, without features.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = RunningMean(decay=0.5, kernel=Kernel(name="linear"))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.0], [3.0], [3.0]])
    >>> out.ls_error.round(3), state.mean.round(3)
    (array([  nan, 0.   , 9.   , 1.653]), array([2.4]))
    """

    decay: Annotated[float, "above 0, at most 1"] = 0.9  # weight of a row relative to the next one; 1: the mean of all rows

    def init(self, *, dim: int, targets: int, seed: int) -> RunningMeanState:
        return RunningMeanState(np.zeros(dim), 0.0, 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out.ls_error, self.kernel.code, float(self.decay))


@compiled
def _loop(work, slots, X, learn, ls_error, code, decay):
    means, weights, seen, _ = work
    for n in range(len(X)):
        key, x = slots[n], X[n]
        mean, weight = means[key], weights[key]
        kxx = value(code, x, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        if weight > 0.0:
            distance = kxx - 2.0 * value(code, x, mean) + value(code, mean, mean)
            if not np.isfinite(distance):
                continue
            ls_error[n] = max(0.0, distance)  # below 0 by rounding only
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            weights[key] = decay * weight + 1.0
            for i in range(x.size):
                mean[i] += x[i] / weights[key] - mean[i] / weights[key]  # x - mean might overflow

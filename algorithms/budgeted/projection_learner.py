"""What projectron and projectron_pp share: once full, a row moves the weights of the stored samples instead of entering.

With K the gram matrix of the support and k the kernel row of x, the projection of phi(x) has the weights d = K^-1 k, the
squared length k'd, and misses phi(x) by delta = kappa(x, x) - k'd. K is kept as its triangular factor, derived from the
samples in their order, so a state need not store it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from algorithms.budgeted.family import SupportLearner, hinge_losses
from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import LOST, extend, factor, unwhiten, whiten
from algorithms.common.kernels import Kernel
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put
from algorithms.common.losses import foresee, side
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs, State
from algorithms.common.workspace import Slot


@compiled
def projection_loop(work, slots, X, Y, learn, out, code, budget, caution):
    """`caution` is the U of the margin rule; negative: mistakes alone teach."""
    support_of, weights_of, seen, counts, factors = work
    room = support_of.shape[1]
    k, d, along = np.empty(room), np.empty(room), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        support, weights, U, count = support_of[key], weights_of[key], factors[key], counts[key, 0]

        # Predict with what earlier rows taught.
        kxx, within = foresee(code, support, weights, count, x, k, prediction)
        if np.isnan(kxx):
            continue
        out.loss[n] = hinge_losses(prediction, y)
        if not learn[n] & LEARN_HEAD:
            continue
        seen[key] += 1
        if missing(y) or not within:
            continue
        wrong, close = False, False
        for t in range(y.size):
            margin = side(y[t]) * prediction[t]
            wrong = wrong or margin <= 0.0
            close = close or (caution >= 0.0 and 0.0 < margin < 1.0)
        if not (wrong or close):
            continue

        # The projection of phi(x) onto the support.
        put(d, k[:count])
        whiten(U, count, d)
        delta = kxx
        for i in range(count):
            delta -= d[i] * d[i]
        length2 = norm2(d[:count])
        if not np.isfinite(delta):
            continue

        # A mistake enters while there is room, unless it is spanned already.
        enters = wrong and count < budget and delta > LOST * kxx
        if enters:
            extend(U, count, d[:count], kxx, 0.0)
            put(support[count], x)
            for t in range(y.size):
                label = side(y[t])
                weights[count, t] = label if label * prediction[t] <= 0.0 else 0.0
            out.admitted[n] = 1
            counts[key, 0], counts[key, 1] = count + 1, count + 1

        # Otherwise its projection is added; where the margin alone lacks, as much of it as is worth the loss.
        for t in range(y.size):
            along[t] = _share(side(y[t]), prediction[t], length2, delta, caution, enters)
        if largest(along) == 0.0:
            continue
        unwhiten(U, count, d)
        if not largest(along) * max(largest(d[:count]), 1.0) < LARGEST_STEP:
            continue
        for i in range(count):
            for t in range(y.size):
                weights[i, t] += along[t] * d[i]


@compiled
def _share(label, score, length2, delta, caution, enters):
    """How much of the projection a target takes: all of it at a mistake, tau at a margin error if beta >= 0."""
    margin = label * score
    if margin <= 0.0:
        return 0.0 if enters else label
    lack = 1.0 - margin
    if caution < 0.0 or lack <= 0.0 or length2 <= 0.0:
        return 0.0
    tau = min(lack / length2, 1.0)
    beta = tau * (2.0 * lack - tau * length2 - 2.0 * caution * np.sqrt(max(delta, 0.0)))
    return label * tau if beta >= 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class ProjectionLearner(SupportLearner, abstract=True):
    """The settings of projectron and projectron_pp."""

    __slots__ = ()

    kernel: Kernel = field(default_factory=Kernel)
    budget: Annotated[int, "1 or more"] = 100  # most stored samples

    @property
    def caution(self) -> float:
        """U of the margin rule; negative: mistakes alone teach."""
        return -1.0

    def caches(self, state: State, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"gram_factor": np.zeros((rows["support"], rows["support"]))}

    def derive(self, own: Slot) -> None:
        held = own.rows_within(self, "support", self.most, limit="limit")
        factor(self.kernel.code, own["support"], 0, held, 0.0, own["gram_factor"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        projection_loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.budget, self.caution)

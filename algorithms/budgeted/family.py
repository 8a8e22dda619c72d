"""What the budgeted learners share: scores f_t(x) = sum_i weights[i, t] kappa(support[i], x), and steps against a loss.

Several targets are binary problems side by side on one support: a sample is stored where any of them asks for it, with
weight 0 for the others. Labels are -1/+1; a target of 0 or below is the label -1.

The loop is of perceptron, rbp, kogd, norma and bogd: f decays by `keep` and gets -step_size loss'(f(x)) kappa(x, .), and a
sample with a loss without slope is not stored. The perceptron is this with the loss max(0, -y f), also with a step at y f =
0, step size 1 and no decay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import LOST, extend, factor, unwhiten, whiten
from algorithms.common.kernels import KernelLearner
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put, remove_row
from algorithms.common.losses import LOSSES, LossLearner, check_steps, foresee, foretell, hinge_loss, side, steps
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs, State
from algorithms.common.randomness import uniform
from algorithms.common.workspace import Slot

OLDEST, ANY = 0, 1  # who leaves
LEAVES = 1  # purpose of the draws


class SupportState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    seen: int  # rows so far


class SeededState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets); of rbp -1, +1, or 0 where another target erred
    seen: int  # rows so far
    seed: int  # of the draws


class SupportLearner(KernelLearner, abstract=True):
    """Samples and their weights, (m, dim) and (m, targets), oldest first; no learner itself."""

    __slots__ = ()
    kind: ClassVar[str] = "classification"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "weights"),)
    binary_targets: ClassVar[bool] = True  # several targets are binary problems on one support
    draws: ClassVar[bool] = False  # which sample leaves

    @property
    def most(self) -> int:
        """Most stored samples; 0: unlimited."""
        return int(getattr(self, "budget", 0) or getattr(self, "max_terms", 0))

    def init(self, *, dim: int, targets: int, seed: int) -> Any:
        arrays = state_arrays(dim, targets)
        return SeededState(*arrays, 0, seed) if self.draws else SupportState(*arrays, 0)

    def room(self, field: str) -> int | None:
        return self.most or None

    def derive(self, own: Slot) -> None:
        own.rows_within(self, "support", self.most, limit="limit")


@compiled
def hinge_losses(prediction: Array, y: Array) -> float:
    """The hinge loss, which the mistake-driven ones report too; NaN where a target is unknown."""
    return np.nan if missing(y) else hinge_loss(prediction, y)


@compiled
def drop(support: Array, weights: Array, leaving: int, count: int) -> int:
    """Remove a sample; gives how many are left."""
    remove_row(support, leaving, count)
    remove_row(weights, leaving, count)
    return count - 1


@compiled
def scale(weights: Array, count: int, t: int, by: float) -> None:
    for i in range(count):
        weights[i, t] *= by


def state_arrays(dim: int, targets: int) -> tuple[Any, Any]:
    """No samples, and no weights."""
    return np.empty((0, dim)), np.empty((0, targets))


class Rule(NamedTuple):
    """What the five differ in."""

    loss: int
    step_size: float
    keep: float  # share of the weights that stays at each row with a target, 1 - step_size ridge
    most: int  # samples stored; 0: unlimited
    leaving: int
    makes_up: bool  # the others grow by most / (most - 1) when one leaves, so that f stays as it is in the mean
    cap: float  # of the weights' size; 0: none


@compiled
def gradient_loop(support_of, weights_of, seen, seeds, counts, slots, X, Y, learn, out, code, rule):
    k, along = np.empty(support_of.shape[1]), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        support, weights, count = support_of[key], weights_of[key], counts[key, 0]

        # Predict with what earlier rows taught.
        kxx, within = foresee(code, support, weights, count, x, k, prediction)
        if np.isnan(kxx):
            continue
        if within and not missing(y):
            out.loss[n] = steps(rule.loss, prediction, y, rule.step_size, along)

        # The gradient: decay, and a step along phi(x).
        if not learn[n] & LEARN_HEAD:
            continue
        seen[key] += 1
        if missing(y) or not within or not largest(along) * max(kxx, 1.0) < LARGEST_STEP:
            continue
        if rule.keep < 1.0:
            for t in range(y.size):
                scale(weights, count, t, rule.keep)
        if largest(along) == 0.0:
            continue

        # On a budget one leaves; x is stored.
        if rule.most > 0 and count >= rule.most:
            leaving = 0 if rule.leaving == OLDEST else int(uniform(seeds[key], LEAVES, seen[key]) * count)
            count = drop(support, weights, leaving, count)
            out.evicted[n] = 1
            if rule.makes_up:
                for t in range(y.size):
                    scale(weights, count, t, rule.most / (rule.most - 1.0))
        put(support[count], x)
        put(weights[count], along)
        count += 1
        out.admitted[n] = 1
        if rule.cap > 0.0:
            for t in range(y.size):
                _cap(weights, count, t, rule.cap)
        counts[key, 0], counts[key, 1] = count, count


@compiled
def _cap(weights, count, t, cap):
    """Shrink all weights of a target so that the largest keeps to the cap."""
    top = largest(weights[:count, t])
    if top > cap:
        scale(weights, count, t, cap / top)


@dataclass(frozen=True, kw_only=True)
class GradientLearner(LossLearner, SupportLearner, abstract=True):  # type: ignore[override]
    """The settings of kogd, norma and bogd: every sample with a loss is stored, and the oldest leaves."""

    __slots__ = ()

    step_size: float = 0.2  # above 0
    ridge: float = 0.0  # 0 or more, below 1 / step_size; f decays by step_size ridge a row
    loss: Literal["hinge", "squared", "logistic"] = "hinge"

    def check(self) -> None:
        check_steps(self)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, counts = work
        step_size, keep = float(self.step_size), 1.0 - self.step_size * self.ridge
        rule = Rule(LOSSES[self.loss], step_size, keep, self.most, OLDEST, False, 0.0)
        gradient_loop(support, weights, seen, seen, counts, slots, X, Y, learn, out, self.kernel.code, rule)


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
        kxx, teaches = foretell(code, support, weights, count, x, y, k, prediction, learn[n], seen, key)
        if not np.isnan(kxx):
            out.loss[n] = hinge_losses(prediction, y)
        if not teaches:
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
    """The settings of projectron and projectron_pp: once full, a row moves the weights of the stored samples.

    With K the gram matrix of the support and k the kernel row of x, the projection of phi(x) has the weights d = K^-1 k, the
    squared length k'd, and misses phi(x) by delta = kappa(x, x) - k'd. K is kept as its triangular factor, derived from the
    samples in their order, so a state need not store it.
    """

    __slots__ = ()

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

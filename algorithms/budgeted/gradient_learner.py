"""The loop of perceptron, rbp, kogd, norma and bogd, and the settings of kogd and norma: steps against a loss's gradient.

f decays by `keep` and gets -step_size loss'(f(x)) kappa(x, .); a sample with a loss without slope is not stored. The
perceptron is this with the loss max(0, -y f), also with a step at y f = 0, step size 1 and no decay.
"""

from typing import Any, NamedTuple

import numpy as np

from algorithms.budgeted.family import SupportLearner, drop, scale
from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel, fill_row, own_value
from algorithms.common.linalg import LARGEST_STEP, largest, missing, put
from algorithms.common.losses import LOSSES, check_steps, evaluate, kind_of, steps
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs
from algorithms.common.randomness import uniform

OLDEST, ANY = 0, 1  # who leaves
LEAVES = 1  # purpose of the draws


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
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not np.isfinite(kxx):
            continue

        # Predict with what earlier rows taught.
        fill_row(code, support, count, x, k)
        within = evaluate(k, weights, count, prediction)
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
    top = 0.0
    for i in range(count):
        top = max(top, abs(weights[i, t]))
    if top > cap:
        scale(weights, count, t, cap / top)


class GradientLearner(SupportLearner, abstract=True):
    """A base, not a learner: every sample with a loss is stored, the oldest leaves. Its subclasses state the settings."""

    __slots__ = ()
    kernel: Kernel
    step_size: float
    ridge: float
    loss: str
    max_terms: int

    def check(self) -> None:
        check_steps(self)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return kind_of(self.loss)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, counts = work
        step_size, keep = float(self.step_size), 1.0 - self.step_size * self.ridge
        rule = Rule(LOSSES[self.loss], step_size, keep, self.max_terms, OLDEST, False, 0.0)
        gradient_loop(support, weights, seen, seen, counts, slots, X, Y, learn, out, self.kernel.code, rule)

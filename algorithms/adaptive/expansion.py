"""What the kernel filters share: an expansion f(x) = sum_i weights[i] kappa(dictionary[i], x).

The loop of klms and qklms is here; they differ in `quantum` alone.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, KernelLearner, fill_row, fill_row_and_distances, value
from algorithms.common.linalg import LARGEST_STEP, distance2, largest, missing, norm2, put, remove_row
from algorithms.common.losses import evaluate
from algorithms.common.protocol import LEARN_HEAD, Array, State
from algorithms.common.workspace import Slot


class ExpansionState(NamedTuple):
    dictionary: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    seen: int  # rows so far


class KernelFilter(KernelLearner, abstract=True):
    """A base, not a learner: samples and their weights, within a budget where there is one."""

    __slots__ = ()
    kind: ClassVar[str] = "regression"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("dictionary", "weights"),)

    budget: int

    def room(self, field: str) -> int | None:
        most = self.budget + 1  # a new sample enters before one leaves
        return (most * (most + 1) // 2 if field in self.triangles else most) if self.budget else None

    def init(self, *, dim: int, targets: int, seed: int) -> State:
        return ExpansionState(np.empty((0, dim)), np.empty((0, targets)), 0)

    def derive(self, own: Slot) -> None:
        own.rows_within(self, "dictionary", self.budget)


@compiled
def lightest(code: Code, dictionary: Array, weights: Array, count: int) -> int:
    """The sample with the smallest term in the kernel's space, argmin |weights[i]|^2 kappa(x_i, x_i); first of equals."""
    least, lightest_yet = np.inf, 0
    for i in range(count):
        size = norm2(weights[i])
        if code[0] > 1.0:
            size *= value(code, dictionary[i], dictionary[i])
        if size < least:
            least, lightest_yet = size, i
    return lightest_yet


@compiled
def hand_over(code, dictionary, weights, count, leaving, k):
    """The stored sample most like the leaving one takes over its term's projection, w_j += w kappa_vj / kappa_jj."""
    fill_row(code, dictionary, count, dictionary[leaving], k)
    heir, most, share = leaving, 0.0, 0.0
    for j in range(count):
        own = value(code, dictionary[j], dictionary[j]) if code[0] > 1.0 else 1.0
        alike = k[j] * k[j] / own if own > 0.0 else 0.0
        if j != leaving and alike > most:
            heir, most, share = j, alike, k[j] / own
    if heir != leaving:
        for t in range(weights.shape[1]):
            weights[heir, t] += share * weights[leaving, t]


@compiled
def enter(code, dictionary, weights, count, x, along, budget, k):
    """Store x with the weights `along`; over budget the lightest leaves. Gives the new count; k is room to work in."""
    put(dictionary[count], x)
    put(weights[count], along)
    if budget == 0 or count < budget:
        return count + 1
    leaving = lightest(code, dictionary, weights, count + 1)
    hand_over(code, dictionary, weights, count + 1, leaving, k)
    remove_row(dictionary, leaving, count + 1)
    remove_row(weights, leaving, count + 1)
    return count


@compiled
def take_over(weights: Array, leaving: int, count: int, along: Array) -> None:
    """weights[j] += along[j] weights[leaving]: what the others take over from a sample before it is removed."""
    for j in range(count):
        if j != leaving:
            for t in range(weights.shape[1]):
                weights[j, t] += along[j] * weights[leaving, t]


@compiled
def klms_loop(work, slots, X, Y, learn, out, code, step_size, quantum, budget):
    """A sample within the squared distance `quantum` of a stored one only moves that one's weight (below 0: never)."""
    dictionaries, all_weights, seen, counts = work
    room = dictionaries.shape[1]
    k, gaps2, along = np.empty(room), np.empty(room), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        dictionary, weights, count = dictionaries[key], all_weights[key], counts[key, 0]
        if missing(x):
            continue

        # Predict with what earlier rows taught.
        fill_row_and_distances(code, dictionary, count, x, k, gaps2)
        within = evaluate(k, weights, count, prediction)
        if not missing(y):
            out.loss[n] = distance2(y, prediction)

        # The error, in the direction of x.
        if not learn[n] & LEARN_HEAD:
            continue
        seen[key] += 1
        if missing(y) or not within:
            continue
        for t in range(y.size):
            along[t] = step_size * (y[t] - prediction[t])
        if not largest(along) < LARGEST_STEP:
            continue

        # Quantise: the nearest stored sample absorbs it.
        if quantum >= 0.0 and count > 0:
            nearest = 0
            for i in range(1, count):
                if gaps2[i] < gaps2[nearest]:
                    nearest = i
            if gaps2[nearest] <= quantum:
                for t in range(y.size):
                    weights[nearest, t] += along[t]
                continue

        # Otherwise x is stored.
        after = enter(code, dictionary, weights, count, x, along, budget, k)
        out.admitted[n], out.evicted[n] = 1, after == count
        counts[key, 0], counts[key, 1] = after, after

"""The rows of online_greedy, stream_greedy and coherence: project, predict, choose a slot, swap, learn.

They differ in one line, which slot a row takes; `rule` says which.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import whiten
from algorithms.common.kernels import Kernel, fill_row, own_value
from algorithms.common.linalg import dot, missing, norm2, put
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.prototypes import inverse, regression, turning_map
from algorithms.prototypes.family import FAR, PrototypeRule, exchange, rebuild
from algorithms.prototypes.regression import FEATURES, LABELS, NONE

GREEDY, COHERENCE = 0, 1


@compiled
def rows(work, slots, X, Y, learn, out, basis, code, rule, ridge, limit, relative, stop_after, form, eta, resets):
    """limit: least gain of a swap (GREEDY), most coherence (COHERENCE); stop_after: rows without a swap, 0 = never."""
    (all_prototypes, all_arrival, all_labels, all_replaced, replaced_slots, replaced_arrivals, all_weights, all_P,
     estimates, seen, counts, maps, orders, inverses, label_inverses) = work  # fmt: skip
    budget, most = all_prototypes.shape[1], all_replaced.shape[1]
    k, z, u, gain, v = np.empty(budget), np.empty(budget), np.empty(budget), np.empty(budget), np.zeros(budget)
    turns, c, along = np.empty((2, budget)), np.empty(budget), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not kxx < FAR:
            continue
        prototypes, arrival, labels, weights = all_prototypes[key], all_arrival[key], all_labels[key], all_weights[key]
        U, order, Q, label_Q, P = maps[key], orders[key], inverses[key], label_inverses[key], all_P[key]
        count = counts[key, 0]

        # Project on the prototypes so far, and predict.
        fill_row(code, prototypes, count, x, k)
        turning_map.in_order(k, order, count, z)
        whiten(U, count, z)
        residual = kxx - norm2(z[:count])
        if not np.isfinite(residual):
            continue
        out.ls_error[n] = max(residual, 0.0)
        features = out.features[n]
        put(features, z[:count])
        features[count:] = 0.0
        if form != NONE:
            out.loss[n] = regression.predict(form, weights, z, k, count, y, out.prediction[n])
        teaches = regression.labelled(form, learn[n], y)

        # The slot that x takes: a free one, that of a prototype without which the set is better, or none (-1).
        slot, gained = -1, 0.0
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            if form != LABELS or teaches:
                if count < budget and (rule == GREEDY or coherence(code, prototypes, count, k, kxx) <= limit):
                    slot = count
                    if rule == GREEDY:
                        gained = np.log(inverse.append(Q, count, k, kxx, ridge, u))
                elif count == budget and rule == GREEDY and not stopped(arrival, count, seen[key], stop_after):
                    inverse.product(Q, count, k, u)
                    own = inverse.ridge_of(kxx, ridge, count)
                    schur = max(kxx + own - dot(k[:count], u[:count]), own)
                    slot, gained = best_swap(Q, count, u, schur)
                    least = limit * abs(estimates[key]) if relative else limit
                    if not (gained >= least and gained > 0.0):
                        slot = -1

        reach = regression.longest(form, code, prototypes, count) if slot >= 0 else 0.0
        if slot == count:
            out.admitted[n] = 1
            estimates[key] += gained
            if form == FEATURES and count:
                turning_map.coefficients(U, order, count, z, c)
                regression.carry_kernel_row(weights, P, eta, slot, count, c, u)
            put(prototypes[slot], x)
            arrival[slot] = seen[key]
            turning_map.append(U, order, count, slot, kxx, z)
            if form == LABELS:
                put(labels[slot], y)
                inverse.append(label_Q, count, k, kxx, eta, u)
                regression.label_weights(label_Q, labels, count + 1, weights)
            k[count] = kxx
            count += 1
            counts[key, :3] = count
        elif slot >= 0:
            out.admitted[n], out.evicted[n] = 1, 1
            estimates[key] += gained
            left = counts[key, 3]
            if left < most:
                put(all_replaced[key, left], prototypes[slot])
                replaced_slots[key, left], replaced_arrivals[key, left] = slot, arrival[slot]
            if form == FEATURES:
                turning_map.coefficients(U, order, count, z, c)
            put(v, z)
            first = exchange(
                code, prototypes, count, slot, x, k, kxx, U, order, Q, ridge, label_Q, eta, turns, z
            )  # fmt: skip
            k[slot] = kxx
            turning_map.turn_vector(v, first, count, turns)
            kept = turning_map.share(U, count, v[count - 1])
            arrival[slot] = seen[key]
            if form == LABELS:
                put(labels[slot], y)
                regression.label_weights(label_Q, labels, count, weights)
            else:
                regression.follow_swap(form, weights, P, eta, resets, slot, first, count, turns, kept, c, u)
            if basis.moved.size:
                basis.moved[n] = 1
                turning_map.change_of_basis(basis.transfer[n], first, count, turns, kept)
            if left == most:
                turning_map.arrange(arrival, count, order)
                rebuild(code, prototypes, count, U, order, Q, ridge, label_Q, eta)
                if form == LABELS:
                    regression.label_weights(label_Q, labels, count, weights)
                left = -1
            counts[key, 3:6] = left + 1

        # Regression learns by the set as it is now.
        if slot >= 0:
            regression.outgrow(form, code, prototypes, count, reach, weights, P, eta)
        if teaches and form != LABELS:
            regression.learn(form, code, prototypes, weights, P, z, k, count, y, eta, v, c, u, gain, along)


@compiled
def coherence(code, prototypes, count, k, kxx):
    """The largest |kappa(x, z)| / sqrt(kappa(x, x) kappa(z, z)) over the prototypes; 1 for what has no length."""
    if not kxx > 0.0:
        return 1.0 if count else 0.0
    most = 0.0
    for i in range(count):
        other = own_value(code, prototypes[i])
        most = max(most, abs(k[i]) / np.sqrt(kxx) / np.sqrt(other) if other > 0.0 else 1.0)
    return most


@compiled
def best_swap(Q, count, u, schur):
    """The slot that x gains most in, the first of equals, and the gain log(Q_ii s + u_i^2), s = kxx + ridge - k'u."""
    slot, most = -1, 0.0
    for i in range(count):
        ratio = Q[i, i] * schur + u[i] * u[i]
        if ratio > most:
            slot, most = i, ratio
    return slot, np.log(most) if np.isfinite(most) else -np.inf


@compiled
def stopped(arrival, count, now, stop_after):
    """No row entered for `stop_after` rows: the latest arrival tells."""
    if stop_after == 0:
        return False
    latest = 0
    for i in range(count):
        latest = max(latest, arrival[i])
    return now - latest > stop_after


@dataclass(frozen=True, kw_only=True)
class Greedy(PrototypeRule, abstract=True):
    """The settings of online_greedy and stream_greedy; those of the regression stand behind their own."""

    __slots__ = ()
    moves: ClassVar[bool] = True

    kernel: Kernel = field(default_factory=Kernel)
    budget: Annotated[int, "1 to 10000"] = 100  # most prototypes, 1 to 10000
    ridge: Annotated[float, "1e-12 to 1e12"] = 1.0  # lambda of the criterion, 1e-12 to 1e12; the map has 1e-6
    min_gain: Annotated[float, "0 or more"] = 0.01  # a swap must gain as much (relative: as this share of the criterion)
    gain_rule: Literal["absolute", "relative"] = "absolute"

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        limits = float(self.ridge), float(self.min_gain), self.gain_rule == "relative", getattr(self, "stop_after", 0)
        ends = self.form, float(self.regress_ridge), self.on_swap == "reset"
        rows(tuple(work), slots, X, Y, learn, out, basis, self.kernel.code, GREEDY, *limits, *ends)

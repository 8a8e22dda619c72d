"""What the rules share that choose prototypes from the stream: one form of state, the map, and regression behind it.

Features are z = U'^-1 k as for `ald` and `random_prototypes`, in the order of arrival, so that any head can stand behind
any rule. With `regress` the learner predicts by itself. What the map's factor and the inverses are depends on the swaps
since they were last made from the prototypes alone; a state holds what left since then, at most a quarter of the budget, so
that they can be made again to the bit. After as many swaps they are rebuilt, which also ends the growth of rounding.

The rows of online_greedy, stream_greedy and coherence differ in one line, which slot a row takes; `rule` says which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import whiten
from algorithms.common.kernels import KernelLearner, fill_row, own_value
from algorithms.common.linalg import dot, missing, norm2, put
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Learner, Outputs
from algorithms.common.workspace import Slot, packed
from algorithms.prototypes import inverse, regression, turning_map
from algorithms.prototypes.regression import FEATURES, FORMS, LABELS, NONE, label_weights

GREEDY, COHERENCE = 0, 1  # which rule `rows` follows
FAR = 1e100  # kernel values beyond are left alone: their squares would leave the floating-point range


class PrototypeState(NamedTuple):
    prototypes: Array  # (m, dim) by slot
    arrival: Array  # (m,) int64, number of the row in each slot, from 1
    labels: Array  # (m, targets) of the prototypes, with regress = "labels"; else not read
    replaced: Array  # (r, dim) what left since the map was last rebuilt, oldest first
    replaced_slot: Array  # (r,) int64
    replaced_arrival: Array  # (r,) int64
    weights: Array  # (budget, targets) of the regression; no targets without one
    P: Array  # triangle by rows, inverse of the regression's sum; empty without one
    estimate: float  # log det (K + ridge I) of the set
    seen: int  # rows so far


class PrototypeRule(KernelLearner, abstract=True):
    """A base, not a learner. Its subclasses state the settings and which rule the loop follows."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("prototypes", "arrival", "labels"),
        ("replaced", "replaced_slot", "replaced_arrival"),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("labels",)
    judges: ClassVar[bool] = True  # the rule needs Q = (K + ridge I)^-1 of the whole set

    budget: int
    regress: str
    regress_ridge: float
    ridge: float = 1.0
    on_swap: str = "transfer"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "features" if self.regress == "none" else "regression"

    @property
    def headless(self) -> Learner:
        settings: Any = self
        return self if self.regress == "none" else replace(settings, regress="none")

    @property
    def width(self) -> int:
        return self.budget

    @property
    def maps(self) -> bool:
        return True

    @property
    def form(self) -> int:
        return FORMS.index(self.regress)

    def room(self, field: str) -> int | None:
        if field.startswith("replaced"):
            return max(1, self.budget // 4) if self.moves and (self.maps or self.form == LABELS) else 0
        return self.budget

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"P": self.budget if self.regress in ("nystrom", "features") else 0}

    def init(self, *, dim: int, targets: int, seed: int) -> PrototypeState:
        return PrototypeState(**self._fresh(dim, targets))

    def _fresh(self, dim: int, targets: int) -> dict[str, Any]:
        columns = 0 if self.form == NONE else targets
        size = self.squares(None)["P"]
        return {
            "prototypes": np.empty((0, dim)),
            "arrival": np.empty(0, np.int64),
            "labels": np.empty((0, columns)),
            "replaced": np.empty((0, dim)),
            "replaced_slot": np.empty(0, np.int64),
            "replaced_arrival": np.empty(0, np.int64),
            "weights": np.zeros((self.budget if columns else 0, columns)),
            "P": packed(np.eye(size) / self.regress_ridge),
            "estimate": 0.0,
            "seen": 0,
        }

    def caches(self, state: Any, rows: Mapping[str, int]) -> Mapping[str, Array]:
        b = self.budget
        judge, on_labels, mapped = b if self.judges else 0, b if self.form == LABELS else 0, b if self.maps else 0
        return {
            "map": np.zeros((mapped, mapped)),
            "order": np.zeros(mapped, np.int64),
            "inverse": np.zeros((judge, judge)),
            "label_inverse": np.zeros((on_labels, on_labels)),
        }

    def derive(self, own: Slot) -> None:
        self._checked(own)
        total = self._restore(own)
        number, estimates = own.number, own.work["estimate"]
        if self.judges and estimates[number] == 0.0:
            estimates[number] = total

    def _restore(self, own: Slot) -> float:
        """The map, the inverses and the weights from labels; gives log det (K + ridge I) of the set before its swaps."""
        held, left = own.rows("prototypes"), own.rows("replaced")
        total = restore(
            self.kernel.code,
            own["prototypes"][:held].copy(),
            own["arrival"][:held].copy(),
            own["replaced"][:left].copy(),
            own["replaced_slot"][:left],
            own["replaced_arrival"][:left],
            own["map"],
            own["order"],
            own["inverse"] if self.judges else np.empty((0, 0)),
            float(self.ridge),
            own["label_inverse"],
            float(self.regress_ridge),
        )
        if self.form == LABELS:
            label_weights(own["label_inverse"], own["labels"], held, own["weights"])
        return float(total)

    def _checked(self, own: Slot) -> tuple[int, int]:
        """How many prototypes there are and how many left; raises ValueError for what cannot be."""
        held, name = own.rows_within(self, "prototypes", self.budget, "prototypes"), type(self).__name__
        left = own.rows("replaced")
        if left > (self.room("replaced") or 0):
            raise ValueError(f"{name}: the state stores {left} rows of replaced, at most {self.room('replaced')} are kept.")
        slots = own["replaced_slot"][:left]
        if left and not (slots.min() >= 0 and slots.max() < held):
            raise ValueError(f"{name}: replaced_slot must be 0 to {held - 1}; got {slots.min()} to {slots.max()}.")
        if own.rows("labels") == 0:
            own["labels"][:held] = 0.0
            own.set_rows("labels", held)
        if held:
            latest, seen = int(own["arrival"][:held].max()), own.work["seen"]
            seen[own.number] = max(seen[own.number], latest)
        return held, left


@compiled
def restore(code, prototypes, arrival, replaced, replaced_slot, replaced_arrival, U, order, Q, ridge, label_Q, label_ridge):
    """The map and the inverses of the set before the rows in `replaced` left, and then their swaps once more.

    prototypes, arrival and replaced are copies: they are written to. Gives log det (K + ridge I) of the set before.
    """
    count, size = len(prototypes), max(len(order), len(label_Q))
    k, z, turns = np.empty(size), np.empty(size), np.empty((2, size))
    for n in range(len(replaced) - 1, -1, -1):
        slot = replaced_slot[n]
        for j in range(replaced.shape[1]):
            prototypes[slot, j], replaced[n, j] = replaced[n, j], prototypes[slot, j]
        arrival[slot] = replaced_arrival[n]
    if U.size:
        turning_map.arrange(arrival, count, order)
    total = rebuild(code, prototypes, count, U, order, Q, ridge, label_Q, label_ridge)
    for n in range(len(replaced)):
        x = replaced[n]
        fill_row(code, prototypes, count, x, k)
        exchange(
            code, prototypes, count, replaced_slot[n], x, k, own_value(code, x), U, order, Q, ridge, label_Q, label_ridge,
            turns, z,
        )  # fmt: skip
    return total


@compiled
def rebuild(code, prototypes, count, U, order, Q, ridge, label_Q, label_ridge):
    """The map and the inverses from the prototypes alone; gives log det (K + ridge I) where Q is kept."""
    if U.size:
        turning_map.build(code, prototypes, count, order, U)
    if label_Q.size:
        inverse.invert(code, prototypes, count, label_ridge, label_Q)
    return inverse.invert(code, prototypes, count, ridge, Q) if Q.size else 0.0


@compiled
def exchange(
    code, prototypes, count, slot, x, k, kxx, U, order, Q, ridge, label_Q, label_ridge, turns, z
):  # fmt: skip
    """x takes the place of prototype `slot` in the map and the inverses; gives its coordinate in the map until then.

    k: kernel row of x against the prototypes so far, 0 at `slot` afterwards. turns: the rotations; z: x's coordinates now.
    """
    first = turning_map.leave(code, prototypes, U, order, count, slot, turns) if U.size else 0
    put(prototypes[slot], x)
    k[slot] = 0.0
    if Q.size and not inverse.replace(Q, count, slot, k, kxx, ridge, z):
        inverse.invert(code, prototypes, count, ridge, Q)
    if label_Q.size and not inverse.replace(label_Q, count, slot, k, kxx, label_ridge, z):
        inverse.invert(code, prototypes, count, label_ridge, label_Q)
    if U.size:
        turning_map.enter(U, order, count - 1, slot, k, kxx, z)
    return first


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

    budget: Annotated[int, "1 to 10000"] = 100  # most prototypes, 1 to 10000
    ridge: Annotated[float, "1e-12 to 1e12"] = 1.0  # lambda of the criterion, 1e-12 to 1e12; the map has 1e-6
    min_gain: Annotated[float, "0 or more"] = 0.01  # a swap must gain as much (relative: as this share of the criterion)
    gain_rule: Literal["absolute", "relative"] = "absolute"

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        limits = float(self.ridge), float(self.min_gain), self.gain_rule == "relative", getattr(self, "stop_after", 0)
        ends = self.form, float(self.regress_ridge), self.on_swap == "reset"
        rows(tuple(work), slots, X, Y, learn, out, basis, self.kernel.code, GREEDY, *limits, *ends)

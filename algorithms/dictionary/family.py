"""What okdl and okdl_discriminative share: one form of state, one loop, and how they meet a workspace.

The loop codes a row with the atoms so far, steps, stores the row and evicts.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel, fill_row, own_value
from algorithms.common.linalg import dot, missing, norm2, put, remove_row
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.dictionary import atoms as atom
from algorithms.dictionary import budget as bud
from algorithms.dictionary import steps
from algorithms.dictionary.atoms import inner_products
from algorithms.dictionary.budget import EVICTIONS, GRACE
from algorithms.dictionary.coding import sparse_code
from algorithms.dictionary.steps import Rules

OUT_OF_RANGE = 1e100  # kappa(x, x) from which a row gives and teaches nothing; below 1 over it none becomes an atom
ANEW_EVERY = 200, 2  # rows, rows of a budget: after as many H and P are made again, without what rounding left in them
TOLERANCE = 1e-6  # of kappa(x, x): an LS error farther outside [0, kappa(x, x)] says that H is not D'D


@compiled
def rows_through(work, slots, X, Y, learn, out, code, rules):
    all_samples, all_weights, all_w, seen, _, all_H, all_P, counts = work
    room, size = all_samples.shape[1], all_H.shape[2]
    k, u, v = np.empty(room), np.empty(room), np.empty(room)
    c, Ha, beta, entry, scratch = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    active, M, L, error = np.empty(size, np.int64), np.empty((size, size)), np.empty((size, size)), np.empty(Y.shape[1])

    for n in range(len(X)):
        key, x, y, a, prediction = slots[n], X[n], Y[n], out.features[n], out.prediction[n]
        kxx = own_value(code, x)
        if missing(x) or not kxx < OUT_OF_RANGE:
            continue
        samples, weights, H, P, w = all_samples[key], all_weights[key], all_H[key], all_P[key], all_w[key]
        count, learns = counts[key, 0], learn[n] & (2 if rules.discriminative else 1) != 0
        if learns:
            seen[key] += 1
        learns = learns and not (rules.discriminative and missing(y))
        fill_row(code, samples, count, x, k)
        atom.against(weights, k, count, c)

        # Until there are as many atoms as asked for, each new row becomes one.
        if count < size and H[count, count] == 0.0:
            if learns and kxx > 1.0 / OUT_OF_RANGE and atom.repeat_of(samples, count, x) < 0:
                put(samples[count], x)
                weights[count, :size] = 0.0
                atom.plant(weights, H, count + 1, count, count, c, kxx)
                counts[key, 0], counts[key, 1] = count + 1, count + 1
                out.admitted[n] = 1
            continue

        # (13), (26): code the row with the atoms that earlier rows taught.
        used = sparse_code(H, c, rules.l1, rules.l2, a, scratch, active, M, L)
        atom.image(H, a, active, used, Ha)
        ls_error = kxx - 2.0 * dot(a, c) + dot(a, Ha)
        if not -TOLERANCE * kxx <= ls_error <= (1.0 + TOLERANCE) * kxx:
            a[:size] = np.nan
            if learns:
                atom.inner_products(code, samples, weights, count, H)
            continue
        out.ls_error[n] = max(ls_error, 0.0)
        if rules.discriminative:
            _predict(w, a, active, used, y, prediction, error)
            if not missing(y):  # (9)
                out.loss[n] = 0.5 * norm2(error) + 0.5 * rules.nu * norm2(w.reshape(w.size))
        else:  # (2)
            out.loss[n] = 0.5 * out.ls_error[n] + _penalty(rules, a)
        if not learns:
            continue

        # (14) or (28), and x with its row of weights; a repeated x has one already.
        rho, row = steps.step_length(rules, seen[key], a), atom.repeat_of(samples, count, x)
        if not rules.discriminative:
            steps.reconstructive(rules, rho, H, weights, count, c, a, Ha, ls_error, entry, u, v)
        elif not steps.discriminative(
            rules, rho, H, weights, count, c, a, Ha, kxx, w, error, active, used, M, L, beta, entry, scratch, u, v
        ):
            continue
        new = row < 0
        if new:
            row = count
            put(samples[row], x)
            put(weights[row], entry)
            count += 1
            out.admitted[n] = 1
        else:
            for j in range(size):
                weights[row, j] += entry[j]

        # No atom answers, and none did to an earlier row close by: the shortest atom starts over here.
        silent = used == 0 and kxx > 1.0 / OUT_OF_RANGE
        if silent and atom.resembles_an_unused_sample(code, samples, weights, count - new, k, kxx):
            shortest = atom.weakest(H)
            atom.against(weights, k, count - new, c)
            atom.plant(weights, H, count, shortest, row, c, kxx)
            for t in range(w.shape[1]):  # none of okdl, whatever targets its row has
                w[shortest, t] = 0.0

        # Over budget one leaves.
        if new and rules.budget > 0 and count > rules.budget:
            leaver = _evict(rules, code, samples, weights, H, P, counts[key], count, k, kxx, u)
            remove_row(samples, leaver, count)
            remove_row(weights, leaver, count)
            count -= 1
            out.admitted[n], out.evicted[n] = leaver < count, leaver < count
        counts[key, 0], counts[key, 1] = count, count
        if rules.budget == count and seen[key] % max(ANEW_EVERY[0], ANEW_EVERY[1] * count) == 0:
            counts[key, 3] = _anew(code, samples, weights, H, P, count)


@compiled
def _predict(w, a, active, used, y, prediction, error):
    """prediction = w'a, error = y - prediction."""
    for t in range(prediction.size):
        prediction[t] = 0.0
        for i in range(used):
            prediction[t] += a[active[i]] * w[active[i], t]
        error[t] = y[t] - prediction[t]


@compiled
def _penalty(rules, a):
    total = 0.0
    for j in range(a.size):
        total += rules.l1 * abs(a[j]) + 0.5 * rules.l2 * a[j] * a[j]
    return total


@compiled
def _anew(code, samples, weights, H, P, count):
    """H, and P where there is room for it, from the samples; gives how many numbers P has."""
    lower = np.empty((count, count))
    sound = bud.factor(code, samples, count, lower)
    if sound:
        bud.trim(code, samples, weights, count, lower)
    atom.inner_products(code, samples, weights, count, H)
    if not sound or P.size == 0:
        return 0
    bud.inverse(lower, count, P)
    return count * (count + 1) // 2


@compiled
def _evict(rules, code, samples, weights, H, P, counts, count, k, kxx, u):
    """The sample to leave, of which H and what the others take over are taken care of."""
    rule, projects = rules.evict, rules.evict <= 1
    if projects:
        known = counts[3] > 0 and bud.extend(P, count - 1, k, kxx, u)
        if not known:
            lower = np.empty((count, count))
            projects = bud.factor(code, samples, count, lower)
            if projects:
                bud.inverse(lower, count, P)
            else:
                rule = bud.OLDEST
    leaver = bud.victim(rule, rules.grace, weights, P, count)
    if projects:
        bud.hand_over(code, samples, weights, H, P, leaver, count, u)
    else:
        bud.drop(code, samples, weights, H, leaver, count, u)
    counts[3] = count * (count - 1) // 2 if projects else 0
    return leaver


class DictionaryState(NamedTuple):
    samples: Array  # (m, dim) stored samples, in the order they came
    atom_weights: Array  # (m, atoms) Omega: the atoms are D = Phi(samples) atom_weights
    w: Array  # (atoms, targets) regressor; no columns where there is none
    seen: int  # rows so far
    made_for: int  # checksum of the samples and weights that H and P belong to; others are as if absent
    H: Array  # (atoms, atoms) D'D, or none
    P: Array  # (m (m + 1) / 2,) (K + eps I)^-1 as a lower triangle by rows, or none


class DictionaryLearner(Learner, abstract=True):
    """A base, not a learner. Its subclasses state the settings."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "atom_weights"), ("H",), ("P",))
    may_be_empty: ClassVar[tuple[str, ...]] = ("H", "P")

    kernel: Kernel
    atoms: int
    l1: float
    l2: float
    ridge: float
    step_size: float
    step_decay: float
    step_freeze: int
    budget: int
    evict: str

    def check(self) -> None:
        for pull in ("ridge", "nu"):
            require(self, pull, 0 <= getattr(self, pull, 0.0) * self.step_size <= 1, "0 to 1 / step_size")
        require(self, "step_freeze", self.step_freeze >= -1, "-1 (never) or more")
        holds = self.budget == 0 or self.budget >= self.atoms
        require(self, "budget", holds, f"0 (no limit), or atoms ({self.atoms}) or more")

    @property
    def width(self) -> int:
        return self.atoms

    def room(self, field: str) -> int | None:
        if field == "H":
            return self.atoms
        most = self.budget + 1  # a new sample enters before one leaves
        if field == "P":
            return most * (most + 1) // 2 if self.budget and self.evict.startswith("projected") else 0
        return most if self.budget else None

    def init(self, *, dim: int, targets: int, seed: int) -> DictionaryState:
        return DictionaryState(
            samples=np.empty((0, dim)),
            atom_weights=np.empty((0, self.atoms)),
            w=np.zeros((self.atoms, targets if self.kind == "classification" else 0)),
            seen=0,
            made_for=0,
            H=np.zeros((self.atoms, self.atoms)),
            P=np.empty(0),
        )

    def derive(self, own: Slot) -> None:
        """H where the state has none that belongs to its samples; P is made when it is needed."""
        held, rows, triangle = own.rows_within(self, "samples", self.budget), own.rows("H"), own.rows("P")
        wanted = ((rows, self.atoms, "H", "rows"), (triangle, held * (held + 1) // 2, "P", "numbers"))
        for got, expected, field, unit in wanted:
            if got not in (0, expected):
                raise ValueError(f"{type(self).__name__}: expected {expected} {unit} of {field} or none, got {got}.")
        if rows == 0 or int(own["made_for"]) != _checksum(own, held):
            inner_products(self.kernel.code, own["samples"], own["atom_weights"], held, own["H"])
            own.set_rows("H", self.atoms)
            own.set_rows("P", 0)

    def complete(self, own: Slot) -> None:
        own.work["made_for"][own.number] = _checksum(own, own.rows("samples"))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        rows_through(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.rules)

    @property
    def rules(self) -> Rules:
        """The settings as compiled code reads them."""
        return Rules(
            discriminative=self.kind == "classification",
            l1=float(self.l1),
            l2=float(self.l2),
            ridge=float(self.ridge),
            nu=float(getattr(self, "nu", 0.0)),
            step_size=float(self.step_size),
            step_decay=float(self.step_decay),
            step_freeze=self.step_freeze,
            budget=self.budget,
            evict=EVICTIONS.index(self.evict),
            grace=self.budget // GRACE if self.evict == "projected_grace" else 0,
        )


def _checksum(own: Slot, held: int) -> int:
    """Of the bits of the samples and weights, each with a factor of its own; 0 for none."""
    total = 0
    for field in ("samples", "atom_weights"):
        bits = own[field][:held].reshape(-1).view(np.int64)
        total += int((bits * (2 * np.arange(bits.size) + 1)).sum())
    return total % 2**61  # a whole number of a state stays far below where one wraps around

"""What okdl and okdl_discriminative share: one form of state, one loop, and how they meet a workspace.

The loop codes a row with the atoms so far, steps, stores the row and evicts. A step of stochastic gradient descent on the
atoms changes H and the weights of the samples in O(atoms^2 + m atoms): D' = D M - phi(x) r', with M symmetric and near I;
what is left to the loop is to store x with -r.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import KernelLearner, fill_row, own_value
from algorithms.common.linalg import dot, largest, missing, norm2, put, remove_row, solve_lower, solve_lower_transposed
from algorithms.common.protocol import Array, Basis, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.dictionary import budget as bud
from algorithms.dictionary import coding as atom
from algorithms.dictionary.budget import EVICTIONS, GRACE
from algorithms.dictionary.coding import TRACE, factor_active, image, inner_products, rank_two, sparse_code, turn

OUT_OF_RANGE = 1e100  # kappa(x, x) from which a row gives and teaches nothing; below 1 over it none becomes an atom
ANEW_EVERY = 200, 2  # rows, rows of a budget: after as many H and P are made again, without what rounding left in them
TOLERANCE = 1e-6  # of kappa(x, x): an LS error farther outside [0, kappa(x, x)] says that H is not D'D
OVERSHOOT = 1.5  # most of rho |a|^2: at 1 a step fits its row whole, from 2 on it leads away
LONGEST = 1.0  # most of rho |a| |beta|: a step beyond could double an atom, and does not take place
LARGEST_ERROR = 1e50  # of a prediction, and of w, from which a row teaches nothing


class Rules(NamedTuple):
    """Settings as compiled code reads them."""

    discriminative: bool
    l1: float
    l2: float
    ridge: float  # mu
    nu: float
    step_size: float
    step_decay: float
    step_freeze: int
    budget: int  # 0 = unlimited
    evict: int  # index in EVICTIONS
    grace: int  # of the newest samples none leaves


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
        rho, row = step_length(rules, seen[key], a), atom.repeat_of(samples, count, x)
        if not rules.discriminative:
            reconstructive(rules, rho, H, weights, count, c, a, Ha, ls_error, entry, u, v)
        elif not discriminative(
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


class DictionaryLearner(KernelLearner, abstract=True):
    """A base, not a learner. Its subclasses state the settings."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "atom_weights"), ("H",), ("P",))
    may_be_empty: ClassVar[tuple[str, ...]] = ("H", "P")

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


@compiled
def step_length(rules, n, a):
    """rho_n of row n, from 1, as far as it does not lead away from the row."""
    slowed = n if rules.step_freeze < 0 else min(n, rules.step_freeze)
    rho, length2 = rules.step_size / (1.0 + slowed / rules.step_decay), norm2(a)
    return OVERSHOOT / length2 if rho * length2 > OVERSHOOT else rho


@compiled
def reconstructive(rules, rho, H, weights, count, c, a, Ha, ls_error, entry, u, v):
    """(14), (16): M = (1 - mu rho) I - rho a a', r = -rho a."""
    keep = 1.0 - rules.ridge * rho
    for j in range(a.size):
        entry[j] = keep * rho * (c[j] - Ha[j]) + 0.5 * rho * rho * ls_error * a[j]
    rank_two(H, keep * keep, a, entry)
    turn(weights, count, keep, -0.5 * rho, a, a, u, v)
    for j in range(a.size):
        entry[j] = rho * a[j]


@compiled
def discriminative(rules, rho, H, weights, count, c, a, Ha, kxx, w, error, active, used, M, L, beta, entry, scratch, u, v):
    """(27), (28), (30): M = (1 - mu rho) I + rho (beta a' + a beta'), r = rho beta; and w. False: D stays."""
    if not max(largest(error), largest(w.reshape(w.size))) < LARGEST_ERROR:
        return False
    _beta(rules.l2, H, w, error, active, used, M, L, scratch, beta)
    for j in range(a.size):
        for t in range(error.size):
            w[j, t] += rho * (error[t] * a[j] - rules.nu * w[j, t])
        entry[j] = 0.0
    if not rho * np.sqrt(norm2(a) * norm2(beta)) <= LONGEST:
        return False
    keep = 1.0 - rules.ridge * rho
    image(H, beta, active, used, entry)
    bHb, aHa, aHb, ac, bc = dot(beta, entry), dot(a, Ha), dot(a, entry), dot(a, c), dot(beta, c)
    for j in range(a.size):
        along_a = keep * entry[j] + 0.5 * rho * bHb * a[j]
        along_b = keep * (Ha[j] - c[j]) - rho * (beta[j] * ac + a[j] * bc)
        along_b += rho * (0.5 * (aHa + kxx) * beta[j] + aHb * a[j])
        entry[j], scratch[j] = rho * along_a, rho * along_b
    rank_two(H, keep * keep, a, entry)
    rank_two(H, 1.0, beta, scratch)
    turn(weights, count, keep, rho, a, beta, u, v)
    for j in range(a.size):
        entry[j] = -rho * beta[j]
    return True


@compiled
def _beta(l2, H, w, error, active, used, M, L, scratch, beta):
    """(33), (34), summed over the targets: beta = (H + l2 I)^-1 grad c on the active atoms, 0 elsewhere."""
    beta[:] = 0.0
    for i in range(used):
        scratch[i] = 0.0
        for t in range(error.size):
            scratch[i] -= w[active[i], t] * error[t]
    factor_active(H, l2, active, used, M, L, TRACE)
    solve_lower(L, used, scratch)
    solve_lower_transposed(L, used, scratch)
    for i in range(used):
        beta[active[i]] = scratch[i]

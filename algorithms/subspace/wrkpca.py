"""Windowed, recency-weighted kernel PCA on a budget (WR-KPCA): the leading directions of the latest rows, all of them.

Source: ours; the setting, the budget and the LS error are those of OK-FEB (Sheikholeslami, Berberidis, Giannakis).
Symbols: S = support, K = its gram matrix, M = spread, C = Phi_S M Phi_S' + (boost of the newest), L = Phi_S A with A'KA = I
the leading eigenvectors of C, lambda = ridge, l = ls_error, B = budget.
Cost of a row: O(m d + m r + r^2); a stored one adds O(m^3).  State: m (d + 1) + m (m + 1) / 2 numbers with m <= B,
and the LS errors of censor_window rows.
Departs from the source: no gradient step. C is the sum of phi phi' over rows with weight
floor decay^age + (1 - floor) fade^age (ages in stored rows; up to a factor): M carries the first part, the ages of the
stored samples give the second. A sample that leaves is replaced in M by its projection on the others, so rows count
long after they have left; the one with the least part of C leaves, argmin C_ii / [K^-1]_ii.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common import linalg
from algorithms.common.compiled import compiled
from algorithms.common.eigen import symmetric
from algorithms.common.kernels import KernelLearner, fill_row, value
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs, require
from algorithms.common.workspace import Slot, packed
from algorithms.subspace import budget_steps as bud
from algorithms.subspace import projection as sub
from algorithms.subspace.budget_steps import JITTER

LARGEST = 1e100  # a larger kappa(x, x) is not stored: its products leave the floating-point range


class WrRules(NamedTuple):
    """Settings as compiled code reads them."""

    budget: int
    ridge: float
    decay: float
    fade: float
    boost: float  # weight of the newest row's own part, in units of the carried one: (1 - floor) / floor
    averaged: bool  # censor by the moving average
    below: float  # censoring threshold otherwise; negative = off
    window: int


@compiled
def directions(rules, gram, spread, age, m, factor):
    """A = L'^-1 V, with K = L L' and V the leading eigenvectors of L'M L: those of C = Phi_S M Phi_S' in coordinates."""
    rank = factor.shape[1]
    M, lower, half, C = np.empty((m, m)), np.zeros((m, m)), np.empty((m, m)), np.empty((m, m))
    at = 0
    for i in range(m):
        for j in range(i + 1):
            M[i, j] = spread[at]
            M[j, i] = spread[at]
            at += 1
        M[i, i] += rules.boost * bud.power(rules.fade, age[i])
    linalg.cholesky(gram, m, 0.0, JITTER, sub.LOST, lower)
    linalg.transposed_product(M, lower, m, m, half)
    linalg.transposed_product(lower, half, m, m, C)
    vectors = symmetric(C, m)[1]
    for c in range(rank):
        for i in range(m):
            half[0, i] = vectors[i, c]
        linalg.solve_lower_transposed(lower, m, half[0])
        for i in range(m):
            factor[i, c] = half[0, i]


@compiled
def faded(rules, spread, count, M):
    """M of the stored samples, one row of decay older, with a last row for the newcomer."""
    at = 0
    for i in range(count):
        for j in range(i + 1):
            M[i, j] = rules.decay * spread[at]
            M[j, i] = M[i, j]
            at += 1
    for i in range(count):
        M[count, i] = 0.0
        M[i, count] = 0.0
    M[count, count] = 1.0


@compiled
def size(M, m):
    total = 0.0
    for i in range(m):
        for j in range(i + 1):
            total += abs(M[i, j])
    return total


@compiled
def hand_over(rules, gram, M, age, m, lower, inverse, share):
    """The sample to evict of m, argmin C_ii / [K^-1]_ii; the others take over its part of M, by its projection on them."""
    # Rounding: no inverse, so the oldest leaves and takes its part along.
    if linalg.cholesky(gram, m, 0.0, JITTER, 0.0, lower) < m:
        return 0
    linalg.invert_lower(lower, m, inverse)  # W, K^-1 = W W'
    leaver, least = 0, np.inf
    for i in range(m):
        spread = 0.0  # [K^-1]_ii
        for t in range(i, m):
            spread += inverse[i, t] * inverse[i, t]
        cost = (M[i, i] + rules.boost * bud.power(rules.fade, age[i] + 1 if i < m - 1 else 0)) / spread
        if cost < least:
            leaver, least = i, cost
    spread = 0.0
    for t in range(leaver, m):
        spread += inverse[leaver, t] * inverse[leaver, t]
    for j in range(m):
        share[j] = 0.0
        if j != leaver:
            for t in range(max(j, leaver), m):
                share[j] -= inverse[j, t] * inverse[leaver, t]
            share[j] /= spread
    own = M[leaver, leaver]
    for i in range(m):
        if i == leaver:  # its row and column are read here, and go
            continue
        for j in range(i + 1):
            if j != leaver:
                M[i, j] += share[i] * M[leaver, j] + M[i, leaver] * share[j] + share[i] * share[j] * own
    return leaver


class WrkpcaState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    spread: Array  # (m (m + 1) / 2,) lower triangle of M by rows
    age: Array  # (m,) int64 rows stored since
    recent: Array  # (<= censor_window,) last LS errors, oldest first
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrkpca(KernelLearner):
    """Features of rank `rank` from at most `budget` stored samples; approximates kernel PCA of the latest rows.

    Features start when `rank` samples are stored. `floor` = 1 is kernel PCA with decay alone; a small one weighs the
    newest rows up, which lowers the LS error of the row that comes next.

    >>> learner = Wrkpca(rank=2, budget=4)
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    >>> state.support.shape, state.spread.shape, out.features.shape
    ((4, 3), (10,), (300, 2))
    """

    stored: ClassVar[tuple[str, ...]] = ("support", "spread", "age", "recent")
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "age"),)
    triangles: ClassVar[Mapping[str, str]] = {"spread": "support"}
    may_be_empty: ClassVar[tuple[str, ...]] = ("spread", "age")
    moves: ClassVar[bool] = True

    rank: int = 10  # 1 to budget
    budget: Annotated[int, "1 or more"] = 15  # most stored samples
    ridge: Annotated[float, "above 0"] = 1e-3  # added to the diagonal of the gram matrix
    decay: Annotated[float, "above 0, at most 1"] = 0.98  # a row's lasting weight after n more stored rows is floor decay^n
    floor: Annotated[float, "above 0, at most 1"] = 0.03  # share of the lasting weight in a new row's
    fade: Annotated[float, "0 or more, below 1"] = 0.7  # its passing weight is (1 - floor) fade^n
    censor: Literal["moving_average", "off", "below"] = "off"
    censor_below: Annotated[float, "0 or more"] = 0.0  # threshold of censor = "below", a squared distance
    censor_window: Annotated[int, "1 to 10000"] = 100  # LS errors in the moving average

    def check(self) -> None:
        require(self, "rank", 1 <= self.rank <= self.budget, f"1 to budget ({self.budget})")

    @property
    def rules(self) -> WrRules:
        """The settings as compiled code reads them."""
        return WrRules(
            budget=self.budget,
            ridge=float(self.ridge),
            decay=float(self.decay),
            fade=float(self.fade),
            boost=min((1.0 - self.floor) / self.floor, LARGEST),
            averaged=self.censor == "moving_average",
            below=float(self.censor_below) if self.censor == "below" else -1.0,
            window=self.censor_window,
        )

    def room(self, field: str) -> int | None:
        most = self.budget + 1  # a new sample enters before one leaves
        return {"recent": self.censor_window, "spread": most * (most + 1) // 2}.get(field, most)

    def init(self, *, dim: int, targets: int, seed: int) -> WrkpcaState:
        return WrkpcaState(np.empty((0, dim)), np.empty(0), np.empty(0, np.int64), np.empty(0), 0)

    def caches(self, state: WrkpcaState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        m, r = rows["support"], self.rank
        tall = {name: np.zeros((m, r)) for name in ("factor", "image")}
        triangles = {name: np.zeros(r * (r + 1) // 2) for name in ("solver", "rotation")}
        return {"gram": np.zeros((m, m)), **tall, "inner": np.zeros((r, r)), **triangles}

    def derive(self, own: Slot) -> None:
        gram, spread, age = own["gram"], own["spread"], own["age"]
        held = own.rows_within(self, "support", self.budget)
        if own.rows("spread") == 0:  # a state made by hand: M = I
            spread[: held * (held + 1) // 2] = packed(np.eye(held))
            own.set_rows("spread", held * (held + 1) // 2)
        if own.rows("age") == 0:
            age[:held] = np.arange(held)[::-1]
            own.set_rows("age", held)
        sub.fill_gram(self.kernel.code, own["support"], held, gram)
        if held >= self.rank:
            directions(self.rules, gram, spread, age, held, own["factor"])
            caches = own["image"], own["inner"], own["solver"], own["rotation"]
            sub.refresh(gram, own["factor"], held, float(self.ridge), *caches)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, self.rules)


@compiled
def _loop(work, slots, X, learn, out, basis, code, rules):
    supports, spreads, ages, recents, seen, counts, grams, factors, images, inners, solvers, rotations = work
    room, rank = factors.shape[1], factors.shape[2]
    k, b, q, turned = np.empty(room), np.empty(rank), np.empty(rank), np.empty((rank, rank))
    M, lower, inverse, share = np.empty((room, room)), np.empty((room, room)), np.empty((room, room)), np.empty(room)

    for n in range(len(X)):
        key, x = slots[n], X[n]
        kxx = value(code, x, x)
        if linalg.missing(x) or not np.isfinite(kxx):
            continue
        support, spread, age, gram, count = supports[key], spreads[key], ages[key], grams[key], counts[key, 0]
        factor, image, inner, solver, rotation = factors[key], images[key], inners[key], solvers[key], rotations[key]
        fill_row(code, support, count, x, k)

        # Project phi(x) on what earlier rows taught.
        ready, captured = count >= rank, False
        if ready:
            ls_error = sub.project(factor, count, inner, solver, k, kxx, b, q)
            out.ls_error[n] = ls_error
            sub.coordinates(rotation, q, out.features[n])
            if learn[n] & LEARN_EXTRACTOR:
                captured = count == rules.budget and bud.censored(rules, ls_error, recents[key], counts[key, 3])
                if np.isfinite(ls_error):
                    counts[key, 3] = bud.remember(recents[key], counts[key, 3], rules.window, ls_error)
        if not learn[n] & LEARN_EXTRACTOR:
            continue
        seen[key] += 1
        if captured or not kxx < LARGEST or sub.is_repeat(gram, count, k, kxx):
            continue

        # Store x, on trial: M fades and gets a row for it; over budget the part of C lost least is handed over.
        sub.extend_gram(gram, count, k, kxx)
        faded(rules, spread, count, M)
        m, leaver = count + 1, -1
        if m > rules.budget:
            leaver = hand_over(rules, gram, M, age, m, lower, inverse, share)
        if not size(M, m) < LARGEST:
            continue
        listens = ready and basis.moved.size > 0
        linalg.put(support[count], x)
        for i in range(count):
            age[i] += 1
        age[count] = 0
        if ready:
            linalg.put(image[count], b)
        if leaver >= 0:
            linalg.remove_row(support, leaver, m)
            linalg.remove_at(age, leaver, m)
            linalg.remove_row_and_column(gram, leaver, m)
            linalg.remove_row_and_column(M, leaver, m)
            linalg.remove_row(image, leaver, m)
            m -= 1
            out.evicted[n] = 1
        sub.pack(M, m, spread)
        counts[key, 0] = m
        counts[key, 1] = m * (m + 1) // 2
        counts[key, 2] = m
        out.admitted[n] = 1
        if m < rank:
            continue

        # The leading directions of C, and for a head the way from the old basis: image holds K(S', S) A.
        directions(rules, gram, spread, age, m, factor)
        if listens:
            sub.cross(factor, image, m, turned)
            sub.leave_basis(rotation, turned)
        sub.refresh(gram, factor, m, rules.ridge, image, inner, solver, rotation)
        if listens and sub.enter_basis(rotation, turned):
            sub.announce(basis, n, turned)

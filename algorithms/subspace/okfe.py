"""Online kernel feature extraction without a budget (OK-FE): every row is stored. For study; jobs refuse it.

Source: Sheikholeslami, Berberidis, Giannakis, "Large-scale kernel-based feature extraction via low-rank subspace
tracking on a budget", Alg. 2 (parametric update, (16)) and Alg. 3 (nonparametric update, (19b)).
Symbols: A = factor, L = Phi A, lambda = ridge, mu = step length, l = ls_error (without the factor 1/2), image = K A.
Cost of a row: O(n d + n r^2) for Alg. 2; Alg. 3 adds O(n^2), and its (lambda/n) term O(n^2 r).
State: n (d + 2 r + 1) numbers after n rows, and 100 LS errors. Alg. 3 keeps the gram matrix in memory besides, n^2 numbers.
Departs from the source: seeds with several rows (from one row the rank would stay 1), none of them an exact repeat; the
(lambda/n) term is off by default and |q| is floored (it explodes on far data). K A is updated with each row and never
recomputed, so a row of Alg. 2 does not cost O(n^2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import KernelLearner, fill_row, value
from algorithms.common.linalg import dots, missing, norm2, put
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.subspace import budget_steps as bud
from algorithms.subspace import projection as sub
from algorithms.subspace.budget_steps import STEP_RULES, Rules


class OkfeState(NamedTuple):
    support: Array  # (n, dim) all rows, oldest first
    factor: Array  # (n, rank) A; no rows while seeding
    image: Array  # (n, rank) K A, carried along; of no rows in a state made by hand
    age: Array  # (n,) int64 rows stored since
    recent: Array  # (<= 100,) last LS errors, oldest first
    curvature: float  # sum of gamma_n (Proposition 2)
    seed: int
    seen: int  # rows so far, those of the seed included


@dataclass(frozen=True, slots=True, kw_only=True)
class Okfe(KernelLearner):
    """Features u = R q of rank `rank`, from all rows so far; the unbudgeted form of `okfeb`.

    >>> learner = Okfe(rank=2, step_rule="over_n", step_size=10.0)
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    >>> state.support.shape, state.factor.shape, out.features.shape
    ((100, 3), (100, 2), (100, 2))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "factor", "image", "age"), ("recent",))
    may_be_empty: ClassVar[tuple[str, ...]] = ("factor", "image", "age")
    moves: ClassVar[bool] = True

    rank: Annotated[int, "1 or more"] = 10  # features of a row
    ridge: Annotated[float, "above 0"] = 1e-3  # added to the diagonal of the gram matrix
    update: Literal["parametric", "nonparametric"] = "parametric"  # (16) or (19b)
    step_rule: Literal["inverse_norm", "over_n", "over_n2", "lipschitz", "constant"] = "inverse_norm"
    step_size: Annotated[float, "above 0"] = 1.0  # the constant c of every step rule, for kappa(x, x) about 1
    step_floor: Annotated[float, "0 or more"] = 0.05  # smallest |q| of inverse_norm; 0 = none
    recede: bool = False  # the (lambda/n) term of (16) and (19b)
    seed_size: int | None = None  # rows for the first factor, rank or more; None = rank
    seed_factor: Literal["kpca", "random"] = "kpca"

    def check(self) -> None:
        require(self, "seed_size", self.seed_size is None or self.seed_size >= self.rank, f"rank ({self.rank}) or more")

    @property
    def rules(self) -> Rules:
        """The settings as compiled code reads them."""
        return Rules(
            parametric=self.update == "parametric",
            step_rule=STEP_RULES.index(self.step_rule),
            step_size=float(self.step_size),
            step_floor=float(self.step_floor),
            ridge=float(self.ridge),
            recede=self.recede,
            seed_size=self.seed_size or self.rank,
            kpca=self.seed_factor == "kpca",
        )

    def room(self, field: str) -> int | None:
        return self.rules.window if field == "recent" else None

    def init(self, *, dim: int, targets: int, seed: int) -> OkfeState:
        return OkfeState(
            support=np.empty((0, dim)),
            factor=np.empty((0, self.rank)),
            image=np.empty((0, self.rank)),
            age=np.empty(0, np.int64),
            recent=np.empty(0),
            curvature=0.0,
            seed=seed,
            seen=0,
        )

    def caches(self, state: OkfeState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        m, r = self.rules.seed_size if self.update == "parametric" else rows["support"], self.rank
        triangles = {name: np.zeros(r * (r + 1) // 2) for name in ("solver", "rotation")}
        return {"gram": np.zeros((m, m)), "inner": np.zeros((r, r)), **triangles}

    def derive(self, own: Slot) -> None:
        support, factor, image, held = own["support"], own["factor"], own["image"], own.rows("support")
        if own.rows("age") == 0:  # a state made by hand
            own["age"][:held] = np.arange(held)[::-1]
            own.set_rows("age", held)
        seeded = own.rows("factor") > 0
        if self.update == "nonparametric" or not seeded:
            sub.fill_gram(self.kernel.code, support, held, own["gram"])
        if not seeded:
            return
        if own.rows("image") == 0:
            sub.fill_image(self.kernel.code, support, held, factor, image)
            own.set_rows("image", held)
        sub.settle(factor, held, float(self.ridge), image, own["inner"], own["solver"], own["rotation"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, self.rules)


@compiled
def _loop(work, slots, X, learn, out, basis, code, rules):
    supports, factors, images, ages, recents, curvature, seeds, seen, counts, grams, inners, solvers, rotations = work
    room, rank = factors.shape[1], factors.shape[2]
    k, b, q = np.empty(room), np.empty(rank), np.empty(rank)
    trial, moved, turned = np.empty((room, rank)), np.empty((room, rank)), np.empty((rank, rank))
    along, turn = np.empty(room), np.empty(room)

    for n in range(len(X)):
        key, x = slots[n], X[n]
        kxx = value(code, x, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        support, factor, image, age, count = supports[key], factors[key], images[key], ages[key], counts[key, 0]
        gram, inner, solver, rotation = grams[key], inners[key], solvers[key], rotations[key]
        fill_row(code, support, count, x, k)
        learns = learn[n] & LEARN_EXTRACTOR

        # Seed: the first rows that are not copies wait, then plant the factor.
        if counts[key, 1] != count or count == 0:
            if not learns:
                continue
            seen[key] += 1
            if sub.is_repeat(gram, count, k, kxx):
                continue
            sub.extend_gram(gram, count, k, kxx)
            _store(support, age, counts[key], x)
            out.admitted[n] = 1
            if count + 1 >= rules.seed_size:
                sub.plant(gram, count + 1, factor, rules.kpca, seeds[key], seen[key])
                sub.fill_image(code, support, count + 1, factor, image)
                sub.settle(factor, count + 1, rules.ridge, image, inner, solver, rotation)
                counts[key, 1:3] = count + 1
            continue

        # Project phi(x) on what earlier rows taught, (11b).
        ls_error = sub.project(factor, count, inner, solver, k, kxx, b, q)
        out.ls_error[n] = ls_error
        if not np.isfinite(ls_error):
            seen[key] += learns
            continue
        sub.coordinates(rotation, q, out.features[n])
        if not learns:
            continue
        seen[key] += 1
        counts[key, 4] = bud.remember(recents[key], counts[key, 4], rules.window, ls_error)

        # Update A with x as its last row, on trial: a step that would leave the finite numbers is not taken.
        k[count] = kxx
        put(image[count], b)  # K(x, S) A
        if not rules.parametric:
            sub.extend_gram(gram, count, k, kxx)
        length = np.sqrt(norm2(q))
        step, bent = bud.step_length(rules, length, seen[key], curvature[key], gram, count, kxx)
        bud.updated(rules, step, seen[key], factor, image, count, k, kxx, b, q, trial)
        _follow(rules, step, seen[key], gram, image, count + 1, k, q, along, turn, moved)
        if not (bud.sound(trial, count + 1) and bud.sound(moved, count + 1)):
            continue
        listens = basis.moved.size > 0
        if listens:
            sub.cross(trial, image, count + 1, turned)
            sub.leave_basis(rotation, turned)
        curvature[key] = bent
        _store(support, age, counts[key], x)
        for i in range(count + 1):
            put(factor[i], trial[i])
            put(image[i], moved[i])
        counts[key, 1:3] = count + 1
        out.admitted[n] = 1
        sub.settle(factor, count + 1, rules.ridge, image, inner, solver, rotation)
        if listens and sub.enter_basis(rotation, turned):
            sub.announce(basis, n, turned)


@compiled
def _store(support, age, counts, x):
    count = counts[0]
    put(support[count], x)
    for i in range(count):
        age[i] += 1
    age[count] = 0
    counts[0] = count + 1
    counts[3] = count + 1


@compiled
def _follow(rules, step, n, gram, image, m, k, q, along, turn, moved):
    """K A after (16) or (19a), in `moved`: the change of A times K, which of (16) needs no gram matrix."""
    for i in range(m):
        along[i] = -k[i]
        for c in range(q.size):
            along[i] += image[i, c] * q[c]
    _push(rules, gram, m, along, turn)
    for i in range(m):
        for c in range(q.size):
            moved[i, c] = image[i, c] - step * turn[i] * q[c]
    if not rules.recede:
        return
    pull = step * rules.ridge / n
    for c in range(q.size):
        for i in range(m):
            along[i] = image[i, c]
        _push(rules, gram, m, along, turn)
        for i in range(m):
            moved[i, c] -= pull * turn[i]


@compiled
def _push(rules, gram, m, along, turn):
    """turn = along for (16), K along for (19b): its step of A is K times that of (16)."""
    if rules.parametric:
        for i in range(m):
            turn[i] = along[i]
        return
    dots(gram, m, along[:m], turn)

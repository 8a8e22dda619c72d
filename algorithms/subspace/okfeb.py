"""Online kernel feature extraction on a budget (OK-FEB): tracks a low-rank subspace of the kernel's feature space.

Source: Sheikholeslami, Berberidis, Giannakis, "Large-scale kernel-based feature extraction via low-rank subspace
tracking on a budget", Alg. 4 and 5; the parametric update is (16), the nonparametric one (19b).
Symbols: S = support, A = factor, L = Phi_S A, lambda = ridge, mu = step length, beta = decay, eta = decay^age,
B = budget, l = ls_error (without the factor 1/2), epsilon = the censoring threshold.
Cost of a row: O(m d + m r + r^2); an admitted one adds O(m^2 r + m r^2 + r^3), eviction by inverse O(m^3).
State: m (d + r + 1) numbers with m <= budget, the LS errors of censor_window rows, and at most budget far rows.
Departs from the source: seeds with several rows (from one row the rank would stay 1); the (lambda/n) term is off by
default and |q| is floored (it explodes on far data); exact repeats are not stored; after `budget` rows in a row that
the subspace misses altogether, and that lie together, it is seeded again from them; `projected` eviction hands a
victim's part to the others, and `projected_older` takes no victim among the newest two fifths of the budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import square_root
from algorithms.common.kernels import KernelLearner, fill_row, own_value
from algorithms.common.linalg import missing, put, remove_at, remove_row, remove_row_and_column, transposed_product
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.subspace import budget_steps as bud
from algorithms.subspace import budget_steps as steps
from algorithms.subspace import projection as sub
from algorithms.subspace.budget_steps import EVICTIONS, NEWEST, STEP_RULES, Rules

PRESETS: dict[str | None, dict[str, Any]] = {
    None: {"update": "parametric", "evict": "projected", "decay": 0.97, "censor": "moving_average"},
    "track": {"update": "parametric", "evict": "projected", "decay": 0.97, "censor": "off"},
    "head": {"update": "nonparametric", "evict": "decayed_norm", "decay": 1.0, "censor": "moving_average"},
}


STALE = -1.0  # first number of a solver that is to be computed; those computed are not negative


class OkfebState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    factor: Array  # (m, rank) A; no rows while seeding
    age: Array  # (m,) int64 admissions (or evictions) since a sample was stored
    recent: Array  # (<= censor_window,) last LS errors, oldest first
    far: Array  # (<= budget, dim) the latest rows, as long as each of them was missed altogether
    curvature: float  # sum of gamma_n (Proposition 2)
    seed: int
    seen: int  # rows so far, seed and censored ones included


@dataclass(frozen=True, slots=True, kw_only=True)
class Okfeb(KernelLearner):
    """Features of rank `rank` from at most `budget` stored samples, following a subspace that moves.

    `role` presets update, evict, decay and censor: "track" follows the newest data (drift), "head" keeps the subspace
    still for a head to learn on. A setting given explicitly wins over the preset.

    >>> learner = Okfeb(rank=2, budget=4)
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    >>> state.support.shape, state.factor.shape, out.features.shape
    ((4, 3), (4, 2), (300, 2))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "factor", "age"), ("recent",), ("far",))
    may_be_empty: ClassVar[tuple[str, ...]] = ("factor", "age")
    moves: ClassVar[bool] = True

    rank: int = 10  # 1 to budget
    budget: Annotated[int, "1 or more"] = 15  # most stored samples
    ridge: Annotated[float, "above 0"] = 1e-3  # added to the diagonal of the gram matrix
    role: Literal["track", "head"] | None = None
    update: Literal["parametric", "nonparametric"] | None = None  # (16) or (19b)
    step_rule: Literal["inverse_norm", "over_n", "over_n2", "lipschitz", "constant"] = "inverse_norm"
    step_size: Annotated[float, "above 0"] = 1.0  # the constant c of every step rule, for kappa(x, x) about 1
    step_floor: Annotated[float, "0 or more"] = 0.05  # smallest |q| of inverse_norm; 0 = none
    recede: bool = False  # the (lambda/n) term of (16) and (19b)
    evict: Literal["projected", "decayed_norm", "oldest", "min_distortion", "redundancy", "projected_older"] | None = None
    decay: Annotated[float, "above 0, at most 1"] | None = None  # beta in (0, 1]
    decay_on: Literal["admission", "eviction"] = "admission"
    censor: Literal["moving_average", "off", "below"] | None = None
    censor_below: Annotated[float, "0 or more"] = 0.0  # threshold of censor = "below", a squared distance
    censor_window: Annotated[int, "1 to 10000"] = 100  # LS errors in the moving average
    seed_size: int | None = None  # rows for the first factor, rank to budget; None = budget
    seed_factor: Literal["kpca", "random"] = "kpca"
    coordinates: Literal["subspace", "support"] = "subspace"  # u = R q, or the paper's z = K^(1/2) A q of width budget

    def check(self) -> None:
        require(self, "rank", 1 <= self.rank <= self.budget, f"1 to budget ({self.budget})")
        sizes = self.seed_size is None or self.rank <= self.seed_size <= self.budget
        require(self, "seed_size", sizes, f"rank ({self.rank}) to budget ({self.budget})")

    @property
    def width(self) -> int:
        return self.rank if self.coordinates == "subspace" else self.budget

    @property
    def rules(self) -> Rules:
        """The settings as compiled code reads them, presets applied."""
        preset = PRESETS[self.role]
        censor, evict = self.censor or preset["censor"], self.evict or preset["evict"]
        return Rules(
            parametric=(self.update or preset["update"]) == "parametric",
            step_rule=STEP_RULES.index(self.step_rule),
            step_size=float(self.step_size),
            step_floor=float(self.step_floor),
            ridge=float(self.ridge),
            recede=self.recede,
            evict=EVICTIONS.index(evict),
            handed=evict.startswith("projected"),
            safe=self.budget * NEWEST[0] // NEWEST[1] if evict == "projected_older" else 0,
            decay=float(self.decay or preset["decay"]),
            by_admission=self.decay_on == "admission",
            budget=self.budget,
            averaged=censor == "moving_average",
            below=float(self.censor_below) if censor == "below" else -1.0,
            window=self.censor_window,
            seed_size=self.seed_size or self.budget,
            kpca=self.seed_factor == "kpca",
            on_support=self.coordinates == "support",
        )

    def room(self, field: str) -> int | None:
        sizes = {"recent": self.censor_window, "far": self.budget}
        return sizes.get(field, self.budget + 1)  # a new sample enters before one leaves

    def init(self, *, dim: int, targets: int, seed: int) -> OkfebState:
        return OkfebState(
            support=np.empty((0, dim)),
            factor=np.empty((0, self.rank)),
            age=np.empty(0, np.int64),
            recent=np.empty(0),
            far=np.empty((0, dim)),
            curvature=0.0,
            seed=seed,
            seen=0,
        )

    def caches(self, state: OkfebState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        m, r = rows["support"], self.rank
        root = m if self.coordinates == "support" else 0
        triangles = {name: np.zeros(r * (r + 1) // 2) for name in ("solver", "rotation")}
        return {**triangles, "inner": np.zeros((r, r)), "root": np.zeros((root, root))}

    def derive(self, own: Slot) -> None:
        held, far = own.rows_within(self, "support", self.budget), own.rows("far")
        if far >= self.budget:
            raise ValueError(f"Okfeb: the state stores {far} far rows, of which {self.budget} plant a new subspace.")
        if own.rows("age") == 0:  # a state made by hand: ages as after seeding
            own["age"][:held] = np.arange(held)[::-1] if self.decay_on == "admission" else 0
            own.set_rows("age", held)
        own["solver"][0] = STALE

    def derive_slots(self, work: Any, slots: Array) -> Array:
        counts = work["counts"][slots]
        held, age, far = (counts[:, self.stored.index(field)] for field in ("support", "age", "far"))
        good: Array = (held <= self.budget) & (far < self.budget) & (age == held)
        if not good.all():
            return Learner.derive_slots(self, work, slots)
        work["solver"][slots, 0] = STALE
        return good

    def recent_error(self, state: OkfebState) -> tuple[float, str] | None:
        return (float(state.recent.mean()), f"the last {len(state.recent)} rows") if len(state.recent) else None

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(work.arrays, slots, X, learn, tuple(out), tuple(basis), self.kernel.code, tuple(self.rules))


@compiled
def _loop(work, slots, X, learn, out, basis, code, rules):
    out, basis, rules = Outputs(*out), Basis(*basis), Rules(*rules)  # plain tuples take half the time to get here
    supports, factors, ages, recents, fars, curvature, seeds, seen, counts, solvers, rotations, inners, roots = work
    room, rank = factors.shape[1], factors.shape[2]
    gram, image, loaded = np.empty((room, room)), np.empty((room, rank)), -1  # K and K A of `loaded`: no key keeps its own
    k, b, q = np.empty(room), np.empty(rank), np.empty(rank)
    trial, turned = np.empty((room, rank)), np.empty((rank, rank))
    lower, inverse, mixed = np.empty((room, room)), np.empty((room, room)), np.empty(room)
    listens = basis.moved.size > 0 and not rules.on_support

    for n in range(len(X)):
        key, x = slots[n], X[n]
        kxx = own_value(code, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        support, factor, age, count = supports[key], factors[key], ages[key], counts[key, 0]
        inner, solver, rotation = inners[key], solvers[key], rotations[key]
        fill_row(code, support, count, x, k)
        learns = learn[n] & LEARN_EXTRACTOR

        # Seed: the first rows that are not copies wait, then plant the factor.
        if counts[key, 1] != count or count == 0:
            if not learns:
                continue
            seen[key] += 1
            if loaded != key:
                sub.fill_gram(code, support, count, gram)
                loaded = key
            if count < rules.budget and not sub.is_repeat(gram, count, k, kxx):
                put(support[count], x)
                sub.extend_gram(gram, count, k, kxx)
                for i in range(count):
                    age[i] += rules.by_admission
                age[count] = 0
                count += 1
                counts[key, 0] = count
                counts[key, 2] = count
                out.admitted[n] = 1
            if count >= rules.seed_size:
                sub.plant(gram, count, factor, rules.kpca, seeds[key], seen[key])
                counts[key, 1] = count
                sub.refresh(gram, factor, count, rules.ridge, image, inner, solver, rotation)
                if rules.on_support:
                    square_root(gram, count, roots[key])
            continue

        if solver[0] == STALE:  # what follows from a stored state, when its first row comes: the update needs K and K A too
            sub.fill_gram(code, support, count, gram)
            sub.refresh(gram, factor, count, rules.ridge, image, inner, solver, rotation)
            if rules.on_support:
                square_root(gram, count, roots[key])
            loaded = key
        # Alg. 4: project phi(x) on what earlier rows taught.
        ls_error = sub.project(factor, count, inner, solver, k, kxx, b, q)
        out.ls_error[n] = ls_error
        if rules.on_support:
            steps.on_support(roots[key], factor, count, q, mixed, out.features[n])
        elif np.isfinite(ls_error):
            sub.coordinates(rotation, q, out.features[n])
        if not learns:
            continue
        seen[key] += 1

        # The threshold comes from the rows before this one.
        captured = count == rules.budget and bud.censored(rules, ls_error, recents[key], counts[key, 3])
        if np.isfinite(ls_error):
            counts[key, 3] = bud.remember(recents[key], counts[key, 3], rules.window, ls_error)

        # Rows that the subspace misses altogether, a budget of them in a row: plant it on them.
        if ls_error <= steps.FAR * kxx:
            counts[key, 4] = 0
        elif steps.new_place(code, fars[key], counts[key], x, kxx, rules.budget):
            count = rules.budget
            if listens:
                for i in range(count):
                    fill_row(code, support, counts[key, 0], fars[key, i], k)
                    sub.mix(factor, counts[key, 0], k, trial[i])
            for i in range(count):
                put(support[i], fars[key, i])
                age[i] = (count - 1 - i) * rules.by_admission
            sub.fill_gram(code, support, count, gram)
            loaded = key
            sub.plant(gram, count, factor, rules.kpca, seeds[key], seen[key])
            counts[key, :3] = count
            counts[key, 4] = 0
            curvature[key] = 0.0
            out.admitted[n], out.evicted[n] = 1, 1
            steps.turn(
                basis, n, listens, gram, factor, count, rules, trial, image, inner, solver, rotation, roots[key], turned
            )
            continue

        # Censor what is captured well enough, and what is stored already.
        length2 = 0.0
        for c in range(rank):
            length2 += q[c] * q[c]
        if captured or not length2 > 0.0 or not np.isfinite(ls_error):
            continue
        if loaded != key:
            sub.fill_gram(code, support, count, gram)
            if listens or not rules.parametric:
                transposed_product(gram, factor, count, count, image)
            loaded = key
        if sub.is_repeat(gram, count, k, kxx):
            continue

        # Update A and append x, on trial: a step that would leave the finite numbers is not taken.
        step, bent = bud.step_length(rules, np.sqrt(length2), seen[key], curvature[key], gram, count, kxx)
        bud.updated(rules, step, seen[key], factor, image, count, k, kxx, b, q, trial)
        sub.extend_gram(gram, count, k, kxx)
        leaver = -1
        if count == rules.budget:  # Alg. 5
            leaver = bud.victim(rules, gram, trial, age, count, lower, inverse)
            if rules.handed:
                bud.hand_over(inverse, leaver, count + 1, trial)
        if not (np.isfinite(bent) and bud.sound(trial, count + 1)):
            continue
        curvature[key] = bent
        put(support[count], x)
        for i in range(count):
            age[i] += rules.by_admission or leaver >= 0
        age[count] = 0 if rules.by_admission or leaver < 0 else 1
        if listens:  # else the old image is not looked at again
            put(image[count], b)
        for i in range(count + 1):
            put(factor[i], trial[i])
        count += 1
        out.admitted[n] = 1
        if leaver >= 0:
            remove_row(support, leaver, count)
            remove_row(factor, leaver, count)
            if listens:
                remove_row(image, leaver, count)
            remove_at(age, leaver, count)
            remove_row_and_column(gram, leaver, count)
            count -= 1
            out.evicted[n] = 1
        counts[key, :3] = count

        steps.turn(basis, n, listens, gram, factor, count, rules, image, image, inner, solver, rotation, roots[key], turned)

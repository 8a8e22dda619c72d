"""Sketched online gradient descent (SkeGD): kernel classification on a feature map that follows the stream.

Source: Zhang, Liao, "Incremental randomized sketching for online kernel learning", Algorithm 1; `sketch.py` has section 3.
Symbols: B = budget, s_p = sketch_rows, s_m = landmarks, k = rank, d = sketch_blocks, rho = refresh_every, eta = step_size,
lambda = ridge, V_t = support, alpha = weights, Q = map, T_0 = the first round that begins with a full buffer.
Cost of a row: O(m dim) until the buffer is full, then O(s_m (dim + k) + experts k). One that updates the map adds
O(rows (dim + d) + (s_p + s_m) s_m^2), printed O((s_p + s_m)^3).
State: B (dim + targets) + rows (dim + d) + s_p (s_p + s_m) + s_m (dim + k) + k targets (1 + experts) numbers.
Readings: seen = t counts rows with a target, an update is due where t mod rho = 1; the loss is nonzero where 1 - y f > 0;
both stages decay by 1 - eta lambda; T_0 builds the map and takes no gradient step; eq. (4) prints Q' where its shapes need
Q; S_m draws without replacement, unscaled. Draws are functions of (seed, position in the buffer or t).
Departs from the source, which as printed is the best learner on none of its eight data sets, unless told "printed":
augmented: the sketch is by [S_p, S_m], exact in the landmarks, and the pseudoinverse of (2) is cut at rank k, so that F has
rank k. At most `rows` rows stay in the sketch, then the oldest update row leaves. projected: a new map gets the old
function's projection in the RKHS, w = (Q'KQ)^+ Q'K alpha; (5) from one example lets scores grow to 4e14. mixed: steps of
.01, .1, .5, 1 and passive-aggressive side by side on one map, weighted by exp(-discounted hinge loss); stage one has step 1.
A map that cannot be computed (kernel values out of range) is not taken: the old one stays, of the buffer the oldest leaves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel, fill_row, gram, own_value
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put, remove_row
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.sketching.expansion import FAR, HINGE, buffer_step, check_rows, products, side, steps
from algorithms.sketching.sketch import (
    augmented_map,
    draw_landmarks,
    draw_row,
    let_go,
    modify,
    printed_map,
    project,
    sketch_all,
)

MIXED = (0.01, 0.1, 0.5, 1.0, 0.0)  # steps of the experts; 0: passive-aggressive
AGGRESSIVENESS = 10.0  # most a passive-aggressive step takes of phi(x); features close to 0 ask for any number
FIRST_STEP = 1.0  # of stage one, where the steps are mixed
DISCOUNT = 0.99  # of the experts' hinge losses, a round
ENTERED, MAPPED = 2, 7  # where the counts of a slot say how many rows the fields `entered` and `map` hold
MAPS, REBASES = ("augmented", "printed"), ("projected", "printed")


class SkegdState(NamedTuple):
    support: Array  # (m, dim) V_t, the buffered rows of stage one, oldest first
    weights: Array  # (m, targets) alpha
    entered: Array  # (n, dim) rows in the sketch, the B buffered ones first; none before the first map
    columns: Array  # (n, sketch_blocks) int32, where the nonzeros of each one's row of S_p are
    signs: Array  # (n, sketch_blocks) int8, their signs
    landmarks: Array  # (landmarks, dim)
    landmark_slots: Array  # (landmarks,) int64, their positions in the buffer, S_m
    map: Array  # (landmarks, rank) Q
    sketch_pp: Array  # (sketch_rows, sketch_rows) Phi_pp
    sketch_pm: Array  # (sketch_rows, landmarks) Phi_pm
    w: Array  # (rank, targets) of the scores, the experts' by their shares
    experts: Array  # (rank, experts targets) w of each, targets side by side; one where the step is a number
    penalties: Array  # (experts targets,) discounted hinge losses
    seen: int  # rows with a target so far, t
    seed: int  # of the draws


class Rule(NamedTuple):
    """The settings as compiled code reads them."""

    budget: int
    refresh: int
    rows: int
    first_step: float
    ridge: float
    printed_map: bool
    printed_rebase: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Skegd(Learner):
    """Classification on few features of the kernel, whose map follows the stream; the prediction is a score per target.

    Features are phi(x) = Q' kappa(landmarks, x), NaN until the buffer is full.

    >>> learner = Skegd(budget=4, landmarks=2, rank=2, kernel=Kernel(bandwidth=1.0))
    >>> X = [[0.0], [3.0], [0.1], [3.1]] * 5
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0], [-1.0]] * 10)
    >>> len(state.support), out.prediction[-2:].ravel() > 0
    (2, array([ True, False]))
    """

    name: ClassVar[str] = "skegd"
    persisted_name: ClassVar[str] = "Skegd"
    kind: ClassVar[str] = "classification"
    binary_targets: ClassVar[bool] = True  # several targets are binary problems on one buffer and one map
    stored: ClassVar[tuple[str, ...]] = (
        *("support", "weights"),
        *("entered", "columns", "signs"),
        *("landmarks", "landmark_slots", "map"),
        *("sketch_pp", "sketch_pm"),
        *("w", "experts"),
    )
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("support", "weights"),
        ("entered", "columns", "signs"),
        ("landmarks", "landmark_slots", "map"),
        ("sketch_pp", "sketch_pm"),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("experts",)

    kernel: Kernel = field(default_factory=Kernel)
    budget: int = 100  # rows of stage one, from which the first map is made
    rows: int | None = None  # most rows in the sketch, above budget; None = 4 budget; 0: unlimited, which jobs refuse
    sketch_rows: int | None = None  # size of the sketch; None = 3/4 budget
    landmarks: int | None = None  # samples that the map compares x with, 1 to budget; None = budget / 2
    rank: int | None = None  # features, 1 to landmarks (to sketch_rows if printed); None = budget / 5
    sketch_blocks: int = 4  # nonzeros in a row of the sketching matrix, 1 to sketch_rows
    refresh_every: int = 50  # labelled rows from one update of the map to the next
    step_size: float | Literal["mixed"] = "mixed"  # above 0; mixed: five steps side by side
    ridge: float = 0.0  # 0 or more, below 1 / step_size; the weights decay by step_size ridge a row
    map: Literal["augmented", "printed"] = "augmented"
    rebase: Literal["projected", "printed"] = "projected"  # how the weights follow a new map

    def __post_init__(self) -> None:
        require(self, "budget", 1 <= self.budget <= 10_000, "1 to 10000")
        require(self, "map", self.map in MAPS, "one of " + ", ".join(MAPS))
        require(self, "rebase", self.rebase in REBASES, "one of " + ", ".join(REBASES))
        require(self, "rows", self.rows in (None, 0) or self.budget < self.rows, f"0, or above budget ({self.budget})")
        s_p, s_m, rank = self.sizes
        require(self, "sketch_rows", 1 <= s_p <= 10_000, "1 to 10000")
        require(self, "landmarks", 1 <= s_m <= self.budget, f"1 to budget ({self.budget})")
        most = min(s_m, s_p) if self.map == "printed" else s_m
        require(self, "rank", 1 <= rank <= most, f"1 to {most}")
        require(self, "sketch_blocks", 1 <= self.sketch_blocks <= s_p, f"1 to sketch_rows ({s_p})")
        require(self, "refresh_every", self.refresh_every >= 1, "1 or more")
        if isinstance(self.step_size, str):
            require(self, "step_size", self.step_size == "mixed", "a number above 0, or 'mixed'")
        else:
            require(self, "step_size", 0 < self.step_size < 1e6, "above 0 and below 1e6, or 'mixed'")
        require(self, "ridge", self.ridge >= 0 and self.ridge * max(self.rates) < 1, "0 or more and below 1 / step_size")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """s_p, s_m and k."""
        s_p = max(1, 3 * self.budget // 4, self.sketch_blocks) if self.sketch_rows is None else self.sketch_rows
        s_m = max(1, self.budget // 2) if self.landmarks is None else self.landmarks
        rank = max(1, min(self.budget // 5, s_m, s_p)) if self.rank is None else self.rank
        return s_p, s_m, rank

    @property
    def rates(self) -> tuple[float, ...]:
        return MIXED if isinstance(self.step_size, str) else (float(self.step_size),)

    @property
    def most_rows(self) -> int:
        """In the sketch; 0: unlimited."""
        return 4 * self.budget if self.rows is None else self.rows

    @property
    def width(self) -> int:
        return self.sizes[2]

    def room(self, field: str) -> int | None:
        if field in ("entered", "columns", "signs"):
            return self.most_rows + 1 if self.most_rows else None  # a new row enters before one leaves
        s_p, s_m, rank = self.sizes
        sizes = {"support": self.budget, "weights": self.budget, "sketch_pp": s_p, "sketch_pm": s_p}
        return sizes.get(field, rank if field in ("w", "experts") else s_m)

    def init(self, *, dim: int, targets: int, seed: int) -> SkegdState:
        (s_p, s_m, rank), experts = self.sizes, len(self.rates)
        return SkegdState(
            support=np.empty((0, dim)),
            weights=np.empty((0, targets)),
            entered=np.empty((0, dim)),
            columns=np.empty((0, self.sketch_blocks), np.int32),
            signs=np.empty((0, self.sketch_blocks), np.int8),
            landmarks=np.empty((0, dim)),
            landmark_slots=np.empty(0, np.int64),
            sketch_pp=np.empty((0, s_p)),
            sketch_pm=np.empty((0, s_m)),
            map=np.empty((0, rank)),
            w=np.empty((0, targets)),
            experts=np.empty((0, experts * targets)),
            penalties=np.zeros(experts * targets),
            seen=0,
            seed=seed,
        )

    def dim(self, state: SkegdState) -> int:
        return int(state.support.shape[1])

    def targets(self, state: SkegdState) -> int:
        return int(state.weights.shape[1])

    def caches(self, state: SkegdState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        s_m = self.sizes[1]
        return {"gram": np.zeros((s_m, s_m))}

    def derive(self, own: Slot) -> None:
        """The landmarks' kernel matrix; and the experts, where those stored do not give the stored w."""
        (s_p, s_m, rank), mapped = self.sizes, own.rows("map") > 0
        held, entered = own.rows("support"), own.rows("entered")
        expected = {"landmarks": s_m, "sketch_pp": s_p, "w": rank, "support": self.budget}
        if not mapped:
            expected = dict.fromkeys(expected, 0) | {"support": min(held, self.budget)}
        most = self.most_rows or entered
        expected["entered"] = min(max(entered, self.budget), most) if mapped else 0
        if own.rows("experts"):
            expected["experts"] = rank if mapped else 0
        check_rows(type(self).__name__, expected, {field: own.rows(field) for field in expected})
        if not mapped:
            return
        landmarks = own["landmarks"][:s_m]
        own["gram"][:] = gram(self.kernel, landmarks, landmarks)
        targets = own["w"].shape[1]
        if own.rows("experts") == 0 or not np.array_equal(_mixture(own["experts"], own["penalties"], targets), own["w"]):
            own["experts"][:] = np.tile(own["w"], len(self.rates))
            own["penalties"][:] = 0.0
        own.set_rows("experts", rank)

    def complete(self, own: Slot) -> None:
        """The weights that the scores come from, which the loop keeps by expert."""
        if own.rows("w"):
            own["w"][:] = _mixture(own["experts"], own["penalties"], own["w"].shape[1])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        mixed = isinstance(self.step_size, str)
        rule = Rule(
            budget=self.budget,
            refresh=self.refresh_every,
            rows=self.most_rows,
            first_step=FIRST_STEP if mixed else self.rates[0],
            ridge=float(self.ridge),
            printed_map=self.map == "printed",
            printed_rebase=self.rebase == "printed",
        )
        _loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, rule, np.array(self.rates))


def _mixture(experts: Array, penalties: Array, targets: int) -> Array:
    """w (rank, targets): the experts' by their shares."""
    losses = penalties.reshape(-1, targets)
    shares = np.exp(losses.min(axis=0) - losses)
    shares /= shares.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        w: Array = (experts.reshape(len(experts), -1, targets) * shares).sum(axis=1)
    return w


@compiled
def _loop(work, slots, X, Y, learn, out, code, rule, rates):
    supports, weights_of, entered_of, columns_of, signs_of, landmarks_of, slots_of, maps, pp_of = work[:9]
    pm_of, _, experts_of, penalties_of, seen, seeds, counts, grams = work[9:]
    targets, s_m, rank, columns_count = Y.shape[1], maps.shape[1], maps.shape[2], penalties_of.shape[1]
    k, sketched = np.empty(max(supports.shape[1], entered_of.shape[1])), np.empty(pp_of.shape[1])
    along, phi, scores = np.empty(targets), np.empty(rank), np.empty(columns_count)
    values, moved, carried = np.empty((s_m, columns_count)), np.empty((s_m, rank)), np.empty((rank, columns_count))

    for n in range(len(X)):
        key, x, y, prediction, features = slots[n], X[n], Y[n], out.prediction[n], out.features[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not np.isfinite(kxx):
            continue
        support, weights, count = supports[key], weights_of[key], counts[key, 0]
        landmarks, Q, gram_of, experts, penalties = (
            landmarks_of[key],
            maps[key],
            grams[key],
            experts_of[key],
            penalties_of[key],
        )
        mapped = counts[key, MAPPED] > 0

        # Predict with what earlier rows taught.
        if mapped:
            fill_row(code, landmarks, s_m, x, k)
            within = products(k, Q, s_m, features) and products(features, experts, rank, scores)
            if within:
                _mix(penalties, scores, prediction)
        else:
            fill_row(code, support, count, x, k)
            within = products(k, weights, count, prediction)
        if within and not missing(y):
            out.loss[n] = steps(HINGE, prediction, y, rule.first_step, along)
        if not learn[n] & 2 or missing(y) or not within or not kxx < FAR:
            continue
        seen[key] += 1

        # Stage one: kernel gradient steps on the buffer.
        if not mapped and count < rule.budget:
            if buffer_step(support, weights, count, x, 1.0 - rule.first_step * rule.ridge, along):
                counts[key, 0], counts[key, 1] = count + 1, count + 1
                out.admitted[n] = 1
            continue

        entered, columns, signs, pp, pm = entered_of[key], columns_of[key], signs_of[key], pp_of[key], pm_of[key]
        if not mapped:  # T_0: the first map, and the buffer's function on it
            _choose(code, support, seeds[key], entered, columns, signs, landmarks, slots_of[key], gram_of, len(pp))
            sketch_all(code, entered, columns, signs, count, landmarks, pp, pm, k, sketched)
            for j in range(s_m):
                fill_row(code, support, count, landmarks[j], k)
                products(k, weights, count, along)
                _repeat(along, values[j])
            _repeat(prediction, scores)
            fill_row(code, landmarks, s_m, x, k)
            if _new_map(rule, pp, pm, gram_of, Q) and _follow(rule, k, Q, gram_of, scores, values, phi, experts):
                for stored, rows in enumerate((count, count, count, s_m, s_m, s_m, len(pp), len(pp), rank, rank)):
                    counts[key, ENTERED + stored] = rows
            else:  # out of range: the oldest makes room for another
                remove_row(support, 0, count)
                remove_row(weights, 0, count)
                counts[key, 0], counts[key, 1] = count - 1, count - 1
                out.evicted[n] = 1
            continue

        # Stage two: x enters the sketch when it is due, and the experts follow to the new map.
        for c in range(columns_count):
            lack = max(0.0, 1.0 - side(y[c % targets]) * scores[c])
            penalties[c] = DISCOUNT * penalties[c] + min(lack, LARGEST_STEP)
        put(phi, features)
        if seen[key] % rule.refresh == 1 % rule.refresh:
            at = counts[key, ENTERED]
            put(entered[at], x)
            draw_row(seeds[key], seen[key], len(pp), columns[at], signs[at])
            modify(code, entered, columns, signs, at, at, landmarks, 1.0, pp, pm, k, sketched)
            at += 1
            out.admitted[n] = 1
            if rule.rows > 0 and at > rule.rows:
                let_go(code, entered, columns, signs, at, rule.budget, landmarks, pp, pm, k, sketched)
                at -= 1
                out.evicted[n] = 1
            for stored in range(ENTERED, ENTERED + 3):
                counts[key, stored] = at
            fill_row(code, landmarks, s_m, x, k)
            if _new_map(rule, pp, pm, gram_of, moved):
                on_landmarks = np.dot(gram_of, np.dot(Q, experts))
                if _follow(rule, k, moved, gram_of, scores, on_landmarks, phi, carried):
                    for j in range(s_m):
                        put(Q[j], moved[j])
                    for c in range(rank):
                        put(experts[c], carried[c])
                else:
                    put(phi, features)
                products(phi, experts, rank, scores)
        _learn(phi, scores, y, rates, rule.ridge, experts)


@compiled
def _mix(penalties, scores, prediction):
    """Each target's score: the experts', weighted by exp(-penalty)."""
    targets = prediction.size
    for t in range(targets):
        least = penalties[t]
        for c in range(t, scores.size, targets):
            least = min(least, penalties[c])
        total, weight = 0.0, 0.0
        for c in range(t, scores.size, targets):
            share = np.exp(least - penalties[c])
            total += share * scores[c]
            weight += share
        prediction[t] = total / weight


@compiled
def _repeat(of_targets, by_expert):
    for c in range(by_expert.size):
        by_expert[c] = of_targets[c % of_targets.size]


@compiled
def _choose(code, support, seed, entered, columns, signs, landmarks, chosen, gram_of, s_p):
    """The buffered rows enter, their rows of S_p and the landmarks are drawn."""
    for i in range(len(support)):
        put(entered[i], support[i])
        draw_row(seed, i, s_p, columns[i], signs[i])
    draw_landmarks(seed, len(support), chosen)
    for j in range(chosen.size):
        put(landmarks[j], support[chosen[j]])
    for j in range(chosen.size):
        fill_row(code, landmarks, chosen.size, landmarks[j], gram_of[j])


@compiled
def _new_map(rule, pp, pm, gram_of, Q):
    if rule.printed_map:
        return printed_map(pp, pm, Q)
    return augmented_map(pp, pm, gram_of, Q)


@compiled
def _follow(rule, k, Q, gram_of, scores, on_landmarks, phi, w):
    """phi(x) by the new map, and w for it; False where that is out of range.

    projected: of functions with these values on the landmarks. printed: w = f phi / |phi|^2, (5), which x alone decides.
    """
    if not products(k, Q, len(Q), phi):
        return False
    if not rule.printed_rebase:
        return project(Q, gram_of, on_landmarks, w)
    length2 = norm2(phi)
    if not largest(scores) * largest(phi) < length2 * LARGEST_STEP:
        return False
    for c in range(phi.size):
        for e in range(scores.size):
            w[c, e] = scores[e] * phi[c] / length2
    return True


@compiled
def _learn(phi, scores, y, rates, ridge, experts):
    """w = (1 - eta lambda) w + eta y phi where the expert's loss is nonzero, (6)."""
    length2, top = norm2(phi), max(1.0, largest(phi))
    for c in range(scores.size):
        rate, label = rates[c // y.size], side(y[c % y.size])
        lack = 1.0 - label * scores[c]
        size = 0.0
        if lack > 0.0:
            size = rate if rate > 0.0 else min(AGGRESSIVENESS, lack / length2)
        if size * top < LARGEST_STEP:
            for i in range(phi.size):
                experts[i, c] = (1.0 - rate * ridge) * experts[i, c] + label * size * phi[i]

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
Departs from the source, which as printed is the best learner on none of its eight data sets, unless set to "printed":
augmented: the sketch is by [S_p, S_m], exact in the landmarks, and the pseudoinverse of (2) is cut at rank k, so that F has
rank k. At most `rows` rows stay in the sketch, then the oldest update row leaves. projected: a new map gets the old
function's projection in the RKHS, w = (Q'KQ)^+ Q'K alpha; (5) uses one example alone. mixed: steps of
.01, .1, .5, 1 and passive-aggressive side by side on one map, weighted by exp(-discounted hinge loss); stage one has step 1.
Scores have no fixed bound: Theorem 2 assumes |f_t(x_t)| <= C_f, and no step of Algorithm 1 enforces it. |f(x)| is at most
|phi(x)| |w| of the largest expert. One row on one map raises an expert's |w|^2 by at most 2 eta + eta^2 |phi|^2, the
passive-aggressive one's by min(20, 1 / |phi|^2), and only where the expert's y f < 1; so |w| grows at most like the root of
the number of such rows. A new map (projected) does not raise the norm of a function in the RKHS. ridge > 0 keeps |w| of the
gradient experts below max(|w_T0|, max |phi| / ridge) on one map; the passive-aggressive expert does not decay.
A map that cannot be computed (kernel values out of range) is not taken: the old one stays, of the buffer the oldest leaves.
"""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from algorithms.common.kernels import KernelLearner, gram
from algorithms.common.losses import HINGE
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.sketching.rounds import Rounds, Rule, check_rows, rows_until
from algorithms.sketching.sketch import (
    augmented_map,
    drawn_landmarks,
    drawn_row,
    in_range,
    modify,
    printed_map,
    projected,
    s_p,
    sketches,
)

MIXED = (0.01, 0.1, 0.5, 1.0, 0.0)  # steps of the experts; 0: passive-aggressive
FIRST_STEP = 1.0  # of stage one, where the steps are mixed
ENTERED, MAPPED = slice(2, 5), 7  # where the counts of a slot say how many rows `entered` .. `signs`, and `map` hold


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


# A workspace's arrays by name. gram (slots, landmarks, landmarks): kernel matrix of the landmarks.
Fields = cast(Any, namedtuple("Fields", (*SkegdState._fields, "counts", "gram")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skegd(KernelLearner):
    """Classification on few features of the kernel, with a map that follows the stream; the prediction is a score per
    target.

    Features are phi(x) = Q' kappa(landmarks, x), NaN until the buffer is full. A score is a margin without a fixed
    bound; it can pass 10 where the labels have no noise. The module's documentation says how fast it can grow.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Skegd(budget=4, landmarks=2, rank=2, kernel=Kernel(bandwidth=1.0))
    >>> X = [[0.0], [3.0], [0.1], [3.1]] * 5
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0], [-1.0]] * 10)
    >>> len(state.support), out.prediction[-2:].ravel() > 0
    (4, array([ True, False]))
    """

    kind: ClassVar[str] = "classification"
    binary_targets: ClassVar[bool] = True  # several targets are binary problems on one buffer and one map
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("support", "weights"),
        ("entered", "columns", "signs"),
        ("landmarks", "landmark_slots", "map"),
        ("sketch_pp", "sketch_pm"),
        *(("w",), ("experts",)),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("experts",)

    budget: Annotated[int, "1 to 10000"] = 100  # rows of stage one, from which the first map is made
    rows: int | None = None  # most rows in the sketch, above budget; None = 4 budget; 0: unlimited, which jobs refuse
    sketch_rows: int | None = None  # size of the sketch; None = budget / 4, printed 3/4 budget
    landmarks: int | None = None  # samples that the map compares x with, 1 to budget; None = budget / 2
    rank: int | None = None  # features, 1 to landmarks (to sketch_rows if printed); None = 3/10 budget
    sketch_blocks: int = 4  # nonzeros in a row of the sketching matrix, 1 to sketch_rows
    refresh_every: Annotated[int, "1 or more"] = 50  # labelled rows from one update of the map to the next
    step_size: float | Literal["mixed"] = "mixed"  # above 0; mixed: five steps side by side
    ridge: float = 0.0  # 0 or more, below 1 / step_size; the weights decay by step_size ridge a row
    map: Literal["augmented", "printed"] = "augmented"
    rebase: Literal["projected", "printed"] = "projected"  # how the weights follow a new map

    def check(self) -> None:
        require(self, "rows", self.rows in (None, 0) or self.budget < self.rows, f"0, or above budget ({self.budget})")
        s_p, s_m, rank = self.sizes
        require(self, "sketch_rows", 1 <= s_p <= 10_000, "1 to 10000")
        require(self, "landmarks", 1 <= s_m <= self.budget, f"1 to budget ({self.budget})")
        most = min(s_m, s_p) if self.map == "printed" else s_m
        of = "landmarks" if most == s_m else "sketch_rows"
        require(self, "rank", 1 <= rank <= most, f"1 to {of} ({most}, with budget {self.budget})")
        require(self, "sketch_blocks", 1 <= self.sketch_blocks <= s_p, f"1 to sketch_rows ({s_p})")
        if isinstance(self.step_size, str):
            require(self, "step_size", self.step_size == "mixed", "a number above 0, or 'mixed'")
        else:
            require(self, "step_size", 0 < self.step_size < 1e6, "above 0 and below 1e6, or 'mixed'")
        require(self, "ridge", self.ridge >= 0 and self.ridge * max(self.rates) < 1, "0 or more and below 1 / step_size")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """s_p, s_m and k."""
        share = self.budget // 4 if self.map == "augmented" else 3 * self.budget // 4
        s_p = max(1, share, self.sketch_blocks) if self.sketch_rows is None else self.sketch_rows
        s_m = max(1, self.budget // 2) if self.landmarks is None else self.landmarks
        most = s_m if self.map == "augmented" else min(s_m, s_p)
        rank = max(1, min(3 * self.budget // 10, most)) if self.rank is None else self.rank
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

    def rooms(self, state: SkegdState, extra: int) -> dict[str, int]:
        """Without a limit, the first map lets the whole buffer enter the sketch at once."""
        return Learner.rooms(self, state, extra + (0 if self.most_rows else self.budget))

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
        fields, begin, again = Fields(*work), 0, False
        rates, first = np.array(self.rates), FIRST_STEP if isinstance(self.step_size, str) else self.rates[0]
        rule = Rule(HINGE, self.budget, False, MAPPED, self.refresh_every, first, float(self.ridge))
        rounds = Rounds(*(getattr(fields, name) for name in Rounds._fields))
        while True:
            n = rows_until(begin, again, rounds, slots, X, Y, learn, out, self.kernel.code, rule, rates)
            if n == len(X):
                return
            slot = int(slots[n])
            again = bool(fields.counts[slot, MAPPED] > 0)
            if again:
                self._enter(fields, slot, X[n], out, n)
            else:  # T_0 takes no gradient step
                self._begin(fields, slot, X[n], out, n)
            begin = n if again else n + 1

    def _begin(self, fields: Any, slot: int, x: Array, out: Outputs, n: int) -> None:
        """T_0: the first map, and the buffer's function on it."""
        s_p_size, s_m, rank = self.sizes
        support, weights, seed = fields.support[slot], fields.weights[slot], int(fields.seed[slot])
        rows = [drawn_row(seed, i, s_p_size, self.sketch_blocks) for i in range(self.budget)]
        columns, signs = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int8)
        chosen = drawn_landmarks(seed, self.budget, s_m)
        landmarks = support[chosen]
        own = gram(self.kernel, landmarks, landmarks)
        pp, pm = sketches(self.kernel, support, s_p(columns, signs, s_p_size), landmarks)
        Q = self._map(pp, pm, own)
        both = gram(self.kernel, np.concatenate([landmarks, x[None]]), support) @ weights
        values = np.tile(both, len(self.rates))
        w = None if Q is None else self._follow(Q, own, landmarks, x, values[-1], values[:-1])
        if Q is None or w is None:  # out of range: the oldest makes room for another
            support[:-1], weights[:-1] = support[1:].copy(), weights[1:].copy()
            fields.counts[slot, :2] = self.budget - 1
            out.evicted[n] = 1
            return
        fields.entered[slot, : self.budget] = support
        fields.columns[slot, : self.budget], fields.signs[slot, : self.budget] = columns, signs
        fields.landmarks[slot], fields.landmark_slots[slot], fields.gram[slot] = landmarks, chosen, own
        fields.sketch_pp[slot], fields.sketch_pm[slot], fields.map[slot], fields.experts[slot] = pp, pm, Q, w
        fields.counts[slot, ENTERED] = self.budget
        fields.counts[slot, ENTERED.stop :] = (s_m, s_m, s_m, s_p_size, s_p_size, rank, rank)

    def _enter(self, fields: Any, slot: int, x: Array, out: Outputs, n: int) -> None:
        """An update round: x enters the sketch, and the experts follow to the new map."""
        size = self.sizes[0]
        entered, columns, signs = fields.entered[slot], fields.columns[slot], fields.signs[slot]
        pp, pm, landmarks = fields.sketch_pp[slot], fields.sketch_pm[slot], fields.landmarks[slot]
        at = int(fields.counts[slot, ENTERED][0])
        entered[at] = x
        columns[at], signs[at] = drawn_row(int(fields.seed[slot]), int(fields.seen[slot]), size, self.sketch_blocks)
        modify(self.kernel.code, x, (columns[at], signs[at]), entered[:at], columns[:at], signs[:at], landmarks, pp, pm, 1.0)
        out.admitted[n] = 1
        if at == self.most_rows:  # the oldest update row leaves
            leaver = self.budget
            oldest, own_row = entered[leaver].copy(), (columns[leaver].copy(), signs[leaver].copy())
            for array in (entered, columns, signs):
                array[leaver:at] = array[leaver + 1 : at + 1].copy()
            if self.kernel.name in ("polynomial", "linear"):  # what a large value hid would not come back
                pp[:], pm[:] = sketches(self.kernel, entered[:at], s_p(columns[:at], signs[:at], size), landmarks)
            else:
                modify(self.kernel.code, oldest, own_row, entered[:at], columns[:at], signs[:at], landmarks, pp, pm, -1.0)
            at -= 1
            out.evicted[n] = 1
        fields.counts[slot, ENTERED] = at + 1
        Q, experts, own = self._map(pp, pm, fields.gram[slot]), fields.experts[slot], fields.gram[slot]
        if Q is None:
            return
        before = fields.map[slot] @ experts  # its functions as sums over the landmarks
        scores = gram(self.kernel, x[None], landmarks)[0] @ before
        w = self._follow(Q, own, landmarks, x, scores, own @ before)
        if w is not None:
            fields.map[slot], fields.experts[slot] = Q, w

    def _map(self, pp: Array, pm: Array, own: Array) -> Array | None:
        rank = self.sizes[2]
        return printed_map(pp, pm, rank) if self.map == "printed" else augmented_map(pp, pm, own, rank)

    def _follow(self, Q: Array, own: Array, landmarks: Array, x: Array, scores: Array, values: Array) -> Array | None:
        """Weights on the map Q of functions with these scores at x and values on the landmarks; None out of range."""
        if self.rebase == "projected":
            return projected(Q, own, values)
        phi = gram(self.kernel, x[None], landmarks)[0] @ Q
        with np.errstate(all="ignore"):
            w = np.outer(phi, scores) / (phi @ phi)  # (5), which x alone decides
        return w if in_range(w) else None


def _mixture(experts: Array, penalties: Array, targets: int) -> Array:
    """w (rank, targets): the experts' by their shares."""
    losses = penalties.reshape(-1, targets)
    shares = np.exp(losses.min(axis=0) - losses)
    shares /= shares.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        w: Array = (experts.reshape(len(experts), -1, targets) * shares).sum(axis=1)
    return w

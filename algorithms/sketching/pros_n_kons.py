"""PROS-N-KONS: second-order steps on a Nystroem map with a dictionary that grows by ridge leverage scores.

Source: Calandriello, Lazaric, Valko (2017), Efficient second-order online kernel learning with adaptive embedding, NIPS 30,
Algorithm 1 with KORS, its Algorithm 2; a comparator of the SkeGD paper.
Symbols: alpha = gamma = ridge, beta (1 + epsilon) = oversampling, sigma = curvature, C = score_cap, J = stored samples,
z_t = whether x_t joins, upsilon = w, A^-1 = inverse, phi~ = features.
Cost of a row: O(J (dim + J targets)), of one that joins O(J^3).
State: J (dim + 1 + targets) + J (J + 1) / 2 targets numbers, J <= budget.
Readings: KORS weights are 1 / sqrt(p), its score with x in the dictionary is (1 + epsilon) c / (c + gamma) with c the
residual without it; a row with a target joins before it is predicted: the map is rebuilt, w = 0, A = alpha I, its score is
0 and its gradient the first one; A grows by sigma g g' with the whole sigma; the squared loss is (y - f)^2 / 2, given as
`loss` without the 1/2. Draws are functions of (seed, seen), so that asking for a prediction finds the same 0.
Departs from the source: a budget; when it is full no sample joins. The hinge loss, which has no curvature of its own.
"""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import leading, symmetric
from algorithms.common.kernels import fill_row, gram, own_value
from algorithms.common.linalg import dot, largest, missing, put
from algorithms.common.losses import LOSSES, LossLearner, evaluate, slope, steps
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs, require
from algorithms.common.randomness import uniform
from algorithms.common.workspace import Slot
from algorithms.sketching.rounds import FAR
from algorithms.sketching.sketch import in_range

JOINS = 1  # purpose of the draws
LARGEST_SLOPE = 1e60  # a step from here on is not taken: the square of its slope has to stay in range


class ProsNKonsState(NamedTuple):
    dictionary: Array  # (m, dim) in order of admission
    chances: Array  # (m,) p with which each joined
    w: Array  # (m, targets) weights of the features, before they are projected for the next row
    inverse: Array  # (m (m + 1) / 2, targets) lower triangle by rows of A^-1
    seen: int  # rows with a target so far
    seed: int  # of the draws


# A workspace's arrays by name. map (slots, m, m): features = kernel row times it; leverage (slots, m, m):
# S (S'KS + gamma I)^-1 S'.
Fields = cast(Any, namedtuple("Fields", (*ProsNKonsState._fields, "counts", "map", "leverage")))


class Rule(NamedTuple):
    """The settings as compiled code reads them."""

    loss: int
    budget: int
    ridge: float
    oversampling: float
    curvature: float
    cap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProsNKons(LossLearner):
    """Classification, or with loss = "squared" regression, by Newton steps that restart whenever the map grows.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = ProsNKons(kernel=Kernel(bandwidth=1.0))
    >>> X, Y = [[0.0], [3.0], [0.1], [3.1]] * 20, [[1.0], [-1.0]] * 40
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, Y)
    >>> len(state.dictionary), out.prediction[-2:].ravel() > 0
    (10, array([ True, False]))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("dictionary", "chances", "w"), ("inverse",))
    triangles: ClassVar[Mapping[str, str]] = {"inverse": "dictionary"}

    budget: Annotated[int, "0 to 10000"] = 100  # most stored samples; 0: unlimited, which jobs refuse
    ridge: float = 1.0  # above 0; of A and of the leverage scores
    oversampling: Annotated[float, "above 0"] = 1.5  # chance to join over the ridge leverage score
    curvature: float = 0.125  # above 0; weight of a squared gradient in A, 1 / (8 C^2) for a squared loss
    loss: Literal["hinge", "squared"] = "hinge"
    score_cap: Annotated[float, "above 0"] | None = None  # largest score; None = 1 for the hinge, none for the squared loss

    def check(self) -> None:
        require(self, "ridge", 1e-9 <= self.ridge < 1e9, "1e-9 to 1e9")
        require(self, "curvature", 0 < self.curvature < 1e9, "above 0")

    def room(self, field: str) -> int | None:
        return (self.budget * (self.budget + 1) // 2 if field == "inverse" else self.budget) or None

    def init(self, *, dim: int, targets: int, seed: int) -> ProsNKonsState:
        empty = np.empty((0, targets))
        return ProsNKonsState(np.empty((0, dim)), np.empty(0), empty, empty.copy(), 0, seed)

    def caches(self, state: ProsNKonsState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        m = rows["dictionary"]
        return {"map": np.zeros((m, m)), "leverage": np.zeros((m, m))}

    def derive(self, own: Slot) -> None:
        m = own.rows_within(self, "dictionary", self.budget)
        if m and not self._map(Fields(*own.work), own.number, m):
            raise ValueError(f"ProsNKons: the kernel of {m} stored samples is out of range.")

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        cap = self.score_cap or (1.0 if self.loss == "hinge" else 1e300)
        sizes = float(self.ridge), float(self.oversampling), float(self.curvature), float(cap)
        rule, fields, begin, again = Rule(LOSSES[self.loss], self.budget, *sizes), Fields(*work), 0, False
        while True:
            begin = rows_until(begin, again, tuple(work), slots, X, Y, learn, out, self.kernel.code, rule)
            if begin == len(X):
                return
            again, slot = True, int(slots[begin])
            m = int(fields.counts[slot, 0])
            if self._map(fields, slot, m):
                diagonal = np.arange(1, m + 1) * np.arange(2, m + 2) // 2 - 1
                fields.w[slot, :m], fields.inverse[slot, : diagonal[-1] + 1] = 0.0, 0.0
                fields.inverse[slot, diagonal] = 1.0 / self.ridge
            else:  # out of range: it does not join
                m -= 1
                out.admitted[begin] = 0
                self._map(fields, slot, m)
            fields.counts[slot] = m, m, m, m * (m + 1) // 2

    def _map(self, fields: Any, slot: int, m: int) -> bool:
        """The caches of m stored samples; False and nothing done where they are out of range."""
        fields.map[slot], fields.leverage[slot] = 0.0, 0.0
        if m == 0:
            return True
        dictionary, weights = fields.dictionary[slot, :m], fields.chances[slot, :m] ** -0.5
        K = gram(self.kernel, dictionary, dictionary)
        if not in_range(K) or not in_range(weights):
            return False
        values, V = leading(K, m)
        weighted = weights[:, None] * K * weights
        if not in_range(weighted):
            return False
        sizes, U = symmetric(weighted, m)
        U = weights[:, None] * U / np.sqrt(np.maximum(sizes, 0.0) + self.ridge)
        whitened, leverage = V / np.sqrt(values), U @ U.T
        if not in_range(whitened, leverage):
            return False
        fields.map[slot, :m, : len(values)], fields.leverage[slot, :m, :m] = whitened, leverage
        return True


@compiled
def rows_until(begin, again, work, slots, X, Y, learn, out, code, rule):
    """Rows from `begin` on; gives the number of one that joined, which goes on `again`, or of the last plus 1."""
    dictionaries, all_chances, all_w, inverses, seen, seeds, counts, maps, leverages = work
    room = dictionaries.shape[1]
    k, z, image, scores, along = np.empty(room), np.empty(room), np.empty(room), np.empty(Y.shape[1]), np.empty(Y.shape[1])
    for n in range(begin, len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not np.isfinite(kxx):
            continue
        w, m, prediction = all_w[key], counts[key, 0], out.prediction[n]
        resumed = again and n == begin

        # Predict with what earlier rows taught; 0 where x is about to join.
        fill_row(code, dictionaries[key], m, x, k)
        within = evaluate(k, maps[key, :, :m], m, z[:m]) and evaluate(z, w, m, scores) and kxx < FAR
        chance = 0.0
        if within and not resumed:
            residual = max(0.0, kxx - _quadratic(leverages[key], k, m))
            chance = min(1.0, rule.oversampling * residual / (residual + rule.ridge))
            joins = (m < rule.budget or rule.budget == 0) and uniform(seeds[key], JOINS, seen[key]) < chance
            for t in range(prediction.size):
                prediction[t] = 0.0 if joins else max(-rule.cap, min(rule.cap, scores[t]))
            if missing(y):
                continue
            out.loss[n] = steps(rule.loss, prediction, y, 1.0, along)
            if not learn[n] & LEARN_HEAD:
                continue
            seen[key] += 1
            if joins:
                put(dictionaries[key, m], x)
                all_chances[key, m] = chance
                counts[key, 0] = m + 1
                out.admitted[n] = 1
                return n
        if not within:
            continue

        # Project w to where |f(x)| <= C, then a Newton step.
        triangle = inverses[key]
        for t in range(y.size):
            _times(triangle, t, z, m, image)
            length = dot(z[:m], image[:m])
            if not length > 0.0:
                continue
            f = max(-rule.cap, min(rule.cap, scores[t]))
            for i in range(m):
                w[i, t] -= (scores[t] - f) / length * image[i]
            down = slope(rule.loss, f, y[t])
            if not abs(down) * max(1.0, largest(z[:m])) < LARGEST_SLOPE:
                continue
            weight = rule.curvature * down * down
            share, at = 1.0 / (1.0 + weight * length), 0
            for i in range(m):
                w[i, t] += down * share * image[i]
                for j in range(i + 1):
                    triangle[at, t] -= weight * share * image[i] * image[j]
                    at += 1
    return len(X)


@compiled
def _quadratic(M, k, m):
    total = 0.0
    for i in range(m):
        row = 0.0
        for j in range(m):
            row += M[i, j] * k[j]
        total += k[i] * row
    return total


@compiled
def _times(triangle, t, z, m, image):
    """image = M z, M a symmetric matrix as its lower triangle by rows."""
    at = 0
    for i in range(m):
        total = 0.0
        for j in range(i):
            total += triangle[at, t] * z[j]
            image[j] += triangle[at, t] * z[i]
            at += 1
        image[i] = total + triangle[at, t] * z[i]
        at += 1

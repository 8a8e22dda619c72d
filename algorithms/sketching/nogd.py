"""Nystroem online gradient descent (NOGD): kernel gradient steps until a buffer is full, then linear ones on its map.

Source: Lu, Hoi, Wang, Zhao, Liu (2016), Large scale online kernel learning, JMLR 17(47), Algorithm 3; a comparator of
the SkeGD paper.
Symbols: B = budget, k = rank, eta = step_size, lambda = ridge, V, Lambda = leading eigenpairs of the buffer's kernel matrix.
Cost of a row: O(m (dim + targets)) until the buffer is full, then O(B (dim + k)).
State: B (dim + targets + k) + k targets numbers.
Readings: x enters the buffer where its loss has a slope, 1 - y f > 0 for the hinge; features are Lambda^(-1/2) V' k, k the
kernel row of the buffer; the map is made by the row that fills the buffer, w = Lambda^(1/2) V' alpha, and never again; both
stages decay by 1 - eta lambda. Losses are max(0, 1 - y f), (y - f)^2 / 2 (reported as `loss` without the 1/2) or
log(1 + exp(-y f)).
Departs from the source: eigenvalues below 1e-10 of the largest give no feature. A buffer with a kernel out of range lets
its oldest row go.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.eigen import leading
from algorithms.common.kernels import gram
from algorithms.common.losses import LOSSES, LossLearner, check_steps
from algorithms.common.protocol import Array, Basis, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.sketching.rounds import LARGEST_RATE, Rounds, Rule, check_rows, rows_until
from algorithms.sketching.sketch import in_range

MAPPED = 2  # where the counts of a slot say how many rows the field `map` holds


class NogdState(NamedTuple):
    support: Array  # (m, dim) the buffer, oldest first
    weights: Array  # (m, targets) alpha, of stage one
    map: Array  # (budget, rank) V Lambda^(-1/2); none before the buffer is full
    w: Array  # (rank, targets)
    seen: int  # rows with a target so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Nogd(LossLearner):
    """Classification, or with loss = "squared" regression, on features that are fixed after the first rows.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Nogd(budget=2, rank=2, kernel=Kernel(bandwidth=1.0))
    >>> X, Y = [[0.0], [3.0], [0.1], [3.1]], [[1.0], [-1.0], [1.0], [-1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, Y)
    >>> out.admitted, out.prediction.ravel() > 0
    (array([1, 1, 0, 0], dtype=int8), array([False,  True,  True, False]))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("support", "weights"), ("map",), ("w",))

    budget: Annotated[int, "1 to 10000"] = 100  # rows of the buffer
    rank: int | None = None  # features, 1 to budget; None = budget / 5
    step_size: float = 0.2  # above 0
    ridge: float = 0.0  # 0 or more, below 1 / step_size; the weights decay by step_size ridge a row
    loss: Literal["hinge", "squared", "logistic"] = "hinge"

    def check(self) -> None:
        check_steps(self, below=LARGEST_RATE)
        require(self, "rank", 1 <= self.width <= self.budget, f"1 to budget ({self.budget})")

    @property
    def width(self) -> int:
        return max(1, self.budget // 5) if self.rank is None else self.rank

    def room(self, field: str) -> int | None:
        return self.width if field == "w" else self.budget

    def init(self, *, dim: int, targets: int, seed: int) -> NogdState:
        support, weights = np.empty((0, dim)), np.empty((0, targets))
        return NogdState(support, weights, np.empty((0, self.width)), np.empty((0, targets)), 0)

    def derive(self, own: Slot) -> None:
        mapped = own.rows("map") > 0
        held = min(own.rows("support"), self.budget)
        expected = {"support": self.budget if mapped else held, "map": self.budget if mapped else 0}
        expected["w"] = self.width if mapped else 0
        check_rows(type(self).__name__, expected, {field: own.rows(field) for field in expected})

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, maps, w, seen, counts = work
        rule = Rule(LOSSES[self.loss], self.budget, True, MAPPED, 0, float(self.step_size), float(self.ridge))
        rounds = Rounds(support, weights, support, maps, w, np.zeros((len(seen), Y.shape[1])), seen, counts)
        n, rates = -1, np.array([float(self.step_size)])
        while n < len(X):
            n = rows_until(n + 1, False, rounds, slots, X, Y, learn, out, self.kernel.code, rule, rates)
            if n < len(X):
                self._begin(rounds, int(slots[n]), out, n)

    def _begin(self, rounds: Rounds, slot: int, out: Outputs, n: int) -> None:
        """The map of a full buffer, and its function on it."""
        support, weights, rank = rounds.support[slot], rounds.weights[slot], self.width
        K = gram(self.kernel, support, support)
        if in_range(K, weights):
            values, V = leading(K, rank)
            kept, roots = len(values), np.sqrt(values)
            Q, w = np.zeros_like(rounds.map[slot]), np.zeros_like(rounds.experts[slot])
            Q[:, :kept] = V / roots
            w[:kept] = roots[:, None] * (V.T @ weights)
            if kept and in_range(Q, w):
                rounds.map[slot], rounds.experts[slot] = Q, w
                rounds.counts[slot, MAPPED:] = self.budget, rank
                return
        support[:-1], weights[:-1] = support[1:].copy(), weights[1:].copy()
        rounds.counts[slot, :MAPPED] = self.budget - 1
        out.evicted[n] = 1

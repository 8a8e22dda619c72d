"""Chain: an extractor's features go to a head, as one learner with both states.

Source: ours; the pairing of an extractor with a linear head that the OK-FEB and SPEED papers evaluate.
Symbols: T = transfer, the change of basis of a row.
Cost of a row: the extractor's and the head's.  State: both states.
Readings: a head learns from features taken with what earlier rows taught the extractor, and not from a row if its features
are not ready (NaN). Where the extractor turns its basis as it learns, the head carries its weights over (`Basis`). Rows go
through in chunks, which bounds the memory for the changes of basis and nothing else: the same bits for any split. An
extractor that brings a head of its own leaves it away.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import NO_BASIS, Array, Basis, Learner, Outputs, State, reject, unknown
from algorithms.common.workspace import Composite

CHUNK_ROWS = 256
CHUNK_NUMBERS = 1 << 17  # most numbers of a chunk's changes of basis, 1 MB


class ChainState(NamedTuple):
    extractor: State
    head: State


class Around(Composite, Learner, abstract=True):
    """A base, not a learner: learners inside, of which one gives the features and one, which may be the same, predicts."""

    __slots__ = ()
    first: ClassVar[str] = "learner"  # the part that sees x and gives the features
    last: ClassVar[str] = "learner"  # the part that predicts

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(getattr(self, self.last).kind)

    @property
    def falls_back(self) -> bool:  # type: ignore[override]
        return bool(getattr(self, self.last).falls_back)

    @property
    def bounded(self) -> bool:
        return bool(getattr(self, self.first).bounded and getattr(self, self.last).bounded)

    @property
    def width(self) -> int:
        return int(getattr(self, self.first).width)

    def width_for(self, dim: int) -> int:
        return int(getattr(self, self.first).width_for(dim))

    def dim(self, state: State) -> int:
        return int(getattr(self, self.first).dim(getattr(state, self.first)))

    def targets(self, state: State) -> int:
        return int(getattr(self, self.last).targets(getattr(state, self.last)))

    def recent_error(self, state: State) -> tuple[float, str] | None:
        first: Learner = getattr(self, self.first)
        return first.recent_error(getattr(state, self.first))

    def budget_used(self, work: Any, like: State, slots: Array) -> float:
        first: Learner = getattr(self, self.first)
        return first.budget_used(getattr(work, self.first), getattr(like, self.first), slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Around):
    """Features, LS error, admissions and evictions are the extractor's; prediction and loss are the head's.

    Raises SettingError where an extractor that turns its basis meets a head that cannot follow.

    >>> from algorithms import learner_from
    >>> chain = learner_from("chain", {"extractor": {"name": "scaling"}, "head": {"name": "rls", "intercept": True}})
    >>> state, out = chain.run(chain.init(dim=2, targets=1, seed=0), [[1, 0], [3, 5], [2, 1], [1, 0]], [[1], [2], [3], [1]])
    >>> out.features.round(2).tolist(), out.prediction.shape
    ([[0.0, 0.0], [0.0, 0.0], [0.0, -0.6], [-1.22, -0.93]], (4, 1))
    """

    first: ClassVar[str] = "extractor"
    last: ClassVar[str] = "head"

    extractor: Learner  # gives features
    head: Learner  # predicts from them

    def __post_init__(self) -> None:
        object.__setattr__(self, "extractor", self.extractor.headless)
        if self.extractor.kind == "drift":
            reject(self, "extractor", "a learner that gives features", type(self.extractor).__name__)
        if self.head.kind not in ("regression", "classification"):
            reject(self, "head", "a learner that predicts", type(self.head).__name__)
        if self.extractor.moves and not getattr(self.head, "carries", False):
            expected = f"a linear head, because the features of {type(self.extractor).__name__} turn as it learns"
            reject(self, "head", expected, type(self.head).__name__)

    def init(self, *, dim: int, targets: int, seed: int) -> ChainState:
        if self.width_for(dim) < 1:
            reject(self, "extractor", "a learner that gives features", type(self.extractor).__name__)
        extractor = self.extractor.init(dim=dim, targets=targets, seed=seed)
        return ChainState(extractor, self.head.init(dim=self.width_for(dim), targets=targets, seed=seed))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        n, width = out.features.shape
        chunk = max(1, min(n, CHUNK_ROWS, CHUNK_NUMBERS // (width * width))) if self.extractor.moves else max(1, n)
        turning = NO_BASIS
        if self.extractor.moves:
            turning = Basis(np.zeros(chunk, np.int8), np.empty((chunk, width, width)))
        if n <= chunk:
            self._chunk(work, slots, X, Y, learn, out, turning)
            return
        for first in range(0, n, chunk):
            rows = slice(first, min(n, first + chunk))
            change = Basis(turning.moved[: rows.stop - first], turning.transfer[: rows.stop - first])
            change.moved[:] = 0
            self._chunk(work, slots[rows], X[rows], Y[rows], learn[rows], Outputs(*(array[rows] for array in out)), change)

    def _chunk(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, change: Basis) -> None:
        """change: of all these rows, nothing moved yet; or none, of an extractor that does not turn its basis."""
        features, prediction, ls_error, loss, admitted, evicted = out
        n, width = features.shape
        unread, flags = np.empty(n), np.zeros(n, np.int8)  # an extractor's predictions, what a head stores
        of_extractor = Outputs(features, np.empty(prediction.shape), ls_error, unread, admitted, evicted)
        self.extractor.loop(work.extractor, slots, X, Y, learn, of_extractor, change)
        of_head = Outputs(unknown((n, self.head.width_for(width))), prediction, unread, loss, flags, flags)
        self.head.loop(work.head, slots, features, Y, learn, of_head, change)

"""What a key keeps in addition to its learner: how many rows it had, and which classes were labelled so far and last."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, every
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN, LEARN_HEAD, Array, unknown
from algorithms.common.workspace import Workspace
from streamjobs.errors import SnapshotError
from streamjobs.stages.stage import MOST_COUNTED, JobStage, Shape

UNASKED = np.zeros((0, 0), np.int8)


class ClassCountsState(NamedTuple):
    rows: int  # rows of this key so far: the next row's `seq`
    seen: int  # rows the learner had seen before this key's first one (a warm start's)
    labelled: Array  # (classes,) int64, labels learned per class; no columns in a regression


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCounts(JobStage):
    """Counts rows and labels of a key, and chooses among the classes that may be predicted."""

    persisted_name: ClassVar[str] = "Books"
    described = "nothing"
    survives = True  # the count of rows; nothing has been labelled for another population's head
    tallies = ("labelled",)

    classes: int
    given: int = 0  # so many classes, the population's, may be predicted before any label

    def begin(self, shape: Shape, seed: int) -> ClassCountsState:
        return ClassCountsState(0, shape.taught, np.zeros(self.classes, np.int64))

    def warm_up(self, state: ClassCountsState, shape: Shape) -> None:
        work, slot, code = self.holding(state), np.zeros(1, np.int64), unknown((1,))
        before = np.zeros((1, self.classes), np.int8)
        self.decide(work, slot, unknown((1, self.classes)), code, np.full(1, LEARN, np.int8), before)
        self.number(work, slot)
        targets_of(code, self.classes)

    def inherit(self, state: ClassCountsState) -> ClassCountsState:
        """Rows that taught the exported model count as seen. A new key has had no rows."""
        if state.seen + state.rows >= MOST_COUNTED:
            raise SnapshotError(
                f"the exported state counts {state.seen} inherited and {state.rows} own rows, more than there can be."
            )
        return state._replace(seen=state.seen + state.rows, rows=0)

    def migrate(self, state: ClassCountsState, fresh: ClassCountsState, column: Sequence[int]) -> ClassCountsState:
        return fresh._replace(rows=state.rows)

    def demands(self, work: Workspace, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        if classes is not None:
            known = np.arange(self.classes) < classes[:, None]
            yield Demand("labelled", "labels of the key's classes", every(known | (work["labelled"][slots] == 0)))

    def number(self, work: Workspace, slots: Array) -> tuple[Array, Array]:
        """The number of each row within its key, and how many rows its learner had seen before it. Counts them."""
        seq, seen = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        _number(work["rows"], work["seen"], slots, seq, seen)
        return seq, seen

    def decide(
        self, work: Workspace, slots: Array, scores: Array, codes: Array, learn: Array, before: Array = UNASKED
    ) -> tuple[Array, Array, Array]:
        """The predicted class of each row, how many classes could have been predicted, and the class's score.

        The prediction is the class with the highest score of those labelled before (or given); -1, score NaN, without any.
        `codes (n,)` are the true classes (NaN unknown); after its row a label that is learned counts as labelled. `before
        (n, classes)` int8, where it is asked for, becomes 1 for the key's own labels before the row.
        """
        n = len(slots)
        out = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
        _decide(work["labelled"], slots, scores, codes, learn, out, self.given, before)
        return out


@compiled
def _number(rows, before, slots, seq, seen):
    for n in range(len(slots)):
        key = slots[n]
        seq[n] = rows[key]
        seen[n] = before[key] + rows[key]
        rows[key] += 1


@compiled
def _decide(labelled, slots, scores, codes, learn, out, given, before):
    chosen, known, score = out
    for n in range(len(slots)):
        key = slots[n]
        best, classes = -1, 0
        scored = not missing(scores[n])
        for c in range(scores.shape[1]):
            if before.shape[0] > 0:
                before[n, c] = labelled[key, c] > 0
            if labelled[key, c] > 0 or c < given:
                classes += 1
                if scored and (best < 0 or scores[n, c] > scores[n, best]):
                    best = c
        chosen[n], known[n] = best, classes
        score[n] = scores[n, best] if best >= 0 else np.nan
        if learn[n] & LEARN_HEAD and np.isfinite(codes[n]):
            labelled[key, int(codes[n])] += 1


def targets_of(codes: Array, classes: int) -> Array:
    """One row per label: 1 in its class's column, 0 elsewhere; NaN throughout where the label is unknown."""
    Y = unknown((len(codes), classes))
    _targets(codes, Y)
    return Y


@compiled
def _targets(codes, Y):
    for n in range(len(codes)):
        if np.isfinite(codes[n]):
            for c in range(Y.shape[1]):
                Y[n, c] = 0.0
            Y[n, int(codes[n])] = 1.0


class FallbackState(NamedTuple):
    latest: int  # column of the last class learned, -1 before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback(JobStage):
    """Rows that nothing was chosen for get the last label.

    >>> stage, nothing = Fallback(), np.full(3, -1)
    >>> fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=5), seed=0)
    >>> work = stage.holding(fresh)
    >>> stage.advance(work, np.zeros(3, np.int64), nothing, np.array([np.nan, 4.0, np.nan]), np.full(3, 3, np.int8))
    >>> nothing
    array([-1, -1,  4])
    """

    persisted_name: ClassVar[str] = "Fallback"
    described = "nothing"
    class_columns = ("latest",)

    def begin(self, shape: Shape, seed: int) -> FallbackState:
        return FallbackState(-1)

    def warm_up(self, state: FallbackState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.full(1, -1), unknown((1,)), np.full(1, LEARN, np.int8))

    def advance(self, work: Workspace, slots: Array, chosen: Array, codes: Array, learn: Array) -> None:
        """Fills -1 in `chosen (n,)`; `codes (n,)` are the true classes, NaN unknown."""
        _fall_back(work["latest"], slots, chosen, codes, learn)


@compiled
def _fall_back(all_latest, slots, chosen, codes, learn):
    for n in range(len(slots)):
        key = slots[n]
        if chosen[n] < 0:
            chosen[n] = all_latest[key]
        if learn[n] & LEARN_HEAD and np.isfinite(codes[n]):
            all_latest[key] = int(codes[n])

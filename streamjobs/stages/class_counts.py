"""What a key keeps beside its learner: how many rows it had, and which classes have been labelled so far."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_HEAD, Array, Stage, Workspace, unknown

UNASKED = np.zeros((0, 0), np.int8)


class BooksState(NamedTuple):
    rows: int  # rows of this key so far: the next row's `seq`
    seen: int  # rows the learner had seen before this key's first one (a warm start's)
    labelled: Array  # (classes,) int64, labels learned per class; no columns in a regression


@dataclass(frozen=True, slots=True, kw_only=True)
class Books(Stage):
    persisted_name: ClassVar[str] = "Books"
    classes: int
    given: int = 0  # the first of them that may be predicted before any label: a population's

    def init(self, seen: int = 0) -> BooksState:
        return BooksState(0, seen, np.zeros(self.classes, np.int64))

    def number(self, work: Workspace, slots: Array) -> tuple[Array, Array]:
        """The number of each row within its key, and how many rows its learner had seen before it; counts on."""
        seq, seen = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        _number(work.arrays[0], work.arrays[1], slots, seq, seen)
        return seq, seen

    def decide(
        self, work: Workspace, slots: Array, scores: Array, codes: Array, learn: Array, before: Array = UNASKED
    ) -> tuple[Array, Array]:
        """The predicted class of each row, and how many classes could have been predicted.

        Predicted is the highest score among those labelled before (or given), -1 while there is none. `codes (n,)` are
        the true classes (NaN unknown); after its row a label that is learned counts as labelled. `before (n, classes)`
        int8, where it is asked for, becomes 1 for the key's own labels before the row.
        """
        chosen, known = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        _decide(work.arrays[2], slots, scores, codes, learn, chosen, known, self.given, before)
        return chosen, known


@compiled
def _number(rows, before, slots, seq, seen):
    for n in range(len(slots)):
        key = slots[n]
        seq[n] = rows[key]
        seen[n] = before[key] + rows[key]
        rows[key] += 1


@compiled
def _decide(labelled, slots, scores, codes, learn, chosen, known, given, before):
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

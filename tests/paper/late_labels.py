"""One person's stream with labels that come late: what is predicted, and what it is worth.

Window i is predicted, then the label of window i - LATE is learned; a person's recordings come in shuffled order.
A new person begins with nothing (cold) or with one model that learned everybody else's windows (warm), as a pooled
replay makes it in one pass; `map_first` takes a second pass for the head, on a map that stands still by then.
Decisions are the product's: the highest score among the classes that were labelled so far.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY
from streamjobs.core.books import Books, targets_of
from tests.paper.recordings import Recordings

LATE = 20  # windows, 20 s


class Stream(NamedTuple):
    """One person's windows as they come."""

    X: np.ndarray  # (n, d)
    activity: np.ndarray  # (n,)
    recording: np.ndarray  # (n,)

    @property
    def fresh(self) -> np.ndarray:
        """(n,) bool: no label of the window's own recording has arrived."""
        begins = np.r_[True, np.diff(self.recording) != 0]
        place = np.arange(len(begins)) - np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
        return place <= LATE


def shuffled(data: Recordings, chosen: np.ndarray, seed: list[int]) -> Stream:
    """The windows where `chosen`, recording by recording in an order drawn from the seed."""
    ids = np.unique(data.recording[chosen])
    order = np.random.default_rng(seed).permutation(ids)
    rows = np.concatenate([np.flatnonzero(data.recording == one) for one in order])
    return Stream(data.X[rows], data.activity[rows], data.recording[rows])


@dataclass(frozen=True)
class Model:
    """Scaling and a learner, as a job's stages; how a person's run lets them learn."""

    name: str
    learner: Learner
    warm: bool
    map_first: bool = False  # the population's scale and extractor learn in a first pass, the head in a second
    scale: int = LEARN  # what the arriving window may teach the scale,
    arriving: int = LEARN_EXTRACTOR  # the extractor of a chain,
    labelled: int = LEARN_HEAD  # and the label that came late

    @property
    def scaling(self) -> Learner:
        return learner_from("scaling", {"clip": 5.0})


class States(NamedTuple):
    scaling: Any
    learner: Any
    books: Any


def empty(model: Model, dim: int, classes: int) -> States:
    books = Books(classes=classes).init()
    scaling = model.scaling.init(dim=dim, targets=0, seed=0)
    return States(scaling, model.learner.init(dim=dim, targets=classes, seed=0), books)


def apply(model: Model, states: States, X, codes, scale_learns, learn) -> tuple[np.ndarray, States]:
    """Rows through the stages: the class decided for each (-1 none), and the new states."""
    n, classes = len(X), len(states.books.labelled)
    assert len(codes) == len(scale_learns) == len(learn) == n  # compiled loops do not check
    slots, nothing = np.zeros(n, np.int64), np.zeros((n, 0))
    work = model.scaling.workspace(states.scaling)
    model.scaling.load(work, 0, states.scaling)
    scaled = model.scaling.outputs(n, X.shape[1], 0)
    model.scaling.advance(work, slots, np.ascontiguousarray(X), nothing, scaled, scale_learns)
    scaling = model.scaling.save(work, 0, states.scaling)

    work = model.learner.workspace(states.learner)
    model.learner.load(work, 0, states.learner)
    out = model.learner.outputs(n, X.shape[1], classes)
    model.learner.advance(work, slots, scaled.features, np.ascontiguousarray(targets_of(codes, classes)), out, learn)
    learner = model.learner.save(work, 0, states.learner)

    books = Books(classes=classes)
    work = books.workspace(states.books)
    books.load(work, 0, states.books)
    chosen, _ = books.decide(work, slots, out.prediction, codes, learn)
    return chosen, States(scaling, learner, books.save(work, 0, states.books))


def population(model: Model, others: Stream, classes: int) -> States:
    """One model that learned all these windows, each with its label at once."""
    X, codes, n = others.X, others.activity.astype(float), len(others.X)
    states = empty(model, X.shape[1], classes)
    passes = [(LEARN, LEARN_EXTRACTOR), (PREDICT_ONLY, LEARN_HEAD)] if model.map_first else [(LEARN, LEARN)]
    for scale, learner in passes:
        states = apply(model, states, X, codes, np.full(n, scale, np.int8), np.full(n, learner, np.int8))[1]
    return states


def predicted(model: Model, states: States, stream: Stream) -> np.ndarray:
    """The class decided for each window of the stream, its label arriving LATE windows later; -1 none."""
    n = len(stream.X)
    arrive = 2 * np.arange(n)  # each window's row; the row after it brings the label of the window LATE before
    rows = np.empty(2 * n, np.int64)
    rows[arrive], rows[arrive + 1] = np.arange(n), np.arange(n) - LATE
    known = np.zeros(2 * n, bool)
    known[arrive + 1] = True
    kept = rows >= 0
    rows, known = rows[kept], known[kept]
    codes = np.where(known, stream.activity[rows], np.nan)
    scale_learns = np.where(known, PREDICT_ONLY, model.scale).astype(np.int8)
    learn = np.where(known, model.labelled, model.arriving).astype(np.int8)
    chosen, _ = apply(model, states, stream.X[rows], codes, scale_learns, learn)
    return chosen[~known]


def controls(stream: Stream, classes: int) -> dict[str, np.ndarray]:
    """What needs no model: the most frequent label so far, the last one, and the bound of a cold learner.

    The bound is right wherever the class was labelled before; -1 elsewhere.
    """
    y, n = stream.activity, len(stream.activity)
    majority, last, bound = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    counts = np.zeros(classes, np.int64)
    for i in range(n):
        if i > LATE:
            counts[y[i - LATE - 1]] += 1
            majority[i], last[i] = counts.argmax(), y[i - LATE - 1]
            bound[i] = y[i] if counts[y[i]] else -1
    return {"majority so far": majority, "last label seen": last, "bound of cold: class labelled before": bound}


class Worth(NamedTuple):
    """Shares of right decisions of one run."""

    all: float
    half: float  # of the second half
    f1: float  # mean over the classes that occur
    fresh: float  # where nothing of the same recording was labelled
    fresh_half: float


def worth(chosen: np.ndarray, stream: Stream) -> Worth:
    y, right = stream.activity, chosen == stream.activity
    later = np.arange(len(y)) >= len(y) // 2
    f1 = []
    for c in np.unique(y):
        hit = np.sum(right & (y == c))
        f1.append(2 * hit / (np.sum(y == c) + np.sum(chosen == c)))
    fresh = stream.fresh
    return Worth(
        float(right.mean()),
        float(right[later].mean()),
        float(np.mean(f1)),
        float(right[fresh].mean()),
        float(right[fresh & later].mean()) if (fresh & later).any() else float("nan"),
    )

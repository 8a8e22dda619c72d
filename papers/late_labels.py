"""One person's stream with labels that come late: what is predicted, and what it is worth.

Window i is predicted, then the label of window i - 20 is learned; a person's recordings come in shuffled order.
A new person begins with nothing (cold) or with one model that learned everybody else's windows (warm), as a pooled
replay makes it in one pass; `map_first` takes a second pass for the head, on a map that stands still by then.
Decisions are the product's: the highest score among the classes that were labelled so far.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY
from streamjobs.fit.recordings import Stream, arriving
from streamjobs.stages.class_counts import ClassCounts, targets_of
from streamjobs.stages.stage import Shape


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
    books = ClassCounts(classes=classes).begin(Shape(dim=dim, width=dim, label_width=1, targets=classes), seed=0)
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

    books = ClassCounts(classes=classes)
    work = books.workspace(states.books)
    books.load(work, 0, states.books)
    chosen, _, _ = books.decide(work, slots, out.prediction, codes, learn)
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
    """The class decided for each window of the stream, its label arriving 20 windows later; -1 none."""
    rows, known = arriving(len(stream.X), stream.late)
    codes = np.where(known, stream.activity[rows], np.nan)
    scale_learns = np.where(known, PREDICT_ONLY, model.scale).astype(np.int8)
    learn = np.where(known, model.labelled, model.arriving).astype(np.int8)
    chosen, _ = apply(model, states, stream.X[rows], codes, scale_learns, learn)
    return chosen[~known]

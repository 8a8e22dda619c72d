"""What other people's windows teach, and how a new person is served by it: scale and map stand still, the head adapts."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from algorithms import Learner
from algorithms.common.protocol import LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY, Array, Outputs
from algorithms.heads.gated_rls import GatedRls
from algorithms.heads.rls import Rls, RlsState
from streamjobs.core.model import Choosing
from streamjobs.core.state.population import Convolved
from streamjobs.fit.least_squares import head_of, learn_directions, sums_of
from streamjobs.fit.recordings import Recordings, Stream, arriving
from streamjobs.stages.class_counts import ClassCounts, targets_of
from streamjobs.stages.names import CLASS_COUNTS, ELAPSED, REFUTED, SMOOTHING
from streamjobs.stages.population.directions import Directions, joint_of
from streamjobs.stages.smoothing import Elapsed, Refuted, Smoothing, Transitions
from streamjobs.stages.stage import Shape

BOOST = 1.25  # labels of the population that one of a new person weighs, for each person in it: 10 with 8 people
MOST_KEPT = 1 << 29  # bytes of windows that the report uses again after a choice
Start = Literal["gated", "adapted", "frozen", "cold"]  # as the head is; without its gate; learning nothing; knowing nothing


class Convolving(NamedTuple):
    """Numbers to make of the samples that stand behind a window's statistics, and how many samples and channels it has."""

    numbers: int
    samples: int
    dim: int


@dataclass(frozen=True)
class Recipe:
    """The stages behind the windows, as a job states them."""

    scaling: Learner | None  # None: windows as they are
    map: Learner | None  # None: the head sees the scaled windows themselves
    head: GatedRls
    smooth: float = 0.0  # of the scores
    filter: Transitions | None = None  # in its place; its numbers are 0 where the population is to say them
    input: bool = False  # the head sees the scaled windows, and then what the map makes of them
    boosts: bool = False  # the head's `boost` follows the number of people
    convolving: Convolving | None = None  # what windows have in addition to their statistics
    directions: int = 0  # numbers that the head sees in place of all; 0: all

    @property
    def population(self) -> str:
        """The same for recipes that learn the same population."""
        return f"{self.scaling!r} {self.map!r} {self.input!r} {self.teacher!r} {self.directions}"

    @property
    def teacher(self) -> Rls:
        """The head that learns the population."""
        return Rls(intercept=self.head.intercept, delta=self.head.delta, forgetting=self.head.forgetting)

    def mapped(self, state: Any, scaled: Array) -> Array:
        """What the head sees of scaled windows, without directions; state: of the map."""
        if self.map is None:
            return scaled
        found = self.map.transform(state, scaled)
        return np.hstack([scaled, found]) if self.input else found

    def scaled(self, state: Any, X: Array) -> Array:
        return X if self.scaling is None else self.scaling.transform(state, X)


class Learned(NamedTuple):
    """What other people's windows taught, all of it frozen from now on."""

    scaling: Any  # None without one
    map: Any  # None without one
    head: RlsState
    people: int = 0  # who taught
    directions: Directions | None = None
    joint: int = 0  # of the numbers that the head sees, those of which a person's P has the covariances; 0: all


def convolved(data: Recordings, teaches: Array, convolving: Convolving | None) -> tuple[Recordings, Convolved | None]:
    """Windows with convolutions in the place of their samples, learned from those that teach (n,) bool."""
    if convolving is None:
        return data, None
    from streamjobs.stages.statistics import convolutions

    kept, which = {} if data.kept is None else data.kept, (convolving, teaches.tobytes())
    if which in kept:
        found: tuple[Recordings, Convolved] = kept[which]
        return found
    numbers, samples, dim = convolving
    first = data.X.shape[1] - samples * dim
    learned = convolutions.learn(data.X[teaches, first:].reshape(-1, samples, dim), numbers)
    unlabelled = data.unlabelled
    if unlabelled is not None:
        unlabelled = unlabelled._replace(X=learned.replaced(unlabelled.X, samples, dim))
    data = data._replace(X=learned.replaced(data.X, samples, dim), unlabelled=unlabelled, kept=None)
    if data.X.nbytes * (len(kept) + 1) < MOST_KEPT:
        kept[which] = data, Convolved(samples, dim, learned)
    return data, Convolved(samples, dim, learned)


def scaling_from(others: Stream, recipe: Recipe) -> Any:
    """The scale of the others' windows; None without one."""
    if recipe.scaling is None:
        return None
    state, _ = recipe.scaling.run(recipe.scaling.init(dim=others.X.shape[1], targets=0, seed=0), others.X)
    return state


def learned_from(others: Stream, recipe: Recipe, classes: int) -> Learned:
    """Scale, then map, then head on the map that stands still, each in one pass over all windows of the others.

    The map sees the windows shuffled one by one: a dictionary that is full after a few recordings knows no others.
    """
    scaling = scaling_from(others, recipe)
    X = recipe.scaled(scaling, others.X)
    state, mapping = None, recipe.map
    if mapping is not None:
        order = np.random.default_rng(0).permutation(len(X))
        state = mapping.state_after(X[order], seed=0)
    Z, found = recipe.mapped(state, X), None
    if recipe.directions:
        assert others.person is not None, "windows of several people"
        found = learn_directions(Z, others.activity, others.person, recipe.directions, 1 / recipe.teacher.delta)
        Z = found.rows(Z)
    teacher = recipe.teacher
    if teacher.forgetting == 1:
        head = head_of(teacher, [sums_of(Z, others.activity, classes)])
    else:
        begin = teacher.init(dim=Z.shape[1], targets=classes, seed=0)
        head, _ = teacher.run(begin, Z, targets_of(others.activity.astype(float), classes))
    return Learned(scaling, state, head, others.people, found, joint_of(recipe.directions))


def features(learned: Learned, recipe: Recipe, X: Array) -> Array:
    """What the head sees of windows."""
    Z = recipe.mapped(learned.map, recipe.scaled(learned.scaling, X))
    return Z if learned.directions is None else learned.directions.rows(Z)


@dataclass(frozen=True)
class Way:
    """How a new person is served, for comparing."""

    name: str
    recipe: Recipe
    start: Start = "gated"


class Decided(NamedTuple):
    chosen: Array  # (n,) class of each window, -1 none
    scores: Array  # (n, classes) that decided
    out: Outputs  # of the head, a row per window


def decided(
    recipe: Recipe, start: Start, learned: Learned, stream: Stream, Z: Array, arrivals: tuple[Array, Array] | None = None
) -> Decided:
    """A new person's stream, with `Z` its windows' features: the class decided for each before its label is learned.

    `arrivals`: windows and labels in the order they come, as `arriving_at` gives them; None: `stream.late` windows late.
    Z may end with the features of the stream's unlabelled windows: nothing is decided for them.
    """
    classes, n, activity, times = len(learned.head.bias), len(stream.activity), stream.activity, stream.times
    rows, label = arrivals if arrivals is not None else arriving(n, stream.late)
    if len(Z) > n:
        assert stream.unlabelled is not None
        at = np.flatnonzero(~label)[stream.unlabelled.before]
        rows, label = np.insert(rows, at, np.arange(n, len(Z))), np.insert(label, at, False)
        activity = np.r_[activity, np.zeros(len(Z) - n, np.int64)]
        if times is not None:
            times = np.r_[times, stream.unlabelled.times_before(times)]
    codes = np.where(label, activity[rows], np.nan)
    learn = np.where(label, PREDICT_ONLY if start == "frozen" else LEARN_HEAD, LEARN_EXTRACTOR).astype(np.int8)
    slots = np.zeros(len(rows), np.int64)
    out = scores_of(recipe, start, learned, Z[rows], targets_of(codes, classes), learn)

    smoothing = recipe.filter or Smoothing(smooth=recipe.smooth)
    refuted = None if recipe.filter is None else Refuted()
    elapsed = None if recipe.filter is None or times is None else Elapsed(hop=1.0)
    choosing = Choosing(smoothing, ClassCounts(classes=classes), None, refuted=refuted, elapsed=elapsed)
    shape = Shape(dim=Z.shape[1], width=Z.shape[1], label_width=1, targets=classes)
    known = choosing.counts.begin(shape, 0)
    if start != "cold":
        known = known._replace(labelled=np.ones(classes, np.int64))
    work: dict[str, Any] = {}
    work[SMOOTHING] = smoothing.workspace(smoothing.begin(shape, 0))
    work[CLASS_COUNTS] = choosing.counts.holding(known)
    if refuted is not None:
        work[REFUTED] = refuted.holding(refuted.begin(shape, 0))
    if elapsed is not None:
        work[ELAPSED] = elapsed.holding(elapsed.begin(shape, 0))
    said = choosing.advance(work, slots, out.prediction, codes, learn, times=None if times is None else times[rows])
    assert said.smoothed is not None
    kept = ~label & (rows < n)
    return Decided(said.chosen[kept], said.smoothed[kept], Outputs(*(array[kept] for array in out)))


def scores_of(recipe: Recipe, start: Start, learned: Learned, Z: Array, Y: Array, learn: Array) -> Outputs:
    """The head's outputs for rows of one person, in order."""
    head, state = start_head(recipe, start, learned)
    out = head.outputs(len(Z), Z.shape[1], Y.shape[1])
    work = head.workspace(state)
    head.load(work, 0, state)
    head.advance(work, np.zeros(len(Z), np.int64), np.ascontiguousarray(Z), np.ascontiguousarray(Y), out, learn)
    return out


def start_head(recipe: Recipe, start: Start, learned: Learned) -> tuple[GatedRls, Any]:
    """The head of a new person, and the state it begins with."""
    head = recipe.head if start == "gated" else replace(recipe.head, gate=False)
    if recipe.boosts and learned.people:
        head = replace(head, boost=BOOST * learned.people)
    if start == "cold":
        dim, targets = learned.head.weights.shape
        return head, head.init(dim=dim, targets=targets, seed=0)
    return head, head.from_population(learned.head, learned.joint)

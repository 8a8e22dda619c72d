"""What follows the scores of a key's present rows, so that one odd window does not decide: smoothing, or a filter.

A stage behind a head, not part of it: it follows the rows in the order of arrival, and a label that came late must not
touch it. With smoothing both the head's own score and the smoothed one are there to be shown.

The filter is a hidden Markov model: what a person does mostly goes on, and sometimes changes. The chance of each class
before a row is what it was after the row before, except that a class goes over to another with a chance of `switch`; the
row's scores s then weigh it by softmax(sharpness s), at least FLOOR. Both numbers are the population's, as `fit` says, or
`switch` the job's. A class with a score of exactly 0 has taught the head nothing and has no chance.
After a pause of k steps (`Elapsed`) the class may have changed in each of them: with K classes the chance of another one is
m (1 - (1 - switch / m)^k), m = (K - 1) / K, as by the k-th power of the matrix of one step. Long after, all are as likely.
Where the population has learned `Changes`, scores that differ from those of the row before raise the chance of a change
and scores that do not lower it.
A label that came late is about a row of some time ago: where the head says another class of it (`Refuted`), part of the
chance of that class goes over to the label's, because what was mistaken for that class then probably still is.
Source: the forward algorithm; Rabiner, A tutorial on hidden Markov models, Proc. IEEE 77 (1989), equations 19 to 21.
The chance of a change by row, and what late labels do: ours.
Cost of a row: O(targets), with changes O(targets^2).  State: targets + 1 numbers, with changes 2 targets + 1.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, Array, require, unknown
from streamjobs.stages.stage import JobStage, Shape

FLOOR = 1e-4  # of what a row says for a class: no row alone rules one out
MOST_RAISED = 100.0  # of a logarithm of odds
FURTHEST = 1e300  # of a squared distance
MOST_OFTEN = 0.99  # highest chance of a change that `lasts` states
FIRST = 20  # labels of a run of equal ones that refute: later ones may belong to what ended meanwhile
MOVED = 0.5  # part of a chance that a label moves
NOTHING = np.zeros(0, np.int64), np.zeros(0)
IN_TURN = np.zeros(0, np.int64)


class SmoothingState(NamedTuple):
    smoothed: Array  # (targets,) scores of the last present row, smoothed
    rows: int  # present rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing(JobStage):
    """Smoothed score = smooth times the smoothed score before + (1 - smooth) times the score.

    >>> stage = Smoothing(smooth=0.5)
    >>> work = stage.workspace(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    >>> scores, learn = np.array([[4.0], [0.0], [9.0], [0.0]]), np.array([1, 1, 2, 1], np.int8)
    >>> stage.advance(work, np.zeros(4, np.int64), scores, learn).ravel()  # the third row is a label that came late
    array([4. , 2. , 5.5, 1. ])
    """

    persisted_name: ClassVar[str] = "Smoothing"
    finite = True
    probabilities: ClassVar[bool] = False
    hop: ClassVar[float] = 0.0

    smooth: float = 0.3  # in [0, 1); share of the row before, 0 = off

    def __post_init__(self) -> None:
        require(self, "smooth", 0 <= self.smooth < 1, "0 or more, below 1")

    def taught(self, learned: Any) -> "Smoothing":
        """The stage with what a population says of it: nothing."""
        return self

    def begin(self, shape: Shape, seed: int) -> SmoothingState:
        return SmoothingState(np.zeros(shape.targets), 0)

    def warm_up(self, state: SmoothingState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), unknown((1, shape.targets)), np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, scores: Array, learn: Array, refuted: Any = None, steps: Any = None) -> Array:
        """Smoothed scores (n, targets); rows with bit 1 of `learn` are remembered, NaN stays NaN and is not."""
        smoothed = unknown(scores.shape)
        _loop(work.arrays, slots, scores, learn, smoothed, self.smooth)
        return smoothed


class TransitionsState(NamedTuple):
    chances: Array  # (targets,) probabilities after the last present row
    rows: int  # present rows so far


class ChangesState(NamedTuple):
    chances: Array  # as above
    rows: int
    scores: Array  # (targets,) of the last present row


class Changes(NamedTuple):
    """How far apart scores of two rows in turn are where the class stays, and where it changes.

    u = ln(1 + |W' (s - s before)|^2 / classes); the odds of a change are those of `switch`, times exp(slope u + offset).
    """

    whitening: tuple[float, ...]  # lower triangle of W by rows: what is whitened has a deviation of 1 while the class stays
    slope: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions(JobStage):
    """Probabilities in place of scores.

    >>> stage = Transitions(sharpness=2.0, switch=0.1)
    >>> work = stage.workspace(stage.begin(Shape(dim=1, width=1, label_width=1, targets=2), seed=0))
    >>> scores = np.array([[0.9, 0.1], [0.4, 0.6], [0.1, 0.9]])
    >>> stage.advance(work, np.zeros(3, np.int64), scores, np.ones(3, np.int8)).round(2).tolist()
    [[0.83, 0.17], [0.69, 0.31], [0.27, 0.73]]
    """

    persisted_name: ClassVar[str] = "Transitions"
    described = "name"
    finite = True
    probabilities: ClassVar[bool] = True  # what it gives in place of scores

    sharpness: float = 0.0  # what a difference of scores counts; 0: as the population says
    switch: float = 0.0  # chance that the class of a row is not that of the row before; 0: as the population says
    changes: Changes | None = None  # of the population; None: every row has the same chance
    lasts: float = 0.0  # seconds that a class lasts on average, of a job without windows, in place of switch; 0: not stated
    hop: float = 0.0  # seconds between two rows of the population without windows; 0: not known, as one second

    def __post_init__(self) -> None:
        require(self, "sharpness", 0 <= self.sharpness <= 1e3, "0 to 1000")
        require(self, "switch", 0 <= self.switch < 1, "0 or more, below 1")
        require(self, "hop", 0 <= self.hop < math.inf, "0 or more seconds")

    @property
    def stated(self) -> float:
        """The chance of a change that the job states; 0: none."""
        return min((self.hop or 1.0) / self.lasts, MOST_OFTEN) if self.lasts else self.switch

    @property
    def table(self) -> dict[str, Any]:
        """What a population's file keeps."""
        numbers = {"sharpness": self.sharpness, "switch": self.switch} | ({"hop": self.hop} if self.hop else {})
        return numbers if self.changes is None else numbers | {"changes": self.changes._asdict()}

    @classmethod
    def from_table(cls, table: dict[str, Any], classes: int) -> "Transitions":
        """Raises ValueError for what `fit` cannot have learned of so many classes."""
        changes = table.get("changes")
        if changes is not None:
            changes = Changes(tuple(map(float, changes["whitening"])), float(changes["slope"]), float(changes["offset"]))
            expected, finite = classes * (classes + 1) // 2, np.isfinite([*changes.whitening, *changes[1:]]).all()
            if len(changes.whitening) != expected or not finite:
                raise ValueError(f"expected {expected} finite numbers as whitening of a filter, got {changes!r:.200}")
        hop = float(table.get("hop", 0.0))
        return cls(sharpness=float(table["sharpness"]), switch=float(table["switch"]), changes=changes, hop=hop)

    def taught(self, learned: "Transitions | None") -> "Transitions":
        """The stage with the numbers of a population, but for the chance of a change that the job states."""
        return self if learned is None else replace(learned, switch=replace(self, hop=learned.hop).stated or learned.switch)

    def begin(self, shape: Shape, seed: int) -> TransitionsState | ChangesState:
        start = TransitionsState(np.zeros(shape.targets), 0)
        return start if self.changes is None else ChangesState(*start, np.zeros(shape.targets))

    def warm_up(self, state: TransitionsState | ChangesState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), unknown((1, shape.targets)), np.full(1, LEARN, np.int8))

    def advance(
        self,
        work: Any,
        slots: Array,
        scores: Array,
        learn: Array,
        refuted: tuple[Array, Array] | None = None,
        steps: Array | None = None,
    ) -> Array:
        """Probabilities (n, targets); rows with bit 1 of `learn` are remembered, NaN stays NaN and is not.

        refuted: what `Refuted` says of the rows (n,), and their true classes (n,), NaN unknown. steps: what `Elapsed` says.
        """
        chances, (before, rows, *more) = unknown(scores.shape), work.arrays[:-1]
        held, numbers = (before, rows, more[0] if more else before[:0]), _numbers(self.changes)
        settings = float(self.sharpness), float(self.switch), numbers
        _filter(held, slots, scores, learn, chances, settings, refuted or NOTHING, IN_TURN if steps is None else steps)
        return chances


class RefutedState(NamedTuple):
    latest: int  # column of the last label, -1 before
    run: int  # labels like it in a row, at most FIRST + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted(JobStage):
    """Which rows with a late label the head gives to another class, among the first labels of a run of equal ones.

    >>> stage, scores = Refuted(), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=2), seed=0))
    >>> stage.advance(work, np.zeros(2, np.int64), scores, np.ones(2), np.full(2, 2, np.int8))  # their class is 1
    array([ 0, -1])
    """

    persisted_name: ClassVar[str] = "Refuted"
    class_columns = ("latest",)
    ranges = (("run", 0, FIRST + 1),)

    def begin(self, shape: Shape, seed: int) -> RefutedState:
        return RefutedState(-1, 0)

    def warm_up(self, state: RefutedState, shape: Shape) -> None:
        work = self.holding(state)
        nothing = unknown((1, shape.targets)), unknown((1,)), np.full(1, LEARN, np.int8)
        self.advance(work, np.zeros(1, np.int64), *nothing)

    def advance(self, work: Any, slots: Array, scores: Array, codes: Array, learn: Array) -> Array:
        """The class (n,) that is refuted, -1 none. scores (n, targets) of the head, codes (n,) true classes, NaN unknown."""
        refuted = np.empty(len(slots), np.int64)
        _refute(work["latest"], work["run"], slots, scores, codes, learn, refuted)
        return refuted


class ElapsedState(NamedTuple):
    newest: float  # event time of the newest present row, seconds; -inf: none, or of an earlier release


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed(JobStage):
    """How many steps of time after its key's present row before each row comes: more than one after a pause.

    >>> stage = Elapsed(hop=1.0)
    >>> work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    >>> times, learn = np.array([5.0, 6.0, 36.0, 35.0]), np.ones(4, np.int8)
    >>> stage.advance(work, np.zeros(4, np.int64), np.zeros((4, 1)), times, learn)
    array([ 1,  1, 30,  1])
    """

    persisted_name: ClassVar[str] = "Elapsed"
    described = "name"
    signal = True
    times = ("newest",)

    hop: float = 0.0  # seconds between two rows in turn; 0: not known, every row comes one step after the other

    def begin(self, shape: Shape, seed: int) -> ElapsedState:
        return ElapsedState(-math.inf)

    def warm_up(self, state: ElapsedState, shape: Shape) -> None:
        work, row = self.holding(state), np.zeros(1)
        self.advance(work, np.zeros(1, np.int64), unknown((1, shape.targets)), row, np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, scores: Array, times: Array, learn: Array) -> Array:
        """Steps (n,), at least 1; rows with bit 1 of `learn` and scores (n, targets) are remembered. times (n,): seconds."""
        steps = np.ones(len(slots), np.int64)
        _elapse(work["newest"], slots, scores, times, learn, float(self.hop), steps)
        return steps


def count_right(
    scores: Array, activity: Array, person: Array, sharpness: Array, switch: Array, changes: Changes | None
) -> Array:
    """(people, sharpness, switch) right rows of each person by each pair of numbers of `Transitions`, to choose one.

    scores (n, classes), person (n,): its rows stand together, and people are numbered from 0.
    """
    right = np.zeros((int(person[-1]) + 1, len(sharpness), len(switch)), np.int64)
    _count_right(np.ascontiguousarray(scores), activity, person, sharpness, switch, _numbers(changes), right)
    return right


@lru_cache(maxsize=64)
def _numbers(changes: Changes | None) -> tuple[Array, int, float, float]:
    """What the loop takes, made once: whitening, classes, slope, offset; no classes: no changes."""
    if changes is None:
        return np.zeros(0), 0, 0.0, 0.0
    whitening = np.array(changes.whitening)
    return whitening, (math.isqrt(8 * len(whitening) + 1) - 1) // 2, float(changes.slope), float(changes.offset)


@compiled
def _loop(work, slots, scores, learn, smoothed, smooth):
    all_before, rows, _ = work
    for n in range(len(scores)):
        key, before, now = slots[n], all_before[slots[n]], smoothed[n]
        if missing(scores[n]):
            continue
        for t in range(now.size):
            now[t] = smooth * before[t] + (1.0 - smooth) * scores[n, t] if rows[key] > 0 else scores[n, t]
        if learn[n] & LEARN_EXTRACTOR:
            rows[key] += 1
            for t in range(now.size):
                before[t] = now[t]


@compiled
def _raised(scores, before, changes):
    """By how much the odds of a change between two rows with these scores exceed those of an average row."""
    whitening, classes, slope, offset = changes
    squares = 0.0
    for j in range(classes):
        along = 0.0
        for i in range(j, classes):
            along += (scores[i] - before[i]) * whitening[i * (i + 1) // 2 + j]
        squares += along * along
    if not squares < FURTHEST:  # NaN of scores that leave the finite numbers too
        squares = FURTHEST
    return np.exp(min(slope * np.log(1.0 + squares / classes) + offset, MOST_RAISED))


@compiled
def _weigh(scores, sharpness, now):
    """What a row says for each class into `now`, 0 of a class that taught nothing; gives the number of others."""
    highest, known, total = -np.inf, 0, 0.0
    for t in range(now.size):
        if scores[t] != 0.0:
            known += 1
            highest = max(highest, scores[t])
    for t in range(now.size):
        now[t] = np.exp(sharpness * (scores[t] - highest)) if scores[t] != 0.0 else 0.0
        total += now[t]
    for t in range(now.size):
        if scores[t] != 0.0:
            now[t] = max(now[t] / total, FLOOR)
    return known


@compiled
def _follow(now, before, known, switch):
    """From what a row says to the probabilities of its `known` classes; 1 for a row without one before it."""
    summed = 0.0
    for t in range(now.size):
        if known > 1 and now[t] > 0.0:
            now[t] *= before[t] * (1.0 - switch) + switch * (1.0 - before[t]) / (known - 1)
        summed += now[t]
    for t in range(now.size):
        now[t] /= summed


@compiled
def _refute(all_latest, runs, slots, scores, codes, learn, refuted):
    for n in range(len(slots)):
        key, code, refuted[n] = slots[n], codes[n], -1
        if learn[n] & LEARN_HEAD == 0 or not np.isfinite(code):
            continue
        runs[key] = min(runs[key] + 1, FIRST + 1) if all_latest[key] == int(code) else 1
        all_latest[key] = int(code)
        if learn[n] & LEARN_EXTRACTOR or runs[key] > FIRST or missing(scores[n]):
            continue
        said = np.argmax(scores[n])
        if said != int(code):
            refuted[n] = said


@compiled
def _elapse(newest, slots, scores, times, learn, hop, steps):
    for n in range(len(slots)):
        key = slots[n]
        if learn[n] & LEARN_EXTRACTOR == 0 or missing(scores[n]) or not times[n] > newest[key]:
            continue
        if hop > 0.0 and newest[key] > -np.inf:
            steps[n] = int(max(1.0, np.rint((times[n] - newest[key]) / hop)))
        newest[key] = times[n]


@compiled
def _after(steps, switch, known):
    """The chance that the class after so many steps is another one of `known`."""
    most = (known - 1) / known
    return most * (1.0 - max(0.0, 1.0 - switch / most) ** steps)


@compiled
def _filter(held, slots, scores, learn, chances, settings, refuted, steps):
    all_before, rows, all_latest = held
    (sharpness, usual, changes), (said, codes) = settings, refuted
    raises = changes[1] > 0
    for n in range(len(scores)):
        key, before, now = slots[n], all_before[slots[n]], chances[n]
        if missing(scores[n]):
            continue
        if len(said) > 0 and said[n] >= 0:
            moved = MOVED * before[said[n]]
            before[said[n]] -= moved
            before[int(codes[n])] += moved
        known = _weigh(scores[n], sharpness, now)
        if known == 0:  # a head that knows nothing: no class is likelier than another
            continue
        switch = usual if len(steps) == 0 or steps[n] == 1 or known == 1 else _after(float(steps[n]), usual, known)
        if raises and rows[key] > 0:
            odds = _raised(scores[n], all_latest[key], changes) * switch / (1.0 - switch)
            switch = odds / (1.0 + odds)
        _follow(now, before, known if rows[key] > 0 else 1, switch)
        if learn[n] & LEARN_EXTRACTOR:
            rows[key] += 1
            for t in range(now.size):
                before[t] = now[t]
                if raises:
                    all_latest[key, t] = scores[n, t]


@compiled
def _count_right(scores, activity, person, sharpness, switch, changes, right):
    """Adds to `right`, all pairs row by row."""
    classes = scores.shape[1]
    row, now, before = np.empty(classes), np.empty(classes), np.zeros((len(sharpness), len(switch), classes))
    for n in range(len(scores)):
        first, odds = n == 0 or person[n] != person[n - 1], 1.0
        if changes[1] > 0 and not first:
            odds = _raised(scores[n], scores[n - 1], changes)
        for s in range(len(sharpness)):
            known = _weigh(scores[n], sharpness[s], row)
            for c in range(len(switch)):
                chance = odds * switch[c] / (1.0 - switch[c])
                for t in range(classes):
                    now[t] = row[t]
                _follow(now, before[s, c], 1 if first else known, chance / (1.0 + chance) if changes[1] > 0 else switch[c])
                best = 0
                for t in range(classes):
                    before[s, c, t] = now[t]
                    best = t if now[t] > now[best] else best
                right[person[n], s, c] += best == activity[n]

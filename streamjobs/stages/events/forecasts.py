"""Forecasts: what each key's columns will be, from their own past, by the experts or learners of `algorithms.forecast`.

Rows that come late have no forecast and change none. Where rows come at equal intervals, rows that are missing between two
rows count: the learner fills them. The times of rows decide how many are missing, so a state has the newest row's time.
It is smoothed: else a row that comes a third of an interval late, before one that is early, would count as a missing row.
Cost of a row and state: the learner's, and one number.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.compiled import compiled, compiled_in_place
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Stage, unknown
from algorithms.common.workspace import Composite
from algorithms.forecast.filters import FilterForecast
from algorithms.forecast.forecast import Forecast
from algorithms.forecast.table import DUE, DUE_NAIVE, FIRST_INTERVAL, INSIDE, NAIVE
from streamjobs.stages.rows import Rows
from streamjobs.stages.stage import JobStage, Shape, describe

MOST_SKIPPED = 1 << 40  # missing rows that are counted
FOLLOWS = 0.3  # weight of a row's own time in the smoothed one, which stays within .5 where intervals are 15 % longer
JUDGED, ERROR, NAIVE_ERROR, BOUNDED, FIRST_INSIDE = range(5)  # of `judged`: rows, sums, rows, rows by coverage
LEAST_OFF, FARTHEST_OFF = 1e-3, 0.5  # intervals between the two: less is rounding, more is cut


class ClockState(NamedTuple):
    newest: float  # smoothed event time of the newest row that was learned; 0: none yet


class Clock(Stage):
    """The time of a key's newest row."""

    __slots__ = ()
    persisted_name: ClassVar[str] = "Clock"


class ForecastsState(NamedTuple):
    learner: Any  # `ForecastState` or `FilterState`
    clock: ClockState


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts(Composite, JobStage):
    """The columns of a row with these numbers are forecast; rows come every `every` seconds (0: at any intervals).

    >>> stage = Forecasts(learner=Forecast(ahead=(1,)), columns=(1,), every=1.0)
    >>> state = stage.begin(Shape(dim=2, width=2, label_width=1, targets=0), seed=0)
    >>> work = stage.holding(state)
    >>> at, slots, learn = np.array([1.0, 2.0, 5.0]), np.zeros(3, np.int64), np.full(3, 3, np.int8)
    >>> rows = Rows(slots, at, np.array([[0.0, 4.0], [0.0, 5.0], [0.0, 6.0]]), np.empty((3, 0)), slots, learn)
    >>> stage.advance(work, rows).shape, stage.save(work, 0, state).learner.clock
    ((3, 1, 1, 11), 5)
    """

    persisted_name: ClassVar[str] = "Forecasts"
    clock: ClassVar[Clock] = Clock()
    signal = True
    survives = True
    finite = True

    learner: Forecast | FilterForecast
    columns: tuple[int, ...] = (0,)
    every: float = 0.0
    others: tuple[int, ...] = ()  # numbers of a row that only a `FilterForecast` sees

    def begin(self, shape: Shape, seed: int) -> ForecastsState:
        dim, targets = len(self.columns) + len(self.others), len(self.columns)
        return ForecastsState(self.learner.init(dim=dim, targets=targets, seed=seed), ClockState(0.0))

    def description(self) -> str:
        """With the number of a state's arrays if settings decide it, so that jobs with other settings can skip them."""
        described = describe(replace(self, learner=replace(self.learner, floored=())))  # floored changes no array
        if not self.learner.has_learners:
            return described
        return f"{described} of {_arrays(self.begin(Shape(1, 1, 1, 0), 0))} arrays"

    def warm_up(self, state: ForecastsState, shape: Shape) -> None:
        work, slots = self.holding(state), np.zeros(1, np.int64)
        rows = Rows(slots, np.zeros(1), np.zeros((1, shape.width)), np.zeros((1, 0)), slots, np.ones(1, np.int8))
        self.judged(self.advance(work, rows))

    def given(self, work: Any, rows: Rows) -> tuple[Array, Array]:
        """What the learner gets: X (n, columns), NaN for rows without a forecast, and the rows missing before each."""
        X = np.ascontiguousarray(rows.X[:, self.columns + self.others])
        X[rows.learn & LEARN_EXTRACTOR == 0] = np.nan
        skipped = np.zeros(len(X), np.int64)
        if self.every > 0.0:
            _count_skipped(work.clock["newest"], rows.slots, rows.times, X, self.every, skipped)
        return X, skipped

    def advance(self, work: Any, rows: Rows) -> Array:
        """The learner's table (n, columns, horizons, fields) of rows in their order; NaN for rows without a forecast."""
        dim = len(self.columns)
        X, skipped = self.given(work, rows)
        features = unknown((len(X), self.learner.width_for(dim)))
        with ONE_THREAD:
            self.learner.rows(work.learner, rows.slots, X, skipped, np.ones(len(X), np.int8), features)
        return self.learner.table(features, dim)

    def judged(self, table: Array) -> Array:
        """How good the forecasts made for these rows were: (columns, horizons, 4 + coverages) sums."""
        sums = np.zeros((*table.shape[1:3], FIRST_INSIDE + len(self.learner.coverage)))
        _sum_up(table, sums)
        return sums


def _arrays(state: Any) -> int:
    return sum(_arrays(value) if isinstance(value, tuple) else 1 for value in state)


@compiled
def _count_skipped(newest, slots, times, X, every, skipped):
    for n in range(len(slots)):
        key = slots[n]
        finite = True
        for i in range(X.shape[1]):
            finite = finite and np.isfinite(X[n, i])
        if finite:
            steps = max(np.round((times[n] - newest[key]) / every), 1.0)
            skipped[n] = int(min(steps - 1.0, MOST_SKIPPED))
            off = (1.0 - FOLLOWS) * ((newest[key] - times[n]) / every + steps) if newest[key] != 0.0 else 0.0
            off = min(max(off, -FARTHEST_OFF), FARTHEST_OFF) if abs(off) > LEAST_OFF else 0.0
            newest[key] = max(newest[key], times[n] + off * every)


@compiled_in_place
def _sum_up(table, sums):
    for n in range(table.shape[0]):
        for i in range(table.shape[1]):
            for k in range(table.shape[2]):
                one, of_one = table[n, i, k], sums[i, k]
                error = abs(one[DUE] - one[NAIVE])
                if np.isfinite(error):
                    of_one[JUDGED] += 1.0
                    of_one[ERROR] += error
                    of_one[NAIVE_ERROR] += abs(one[DUE_NAIVE] - one[NAIVE])
                if np.isfinite(one[FIRST_INTERVAL + INSIDE]):
                    of_one[BOUNDED] += 1.0
                for at in range(FIRST_INSIDE, len(of_one)):
                    inside = one[FIRST_INTERVAL + 3 * (at - FIRST_INSIDE) + INSIDE]
                    of_one[at] += 0.0 if np.isnan(inside) else inside

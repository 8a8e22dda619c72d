"""Each column's values to come, foreseen by one registered learner for each column and horizon, with intervals.

Source: ours; the embedding is `experts.py`'s, intervals are those of `intervals.py`.
Symbols: none beyond the names.
Cost of a row: for each column and horizon two rows of the learner, one that it learns and one that it predicts.  State: that
of the learners, about 50 numbers a column and horizon, 5 for each row ahead, and the rows of a season.
Readings: a learner sees the `lags` - 1 latest steps of each input column in their deviations, and its level; with a season
also the value a season ago and the step that followed it. It learns the step of so many rows in deviations of such steps,
when the value has come. Rows are judged, then learned, then forecast, as in `forecast.py`. The forecast is the last value
where the learner predicts nothing, and where a column has no spread. After a few wild first values, units and errors start
over as of `forecast.py`; the learner goes on.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN, PREDICT_ONLY, Array, Learner, SettingError, Stage, State, require, unknown
from algorithms.common.workspace import Composite, numbered, states_of
from algorithms.forecast import intervals
from algorithms.forecast.experts import MEAN, SPREAD, STEP, cut, scaled
from algorithms.forecast.intervals import FIRST, OF_TRUST, WIDTHS
from algorithms.forecast.table import FARTHEST, MADE, ROW, UNIT, Ahead, enter, fill, shortened

MOST_LAGS = 1000
HALVES = 3  # of what is kept of a forecast, behind `table.MADE`: half widths
CHUNK_NUMBERS = 1 << 20  # of the rows that learners get together, 8 MB


class SeriesState(NamedTuple):
    values: Array  # (dim, room) ring: the value of row r is in r % room
    level: Array  # (dim, 2, 2) mean and variance of values, and of steps
    past: Array  # (dim, most ahead, 3) ring: mean, deviation of values, deviation of steps at the latest rows
    gaps: Array  # (columns, horizons, 2) mean and variance of steps of so many rows
    made: Array  # (columns, sum of ahead, HALVES + coverages) rings: forecasts to be judged; cautious: as `ForecastState`
    errors: Array  # (columns, horizons, WIDTHS + coverages) running errors, and quantiles; cautious: as `ForecastState`
    first: Array  # (columns, horizons, FIRST) the first errors
    judged: Array  # (columns, horizons) int64: forecasts judged
    clock: int  # number of the next row; counts rows that are missing too
    seen: int  # rows so far


class Series(Stage):
    """Values and forecasts of a key, without its learners."""

    __slots__ = ()
    persisted_name: ClassVar[str] = "Series"


class FilterState(NamedTuple):
    series: SeriesState
    learners: State  # one for each column and horizon


class Several(Composite):
    """How the states of several learners with these settings enter and leave workspaces; `part_0`, .. is the learner."""

    __slots__ = ("learner",)

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def __getattr__(self, name: str) -> Learner:
        numbered(name)
        return self.learner

    def init(self, parts: int, *, dim: int, targets: int, seed: int) -> State:
        return states_of(parts)(*(self.learner.init(dim=dim, targets=targets, seed=seed) for _ in range(parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterForecast(Composite, Ahead):
    """As `Forecast`, with a registered learner in place of the experts.

    >>> from algorithms import learner_from
    >>> model = FilterForecast(learner=learner_from("krls", {"budget": 50}))
    >>> wave = np.sin(np.arange(600.0))[:, None]
    >>> table = model.forecasts(model.init(dim=1, targets=1, seed=0), wave)
    >>> table[500, 0, 0, :2].round(2), wave[501, 0].round(2).item()  # VALUE, NAIVE
    (array([-1.  , -0.47]), -1.0)
    """

    has_learners: ClassVar[bool] = True
    series: ClassVar[Series] = Series()

    learner: Learner
    ahead: tuple[int, ...] = (1,)  # as of `Forecast`
    season: int = 0
    coverage: tuple[float, ...] = (0.8, 0.95)
    lags: int = 8  # 1 to 1,000; numbers of each input column that a learner sees
    inputs: tuple[int, ...] = ()  # columns of x that each learner sees; none: the column that it forecasts
    cautious: bool = False  # as of `Forecast`
    floored: tuple[int, ...] = ()  # as of `Forecast`

    def __post_init__(self) -> None:
        self.check()
        require(self, "lags", 1 <= self.lags <= MOST_LAGS, f"1 to {MOST_LAGS:,}")
        kind = self.learner.kind
        gives = {"features": "gives features", "drift": "finds drift"}.get(kind, "predicts classes")
        must = f"{type(self).__name__}: learner must be one"
        if kind != "regression":
            raise SettingError(f"{must} that predicts numbers, such as krls or rls; {self.learner.name} {gives}.")
        if not self.learner.bounded:
            stores = f"{self.learner.name} with these settings stores every sample"
            raise SettingError(f"{must} with a bounded state; {stores}; set a budget (max_terms of some learners).")

    @property
    def learners(self) -> Several:
        return Several(self.learner)

    @property
    def size(self) -> int:
        """Numbers that a learner sees."""
        return self.lags * max(1, len(self.inputs)) + (2 if self.season else 0)

    def init(self, *, dim: int, targets: int, seed: int) -> FilterState:
        """x has `dim` columns, of which the first `targets` are forecast."""
        horizons, most, many = len(self.ahead), self.ahead[-1], len(self.coverage)
        made = np.zeros((targets, sum(self.ahead), HALVES + many + self.cautious))
        made[:, :, ROW] = -1.0
        series = SeriesState(
            values=np.zeros((dim, most + max(self.lags, *self.backs()) + 1)),
            level=np.zeros((dim, 2, 2)),
            past=np.zeros((dim, most, 3)),
            gaps=np.zeros((targets, horizons, 2)),
            made=made,
            errors=np.zeros((targets, horizons, WIDTHS + many + OF_TRUST * self.cautious)),
            first=np.zeros((targets, horizons, FIRST)),
            judged=np.zeros((targets, horizons), np.int64),
            clock=0,
            seen=0,
        )
        return FilterState(series, self.learners.init(targets * horizons, dim=self.size, targets=1, seed=seed))

    def outlook(self, state: FilterState, most: int) -> tuple[Array, Array, Array]:
        return self.outlook_of(state.series.clock, state.series.values, state.series.made, HALVES, most)

    def forecasts(self, state: FilterState, X: Array, skipped: Array | None = None) -> Array:
        """The table of rows that are learned."""
        work, n = self.workspace(state), len(X)
        self.load(work, 0, state)
        targets = len(state.series.made)
        features, slots = unknown((n, self.width_for(targets))), np.zeros(n, np.int64)
        gaps = np.zeros(n, np.int64) if skipped is None else skipped
        self.rows(work, slots, np.array(X, np.float64, order="C"), gaps, np.ones(n, np.int8), features)
        return self.table(features, targets)

    def rows(self, work: Any, slots: Array, X: Array, skipped: Array, learn: Array, features: Array) -> None:
        """As `Forecast.rows`; every row is learned."""
        chunk = max(1, CHUNK_NUMBERS // (2 * self.size * len(work.learners.parts)))
        for first in range(0, len(X), chunk):
            some = slice(first, first + chunk)
            self._chunk(work, slots[some], X[some], skipped[some], features[some])

    def _chunk(self, work: Any, slots: Array, X: Array, skipped: Array, features: Array) -> None:
        n, parts = len(X), len(work.learners.parts)
        targets = parts // len(self.ahead)
        plan = self.plan(targets)
        inputs = np.array([self.inputs or [column] for column in range(targets)], np.int64)
        seen = np.zeros((parts, n, 2, self.size))  # when a forecast was made that is due, and now
        wanted, due, steps, unit = unknown((parts, n)), unknown((parts, n)), unknown((parts, n)), np.zeros((parts, n))
        row, judged = np.full(n, -1, np.int64), np.zeros((parts, n), np.int64)
        found = row, judged, unit, due, seen, wanted
        _look(tuple(work.series), slots, X, skipped, self.season, self.lags, inputs, plan, found)
        for part in range(parts):
            steps[part] = self._learned(work.learners.parts[part], slots, row >= 0, seen[part], wanted[part])
        _judge(tuple(work.series), slots, X, plan, (row, judged, unit, due, steps), features)

    def _learned(self, work: Any, slots: Array, taken: Array, seen: Array, wanted: Array) -> Array:
        """What one learner predicts for each row (n,): it learns what is due, and predicts, a row after the other."""
        n = len(slots)
        learn = np.tile(np.array((LEARN, PREDICT_ONLY), np.int8), n)
        order = np.flatnonzero(np.column_stack([np.isfinite(wanted), taken]))
        order = order[np.argsort(slots[order // 2], kind="stable")]  # a key's rows together: its samples stay in the cache
        Y = unknown((2 * n, 1))
        Y[::2, 0] = wanted
        out = self.learner.outputs(len(order), self.size, 1)
        self.learner.advance(work, slots[order // 2], seen.reshape(2 * n, -1)[order], Y[order], out, learn[order])
        steps = unknown((2 * n,))
        steps[order] = out.prediction[:, 0]
        return steps[1::2]


@compiled
def _embed(values, row, at_row, lags, z):
    """The latest steps of a column at `row`, in z (lags,), and then its level."""
    room = len(values)
    at = row % room
    z[lags - 1] = scaled(values[at] - at_row[MEAN], at_row[SPREAD])
    for i in range(lags - 1):
        before = at - 1 if at > 0 else room - 1
        z[i] = scaled(values[at] - values[before], at_row[STEP])
        at = before


@compiled
def _see(all_values, row, at_rows, lags, inputs, column, back, ahead, unit, known, z):
    """What the learner of `column` sees at `row`; at_rows (dim, 3)."""
    at = 0
    for i in inputs:
        _embed(all_values[i], row, at_rows[i], lags, z[at : at + lags])
        at += lags
    if known and at < z.size:
        values, room = all_values[column], all_values.shape[1]
        then = values[(row - back) % room]
        z[at] = scaled(then - values[row % room], at_rows[column, SPREAD])
        z[at + 1] = scaled(values[(row - back + ahead) % room] - then, unit)


@compiled
def _look(work, slots, X, skipped, season, lags, inputs, plan, found):
    """Everything that does not depend on what learners predict.

    found: the number of each row, -1 where it is not taken; by part, how many forecasts have been judged with it, the
    deviation of steps, the value that the due forecast began from, what its learner sees (2, size), and the due step.
    """
    all_values, all_level, all_past, all_gaps, all_made, _, _, all_judged, clock, seen_rows, _ = work
    numbers, judged, unit, due, seen, wanted = found
    ahead, back, _, _, _ = plan
    for n in range(len(X)):
        key = slots[n]
        if missing(X[n]):
            continue
        values, past, room, most = all_values[key], all_past[key], all_values.shape[2], all_past.shape[2]
        row, now = clock[key], np.empty((X.shape[1], 3))
        gap = shortened(skipped[n], room, season) if seen_rows[key] > 0 else 0
        seen_rows[key] += 1
        for i in range(X.shape[1]):
            x, level = min(max(X[n, i], -FARTHEST), FARTHEST), all_level[key, i]
            if gap > 0:
                fill(values[i], row, gap, season)
            if enter(values[i], level, x, row + gap, seen_rows[key], now[i]) and i < len(inputs):
                all_gaps[key, i], all_judged[key, i], all_made[key, i, :, ROW] = 0.0, 0, -1.0
        row += gap
        numbers[n], part = row, 0
        for column in range(len(inputs)):
            x, begin = values[column, row % room], 0
            for k in range(len(ahead)):
                kept, gaps = all_made[key, column, begin + row % ahead[k]], all_gaps[key, column, k]
                begin += ahead[k]
                then = row - ahead[k]
                if then >= 0 and kept[ROW] == then:
                    naive = values[column, then % room]
                    due[part, n] = naive
                    all_judged[key, column, k] += 1
                    known = 0 < 2 * season <= then
                    at_then, z = past[:, then % most], seen[part, n, 0]
                    _see(values, then, at_then, lags, inputs[column], column, back[k], ahead[k], kept[UNIT], known, z)
                    if kept[UNIT] > 0.0:
                        wanted[part, n] = cut((x - naive) / kept[UNIT], lagged_rls.FAR)
                    lagged_rls.follow(gaps, x - naive, all_judged[key, column, k], lagged_rls.MEMORY)
                judged[part, n] = all_judged[key, column, k]
                unit[part, n] = kept[UNIT] = lagged_rls.deviation(gaps)
                kept[ROW] = row
                known = 0 < 2 * season <= row
                z = seen[part, n, 1]
                _see(values, row, now, lags, inputs[column], column, back[k], ahead[k], unit[part, n], known, z)
                part += 1
        for i in range(X.shape[1]):
            past[i, row % most] = now[i]
        clock[key] = row + 1


@compiled
def _judge(work, slots, X, plan, found, features):
    """Judge what is due and note the forecasts; found: as of `_look`, and the steps that learners predict."""
    _, _, _, _, all_made, all_errors, all_first, _, _, _, _ = work
    numbers, judged, unit, due, steps = found
    ahead, _, rates, coverage, least = plan
    horizons, wide, end = len(ahead), features.shape[1] // len(judged), HALVES + len(coverage)
    cautious = all_made.shape[3] > end
    for n in range(len(X)):
        key, row = slots[n], numbers[n]
        if row < 0:
            continue
        for part in range(len(judged)):
            column, k = part // horizons, part % horizons
            x, field = min(max(X[n, column], -FARTHEST), FARTHEST), features[n, part * wide : (part + 1) * wide]
            begin = ahead[:k].sum()
            kept, errors = all_made[key, column, begin + row % ahead[k]], all_errors[key, column, k]
            if judged[part, n] == 0:  # it starts, perhaps over again
                errors[:] = 0.0
            if not np.isnan(due[part, n]):
                halves, value = kept[HALVES:end], kept[MADE]
                if cautious:
                    intervals.compare(x, due[part, n], kept[end], judged[part, n] - 1, errors[-OF_TRUST:])
                intervals.note_due(x, due[part, n], value, halves, least[column], field)
                before, first = judged[part, n] - 1, all_first[key, column, k]
                intervals.judge(x, due[part, n], value, halves, errors, first, before, coverage, rates[k])
            step = steps[part, n]
            kept[MADE] = x + unit[part, n] * cut(step, lagged_rls.FAR) if np.isfinite(step) else x
            if cautious:
                kept[end] = kept[MADE]
                kept[MADE] = intervals.trusted(x, kept[end], ahead[k], errors[-OF_TRUST:])
            kept[MADE] = max(kept[MADE], least[column])
            intervals.note(kept[MADE], x, judged[part, n] >= FIRST, least[column], kept[HALVES:end], errors, field)

"""Each column's values to come, foreseen from its own past, with intervals: eight experts, weighted by their latest errors.

Source: ours, of known parts: the last value, the value a season ago, exponential averages of rates .1 and .3, the mean of
300 rows, recursive least squares on 16 values and on 16 steps (with a season ago), and quantised kernel least mean squares
on 8 steps (`experts.py`). Shares: Vovk (1990), Aggregating strategies. Intervals: Gibbs, Candes (2021), Adaptive conformal
inference, with the quantile itself tracked as by Angelopoulos, Candes, Tibshirani (2023) (`intervals.py`).
Symbols: none beyond the names.
Cost of a row: O(dim horizons (lags^2 + samples)).  State: about 1000 numbers a column and horizon, 13 for each row ahead,
and the rows of a season.
Readings: what was foreseen for a row is judged, then the row is learned, then the next ones are forecast. A row that is not
learned is forecast from as if it were. If a few values of a column's first rows were wild, as the latest rows show after 60
and 90, all but its values starts over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.lagged_rls import DELTA, LAGS
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Outputs
from algorithms.common.workspace import Slot, packed, unpacked
from algorithms.forecast import experts as of_experts
from algorithms.forecast import intervals
from algorithms.forecast.experts import NEAR, SAMPLES
from algorithms.forecast.intervals import EXPERTS, FIRST, HALF, OF_TRUST, WIDTHS
from algorithms.forecast.table import FARTHEST, MADE, OF_VALUES, ROW, UNIT, Ahead, enter, fill, shortened

NAMES = ("naive", "seasonal naive", "average .1", "average .3", "mean of 300", "RLS, values", "RLS, steps", "QKLMS, steps")
OF_300, AVERAGES = 2, 3  # of `level`, behind those of values and of steps
AVERAGED = (0.1, 0.3)  # rates
TRIANGLES, WHOLE = ("value_P", "step_P"), ("value_whole", "step_whole")  # fields of the state, and of a workspace


class ForecastState(NamedTuple):
    values: Array  # (dim, room) ring: the value of row r is in r % room
    level: Array  # (dim, 4, 2) mean and variance of values, of steps, and of 300 values; two averages
    past: Array  # (dim, most ahead, 3) ring: mean, deviation of values, deviation of steps at the latest rows
    gaps: Array  # (dim, horizons, 2) mean and variance of steps of so many rows
    made: Array  # (dim, sum of ahead, HALF + coverages) rings: forecasts to be judged; cautious: and before any trust
    losses: Array  # (dim, horizons, 9) discounted errors of the experts, and of an error of 1 in each row
    errors: Array  # (dim, horizons, WIDTHS + coverages) running errors, and quantiles; cautious: and OF_TRUST numbers
    first: Array  # (dim, horizons, FIRST) the first errors
    counts: Array  # (dim, horizons, 2) int64: forecasts judged, samples of the kernel filter
    value_taps: Array  # (dim, horizons, LAGS + 1, 1)
    value_P: Array  # (dim, horizons, triangle)
    step_taps: Array  # (dim, horizons, LAGS + 1, or + 3 with a season, 1)
    step_P: Array  # (dim, horizons, triangle)
    samples: Array  # (dim, horizons, NEAR, SAMPLES) float32
    sample_weights: Array  # (dim, horizons, SAMPLES)
    clock: int  # number of the next row; counts rows that are missing too
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Ahead):
    """Features: for each column and horizon the value to come, with intervals, and how good earlier ones were.

    >>> learner, wave = Forecast(ahead=(1, 5)), np.sin(np.arange(600.0))[:, None]
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), wave)
    >>> table = learner.table(out.features, 1)[500, 0]
    >>> table[:, 0].round(2), wave[[501, 505], 0].round(2), (table[:, 2] < 0.2).all().item()  # VALUE, RATIO
    (array([-1.  ,  0.71]), array([-1.  ,  0.71]), True)
    """

    name: ClassVar[str] = "forecast"
    persisted_name: ClassVar[str] = "Forecast"

    ahead: tuple[int, ...] = (1,)  # 1 to 10,000, ascending; rows that a forecast is ahead
    season: int = 0  # rows of a season; 0: none
    coverage: tuple[float, ...] = (0.8, 0.95)  # between 0 and 1, ascending; shares of rows inside their intervals
    cautious: bool = False  # forecasts start at the last value, and leave it as far as they have had smaller errors
    floored: tuple[int, ...] = ()  # columns that are never below 0: neither are their forecasts and intervals

    def __post_init__(self) -> None:
        self.check()

    def init(self, *, dim: int, targets: int, seed: int) -> ForecastState:
        horizons, most, many = len(self.ahead), self.ahead[-1], len(self.coverage)
        back = max(self.backs())
        inputs = LAGS + 1 + (2 if self.season else 0)
        taps, P = [], []
        for size in (LAGS + 1, inputs):
            taps.append(np.zeros((dim, horizons, size, 1)))
            P.append(np.tile(packed(DELTA * np.eye(size)), (dim, horizons, 1)))
        made = np.zeros((dim, sum(self.ahead), HALF + many + self.cautious))
        made[:, :, ROW] = -1.0
        return ForecastState(
            values=np.zeros((dim, most + max(LAGS, back) + 1)),
            level=np.zeros((dim, 4, 2)),
            past=np.zeros((dim, most, 3)),
            gaps=np.zeros((dim, horizons, 2)),
            made=made,
            losses=np.zeros((dim, horizons, len(NAMES) + 1)),
            errors=np.zeros((dim, horizons, WIDTHS + many + OF_TRUST * self.cautious)),
            first=np.zeros((dim, horizons, FIRST)),
            counts=np.zeros((dim, horizons, 2), np.int64),
            value_taps=taps[0],
            value_P=P[0],
            step_taps=taps[1],
            step_P=P[1],
            samples=np.zeros((dim, horizons, NEAR, SAMPLES), np.float32),
            sample_weights=np.zeros((dim, horizons, SAMPLES)),
            clock=0,
            seen=0,
        )

    def caches(self, state: ForecastState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        """The whole matrices P, of which the state has the lower triangles."""
        taps = state.value_taps, state.step_taps
        return {name: np.zeros((*one.shape[:3], one.shape[2])) for name, one in zip(WHOLE, taps, strict=True)}

    def complete(self, own: Slot) -> None:
        for field, whole in zip(TRIANGLES, WHOLE, strict=True):
            _pack(own[whole], own[field])

    def derive(self, own: Slot) -> None:
        held = own["counts"][0]
        if held.size and not (held.min() >= 0 and own["counts"][:, :, 1].max() <= SAMPLES):
            raise ValueError(f"Forecast: a horizon of the state stores {held.max()} samples, expected 0 to {SAMPLES}.")
        for field, whole in zip(TRIANGLES, WHOLE, strict=True):
            _unpack(own[field], own[whole])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        self.rows(work, slots, X, np.zeros(len(X), np.int64), learn, out.features)

    def rows(self, work: Any, slots: Array, X: Array, skipped: Array, learn: Array, features: Array) -> None:
        """`advance` where skipped[n] (int64) rows are missing before row n. They are filled with the values a season ago,
        or with the last value, and teach nothing. features (n, width) are NaN before."""
        self._rows(work, slots, X, skipped, learn, features, np.empty((1, 0)))

    def experts(self, state: ForecastState, X: Array, skipped: Array | None = None) -> tuple[Array, Array]:
        """The features of rows that are learned, and the forecasts of each expert in NAMES, (n, dim, horizons, 8)."""
        work, n = self.workspace(state), len(X)
        self.load(work, 0, state)
        each = np.full((n, X.shape[1] * len(self.ahead) * len(NAMES)), np.nan)
        features = np.full((n, self.width_for(X.shape[1])), np.nan)
        slots, X = np.zeros(n, np.int64), np.array(X, np.float64, order="C")
        gaps = np.zeros(n, np.int64) if skipped is None else skipped
        self._rows(work, slots, X, gaps, np.ones(n, np.int8), features, each)
        return features, each.reshape(n, X.shape[1], len(self.ahead), len(NAMES))

    def outlook(self, state: ForecastState, most: int) -> tuple[Array, Array, Array]:
        return self.outlook_of(state.clock, state.values, state.made, HALF, most)

    def shares(self, state: ForecastState) -> Array:
        """The shares of the experts in the next forecast, (dim, horizons, 8)."""
        shares = np.empty((*state.losses.shape[:2], len(NAMES)))
        for place in np.ndindex(shares.shape[:2]):
            known = 0 < 2 * self.season <= state.clock
            of_experts.share_out(np.array(state.losses[place]), known, shares[place])
        return shares

    def _rows(self, work, slots, X, skipped, learn, features, each) -> None:  # type: ignore[no-untyped-def]
        _loop(tuple(work), slots, X, skipped, learn, features, each, self.season, self.plan(X.shape[1]))


@compiled
def _pack(whole, triangles):
    for i in range(whole.shape[0]):
        for k in range(whole.shape[1]):
            triangles[i, k] = packed(whole[i, k])


@compiled
def _unpack(triangles, whole):
    for i in range(whole.shape[0]):
        for k in range(whole.shape[1]):
            whole[i, k] = unpacked(triangles[i, k], whole.shape[2])


@compiled
def _loop(work, slots, X, skipped, learn, features, each, season, plan):
    all_values, all_level, all_past, all_gaps, all_made, all_losses, all_errors, all_first, all_counts = work[:9]
    all_value_taps, _, all_step_taps, _, all_samples, all_sample_weights, clock, seen, _, all_value_P, all_step_P = work[9:]
    size, dim = all_step_taps.shape[3], X.shape[1]
    rooms = np.empty((4, LAGS + 1)), np.empty((4, size))
    look = (
        np.empty(LAGS + 1),
        np.empty(size),
        np.empty(NEAR, np.float32),
        np.empty(SAMPLES, np.float32),
        np.empty(HALF - EXPERTS),
    )
    for n in range(len(X)):
        key = slots[n]
        if missing(X[n]):
            continue
        learns, row = learn[n] & 1, clock[key]
        gap = shortened(skipped[n], all_values.shape[2], season) if seen[key] > 0 else 0
        for i in range(dim):
            x = min(max(X[n, i], -FARTHEST), FARTHEST)
            column = (all_values[key, i], all_level[key, i], all_past[key, i], all_gaps[key, i], all_made[key, i])
            scores = (all_losses[key, i], all_errors[key, i], all_first[key, i], all_counts[key, i])
            value_part = (all_value_taps[key, i], all_value_P[key, i])
            step_part = (all_step_taps[key, i], all_step_P[key, i])
            near_part = (all_samples[key, i], all_sample_weights[key, i])
            if not learns:  # on copies
                column = (column[0].copy(), column[1].copy(), column[2].copy(), column[3].copy(), column[4].copy())
                scores = (scores[0].copy(), scores[1].copy(), scores[2].copy(), scores[3].copy())
                value_part = (value_part[0].copy(), value_part[1].copy())
                step_part = (step_part[0].copy(), step_part[1].copy())
                near_part = (near_part[0].copy(), near_part[1].copy())
            if gap > 0:
                fill(column[0], row, gap, season)
            wide = features.shape[1] // dim
            own = features[n, i * wide : (i + 1) * wide]
            parts = column, scores, value_part, step_part, near_part
            _column(x, row + gap, seen[key] + 1, season, parts, plan, rooms, look, own, i, each[n % len(each)])
        if learns:
            clock[key] = row + gap + 1
            seen[key] += 1


@compiled
def _column(x, row, rows, season, parts, plan, rooms, look, own, column_number, each):
    column, scores, value_part, step_part, near_part = parts
    values, level, past, gaps, made = column
    losses, errors, first, counts = scores
    ahead, back, rates, coverage, least = plan
    levels, steps, near, gaps2, shares = look
    room, begin, wide, halves_end = len(values), 0, len(own) // len(ahead), HALF + len(coverage)
    cautious = made.shape[1] > halves_end

    now = np.empty(3)
    if enter(values, level, x, row, rows, now):
        level[OF_300], level[AVERAGES] = level[OF_VALUES], level[OF_VALUES, lagged_rls.MEAN]
        for P in (value_part[1], step_part[1]):
            for k in range(len(ahead)):
                P[k] = DELTA * np.eye(P.shape[1])
        for array in (gaps, losses, errors):
            array[:] = 0.0
        value_part[0][:], step_part[0][:], near_part[1][:], counts[:], made[:, ROW] = 0.0, 0.0, 0.0, 0, -1.0
    lagged_rls.follow(level[OF_300], x, rows, 300.0)
    for i in range(2):
        level[AVERAGES, i] = x if rows == 1 else level[AVERAGES, i] + AVERAGED[i] * (x - level[AVERAGES, i])

    for k in range(len(ahead)):
        rows_ahead, field = ahead[k], own[k * wide : (k + 1) * wide]
        kept = made[begin + row % rows_ahead]
        begin += rows_ahead

        # What was foreseen for it is judged, and learned.
        if kept[ROW] == row - rows_ahead and row >= rows_ahead:
            then, unit = row - rows_ahead, kept[UNIT]
            naive, at_then = values[then % room], past[then % len(past)]
            made_value, halves = kept[MADE], kept[HALF:halves_end]
            if cautious:
                intervals.compare(x, naive, kept[halves_end], counts[k, 0], errors[k, -OF_TRUST:])
            intervals.note_due(x, naive, made_value, halves, least[column_number], field)
            intervals.lose(x, kept, losses[k], counts[k, 0])
            counts[k, 0] = intervals.judge(
                x, naive, made_value, halves, errors[k], first[k], counts[k, 0], coverage, rates[k]
            )
            known = 0 < 2 * season <= then
            of_experts.look(values, then, at_then, back[k], rows_ahead, unit, known, levels, steps, near)
            if at_then[of_experts.SPREAD] > 0.0:
                wanted = of_experts.cut((x - at_then[of_experts.MEAN]) / at_then[of_experts.SPREAD], lagged_rls.FAR)
                lagged_rls.fit(wanted, value_part[0][k], value_part[1][k], levels, rooms[0])
            if unit > 0.0:
                wanted = of_experts.cut((x - naive) / unit, lagged_rls.FAR)
                lagged_rls.fit(wanted, step_part[0][k], step_part[1][k], steps, rooms[1])
                counts[k, 1] = of_experts.kernel_learn(wanted, near_part[0][k], near_part[1][k], counts[k, 1], near, gaps2)
            lagged_rls.follow(gaps[k], x - naive, counts[k, 0], lagged_rls.MEMORY)

        # The forecast.
        known = 0 < 2 * season <= row
        unit = lagged_rls.deviation(gaps[k])
        of_experts.look(values, row, now, back[k], rows_ahead, unit, known, levels, steps, near)
        foreseen = kept[EXPERTS:HALF]
        foreseen[of_experts.NAIVE] = x
        foreseen[of_experts.SEASONAL] = values[(row - back[k] + rows_ahead) % room] if known else x
        foreseen[of_experts.SLOW], foreseen[of_experts.QUICK] = level[AVERAGES, 0], level[AVERAGES, 1]
        foreseen[of_experts.AVERAGE] = level[OF_300, 0]
        foreseen[of_experts.LEVELS] = now[0] + now[1] * of_experts.linear(value_part[0][k], levels)
        foreseen[of_experts.STEPS] = x + unit * of_experts.linear(step_part[0][k], steps)
        wanted = of_experts.kernel(near_part[0][k], near_part[1][k], near, gaps2)
        foreseen[of_experts.KERNEL] = x + unit * of_experts.cut(wanted, lagged_rls.FAR)
        of_experts.share_out(losses[k], known, shares)
        value = 0.0
        for j in range(len(shares)):
            value += shares[j] * foreseen[j]
            if each.size:
                each[(column_number * len(ahead) + k) * len(shares) + j] = foreseen[j]
        if cautious:
            kept[halves_end] = value
            value = intervals.trusted(x, value, rows_ahead, errors[k, -OF_TRUST:])
        value = max(value, least[column_number])
        kept[ROW], kept[UNIT], kept[MADE] = row, unit, value
        intervals.note(value, x, counts[k, 0] >= FIRST, least[column_number], kept[HALF:halves_end], errors[k], field)
    for i in range(3):
        past[row % len(past), i] = now[i]

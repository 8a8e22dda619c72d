"""Charts on the columns that stand still: the moving average of a row against those of the first rows, permanently.

Source: Lowry, Woodall, Champ, Rigdon (1992), A multivariate exponentially weighted moving average control chart; the limits
are those of `standing.py`.
Symbols: lambda = smoothing, Z_t = smooth, T^2 = squared length of the whitened Z_t; the whitener is L^-1 with
L L' = (1 - shrink) correlation + shrink I.
Cost of a row: O(d^2); while the reference lasts O(d^3) log(rows) times.  State: d^2 + 4 d + 20 numbers, and 128 (d + 1)
float32 while the reference lasts.
Departs from the source: limits are those of the averages of the reference; columns that wander there are left out of
T^2, because what has no level has no normal one. Where none wanders, the average length of the whitened row is computed with
T^2: it rises where spread or correlation change.
"""

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, every, insist
from algorithms.common.linalg import cholesky, invert_lower, missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.common.workspace import Slot, Workspace
from algorithms.drift import report, standing
from algorithms.drift.detector import Detector

MEANS, ROWS, CHARTS = 0, 1, 2  # of the whitened average; of the whitened row
NAMES = 1  # place of the first in `report.CHART_NAMES`
WANDER = 0.2  # of a column's variance in the means of four quarters; more: it is left out
QUARTERS = 4
GROWS = 1.5  # rows of a whitener to those of the next, while the reference lasts
MOST_MEANS, MOST_ROWS = 25.0, 3.0  # limits: at most this far above the usual value, or this many times it
HEAVY = (6, 4)  # exceedances that count at most: lengths of rows have heavier tails than averages
MANY, HEAVY_OF_MANY = 16, 3  # columns from which on any may be far, which few hundred averages show too late; and of those
LEAST_SHARE = 0.92  # of the first column's shift, for another to be named


class ReferenceChartState(NamedTuple):
    kept: Array  # (m, dim + 1) float32, averages of the reference, of the rows and of their length; none once it is over
    mean: Array  # (dim,) of the reference
    moments: Array  # (dim (dim + 1) / 2,) sums of products of deviations, lower triangle
    earlier: (
        Array  # (dim (dim + 1) / 2,) the same after `whitened` rows: those that lengths are measured by, before it is over
    )
    used: Array  # (dim,) 1: the column has a level
    smooth: Array  # (dim,) EWMA of the rows
    length: float  # EWMA of the whitened rows' lengths
    limits: Array  # (CHARTS,) from which on it alarms; 0: the reference lasts, or the chart is off
    usual: Array  # (CHARTS,) means of both over the reference
    blocks: Array  # (CHARTS,) of the reference that a limit was made of; 0: too few for a promise
    since: Array  # (CHARTS,) rows since the chart was last about as usual
    step: int  # rows from one kept average to the next
    whitened: int  # rows in `earlier`
    learned: int  # rows in the reference
    opened: int  # rows since an alarm that is open; 0: none is


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceChart(Detector):
    """Finds that mean, spread or correlation of the columns differ from the first `rows`, and continues to report it.

    statistic: the chart that is furthest, to its limit; from 1 on an alarm, which ends below `ends`. 0 while the reference
    lasts. Its alarms name the columns with a mean that moved.

    >>> detector, random = ReferenceChart(rows=400, rows_between=1000), np.random.default_rng(0)
    >>> rows = random.normal(size=(900, 4)) + (np.arange(900) >= 500)[:, None] * [0, 0, -2, 0]
    >>> state, out = detector.run(detector.init(dim=4, targets=0, seed=0), rows)
    >>> alarms = out.features[:, 1].nonzero()[0]
    >>> alarms.tolist(), out.features[alarms, 10].tolist(), bool(out.features[-1, 5])  # one alarm, of column 2, still open
    ([503], [2.0], True)
    """

    reports: ClassVar[int] = report.WIDE_COLUMNS
    columns: ClassVar[bool] = True
    stored: ClassVar[tuple[str, ...]] = ("kept",)

    rows_between: float = 10_000.0  # from one false alarm to the next, on average at least
    rows: int = 400  # of the reference; 0: as long as rows teach the head's bit, as [drift] reference says
    smoothing: float = 0.1  # in (0, 1]; weight of a row in the moving averages
    shrink: Annotated[float, "in (0, 1]"] = 0.1  # of the correlations towards none
    ends: float = 0.6  # of the limits, below which an alarm is over

    def check(self) -> None:
        standing.check_settings(self, self.rows_between, self.rows, self.smoothing, self.ends)

    def room(self, field: str) -> int:
        return standing.ROOM + 1

    def init(self, *, dim: int, targets: int, seed: int) -> ReferenceChartState:
        half = dim * (dim + 1) // 2
        return ReferenceChartState(
            kept=np.zeros((0, dim + 1), np.float32),
            mean=np.zeros(dim),
            moments=np.zeros(half),
            earlier=np.zeros(half),
            used=np.ones(dim, np.int64),
            smooth=np.zeros(dim),
            length=0.0,
            limits=np.zeros(CHARTS),
            usual=np.zeros(CHARTS),
            blocks=np.zeros(CHARTS, np.int64),
            since=np.zeros(CHARTS, np.int64),
            step=1,
            whitened=0,
            learned=0,
            opened=0,
        )

    def squares(self, state: ReferenceChartState) -> Mapping[str, int]:
        return {"moments": len(state.mean), "earlier": len(state.mean)}

    def caches(self, state: ReferenceChartState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        dim = len(state.mean)
        return {"of_means": np.zeros((dim, dim)), "of_rows": np.zeros((dim, dim))}

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        yield from standing.demands(work, slots)
        used = work["used"][slots]
        yield Demand("used", "columns used or not, 1 or 0", every((used == 0) | (used == 1)))

    def derive(self, own: Slot) -> None:
        insist(self, own)
        dim, whole = len(own["mean"]), np.ones(len(own["mean"]), np.int64)
        room, over = (np.empty((dim, dim)), np.empty((dim, dim))), own["limits"][MEANS] > 0
        if over:
            _whiten(own["moments"], own["used"], float(self.shrink), *room, own["of_means"])
        if over or own["whitened"] > 0:
            _whiten(own["moments"] if over else own["earlier"], whole, float(self.shrink), *room, own["of_rows"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        numbers = float(self.rows_between), float(self.smoothing), float(self.shrink), float(self.ends)
        _loop(tuple(work), slots, X, learn, out.features, *numbers, self.rows)


# A workspace's arrays by name.
Work = cast(Any, namedtuple("Work", (*ReferenceChartState._fields, "counts", "of_means", "of_rows")))


@compiled
def _loop(work, slots, X, learn, features, rows_between, smoothing, shrink, ends, rows):
    at = Work(*work)
    all_kept, means, all_moments, all_earlier, all_used = at.kept, at.mean, at.moments, at.earlier, at.used
    all_smooth, lengths, all_limits, all_usual, all_blocks = at.smooth, at.length, at.limits, at.usual, at.blocks
    all_since, step, whitened, learned, opened = at.since, at.step, at.whitened, at.learned, at.opened
    counts, of_means, of_rows = at.counts, at.of_means, at.of_rows
    dim, first = X.shape[1], standing.begin(smoothing)
    gap, now, scaled, white = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    room, factor, every, averages = np.empty((dim, dim)), np.empty((dim, dim)), np.ones(dim, np.int64), np.empty(dim + 1)
    values, lasts = np.empty(CHARTS), np.zeros(CHARTS, np.int64)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        mean, moments, smooth, limits = means[key], all_moments[key], all_smooth[key], all_limits[key]
        usual, blocks, since, used = all_usual[key], all_blocks[key], all_since[key], all_used[key]
        teaches = learned[key] < rows if rows > 0 else learn[n] & standing.TEACHES > 0
        if limits[MEANS] == 0.0 and learn[n] & LEARN_EXTRACTOR and not teaches and standing.enough(learned[key], dim, first):
            kept, held, memory = all_kept[key], counts[key, 0], 1.0 / smoothing
            numbers = min(float(step[key]), memory), memory, rows_between
            _choose(kept, held, mean, moments, learned[key], used)
            _whiten(moments, used, shrink, room, factor, of_means[key])
            _whiten(moments, every, shrink, room, factor, of_rows[key])
            _limit(kept, held, mean, moments, learned[key], used, of_means[key], numbers, limits, usual, blocks)
            counts[key, 0] = 0

        # The first rows are the reference.
        if limits[MEANS] == 0.0:
            report.report(features[n], 0.0, False, np.nan, np.nan)
            report.report_more(features[n], np.nan, False, False, 1.0, np.nan)
            if not learn[n] & LEARN_EXTRACTOR:
                continue
            count, before = learned[key] + 1, whitened[key]
            if before > 0:
                _scale(x, mean, moments, count - 1, scaled)
                rate = max(smoothing, 1.0 / (count - standing.CLIP_FROM))
                lengths[key] += rate * (np.sqrt(_squared_length(of_rows[key], scaled, white)) - lengths[key])
            for i in range(dim):
                gap[i] = standing.cut_gap(x[i], mean[i], moments[i, i], count)
                smooth[i] += max(smoothing, 1.0 / count) * (mean[i] + gap[i] - smooth[i])
                averages[i] = smooth[i]
            for i in range(dim):
                mean[i] += gap[i] / count
                for j in range(i + 1):
                    moments[i, j] += gap[i] * gap[j] * ((count - 1.0) / count)
                    moments[j, i] = moments[i, j]
            learned[key], averages[dim] = count, lengths[key]
            if count == standing.CLIP_FROM or (before > 0 and count >= GROWS * before):
                whitened[key] = count
                all_earlier[key][:] = moments
                _whiten(moments, every, shrink, room, factor, of_rows[key])
            counts[key, 0] = standing.keep(all_kept[key], counts[key, 0], step[key], count, first, averages)
            if step[key] == 1:
                _leave_out_wild(all_kept[key], counts[key, 0], smoothing, count, mean, moments, smooth)
            if counts[key, 0] > standing.ROOM:
                counts[key, 0] = standing.thin(all_kept[key], counts[key, 0], step[key], first)
                step[key] *= 2
            continue

        # Both averages with the row, against their limits.
        for i in range(dim):
            spread = standing.deviation(mean[i], moments[i, i], learned[key])
            gap[i] = min(max((standing.near(x[i]) - mean[i]) / spread, -standing.CLIP), standing.CLIP)
            now[i] = smooth[i] + smoothing * (mean[i] + gap[i] * spread - smooth[i])
            scaled[i] = (now[i] - mean[i]) / spread * used[i]
        length = lengths[key] + smoothing * (np.sqrt(_squared_length(of_rows[key], gap, white)) - lengths[key])
        values[MEANS], values[ROWS] = _squared_length(of_means[key], scaled, white), length
        statistic, furthest = 0.0, 0
        for k in range(CHARTS):
            lasts[k] = since[k] + 1 if values[k] > max(usual[k], standing.STARTED * limits[k]) else 0
            if limits[k] > 0.0 and values[k] / limits[k] > statistic:
                statistic, furthest = values[k] / limits[k], k
        is_open = opened[key] > 0
        alarm = not is_open and statistic >= 1.0
        still_open = alarm or (is_open and statistic >= ends)

        # Say it.
        before_mean, after, changed, of_reference = np.nan, np.nan, np.nan, np.nan
        if alarm:
            before_mean, after, changed = usual[furthest], values[furthest], float(lasts[furthest])
            of_reference = float(learned[key]) if blocks[furthest] > 0 else -float(learned[key])
            _name(now, furthest, smoothing, changed, mean, moments, learned[key], features[n])
        report.report(features[n], 0.0 if is_open and not still_open else statistic, alarm, before_mean, after)
        report.report_more(features[n], changed, still_open, True, 1.0, of_reference)
        if learn[n] & LEARN_EXTRACTOR:
            lengths[key], opened[key] = length, opened[key] + 1 if still_open else 0
            for k in range(CHARTS):
                since[k] = lasts[k]
            for i in range(dim):
                smooth[i] = now[i]


@compiled
def _leave_out_wild(kept, held, smoothing, count, mean, moments, smooth):
    for i in range(mean.size):
        found = standing.leave_out_wild(kept, held, smoothing, count, i, mean[i], moments[i, i], smooth[i])
        if found[1] != moments[i, i]:
            moments[i, :] = 0.0
            moments[:, i] = 0.0
            mean[i], moments[i, i], smooth[i] = found


@compiled
def _scale(x, mean, moments, rows, scaled):
    for i in range(x.size):
        gap = (standing.near(x[i]) - mean[i]) / standing.deviation(mean[i], moments[i, i], rows)
        scaled[i] = min(max(gap, -standing.CLIP), standing.CLIP)


@compiled
def _whiten(moments, used, shrink, room, factor, whitener):
    """whitener = (L^-1)', L L' = (1 - shrink) correlation + shrink I of the columns that are used; others stand alone."""
    dim = len(moments)
    for i in range(dim):
        for j in range(i):
            product = np.sqrt(moments[i, i]) * np.sqrt(moments[j, j])
            both = used[i] > 0 and used[j] > 0 and product > 0.0
            room[i, j] = (1.0 - shrink) * moments[i, j] / product if both else 0.0
        room[i, i] = 1.0
    cholesky(room, dim, 0.0, 0.0, 0.0, factor)
    invert_lower(factor, dim, whitener)


@compiled
def _squared_length(whitener, scaled, white):
    """Of the whitened row; white is room."""
    dim, total = scaled.size, 0.0
    for i in range(dim):
        white[i] = 0.0
    for j in range(dim):
        column, a = whitener[j], scaled[j]
        for i in range(j, dim):
            white[i] += column[i] * a
    for i in range(dim):
        total += white[i] * white[i]
    return total


@compiled
def _choose(kept, held, mean, moments, learned, used):
    """used: the columns with similar means in the quarters of the reference, at least the one that wanders least."""
    steadiest, least = 0, np.inf
    for i in range(mean.size):
        spread = standing.deviation(mean[i], moments[i, i], learned)
        total, square = 0.0, 0.0
        for q in range(QUARTERS):
            begin, end, quarter = q * held // QUARTERS, (q + 1) * held // QUARTERS, 0.0
            for m in range(begin, end):
                quarter += (kept[m, i] - mean[i]) / spread / (end - begin)
            total += quarter / QUARTERS
            square += quarter * quarter / QUARTERS
        wander = square - total * total
        used[i] = 1 if wander <= WANDER else 0
        if wander < least:
            steadiest, least = i, wander
    used[steadiest] = 1


@compiled
def _limit(kept, held, mean, moments, learned, used, whitener, numbers, limits, usual, blocks):
    """Limits and usual values of both charts: the one of rows uses the later half, which an earlier one had whitened."""
    dim, series, room = mean.size, np.empty(held), np.empty(held)
    scaled, white, columns, memory = np.empty(dim), np.empty(dim), 0.0, 0.0
    each, of_average, rows_between = numbers
    for i in range(dim):
        if used[i]:
            memory += standing.memory_of(kept, held, i, standing.deviation(mean[i], moments[i, i], learned), learned)
            columns += 1.0
    independent = learned * columns / memory
    charts = CHARTS if columns == dim else 1
    for k in range(charts):
        begin, total = 0 if k == MEANS else held // 2, 0.0
        for m in range(begin, held):
            if k == MEANS:
                for i in range(dim):
                    spread = standing.deviation(mean[i], moments[i, i], learned)
                    scaled[i] = (kept[m, i] - mean[i]) / spread * used[i]
                series[m] = _squared_length(whitener, scaled, white)
            else:
                series[m] = kept[m, dim]
            total += series[m] / (held - begin)
        heavy = HEAVY_OF_MANY if k == MEANS and columns >= MANY else HEAVY[k]
        limit, known = standing.limit_of(series[begin:held], each, of_average, charts * rows_between, heavy, room)
        if k == MEANS:
            limit *= standing.widened(independent, columns)
        most = total + MOST_MEANS if k == MEANS else total * MOST_ROWS
        usual[k], limits[k] = total, min(max(limit, standing.LEAST_LIMIT), max(most, standing.LEAST_LIMIT))
        blocks[k] = known if independent >= standing.ENOUGH * columns and limit <= limits[k] else 0


@compiled
def _name(now, chart, smoothing, lasts, mean, moments, learned, row):
    """The chart, and up to NAMED columns by how far their means moved; those that moved much less are not named."""
    row[report.CHART] = NAMES + chart
    grown = 1.0 - (1.0 - smoothing) ** lasts  # of a change so long ago, that is in the average
    shift = np.empty(now.size)
    for i in range(now.size):
        shift[i] = (now[i] - mean[i]) / standing.deviation(mean[i], moments[i, i], learned)
    for place in range(report.name_columns(shift, LEAST_SHARE, row)):
        at = report.FIRST_COLUMN + report.OF_COLUMN * place
        i = int(row[at + report.COLUMN])
        row[at + report.SHIFT] /= grown
        row[at + report.USUAL] = mean[i]
        row[at + report.SPREAD] = standing.deviation(mean[i], moments[i, i], learned)

"""The rows of charts on columns: their scale, the lengths of a row in it, what their ranks say, and which columns moved.

Of several columns together, as `column_chart.py` explains it, or of one column: then there are two charts, those of the
smoothed and of the row itself, because a whitener changes nothing.
"""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.demands import insist
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE, cholesky, invert_lower, missing
from algorithms.common.protocol import Array, require
from algorithms.common.randomness import uniform
from algorithms.common.workspace import Slot
from algorithms.drift import ranked, report
from algorithms.drift.detector import Detector
from algorithms.drift.standing import CLIP_FROM, EARLY

CHARTS = 3  # |smooth|^2, |whitened smooth|^2, |whitened row|^2
LEAST_MOVED = 0.1  # deviations of the smoothed row of one column: less, as after a jump of one that stands still, is none
FADE = 0.7  # weight of a chart's block relative to the next one, in the mean that names columns
LEAST_SHARE = 0.84  # of the first column's shift, for another to be named
CLIP = 8.0  # deviations
NEXT_MEAN, NEXT_SQUARES, NEXT_PRODUCTS = 0, 1, 2  # rows of `moved` while an alarm is open
SAME = 0.3  # farthest that a correlation may be from the one before, so that all of them stay
FARTHEST = 1e70  # largest |x|: sums of its squares stay finite


class ColumnChartState(NamedTuple):
    mean: Array  # (dim,) of the first `learn` rows
    moments: Array  # (dim (dim + 1) / 2,) sums of products of deviations, lower triangle
    smooth: Array  # (dim,) EWMA of the scaled rows
    moved: Array  # (CHARTS, dim + 1) sums of the scaled rows of each chart's latest blocks, and weights; or a next scale
    reference: Array  # (CHARTS, reference) float32; this and what follows: as of `conformal`, a row for each chart
    marks: Array
    sums: Array
    scores: Array
    levels: Array
    learned: int  # rows in mean and moments
    watched: int
    opened: int  # rows of the alarm that is open; above CLOSED: of those before, and CLOSED
    seed: int
    seen: int  # rows so far


def fresh(dim: int, charts: int, size: int, seed: int) -> ColumnChartState:
    """The state of so many charts of `dim` columns that have seen nothing."""
    start = np.zeros(dim), np.zeros(dim * (dim + 1) // 2), np.zeros(dim), np.zeros((CHARTS, dim + 1))
    return ColumnChartState(*start, *ranked.fresh(charts, size), 0, 0, 0, seed, 0)


@dataclass(frozen=True, kw_only=True)
class ColumnDetector(Detector, abstract=True):
    """A base, not a detector: what those with such charts have in common."""

    __slots__ = ()
    reports: ClassVar[int] = report.WIDE_COLUMNS
    columns: ClassVar[bool] = True

    rows_between: float = 10_000.0  # from one false alarm to the next, on average at least
    learn: int = 1000  # rows that mean, deviation and correlation are learned from, before anything is watched
    smoothing: float = 0.1  # in (0, 1]; weight of a row in the moving average
    shrink: float = 0.1  # in (0, 1]; of the correlations towards none
    reference: int = 300  # most block means that a new one is ranked among
    least: int = 20  # block means before the first verdict
    hold: int = 500  # most rows of an alarm, and of those that follow soon; then all is learned again; 0: at once
    shares: bool = False  # bets count with a share where logarithms of values wander from block to block, see `ranked.py`

    def __post_init__(self) -> None:
        ranked.check_settings(self, self.rows_between, self.reference, self.least, self.hold)
        require(self, "learn", self.learn >= 2, "2 or more")
        require(self, "smoothing", 0 < self.smoothing <= 1, "in (0, 1]")
        require(self, "shrink", 0 < self.shrink <= 1, "in (0, 1]")

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"moments": len(state.mean)}

    def derive(self, own: Slot) -> None:
        insist(self, own)
        if own["learned"] == self.learn:
            dim = len(own["mean"])
            room = np.empty((dim, dim)), np.empty((dim, dim))
            whiten(own["moments"], float(self.shrink), *room, own["whitener"])


Work = cast(Any, namedtuple("Work", (*ColumnChartState._fields, "counts", "whitener")))  # a workspace's arrays by name


@compiled
def loop(work, slots, X, learn, features, rows_between, smoothing, shrink, learn_rows, least, hold, shares):
    at = Work(*work)
    means, all_moments, all_smooth, all_moved = at.mean, at.moments, at.smooth, at.moved
    all_reference, all_marks, all_sums, all_scores = at.reference, at.marks, at.sums, at.scores
    all_levels, all_learned, watched, opened, seeds = at.levels, at.learned, at.watched, at.opened, at.seed
    seen, whiteners, dim, charts = at.seen, at.whitener, X.shape[1], at.reference.shape[1]
    scaled, smoothed, white_row, white_smooth = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    values, raised, weighed = np.empty(charts), np.empty((charts, len(ranked.POWERS))), np.empty((charts, ranked.WEIGHED))
    room, factor, whole = np.empty((dim, dim)), np.empty((dim, dim)), np.ones((charts, len(ranked.POWERS)))
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        mean, moments, smooth, moved = means[key], all_moments[key], all_smooth[key], all_moved[key]
        reference, marks, sums = all_reference[key], all_marks[key], all_sums[key]
        scores, levels, learned = all_scores[key], all_levels[key], all_learned[key]

        # The first rows teach the scale.
        if learned < learn_rows:
            report.report(features[n], 0.0, False, np.nan, np.nan)
            report.report_more(features[n], np.nan, False, False, 1.0, np.nan)
            if learn[n] & 1:
                seen[key] += 1
                all_learned[key] = learned + 1
                _learn_first(mean, moments, moved, x, learned + 1, learn_rows, scaled)
                if learned + 1 == learn_rows:
                    whiten(moments, shrink, room, factor, whiteners[key])
            continue

        # Three lengths of the row, and what their ranks say.
        for i in range(dim):
            scaled[i] = min(max((_near(x[i]) - mean[i]) / _deviation(mean, moments, learned, i), -CLIP), CLIP)
            smoothed[i] = smooth[i] + smoothing * (scaled[i] - smooth[i])
        _lengths(whiteners[key], scaled, smoothed, white_row, white_smooth, values)
        is_open, total, strongest, top, climbed = 0 < opened[key] < ranked.CLOSED, 0.0, 0, -1.0, 0.0
        most_open, warm = hold, False
        for k in range(charts):
            most_open, warm = max(most_open, ranked.HELD_OPEN * marks[k, ranked.BLOCK]), warm | ranked.ready(marks[k], least)
            draw = uniform(seeds[key], ranked.TIES + k, seen[key])
            of_chart = reference[k], marks[k], sums[k], scores[k]
            if shares and marks[k, ranked.ROWS] + 1 >= marks[k, ranked.BLOCK]:
                ranked.share_out(levels[k], marks[k], watched[key], whole[k])
            ranked.weigh(*of_chart, values[k], least, is_open, draw, whole[k], raised[k], weighed[k])
            total += weighed[k, ranked.EVIDENCE] / charts
            climbed = max(climbed, weighed[k, ranked.CLIMBED])
            if weighed[k, ranked.EVIDENCE] > top:
                strongest, top = k, weighed[k, ranked.EVIDENCE]
        alarm = not is_open and total >= rows_between

        # Say it; the strongest chart says since when.
        best = marks[strongest]
        before, after, since, ranked_among = np.nan, np.nan, np.nan, np.nan
        if alarm:
            ranked_among = best[ranked.HELD] * best[ranked.BLOCK]
            before = ranked.mean_of(reference[strongest], best[ranked.HELD])
            since = best[ranked.SINCE] + 1.0
            after = (sums[strongest, ranked.AFTER] + values[strongest]) / since
            _name(moved[strongest], scaled, strongest, mean, moments, learned, features[n])
        still_open = alarm or (is_open and climbed > 0.0 and opened[key] < most_open)
        report.report(features[n], climbed / ranked.CERTAIN if is_open else total / rows_between, alarm, before, after)
        report.report_more(features[n], since, still_open, warm, weighed[charts - 1, ranked.P], ranked_among)

        if not learn[n] & 1:
            continue
        seen[key] += 1
        keep = not (is_open or alarm)
        watched[key] += keep
        before_it = ranked.lately_open(opened[key], watched[key], most_open) if alarm else 0
        begins_anew = (alarm and hold == 0) or (is_open and opened[key] >= most_open)
        learns_next = is_open and moved[NEXT_PRODUCTS, dim] == 0.0  # else weights, of an earlier commit
        for k in range(charts):
            if keep:
                _measure(levels[k], marks[k], watched[key], values[k], dim, shares)
            ended = ranked.take(reference[k], marks[k], sums[k], scores[k], values[k], keep, raised[k], weighed[k])
            if not is_open:
                _follow(moved[k], scaled, ended)
            if begins_anew:
                ranked.begin(marks[k], sums[k], scores[k], levels[k])
            elif alarm:
                ranked.open_alarm(marks[k], sums[k], scores[k], k == strongest)
                if before_it == 0:
                    ranked.forget_levels(levels[k])
            elif is_open and not still_open:
                ranked.forget(marks[k], sums[k], scores[k])
            elif not is_open:
                ranked.look(reference[k], marks[k], sums[k], scores[k], levels[k], watched[key])
        for i in range(dim):
            smooth[i] = 0.0 if begins_anew else smoothed[i]
        if learns_next and opened[key] > most_open - learn_rows:
            _learn_next(moved, x, scaled)
        if begins_anew:
            opened[key], watched[key], all_learned[key] = 0, 0, _next_scale(mean, moments, moved, learns_next, learn_rows)
            if all_learned[key] == learn_rows:
                whiten(moments, shrink, room, factor, whiteners[key])
        elif alarm:
            opened[key], watched[key] = 1 + before_it, watched[key] if before_it > 0 else 0
        elif is_open:
            opened[key] = opened[key] + 1 if still_open else opened[key] + ranked.CLOSED
        if still_open != is_open:
            moved[:] = 0.0


@compiled
def _deviation(mean, moments, learned, i):
    return max(np.sqrt(moments[i, i] / learned), NO_SPREAD, NO_SPREAD_RELATIVE * abs(mean[i]))


@compiled
def _near(x):
    return min(max(x, -FARTHEST), FARTHEST)


@compiled
def _gap(x, mean, square, rows):
    """x - mean, cut at CLIP deviations; rows: with x."""
    gap, far = _near(x) - mean, CLIP * np.sqrt(square / max(rows - 1, 1))
    return min(max(gap, -far), far) if rows > CLIP_FROM and far > 0.0 else gap


@compiled
def _learn_next(moved, x, gap):
    """`_learn_scale` of the scale after the open alarm; of products only those of a column and the next."""
    dim, rows = x.size, moved[NEXT_MEAN, x.size] + 1.0
    for i in range(dim):
        gap[i] = _gap(x[i], moved[NEXT_MEAN, i], moved[NEXT_SQUARES, i], rows)
    for i in range(dim):
        moved[NEXT_MEAN, i] += gap[i] / rows
        moved[NEXT_SQUARES, i] += gap[i] * gap[i] * ((rows - 1.0) / rows)
        moved[NEXT_PRODUCTS, i] += gap[i] * gap[(i + 1) % dim] * ((rows - 1.0) / rows)
    moved[NEXT_MEAN, dim] = rows


@compiled
def _next_scale(mean, moments, moved, learned, wanted):
    """The scale learned while the alarm was open, if of `wanted` rows and correlations stayed; gives its rows, else 0."""
    dim, rows, far = mean.size, int(moved[NEXT_MEAN, mean.size]) if learned else 0, 0.0
    squares, products = moved[NEXT_SQUARES], moved[NEXT_PRODUCTS]
    for i in range(dim if dim > 1 else 0):
        j = (i + 1) % dim
        far = max(far, abs(_correlation(products[i], squares[i], squares[j]) - _of(moments, i, j)))
    if rows < wanted or far > SAME:
        mean[:] = 0.0
        moments[:] = 0.0
        return 0
    for i in range(dim):
        for j in range(i):
            moments[i, j] = _of(moments, i, j) * np.sqrt(squares[i]) * np.sqrt(squares[j])
            moments[j, i] = moments[i, j]
    for i in range(dim):
        mean[i], moments[i, i] = moved[NEXT_MEAN, i], squares[i]
    return rows


@compiled
def _of(moments, i, j):
    return _correlation(moments[i, j], moments[i, i], moments[j, j])


@compiled
def _correlation(product, square, other):
    both = np.sqrt(square) * np.sqrt(other)
    return product / both if both > 0.0 else 0.0


@compiled
def _learn_scale(mean, moments, x, rows, gap):
    """Welford's update of mean and products, of a row with values cut at CLIP deviations."""
    for i in range(x.size):
        gap[i] = _gap(x[i], mean[i], moments[i, i], rows)
    for i in range(x.size):
        mean[i] += gap[i] / rows
        for j in range(i + 1):
            moments[i, j] += gap[i] * gap[j] * ((rows - 1.0) / rows)
            moments[j, i] = moments[i, j]


@compiled
def _learn_first(mean, moments, moved, x, rows, last, gap):
    """`_learn_scale` without a few wild values of the first rows, such as of a sensor that starts: else nothing is ever far.

    The next rows show them, from part to part: their spread is far smaller, their mean about the same.
    """
    _learn_scale(mean, moments, x, rows, gap)
    if CLIP_FROM < rows <= EARLY * CLIP_FROM:
        _learn_next(moved, x, gap)
        whole = moved[NEXT_MEAN, x.size] == CLIP_FROM  # else an earlier release wrote the state within this part
        for i in range(x.size if whole else 0):
            off, square, part = moved[NEXT_MEAN, i] - mean[i], moments[i, i] / rows, moved[NEXT_SQUARES, i] / CLIP_FROM
            if lagged_rls.few_are_wild(CLIP, part, square, off, rows):
                moments[i, :] = 0.0
                moments[:, i] = 0.0
                mean[i], moments[i, i] = moved[NEXT_MEAN, i], part * rows
        if rows % CLIP_FROM == 0 or rows == last:
            moved[:] = 0.0


@compiled
def whiten(moments, shrink, room, factor, whitener):
    """whitener = (L^-1)', L L' = (1 - shrink) correlation + shrink I."""
    dim = len(moments)
    for i in range(dim):
        for j in range(i):
            room[i, j] = (1.0 - shrink) * _of(moments, i, j)
        room[i, i] = 1.0
    cholesky(room, dim, 0.0, 0.0, 0.0, factor)
    invert_lower(factor, dim, whitener)


@compiled
def _lengths(whitener, scaled, smoothed, white_row, white_smooth, values):
    """values = |smoothed|^2, |whitened smoothed|^2, |whitened row|^2; two of them, of one column, without the second."""
    dim = scaled.size
    if values.size < CHARTS:
        values[0] = smoothed[0] * smoothed[0] if abs(smoothed[0]) > LEAST_MOVED else 0.0
        values[1] = scaled[0] * scaled[0]
        return
    for i in range(dim):
        white_row[i], white_smooth[i] = 0.0, 0.0
    for k in range(CHARTS):
        values[k] = 0.0
    for j in range(dim):
        column, a, b = whitener[j], scaled[j], smoothed[j]
        for i in range(j, dim):
            white_row[i] += column[i] * a
            white_smooth[i] += column[i] * b
    for i in range(dim):
        values[0] += smoothed[i] * smoothed[i]
        values[1] += white_smooth[i] * white_smooth[i]
        values[2] += white_row[i] * white_row[i]


@compiled
def _measure(levels, marks, rows, value, dim, shares):
    """The value into the variances, `rows` with it, or its logarithm; variances of earlier commits go on as they were."""
    if shares and rows == 1:
        marks[ranked.KNOWN] = ranked.LOGS if marks[ranked.KNOWN] > 0 else -1
    ranked.push(levels, rows, np.log1p(value / dim) if ranked.of_logs(marks) else value, ranked.FAR)


@compiled
def _follow(moved, scaled, ended):
    """The row into the mean of the latest rows, of which whole blocks fade."""
    dim, fade = scaled.size, FADE if ended else 1.0
    for i in range(dim):
        moved[i] = (moved[i] + scaled[i]) * fade
    moved[dim] = (moved[dim] + 1.0) * fade


@compiled
def _name(moved, scaled, chart, mean, moments, learned, row):
    """The chart, and up to NAMED columns by how far their means moved; those that moved much less are not named."""
    dim = scaled.size
    shift = np.empty(dim)
    for i in range(dim):
        shift[i] = (moved[i] + scaled[i]) / (moved[dim] + 1.0)
    row[report.CHART] = chart
    for place in range(report.name_columns(shift, LEAST_SHARE, row)):
        at = report.FIRST_COLUMN + report.OF_COLUMN * place
        i = int(row[at + report.COLUMN])
        row[at + report.USUAL], row[at + report.SPREAD] = mean[i], _deviation(mean, moments, learned, i)

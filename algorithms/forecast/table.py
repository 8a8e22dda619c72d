"""What the experts and a `FilterForecast` have in common: rows ahead, fields of a forecast, missing rows."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, Learner, require
from algorithms.forecast.experts import MEAN, SPREAD, STEP

VALUE, NAIVE, RATIO, DUE, DUE_NAIVE, FIRST_INTERVAL = range(6)  # fields of a forecast in the features,
LOW, HIGH, INSIDE = range(3)  # and of each of its intervals
ROW, UNIT, MADE = range(3)  # of what is kept of a forecast: row it was made in, deviation of such steps, value
OF_VALUES, OF_STEPS = 0, 1  # of a column's levels: mean and variance of its values, and of its steps
MOST_AHEAD = 10_000
FARTHEST = 1e70  # largest |x|
FEWEST = 8  # latest values that can show whether a few of the first ones were wild


class Ahead(Learner, abstract=True):
    """What makers of forecasts have in common: settings `ahead`, `season` and `coverage`, and the table of forecasts."""

    __slots__ = ()
    has_learners: ClassVar[bool] = False  # in the experts' place
    ahead: tuple[int, ...]
    season: int
    coverage: tuple[float, ...]
    cautious: bool
    floored: tuple[int, ...]

    def check(self) -> None:
        ahead, coverage = self.ahead, self.coverage
        good = len(ahead) > 0 and ahead[0] >= 1 and ahead[-1] <= MOST_AHEAD and sorted({*ahead}) == [*ahead]
        require(self, "ahead", good, f"rows from 1 to {MOST_AHEAD:,}, ascending")
        require(self, "season", self.season == 0 or self.season >= 2, "2 rows or more, or 0 for none")
        good = len(coverage) > 0 and all(0 < share < 1 for share in coverage) and sorted({*coverage}) == [*coverage]
        require(self, "coverage", good, "shares between 0 and 1, ascending")
        require(self, "floored", all(column >= 0 for column in self.floored), "places of columns")

    @property
    def fields(self) -> int:
        """Numbers of one forecast in the features."""
        return FIRST_INTERVAL + 3 * len(self.coverage)

    def width_for(self, dim: int) -> int:
        return dim * len(self.ahead) * self.fields

    def table(self, features: Array, dim: int) -> Array:
        """The features as (n, dim, horizons, fields): VALUE, NAIVE (the last value), RATIO (running error over the naive
        one's), DUE and DUE_NAIVE (what was foreseen for this row), then LOW, HIGH and INSIDE of each coverage."""
        return features.reshape(len(features), dim, len(self.ahead), self.fields)

    def plan(self, targets: int) -> tuple[Array, Array, Array, Array, Array]:
        """For compiled loops: rows ahead, rows of seasons behind (`back`), rates of the tracked quantiles, coverage, and the
        least value of each column (targets,)."""
        ahead = np.array(self.ahead, np.int64)
        rates = np.maximum(0.03, 0.05 / np.sqrt(ahead))
        return ahead, np.array(list(self.backs()), np.int64), rates, np.array(self.coverage), self.least(targets)

    def least(self, targets: int) -> Array:
        """(targets,) below which no forecast and no interval of a column goes."""
        least = np.full(targets, -np.inf)
        least[list(self.floored)] = 0.0
        return least

    def backs(self) -> Iterable[int]:
        """Rows of the fewest seasons after which the row to come is known, by rows ahead; 0 without a season."""
        return (self.season * -(-rows // self.season) if self.season else 0 for rows in self.ahead)

    def outlook_of(self, clock: int, values: Array, made: Array, first: int, most: int) -> tuple[Array, Array, Array]:
        """What a state knows: the newest values (dim, n), filled ones too, n at most `most`; the numbers of rows ahead (m,),
        at most `most` of them, that a forecast exists for; and the newest forecast for each, (dim, m, 1 + 2 coverages): the
        value, then low and high of each coverage. NaN where there is none yet. Half widths begin at `first` of `made`."""
        newest, room = clock - 1, values.shape[1]
        past = np.arange(max(0, clock - min(room, most)), clock)
        coming = np.unique(np.linspace(1, self.ahead[-1], min(most, self.ahead[-1])).round().astype(np.int64))
        coming = np.union1d(coming, np.array(self.ahead))
        k = np.searchsorted(self.ahead, coming)
        ahead, made_at = np.array(self.ahead)[k], newest + coming - np.array(self.ahead)[k]
        made = made[:, np.cumsum([0, *self.ahead])[k] + (newest + coming) % ahead]  # (dim, m, fields)
        known = (made[:, :, ROW] == made_at) & (made_at >= 0)
        value = np.where(known, made[:, :, MADE], np.nan)[:, :, None]
        half = made[:, :, first : first + len(self.coverage)]
        half = np.where(half >= 0.0, half, np.nan)
        low = np.maximum(value - half, self.least(len(made))[:, None, None])
        bounds = np.stack([low, value + half], axis=3).reshape(*known.shape, -1)
        return values[:, past % room], coming, np.concatenate([value, bounds], axis=2)

    def outlook(self, state: Any, most: int) -> tuple[Array, Array, Array]:
        raise NotImplementedError


@compiled
def shortened(skipped, room, season):
    """Missing rows without whole seasons (or, without one, rows) that change nothing any more."""
    most = room + season
    if skipped <= most:
        return max(skipped, 0)
    return most if season == 0 else skipped - (skipped - most + season - 1) // season * season


@compiled
def fill(values, row, gap, season):
    room, last = len(values), values[(row - 1) % len(values)]
    for r in range(row, row + gap):
        values[r % room] = values[(r - season) % room] if 0 < season <= r else last


@compiled
def enter(values, level, x, row, rows, now):
    """A row of a column into its ring and levels. row: its number; rows: so many there are; now (3,): MEAN, SPREAD, STEP.

    Gives whether a few of the first values were wild: levels are then of the latest ones, and all else starts over.
    """
    room = len(values)
    if row == 0:
        for r in range(room):
            values[r] = x
    last = values[(row - 1) % room]
    values[row % room] = x
    lagged_rls.follow(level[OF_VALUES], x, rows, lagged_rls.MEMORY)
    lagged_rls.follow(level[OF_STEPS], x - last, rows, lagged_rls.MEMORY)
    over = rows in (lagged_rls.EARLY, lagged_rls.LATER) and _leave_out_wild(values, level, row, rows)
    now[MEAN] = level[OF_VALUES, 0]
    now[SPREAD] = lagged_rls.deviation(level[OF_VALUES])
    now[STEP] = lagged_rls.deviation(level[OF_STEPS])
    return over


@compiled
def _leave_out_wild(values, level, row, rows):
    """Levels of the latest values, if there are enough of these and a few of the first ones were wild."""
    many = min(len(values) - 1, lagged_rls.CLIP_FROM)
    latest = np.empty(max(many, 1))
    for i in range(many):
        latest[i] = values[(row - i) % len(values)]
    if many < FEWEST or not lagged_rls.leave_out_wild(latest, level[OF_VALUES], rows, False):
        return False
    level[OF_STEPS] = 0.0
    for i in range(1, many):
        lagged_rls.follow(level[OF_STEPS], latest[many - 1 - i] - latest[many - i], i, lagged_rls.MEMORY)
    return True

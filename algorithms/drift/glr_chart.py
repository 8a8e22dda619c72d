"""A chart of mean shifts: are the newest rows where those just before them were?

Source: Lai (1995), Sequential changepoint detection in quality control and dynamical systems, J. R. Stat. Soc. B 57, the
window-limited generalised likelihood ratio of a change of mean (Siegmund and Venkatraman 1995) with unit covariance.
Symbols: m = mean of c rows, z_k = mean of the k newest rows, behind them; n = min(c, (2 - smoothing) / smoothing), the rows
that m is worth; statistic = max over k of (k n / (k + n)) |z_k - m|^2 / columns, over limit.
Cost of a row: O(newest dim).  State: newest dim float32, 2 dim numbers, and 4.
Departs from the source: m forgets, so that it follows what wanders; after an alarm it begins with the rows of the change, so
the next change is found without a warm-up. The unit is each column's own running deviation; or what `streamjobs fit` learned
of other people, which `tested` columns come in.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, every
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs, require
from algorithms.common.workspace import Workspace
from algorithms.drift import report, standing
from algorithms.drift.detector import Detector

LARGEST = 3e38  # what is kept is float32
SPREAD_MEMORY = 200.0  # rows that the deviation of a column goes back
LEAST_SPREAD, NAMES_FROM = 10, 5  # rows of a deviation, before columns are tested by it, and named by it
LEAST_SHARE = 0.84  # of the first column's shift, for another to be named


class GlrChartState(NamedTuple):
    rows: Array  # (newest, dim) float32, the newest rows, oldest first; the first `held`
    mean: Array  # (dim,) of the rows before them
    square: Array  # (dim,) mean squared deviation from the mean, of rows as they enter it
    held: int
    before: int  # rows in mean
    spread: int  # rows in square
    opened: int  # rows since an alarm that is open; 0: none is


@dataclass(frozen=True, slots=True, kw_only=True)
class GlrChart(Detector):
    """Finds a change of the columns' mean within the last few rows, and names the columns that moved.

    statistic: the likelihood ratio, to the limit; from 1 on an alarm, which is over after `hold` rows, when the new mean is
    normal. How often noise comes to the limit hangs on the stream: it states no number of false alarms by itself.

    >>> detector, random = GlrChart(limit=8.0), np.random.default_rng(0)
    >>> rows = random.normal(size=(60, 4)) + (np.arange(60) >= 30)[:, None] * [0, 0, -6, 0]
    >>> state, out = detector.run(detector.init(dim=4, targets=0, seed=0), rows)
    >>> alarms = out.features[:, 1].nonzero()[0]
    >>> alarms, out.features[alarms, 10]  # the columns that moved most
    (array([30]), array([2.]))
    """

    reports: ClassVar[int] = report.WIDE_COLUMNS
    columns: ClassVar[bool] = True

    limit: Annotated[float, "above 0"] = 20.0  # of the likelihood ratio, in the mean of the columns
    newest: Annotated[int, "1 to 1000"] = 8  # most rows of a change, before it counts as found or as none
    smoothing: Annotated[float, "in (0, 1]"] = 0.05  # weight of a row in the mean
    hold: Annotated[int, "0 or more"] = 4  # rows an alarm stays open, in which no other is raised
    tested: Annotated[int, "0 or more"] = 0  # first columns of a row: tested as they are, the others named; 0: all are both

    def init(self, *, dim: int, targets: int, seed: int) -> GlrChartState:
        require(self, "tested", self.tested <= dim, f"at most the columns of a row ({dim})")
        rows = np.zeros((self.newest, dim), np.float32)
        return GlrChartState(rows, np.zeros(dim), np.zeros(dim), 0, 0, 0, 0)

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        held, room = work["held"][slots], work["rows"].shape[1]
        behind = (held == 0) | (work["before"][slots] > 0)
        yield Demand("held", f"at most {room} rows after a mean", (held >= 0) & (held <= room) & behind)
        yield Demand("square", "numbers from 0", every(work["square"][slots] >= 0))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out.features, float(self.limit), float(self.smoothing), self.hold, self.tested)


@compiled
def _loop(work, slots, X, learn, features, limit, smoothing, hold, tested):
    all_rows, means, squares, all_held, all_before, spreads, opened, _ = work
    dim, room = X.shape[1], all_rows.shape[1]
    tests = tested if tested > 0 else dim
    x, mean, total, unit = np.empty(dim, np.float32), np.empty(dim), np.empty(dim), np.empty(dim)
    for n in range(len(X)):
        key = slots[n]
        if missing(X[n]):
            continue
        for i in range(dim):
            x[i] = min(max(X[n, i], -LARGEST), LARGEST)
        rows, held, before = all_rows[key], all_held[key], all_before[key]

        # The likelihood ratio of a change before each of the newest rows.
        is_open, best, statistic, shift = opened[key] > 0, 0, 0.0, 0.0
        ready = before > 0 and (tested > 0 or spreads[key] >= LEAST_SPREAD)
        if ready:
            for i in range(tests):
                mean[i], total[i], unit[i] = means[key, i], float(x[i]), 1.0
                if tested == 0:
                    unit[i] = standing.deviation(mean[i], squares[key, i], 1)
                for j in range(held):
                    total[i] += rows[j, i]
            count = before
            for j in range(held + 1):
                newest, known = held + 1 - j, _worth(count, smoothing)
                gap = 0.0
                for i in range(tests):
                    gap += ((total[i] / newest - mean[i]) / unit[i]) ** 2
                ratio = newest * known / (newest + known) * gap / tests
                if ratio > statistic:
                    best, statistic, shift = newest, ratio, np.sqrt(gap / tests)
                if j < held:
                    count += 1
                    weight = max(smoothing, 1.0 / count)
                    for i in range(tests):
                        mean[i] += weight * (rows[j, i] - mean[i])
                        total[i] -= rows[j, i]
        statistic = min(statistic / limit, LARGEST)
        alarm = not is_open and statistic >= 1.0
        after, since, known = np.nan, np.nan, np.nan
        if alarm:  # the mean before the change, and that of the rows since
            count = _split(rows, held, x, best, means[key], before, smoothing, mean, total)
            after, since, known = shift, float(best), np.ceil(_worth(count, smoothing))
            if spreads[key] >= NAMES_FROM:
                _name(mean, total, squares[key], tested, features[n])
        still_open = (alarm and hold > 0) or (is_open and opened[key] < hold)
        report.report(features[n], statistic, alarm, 0.0 if alarm else np.nan, after)
        report.report_more(features[n], since, still_open, ready, 1.0, known)

        if not learn[n] & LEARN_EXTRACTOR:
            continue
        if alarm:  # the rows before the change give the deviations
            for j in range(held + 1 - best):
                before, spreads[key] = before + 1, spreads[key] + 1
                _enter(rows[j], means[key], squares[key], before, spreads[key], smoothing)
            for i in range(dim):
                means[key, i] = total[i]
            all_before[key], all_held[key] = best, 0
        elif before == 0:
            for i in range(dim):
                means[key, i] = x[i]
            all_before[key] = 1
        else:
            if held == room:
                _enter(rows[0], means[key], squares[key], before + 1, spreads[key] + 1, smoothing)
                all_before[key], spreads[key] = before + 1, spreads[key] + 1
                held -= 1
                for j in range(held):
                    for i in range(dim):
                        rows[j, i] = rows[j + 1, i]
            for i in range(dim):
                rows[held, i] = x[i]
            all_held[key] = held + 1
        if alarm:
            opened[key] = 1 if hold > 0 else 0
        elif is_open:
            opened[key] = opened[key] + 1 if still_open else 0


@compiled
def _worth(count, smoothing):
    """Rows that a mean of so many is worth, as it forgets."""
    return min(float(count), (2.0 - smoothing) / smoothing)


@compiled
def _enter(row, mean, square, before, spread, smoothing):
    """A row into the mean, of `before` rows with it, and its deviation into the squares, of `spread` rows with it."""
    weight, rate = max(smoothing, 1.0 / before), max(1.0 / SPREAD_MEMORY, 1.0 / spread)
    for i in range(row.size):
        gap = row[i] - mean[i]
        square[i] += rate * (gap * gap - square[i])
        mean[i] += weight * gap


@compiled
def _split(rows, held, x, newest, means, before, smoothing, mean, total):
    """mean = of the rows before the `newest`, total = of these; gives how many rows are before them."""
    for i in range(x.size):
        mean[i], total[i] = means[i], x[i] / newest
    for j in range(held):
        if held + 1 - j > newest:
            before += 1
            weight = max(smoothing, 1.0 / before)
            for i in range(x.size):
                mean[i] += weight * (rows[j, i] - mean[i])
        else:
            for i in range(x.size):
                total[i] += rows[j, i] / newest
    return before


@compiled
def _name(mean, total, square, first, row):
    """Up to NAMED columns from `first` on, by how far they moved; those that moved much less are not named."""
    shift = np.empty(mean.size - first)
    for i in range(first, mean.size):
        shift[i - first] = (total[i] - mean[i]) / standing.deviation(mean[i], square[i], 1)
    for place in range(report.name_columns(shift, LEAST_SHARE, row)):
        at = report.FIRST_COLUMN + report.OF_COLUMN * place
        i = first + int(row[at + report.COLUMN])
        row[at + report.USUAL], row[at + report.SPREAD] = mean[i], standing.deviation(mean[i], square[i], 1)

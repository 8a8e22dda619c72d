"""A chart of all columns together and a chart of each: a column that wanders, such as a level, then hides no other.

Source: ours; charts as of `column_chart.py`. Its three lengths are of all columns, and their blocks are as long as those
of the column that wanders farthest: a step of another one is then not found. A column alone has two lengths.
Symbols: c = rows_between; the chart of all columns alarms once in 2 c rows at most, those of d columns once in 2 c d each.
Cost of a row: that of `column_chart`, and O(2 reference / L) a column.  State: that of it, and of each column 2 reference
float32 and 105 numbers.
While an alarm is open, another chart's is reported if its change began FOLLOWS rows or more after the last alarm.
"""

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, every
from algorithms.common.protocol import Array, Basis, Outputs, unknown
from algorithms.common.workspace import Slot, Workspace
from algorithms.drift import charts, ranked, report
from algorithms.drift.charts import ColumnChartState

OF_ONE = 2  # charts of a column
FOLLOWS = 30
FIELDS = ColumnChartState._fields
EACH = tuple(f"each_{field}" for field in FIELDS)
# Of all columns, then the same of each one, (dim, ..); (dim + 1,) whether each chart's alarm is open, all columns first; and
# rows after that of the last reported alarm
ColumnChartsState = cast(Any, namedtuple("ColumnChartsState", (*FIELDS, *EACH, "is_open", "reported")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCharts(charts.ColumnDetector):
    """Finds changes as `column_chart` does, also of each column by itself, so that a wandering column hides no other.

    It alarms at most once in `rows_between` rows, on average, while nothing changes.

    >>> detector, random = ColumnCharts(learn=100, least=10, rows_between=1000), np.random.default_rng(0)
    >>> rows = random.normal(size=(2000, 2))
    >>> rows[:, 0] = rows[:, 0].cumsum()
    >>> rows[1700:, 1] += 4.0
    >>> state, out = detector.run(detector.init(dim=2, targets=0, seed=0), rows)
    >>> alarms = out.features[1700:, 1].nonzero()[0]
    >>> alarms, out.features[1700 + alarms, 10]  # the column
    (array([1]), array([1.]))
    """

    def init(self, *, dim: int, targets: int, seed: int) -> Any:
        of_all = charts.fresh(dim, charts.CHARTS, self.reference, seed)
        of_each = zip(*(charts.fresh(1, OF_ONE, self.reference, seed ^ (i + 1)) for i in range(dim)), strict=True)
        return ColumnChartsState(*of_all, *map(np.array, of_each), np.zeros(dim + 1, np.int64), 0)

    def caches(self, state: Any, rows: Mapping[str, int]) -> Mapping[str, Array]:
        dim = len(state.mean)
        return {"whitener": np.zeros((dim, dim)), "each_whitener": np.zeros((dim, 1, 1))}

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        for prefix in ("", "each_"):
            yield from ranked.demands(work, slots, prefix)
            learned = work[f"{prefix}learned"][slots]
            yield Demand(f"{prefix}learned", f"at most {self.learn} rows in the scale", every(learned <= self.learn))

    def derive(self, own: Slot) -> None:
        charts.ColumnDetector.derive(self, own)  # super() fails in a dataclass with slots
        own["each_whitener"][:, 0, 0] = own["each_learned"] == self.learn

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        (n, dim), arrays, size = X.shape, tuple(work), len(FIELDS)
        of_all, of_each, (is_open, reported, counts, whitener, each_whitener) = arrays[:size], arrays[size:-5], arrays[-5:]
        numbers = float(self.smoothing), float(self.shrink), self.learn, self.least, self.hold, self.shares
        X = np.where(np.isfinite(X).all(axis=1).reshape(n, 1), X, np.nan)
        c, verdicts = 2.0 * self.rows_between, unknown((n, dim, self.reports))
        charts.loop((*of_all, counts, whitener), slots, X, learn, out.features, c, *numbers)
        flat = [array.reshape(-1, *array.shape[2:]) for array in of_each]  # as of (slots dim) keys of one column
        flat[1] = flat[1].reshape(-1, 1, 1)  # its moments are a matrix
        work_of_each = (*flat, counts, each_whitener.reshape(-1, 1, 1))
        columns = (slots.reshape(n, 1) * dim + np.arange(dim)).reshape(-1)
        rows = columns, X.reshape(-1, 1), np.repeat(learn, dim), verdicts.reshape(-1, self.reports)
        charts.loop(work_of_each, *rows, c * dim, *numbers)
        one_verdict(is_open, reported, slots, learn, out.features, verdicts)


@compiled
def one_verdict(all_open, reported, slots, learn, features, each):
    """One verdict of those of all columns, `features`, and of each one."""
    for n in range(len(features)):
        if not features[n, report.STATISTIC] >= 0.0:
            continue
        key, dim = slots[n], each.shape[1]
        is_open, was_open, ready, strongest = all_open[key], False, False, -1
        usual, of_open, of_strongest, stays = 0.0, 0.0, 0.0, 0.0
        for part in range(dim + 1):
            was_open = was_open or is_open[part] > 0
        for part in range(dim + 1):
            row = features[n] if part == 0 else each[n, part - 1]
            statistic, ready = row[report.STATISTIC], ready or row[report.READY] > 0.0
            if is_open[part] > 0:
                of_open = max(of_open, statistic)
            elif not row[report.ALARM] > 0.0:
                usual = max(usual, statistic)
            elif part > 0 and np.isnan(row[report.FIRST_COLUMN]):
                pass  # it is where it usually is, after a jump
            elif statistic > of_strongest and (not was_open or row[report.SINCE] + FOLLOWS <= reported[key] + 1):
                of_strongest, strongest = statistic, part
            stays = max(stays, row[report.OPEN])
            if learn[n] & 1:
                is_open[part] = 1 if row[report.OPEN] > 0.0 else 0
        if strongest > 0:
            features[n] = each[n, strongest - 1]
            features[n, report.CHART] *= 2.0  # its second is that of the row
            features[n, report.FIRST_COLUMN + report.COLUMN] = strongest - 1.0
        elif strongest < 0:
            for place in (report.BEFORE, report.AFTER, report.SINCE, report.REFERENCE):
                features[n, place] = np.nan
            features[n, report.CHART :] = np.nan
        features[n, report.ALARM] = 1.0 if strongest >= 0 else 0.0
        features[n, report.STATISTIC] = of_strongest if strongest >= 0 else of_open if was_open else usual
        features[n, report.OPEN], features[n, report.READY] = stays, 1.0 if ready else 0.0
        if learn[n] & 1:
            reported[key] = 0 if strongest >= 0 else reported[key] + 1

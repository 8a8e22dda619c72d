"""Charts on the columns: three lengths of a scaled row, each ranked among those before it, with one stated number of alarms.

Source: Lowry, Woodall, Champ, Rigdon (1992), A multivariate exponentially weighted moving average control chart; Hotelling's
T^2 (1947); the alarms are those of `ranked.py`.
Symbols: lambda = smoothing, Z_t = smooth, T^2 = squared length of the whitened row; the whitener is L^-1 with
L L' = (1 - shrink) correlation + shrink I.
Cost of a row: O(d^2 + 3 reference / L).  State: d^2 / 2 + 5.5 d numbers, 3 reference float32, and 140 numbers.
Departs from the source: thresholds are ranks, so no distribution is assumed; mean, deviation and correlation are those of
the first `learn` rows, in which values beyond 8 deviations count as 8 and a few wild ones of the first 30 are left out, and
stand still until an alarm has stayed open. Its last `learn` rows then give the next ones, if it had so many (not where
alarms that follow soon share the most rows: that may be a rhythm) and correlations of neighbouring columns are as before;
else the next rows do.
`moved` holds the next scale while an alarm is open, when no column is to be named, and that of 30 rows while it learns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from algorithms.common.demands import Demand
from algorithms.common.protocol import Array, Basis, Outputs
from algorithms.common.workspace import Workspace
from algorithms.drift import charts, ranked
from algorithms.drift.charts import ColumnChartState

Work = charts.Work


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChart(charts.ColumnDetector):
    """Finds a change of mean, spread or correlation of the columns, and names the columns with a changed mean.

    It alarms at most once in `rows_between` rows, on average, while nothing changes.

    >>> detector, random = ColumnChart(learn=100, least=10, rows_between=1000), np.random.default_rng(0)
    >>> rows = random.normal(size=(400, 4)) + (np.arange(400) >= 350)[:, None] * [0, 0, -4, 0]
    >>> state, out = detector.run(detector.init(dim=4, targets=0, seed=0), rows)
    >>> alarms = out.features[:, 1].nonzero()[0]
    >>> alarms, out.features[alarms, 10]  # the columns that moved most
    (array([352]), array([2.]))
    """

    at_bound: ClassVar[Mapping[str, float]] = ranked.AT_BOUND

    def init(self, *, dim: int, targets: int, seed: int) -> ColumnChartState:
        return charts.fresh(dim, charts.CHARTS, self.reference, seed)

    def caches(self, state: ColumnChartState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"whitener": np.zeros((len(state.mean), len(state.mean)))}

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        yield from ranked.demands(work, slots)
        yield Demand("learned", f"at most {self.learn} rows in the scale", work["learned"][slots] <= self.learn)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        numbers = float(self.rows_between), float(self.smoothing), float(self.shrink)
        charts.loop(tuple(work), slots, X, learn, out.features, *numbers, self.learn, self.least, self.hold, self.shares)

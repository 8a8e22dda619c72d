"""A level that stands still: the moving average of a number, against those of the first rows, permanently.

Source: Roberts (1959), the EWMA chart; the limit is that of `standing.py`.
Symbols: lambda = smoothing, z_t = smooth.
Cost of a row: O(1), once O(128 log 128).  State: 128 float32 while the reference lasts, and 13 numbers.
Departs from the source: the limit is that of the averages of the reference, however they are distributed and correlated.
One-sided: a rise of the watched number is drift, a fall is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.common.workspace import Workspace
from algorithms.drift import standing
from algorithms.drift.detector import Detector
from algorithms.drift.report import LONG_COLUMNS, report, report_more, watches_one

MOST = 4.0  # deviations: a level so much higher alarms, also after a reference too short to say how rare that is
BACK = 5.0  # times the average's memory: rows below `ends` in a row that end an alarm, so that a slow rise is one alarm
ROUNDING = 1e-12  # least deviation: that of an LS error, which is about 1 where nothing is known of a row
HEAVY = 5  # exceedances that count at most: errors have heavier tails than averages of columns


class ReferenceLevelState(NamedTuple):
    kept: Array  # (m, 1) float32, averages of the reference; none once it is over
    mean: float  # of the reference
    square: float  # sum of its squares of deviations
    smooth: float  # EWMA
    limits: Array  # (1,) deviations of the average above the mean, from which on it alarms; 0: the reference lasts
    blocks: Array  # (1,) of the reference that the limit was made of; 0: too few for a promise
    step: int  # rows from one kept average to the next
    learned: int  # rows in the reference
    opened: int  # rows since an alarm that is open; 0: none is
    since: int  # rows since the average was last about as usual; while an alarm is open, rows that it has been below `ends`


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLevel(Detector):
    """Finds that values are higher than in the first `rows`, and continues to report it until they are back.

    statistic: the average above the mean, from 1 on an alarm, which ends after 5 / smoothing rows below `ends`. 0 while the
    reference lasts.

    >>> detector, random = ReferenceLevel(rows=400), np.random.default_rng(0)
    >>> values = random.normal(size=(2000, 1)) + 2.0 * (np.arange(2000) >= 1000)[:, None]
    >>> state, out = detector.run(detector.init(dim=1, targets=0, seed=0), values)
    >>> out.features[:, 1].nonzero()[0].tolist(), bool(out.features[-1, 5])  # one alarm, still open
    ([1007], True)
    """

    reports: ClassVar[int] = LONG_COLUMNS
    stored: ClassVar[tuple[str, ...]] = ("kept",)

    rows_between: float = 10_000.0  # from one false alarm to the next, on average at least
    rows: int = 400  # of the reference; 0: as long as rows teach the head's bit, as [drift] reference says
    smoothing: float = 0.1  # in (0, 1]; weight of a row in the moving average
    ends: float = 0.2  # of the limit; an alarm is over after 5 / smoothing rows in a row below it

    def __post_init__(self) -> None:
        standing.check_settings(self, self.rows_between, self.rows, self.smoothing, self.ends)

    def room(self, field: str) -> int:
        return standing.ROOM + 1

    def init(self, *, dim: int, targets: int, seed: int) -> ReferenceLevelState:
        watches_one(self, dim)
        none = np.zeros((0, 1), np.float32)
        return ReferenceLevelState(none, 0.0, 0.0, 0.0, np.zeros(1), np.zeros(1, np.int64), 1, 0, 0, 0)

    def demands(self, work: Workspace, slots: Array) -> Iterable[Demand]:
        return standing.demands(work, slots)

    def recent_error(self, state: ReferenceLevelState) -> tuple[float, str] | None:
        return (state.mean, f"the {state.learned} rows of its reference") if state.learned else None

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        numbers = float(self.rows_between), float(self.smoothing), float(self.ends)
        _loop(tuple(work), slots, X, learn, out.features, *numbers, self.rows)


@compiled
def _loop(work, slots, X, learn, features, rows_between, smoothing, ends, rows):
    all_kept, mean, square, smooth, limits, blocks, step, learned, opened, since, counts = work
    first = standing.begin(smoothing)
    average, room, series = np.empty(1), np.empty(standing.ROOM + 1), np.empty(standing.ROOM + 1)
    for n in range(len(X)):
        key = slots[n]
        if not np.isfinite(X[n, 0]):
            continue
        x, kept = standing.near(X[n, 0]), all_kept[key]
        teaches = learned[key] < rows if rows > 0 else learn[n] & standing.TEACHES > 0
        if limits[key, 0] == 0.0 and learn[n] & LEARN_EXTRACTOR and not teaches and standing.enough(learned[key], 1, first):
            spread = max(ROUNDING, standing.deviation(mean[key], square[key], learned[key]))
            held = counts[key, 0]
            for i in range(held):
                series[i] = (kept[i, 0] - mean[key]) / spread
            memory = 1.0 / smoothing
            limit, known = standing.limit_of(series[:held], min(float(step[key]), memory), memory, rows_between, HEAVY, room)
            independent = learned[key] / standing.memory_of(kept, held, 0, spread, learned[key])
            limit = max(limit * np.sqrt(standing.widened(independent, 1.0)), standing.LEAST_LIMIT)
            kept_promise = independent >= standing.ENOUGH and limit <= MOST
            limits[key, 0], counts[key, 0] = min(limit, MOST), 0
            blocks[key, 0] = known if kept_promise else 0

        # The first rows are the reference.
        if limits[key, 0] == 0.0:
            report(features[n], 0.0, False, np.nan, np.nan)
            report_more(features[n], np.nan, False, False, 1.0, np.nan)
            if not learn[n] & LEARN_EXTRACTOR:
                continue
            count = learned[key] + 1
            gap = standing.cut_gap(x, mean[key], square[key], count)
            smooth[key] += max(smoothing, 1.0 / count) * (mean[key] + gap - smooth[key])
            mean[key] += gap / count
            square[key] += gap * gap * ((count - 1.0) / count)
            learned[key], average[0] = count, smooth[key]
            counts[key, 0] = standing.keep(kept, counts[key, 0], step[key], count, first, average)
            if step[key] == 1:
                found = mean[key], square[key], smooth[key]
                mean[key], square[key], smooth[key] = standing.leave_out_wild(
                    kept, counts[key, 0], smoothing, count, 0, *found
                )
            if counts[key, 0] > standing.ROOM:
                counts[key, 0] = standing.thin(kept, counts[key, 0], step[key], first)
                step[key] *= 2
            continue

        # The average against the limit.
        spread = max(ROUNDING, standing.deviation(mean[key], square[key], learned[key]))
        far = standing.CLIP * spread
        now = smooth[key] + smoothing * (min(max(x, mean[key] - far), mean[key] + far) - smooth[key])
        statistic = max(0.0, (now - mean[key]) / spread / limits[key, 0])
        is_open = opened[key] > 0
        alarm = not is_open and statistic >= 1.0
        back = since[key] + 1 if is_open and statistic < ends else 0
        still_open = alarm or (is_open and back * smoothing < BACK)
        lasts = (0 if is_open else since[key]) + 1 if statistic > standing.STARTED else 0
        before, after, changed, of_rows = np.nan, np.nan, np.nan, np.nan
        if alarm:
            before, changed = mean[key], float(lasts)
            after = mean[key] + (now - mean[key]) / (1.0 - (1.0 - smoothing) ** lasts)  # of so many rows on this level
            of_rows = float(learned[key]) if blocks[key, 0] > 0 else -float(learned[key])
        report(features[n], 0.0 if is_open and not still_open else statistic, alarm, before, after)
        report_more(features[n], changed, still_open, True, 1.0, of_rows)
        if learn[n] & LEARN_EXTRACTOR:
            smooth[key], since[key] = now, back if still_open else lasts
            opened[key] = opened[key] + 1 if still_open else 0

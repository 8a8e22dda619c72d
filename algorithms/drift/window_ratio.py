"""Two windows: alarm when the last rows are worse, by a ratio, than those before them.

Source: ours; the plain control for Page-Hinkley and ADWIN.
Symbols: x = the watched number; none else.
Cost of a row: O(short + long).  State: short + long + 1 numbers; 3 more with `standardise`.
Readings: statistic = (mean of the last `short` rows + floor) / (mean of the up to `long` rows before + floor), above
`ratio` an alarm; NaN until 2 `short` rows (or `long`, where that is less) lie before. After an alarm only the short window
is kept, as the beginning of the new past.
One-sided: a rise is drift. The watched numbers are 0 or more; `floor` keeps an idle sensor's errors of almost 0 quiet.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, at_most
from algorithms.common.linalg import remove_row
from algorithms.common.protocol import LEARN_EXTRACTOR, Array
from algorithms.common.workspace import Workspace
from algorithms.drift import standardised
from algorithms.drift.detector import OneNumber
from algorithms.drift.report import report

UNIT = standardised.Unit(centred=False)  # a ratio needs its zero


class WindowRatioState(NamedTuple):
    recent: Array  # (<= short + long, 1) watched numbers, oldest first
    seen: int  # rows so far


# With `standardise`, numbers in deviations. scale (3,): mean, variance and rows of the watched number.
ScaledWindowRatioState = cast(Any, namedtuple("ScaledWindowRatioState", (*WindowRatioState._fields, "scale")))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRatio(OneNumber):
    """Finds a rise: the mean of the last `short` rows exceeds `ratio` times the mean of the `long` rows before.

    The defaults suit an LS error in [0, 1].

    >>> detector = WindowRatio(short=2, long=4, ratio=2.0, floor=0.0)
    >>> state, out = detector.run(detector.init(dim=1, targets=0, seed=0), [[0.2]] * 6 + [[0.7], [0.7]])
    >>> out.features[5:].round(3)  # statistic, alarm, mean before, mean after
    array([[1.  , 0.  , 0.2 , 0.2 ],
           [2.25, 1.  , 0.2 , 0.45],
           [ nan, 0.  ,  nan,  nan]])
    """

    unit: ClassVar[standardised.Unit] = UNIT
    scaled_state: ClassVar[Any] = ScaledWindowRatioState
    stored: ClassVar[tuple[str, ...]] = ("recent",)

    short: Annotated[int, "1 to 10000"] = 8  # rows of the newer window
    long: Annotated[int, "1 to 10000"] = 60  # most rows of the older window
    ratio: Annotated[float, "above 1"] = 2.0  # no unit
    floor: Annotated[float, "0 or more"] = 0.02  # in units of the watched number (in deviations if standardised)
    min_rows: Annotated[int, "0 or more"] = 0  # a key's first rows, which raise no alarm; 0 or more
    standardise: bool = False  # divide the number by its deviation, so that `floor` fits any data; its zero stays

    def room(self, field: str) -> int:
        return self.short + self.long + 1  # a new row enters before the oldest leaves

    def fresh(self) -> WindowRatioState:
        return WindowRatioState(np.empty((0, 1)), 0)

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        yield from at_most(work, slots, recent=self.short + self.long)
        yield from OneNumber.demands(self, work, slots)

    def mean_error(self, state: Any) -> tuple[float, str] | None:
        if not len(state.recent):
            return None
        return float(state.recent.mean()), f"the last {len(state.recent)} rows"

    def rules(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return _loop, (self.short, self.long, self.ratio, self.floor, self.min_rows)


@compiled
def _loop(work, slots, X, learn, features, short, long, ratio, floor, min_rows):
    all_recent, seen, counts = work
    for n in range(len(X)):
        key, x = slots[n], X[n, 0]
        if not np.isfinite(x):
            continue

        # The row enters beyond the count until it is learned.
        recent, count = all_recent[key], counts[key, 0] + 1
        recent[count - 1, 0] = x
        statistic, before, after = np.nan, np.nan, np.nan
        if count >= short + min(2 * short, long):
            before = _mean(recent, max(0, count - short - long), count - short)
            after = _mean(recent, count - short, count)
            statistic = (after + floor) / (before + floor)
        alarm = statistic > ratio and seen[key] >= min_rows
        report(features[n], statistic, alarm, before, after)

        # Keep what the windows need; after an alarm the short one.
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            kept = short if alarm else short + long
            while count > kept:
                remove_row(recent, 0, count)
                count -= 1
            counts[key, 0] = count


@compiled
def _mean(recent, first, end):
    total = 0.0
    for i in range(first, end):
        total += recent[i, 0]
    return total / (end - first)

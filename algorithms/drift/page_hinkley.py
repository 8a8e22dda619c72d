"""Page-Hinkley test: alarm when what lies above the running mean adds up.

Source: Page (1954); Hinkley (1971); with the forgetting of Gama, Sebastiao, Rodrigues (2013), as MOA computes it.
Symbols: delta = delta, lambda = threshold, alpha = forget, m_T - min m_t = statistic.
Cost of a row: O(1).  State: 8 numbers; 3 more with `standardise`.
Readings: statistic = max(0, forget statistic + x - mean - delta), which for forget = 1 is m_T - min m_t without its sums
that grow for ever; the mean is that of all rows since the last alarm, x included. One-sided: a rise is drift, a fall is
not. "Before" is the mean up to the last row at which the statistic was 0, "after" the mean since. With MOA's settings it is
`standardise = true, min_rows = 30, delta = 0.005, threshold = 50`.
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import LEARN_EXTRACTOR
from algorithms.drift import standardised
from algorithms.drift.detector import OneNumber
from algorithms.drift.report import report

UNIT = standardised.Unit()


class PageHinkleyState(NamedTuple):
    seen: int  # rows so far
    since: int  # of those, since the last alarm
    mean: float  # of the rows since the last alarm
    statistic: float
    before: float  # mean when the statistic was last 0
    after: float  # mean of the rows since then
    after_rows: int


# With `standardise`, means in deviations. scale (3,): mean, variance and rows of the watched number.
ScaledPageHinkleyState = cast(Any, namedtuple("ScaledPageHinkleyState", (*PageHinkleyState._fields, "scale")))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHinkley(OneNumber):
    """Finds a rise of the mean. The defaults suit an LS error in [0, 1].

    >>> detector = PageHinkley(delta=0.03, threshold=0.25)
    >>> state, out = detector.run(detector.init(dim=1, targets=0, seed=0), [[0.2]] * 8 + [[0.6]] * 2)
    >>> out.features[-2:].round(3)  # statistic, alarm, mean before, mean after
    array([[0.326, 1.   , 0.2  , 0.6  ],
           [0.   , 0.   , 0.6  ,   nan]])
    """

    unit: ClassVar[standardised.Unit] = UNIT
    scaled_state: ClassVar[Any] = ScaledPageHinkleyState

    delta: Annotated[float, "0 or more"] = 0.03  # tolerated rise, in units of the number (in deviations if standardised)
    threshold: Annotated[float, "above 0"] = 0.25  # sum of excesses that alarms, in the same units
    forget: Annotated[float, "in (0, 1]"] = 1.0  # how much of the sum stays from row to row
    min_between: Annotated[int, "1 or more"] = 5  # rows from one alarm (or the start) to the next, at least
    min_rows: Annotated[int, "0 or more"] = (
        0  # a key's first rows, which only teach the mean: nothing adds up, no alarm; 0 or more
    )
    standardise: bool = False  # watch the number in deviations from its mean, so that thresholds fit any data

    def fresh(self) -> PageHinkleyState:
        return PageHinkleyState(0, 0, 0.0, 0.0, 0.0, 0.0, 0)

    def mean_error(self, state: Any) -> tuple[float, str] | None:
        if not state.since:
            return None
        return float(state.mean), f"the {state.since} rows since the last alarm"

    def rules(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return _loop, (self.delta, self.threshold, self.forget, self.min_between, self.min_rows)


@compiled
def _loop(work, slots, X, learn, features, delta, threshold, forget, min_between, min_rows):
    seen, all_since, means, statistics, befores, afters, all_after_rows, _ = work
    for n in range(len(X)):
        key, x = slots[n], X[n, 0]
        since = all_since[key] + 1
        mean = means[key] + (x - means[key]) / since
        statistic = max(0.0, forget * statistics[key] + (x - mean - delta))
        if (
            not np.isfinite(x) or not np.isfinite(mean) or not np.isfinite(statistic)
        ):  # skipped: no number, or none afterwards
            continue
        if seen[key] < min_rows:
            statistic = 0.0

        # Where the climb began splits the rows into before and after.
        before, after, after_rows = befores[key], afters[key], all_after_rows[key]
        if statistic == 0.0:
            before, after, after_rows = mean, 0.0, 0
        else:
            after_rows += 1
            after += (x - after) / after_rows
        alarm = statistic > threshold and since >= min_between
        report(features[n], statistic, alarm, before, after if after_rows > 0 else np.nan)

        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            if alarm:  # start again
                since, mean, statistic, before, after, after_rows = 0, 0.0, 0.0, 0.0, 0.0, 0
            all_since[key], means[key], statistics[key] = since, mean, statistic
            befores[key], afters[key], all_after_rows[key] = before, after, after_rows

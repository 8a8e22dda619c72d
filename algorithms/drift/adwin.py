"""ADWIN: a window that grows while its mean stands still and drops its older part when two parts of it differ.

Source: Bifet, Gavalda (2007), ADWIN2: exponential histogram and the variance form of the cut, delta' = delta / ln n.
Symbols: delta = confidence, M = PER_SIZE, W = all buckets, eps_cut = bound, v = variance of the window.
Cost of a row: O(log n) for n rows in the window.  State: at most 3 x 121 + 1 numbers (5 buckets each of 24 sizes, and one),
3 more with `standardise`.
Departs from the source: all before the strongest cut leaves at once (bucket by bucket one change alarms several times);
a cut is looked for before equal buckets are merged; both parts hold at least 5 rows; past 2^23 rows a bucket the oldest
one leaves. Two-sided: a fall of the mean is a change too (after < before tells). The bound is for numbers of a range of
about 1, such as an LS error. Needs many rows to see a small change.
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

PER_SIZE = 5  # most buckets of one size
SIZES = 24  # bucket sizes 1, 2, 4 .. 2^23
LEAST = 5  # fewest rows on either side of a cut
UNIT = standardised.Unit(deviations=6.0)  # a range of about 1, for which the bound is


class AdwinState(NamedTuple):
    buckets: Array  # (b, 3) rows, mean and sum of squared deviations of each bucket, oldest first
    seen: int  # rows so far


# With `standardise`, buckets in deviations. scale (3,): mean, variance and rows of the watched number.
ScaledAdwinState = cast(Any, namedtuple("ScaledAdwinState", (*AdwinState._fields, "scale")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adwin(OneNumber):
    """Finds a change of the mean by comparing every older part of its window with the rest.

    statistic: largest |difference of means| / bound over the cuts, above 1 an alarm; before, after: the means there.

    >>> detector = Adwin(confidence=0.01)
    >>> state, out = detector.run(detector.init(dim=1, targets=0, seed=0), [[0.1]] * 40 + [[0.9]] * 30)
    >>> out.features[:, 1].nonzero()[0], state.buckets[:, 0].sum()  # the 40 rows before the change are gone
    (array([55]), np.float64(30.0))
    """

    unit: ClassVar[standardised.Unit] = UNIT
    scaled_state: ClassVar[Any] = ScaledAdwinState
    stored: ClassVar[tuple[str, ...]] = ("buckets",)

    confidence: Annotated[float, "in (0, 1)"] = 0.002  # about the share of false alarms that is tolerated, without a unit
    min_rows: Annotated[int, "0 or more"] = 0  # a key's first rows, which raise no alarm; 0 or more
    standardise: bool = False  # watch the number in 6 deviations from its mean: about 1 from end to end, on any data

    def room(self, field: str) -> int:
        return PER_SIZE * SIZES + 2  # a new row enters before others leave

    def fresh(self) -> AdwinState:
        return AdwinState(np.empty((0, 3)), 0)

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        yield from at_most(work, slots, buckets=PER_SIZE * SIZES + 1)
        yield from OneNumber.demands(self, work, slots)

    def mean_error(self, state: Any) -> tuple[float, str] | None:
        if not len(state.buckets):
            return None
        rows: Array = state.buckets[:, 0]
        return float((rows * state.buckets[:, 1]).sum() / rows.sum()), f"the {int(rows.sum())} rows of its window"

    def rules(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return _loop, (self.confidence, self.min_rows)


@compiled
def _loop(work, slots, X, learn, features, confidence, min_rows):
    all_buckets, seen, counts = work
    whole, cut = np.empty(3), np.empty(4)
    for n in range(len(X)):
        key, x = slots[n], X[n, 0]
        if not np.isfinite(x):
            continue

        # The row enters as a bucket of its own, beyond the count until it is learned.
        buckets, count = all_buckets[key], counts[key, 0] + 1
        newest = buckets[count - 1]
        newest[0], newest[1], newest[2] = 1.0, x, 0.0
        _gather(buckets, count, whole)
        if not np.isfinite(whole[1]) or not np.isfinite(whole[2]):
            continue
        _largest_cut(buckets, count, whole, confidence, cut)
        alarm = cut[0] > 1.0 and seen[key] >= min_rows
        report(features[n], cut[0], alarm, cut[1], cut[2])

        # Drop the older part until no two parts differ, then merge.
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            while cut[0] > 1.0:
                for _ in range(int(cut[3])):
                    remove_row(buckets, 0, count)
                    count -= 1
                _gather(buckets, count, whole)
                _largest_cut(buckets, count, whole, confidence, cut)
            counts[key, 0] = _merge_equal(buckets, count)


@compiled
def _join(total, bucket):
    """total = rows, mean and squares of both (Chan, Golub, LeVeque)."""
    rows = total[0] + bucket[0]
    gap = bucket[1] - total[1]
    total[1] += gap * (bucket[0] / rows)
    total[2] += bucket[2] + gap * gap * (total[0] * bucket[0] / rows)
    total[0] = rows


@compiled
def _gather(buckets, count, whole):
    whole[0], whole[1], whole[2] = 0.0, 0.0, 0.0
    for i in range(count):
        _join(whole, buckets[i])


@compiled
def _largest_cut(buckets, count, whole, confidence, cut):
    """cut = |difference of means| / bound where it is largest, the two means, buckets before it; NaN while there is none."""
    cut[0], cut[1], cut[2], cut[3] = np.nan, np.nan, np.nan, 0.0
    rows, variance = whole[0], whole[2] / whole[0]
    older, older_mean = 0.0, 0.0
    if rows < 2 * LEAST:
        return
    surprise = np.log(2.0 * np.log(rows) / confidence)
    for i in range(count - 1):
        older += buckets[i, 0]
        older_mean += (buckets[i, 1] - older_mean) * (buckets[i, 0] / older)
        newer = rows - older
        if newer < LEAST:
            return
        if older < LEAST:
            continue
        newer_mean = older_mean + (whole[1] - older_mean) * (rows / newer)
        inverse = 1.0 / older + 1.0 / newer
        bound = np.sqrt(2.0 * inverse * variance * surprise) + 2.0 / 3.0 * inverse * surprise
        ratio = abs(older_mean - newer_mean) / bound
        if not ratio <= cut[0]:
            cut[0], cut[1], cut[2], cut[3] = ratio, older_mean, newer_mean, i + 1.0


@compiled
def _merge_equal(buckets, count):
    """Join the two oldest of PER_SIZE + 1 buckets of a size, from size 1 up; gives the count that is left."""
    end, size = count, 1.0
    while True:
        start = end
        while start > 0 and buckets[start - 1, 0] == size:
            start -= 1
        if end - start <= PER_SIZE:
            break
        _join(buckets[start], buckets[start + 1])
        remove_row(buckets, start + 1, count)
        count -= 1
        end, size = start + 1, 2.0 * size
    if buckets[0, 0] >= 2.0**SIZES:  # the window is as long as it may be
        remove_row(buckets, 0, count)
        count -= 1
    return count

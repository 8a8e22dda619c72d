"""Single rows that are farther out than the tail of the latest rows allows.

Source: Coles (2001), An introduction to statistical modeling of extreme values, ch. 4: what exceeds a high level is about a
generalised Pareto law; its shape by probability-weighted moments, Hosking, Wallis (1987).
Symbols: u = level, xi = shape, sigma = size, c = rows_between; x are errors in deviations; a = usual[0] and b = usual[1] are
about what a column exceeds in 5 and in 1 of a hundred rows. A row's value is the largest (|x_i| / b_i)^e_i of its columns,
with e = min(1, EVEN / log(b / a)) beyond b, so that a column with a heavy tail does not hide among others.
P(value > u + y) = share (1 + xi y / sigma)^(-1 / xi), and an alarm is what exceeds the limit, where this is 1 / c.
Cost of a row: O(d), and every EVERY rows O(kept).  State: 2 d + 10 numbers, and kept float32.
Departs from the source: the shape is LEAST_SHAPE or more, because fifty exceedances do not show that a tail is light, and
sigma is `narrowest` u or more: rare counts are nearly all alike, so that sigma is about 0, however often larger ones come.
A row beyond the limit enters the latest rows as the limit, so that one wild row hides no other and many are learned.
A wild row raises no alarm where OFTEN alike came in c rows: its chance is above 1 / c. The largest |x_i| of each is at least
1 / LARGER of its largest, and at most SMALLER times its |x_i| of that column. Nor does one that returns: the latest alike of
its column was of the other sign and at most LARGER times as small or large. A return counts as two: a machine that rests on
weekends alarms once. A row within the limit counts too, if its chance is below NEAR / c and a wild row of
about its size is noted: the limit rises after each. Notes of the NOTED latest are behind the ring, as negative numbers,
which earlier releases overwrite; fractions of a column say its sign, whether it returned, and was within the limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array, Basis, Outputs, require
from algorithms.common.workspace import Workspace
from algorithms.drift.detector import Detector
from algorithms.drift.report import FIRST_COLUMN, OF_COLUMN, SPREAD, USUAL, WIDE_COLUMNS, name_columns, report, report_more

SHARE, LEAST_EXCEEDANCES = 0.05, 15  # of the latest rows, above the level
LEAST_SHAPE, MOST_SHAPE = 0.2, 0.5
EXCEEDED, START, RATES, LEAST_USUAL = (0.05, 0.01), (1.96, 2.58), (0.01, 0.02), 1.0  # of a column
EVEN, LEAST_GAP = 0.33, 0.05  # of log(b / a), which is .27 where x is normal
TINY = 1e-300  # least size to divide by, and least chance of a row
LEAST = 1e-37  # smaller values count as 0: float32, as which they are kept, has no room for them
EVERY = 50  # rows from one fit to the next
LEAST_NAMED = 0.84  # of the first column's size, for another to be named
OFTEN, LARGER, SMALLER = 3, 1.5, 12.0  # alike rows that make one normal; how much larger it may be, and its column smaller
NOTED, SIZE, WHEN, WHERE, NOTE = 8, 0, 1, 2, 3  # wild rows that are noted, each by -|x_i|, -(seen + 1), -(column + 1 + ..)
DOWN, RETURNED = 0.25, 0.5  # fraction of a note with x_i < 0; of one that returned
NEAR, WITHIN = 100.0, 0.125  # times 1 / c, chance of a row within the limit that is noted; and of its note
FARTHEST = 1e30  # largest |x|: what is kept is float32


class RowTailState(NamedTuple):
    usual: Array  # (dim, 2) about the sizes that a column exceeds in a share EXCEEDED of the rows
    latest: Array  # (kept,) float32 values of rows, the first `held`; a ring when full, with the notes behind it
    held: int  # kept, when full
    oldest: int
    tail: Array  # (4,) level, size, shape, share of the latest rows above the level
    quiet: int  # rows until an open alarm ends; 0: none is open
    opened: int  # rows since it was raised
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTail(Detector):
    """Finds single rows with very large values, and names their columns; at most one false alarm in `rows_between` rows.

    >>> detector, rows = RowTail(), np.random.default_rng(0).normal(size=(1000, 2))
    >>> rows[700, 1] = -12.0
    >>> state, out = detector.run(detector.init(dim=2, targets=0, seed=0), rows)
    >>> alarms = out.features[:, 1].nonzero()[0]
    >>> alarms.tolist(), out.features[alarms, 10].tolist()  # and the column
    ([700], [1.0])
    """

    name: ClassVar[str] = "row_tail"
    persisted_name: ClassVar[str] = "RowTail"
    reports: ClassVar[int] = WIDE_COLUMNS
    columns: ClassVar[bool] = True

    rows_between: Annotated[float, "1 or more"] = 10_000.0  # from one false alarm to the next, on average at least
    kept: Annotated[int, "20 to 100000"] = 1000  # latest rows, to which the tail is fitted
    least: int = 300  # of them, before the first verdict
    ends: Annotated[int, "1 or more"] = 20  # rows within the limit that end an alarm
    hold: Annotated[int, "1 or more"] = 500  # most rows an alarm stays open, then all is learned again
    narrowest: Annotated[float, "0 or more"] = 0.0  # least size of the tail, as a share of its level

    def check(self) -> None:
        require(self, "least", 20 <= self.least <= self.kept, f"20 to kept ({self.kept})")

    def init(self, *, dim: int, targets: int, seed: int) -> RowTailState:
        return RowTailState(np.tile(START, (dim, 1)), np.zeros(self.kept, np.float32), 0, 0, np.zeros(4), 0, 0, 0)

    def dim(self, state: RowTailState) -> int:
        return len(state.usual)

    def demands(self, work: Workspace, slots: Array) -> Iterator[Demand]:
        held, oldest = work["held"][slots], work["oldest"][slots]
        ring = (held >= 0) & (held <= self.kept) & (oldest >= 0) & (oldest < self.kept)
        yield Demand("held", f"a ring of {self.kept} rows", ring & ((oldest == 0) | (held == self.kept)))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        most = max(int(SHARE * self.kept), LEAST_EXCEEDANCES) + 1
        fits = most, float(self.narrowest)
        _loop(tuple(work), slots, X, learn, out.features, float(self.rows_between), self.least, self.ends, self.hold, fits)


@compiled
def _loop(work, slots, X, learn, features, rows_between, least, ends, hold, fits):
    all_usual, all_latest, held, oldest, all_tail, quiet, opened, seen, _ = work
    most, narrowest = fits
    top = np.empty(most)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        usual, latest, tail, room = all_usual[key], all_latest[key], all_tail[key], _room(all_latest)
        value, column, ready, learned = 0.0, 0, held[key] >= least, min(held[key], room)
        for i in range(x.size):
            size = _evened(min(abs(x[i]), FARTHEST), usual[i])
            if size > value:
                value, column = size, i
        value = value if value > LEAST else 0.0

        # Judge the row by the tail of those before it.
        chance, limit, is_open = 1.0, np.inf, opened[key] > 0
        if ready:
            chance, limit = _chance(tail, value), _limit(tail, rows_between)
        wild = value > limit
        begins = wild and not is_open
        noted, returns = begins, False
        if begins or (chance * rows_between <= NEAR and not is_open):
            count, returns = _alike(latest[room:], x, column, seen[key], rows_between, SMALLER if begins else LARGER)
            noted = begins or count > 0
            if wild and (returns or count >= OFTEN):
                wild, chance = False, max(chance, OFTEN / rows_between)
        alarm = wild and not is_open
        still_open = alarm or (is_open and opened[key] < hold and (wild or quiet[key] > 1))
        statistic = 0.0
        if is_open:
            statistic = 1.0 if wild else (quiet[key] - 1.0) / ends
        elif ready:
            statistic = max(1.0, 1.0 / (chance * rows_between)) if alarm else min(1.0, 1.0 / (chance * rows_between))
        report(features[n], statistic, alarm, np.nan, value if alarm else np.nan)
        report_more(features[n], 1.0 if alarm else np.nan, still_open, ready, chance, learned if alarm else np.nan)
        if alarm:
            features[n, 2] = _mean(latest, learned)
            for place in range(name_columns(x, LEAST_NAMED, features[n])):
                at = FIRST_COLUMN + OF_COLUMN * place
                features[n, at + USUAL], features[n, at + SPREAD] = 0.0, 1.0

        # Learn it, as far as the limit.
        if not learn[n] & 1:
            continue
        seen[key] += 1
        if noted:
            part = (DOWN if x[column] < 0.0 else 0.0) + (RETURNED if returns else 0.0) + (0.0 if begins else WITHIN)
            _note(latest[room:], min(abs(x[column]), FARTHEST), column + part, seen[key])
        for i in range(x.size):
            for k in range(2):
                step = (1.0 if abs(x[i]) > usual[i, k] else 0.0) - EXCEEDED[k]
                usual[i, k] = min(max(usual[i, k] * (1.0 + RATES[k] * step), LEAST_USUAL), FARTHEST)
        if is_open and opened[key] >= hold:
            held[key], oldest[key] = 0, 0
        _remember(latest, room, held, oldest, key, min(value, limit))
        if held[key] >= least and (value > limit or seen[key] % EVERY == 0 or held[key] == least):
            _fit(latest, min(held[key], room), top, tail, narrowest)
        opened[key] = opened[key] + 1 if still_open else 0
        quiet[key] = 0 if not still_open else ends if wild else quiet[key] - 1


@compiled
def _evened(size, usual):
    ratio = size / usual[1]
    if ratio <= 1.0:
        return ratio
    return ratio ** min(1.0, EVEN / max(np.log(usual[1] / usual[0]), LEAST_GAP))


@compiled
def _chance(tail, value):
    """Of a row so far out, or farther; within the level not judged finely."""
    level, size, shape, share = tail
    if value <= level:
        return 0.5
    return max(share * (1.0 + shape * (value - level) / max(size, TINY)) ** (-1.0 / shape), TINY)


@compiled
def _limit(tail, rows_between):
    level, size, shape, share = tail
    return level + size / shape * max(0.0, (share * rows_between) ** shape - 1.0)


@compiled
def _room(latest):
    """Places for values of rows: all, or those before the notes."""
    kept = latest.shape[-1]
    return kept if kept < 10 * NOTED * NOTE else kept - NOTED * NOTE


@compiled
def _alike(notes, x, column, seen, rows_between, smaller):
    """How many wild rows alike came in the latest rows, one that returned as two; and whether this one returns."""
    count, size, newest, returns = 0, abs(x[column]), np.inf, False
    for at in range(0, notes.size, NOTE):
        noted, age, where = -notes[at + SIZE], seen + 1 + notes[at + WHEN], -notes[at + WHERE] - 1.0
        if not (notes[at + WHEN] < 0.0 and age <= rows_between and LARGER * noted >= size and 0 <= where < x.size):
            continue
        if not smaller * abs(x[int(where)]) >= noted:
            continue
        part = where - np.floor(where)
        if smaller < SMALLER and part % DOWN >= WITHIN:
            continue
        count += 2 if part >= RETURNED else 1
        if age < newest and int(where) == column:
            newest, returns = age, (part % RETURNED >= DOWN) != (x[column] < 0.0) and LARGER * size >= noted
    return count, returns


@compiled
def _note(notes, size, column, seen):
    """In the place of the oldest; values of rows that an earlier release left there are older."""
    oldest = 0
    for at in range(NOTE, notes.size, NOTE):
        if notes[at + WHEN] > notes[oldest + WHEN]:
            oldest = at
    if notes.size:
        notes[oldest + SIZE], notes[oldest + WHEN], notes[oldest + WHERE] = -size, -seen, -(column + 1)


@compiled
def _remember(latest, room, held, oldest, key, value):
    if held[key] < room:
        latest[held[key]] = value
        held[key] += 1
    else:
        at = oldest[key] if oldest[key] < room else 0
        latest[at] = value
        oldest[key] = at + 1 if at + 1 < room else 0
    if held[key] >= room:
        held[key] = latest.size


@compiled
def _mean(latest, held):
    total = 0.0
    for i in range(held):
        total += latest[i] / held
    return total


@compiled
def _fit(latest, held, top, tail, narrowest):
    """The tail of the first `held` values; top: to work in."""
    count, many = 0, min(max(int(SHARE * held), LEAST_EXCEEDANCES) + 1, top.size)
    for i in range(held):
        value = latest[i]
        if count == many and not value > top[many - 1]:
            continue
        at = count if count < many else many - 1
        while at > 0 and top[at - 1] < value:
            top[at] = top[at - 1]
            at -= 1
        top[at] = value
        count = min(count + 1, many)
    level, mean, weighted, exceed = top[many - 1], 0.0, 0.0, many - 1
    for i in range(exceed):
        over = (top[i] - level) / exceed
        mean += over
        weighted += over * (i + 0.35) / exceed
    shape = LEAST_SHAPE
    if mean > 2.0 * weighted:
        shape = min(max(2.0 - mean / (mean - 2.0 * weighted), LEAST_SHAPE), MOST_SHAPE)
    tail[0], tail[1], tail[2], tail[3] = level, max(mean * (1.0 - shape), narrowest * level), shape, exceed / held

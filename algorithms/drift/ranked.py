"""Shiryaev-Roberts on conformal p-values of block means: what the detectors that keep a stated number of alarms share.

Source: Vovk, Gammerman, Shafer (2022), Algorithmic learning in a random world, ch. 8 (Shiryaev-Roberts of a conformal test
martingale); Shin, Ramdas, Rinaldo (2022), E-detectors (the mean of several); blocks and shares, for correlated values: ours.
Symbols: p = p, f(p) = mean over POWERS of e p^(e-1), R <- (1 + R) (e p^(e-1))^s = scores (one for each power), s = shares,
c = rows_between.

A chart is one row of each array below; a detector has one chart or several. Its values are averaged over blocks of L rows.
The p-value of a block is its rank among the reference (the block means before it), ties broken by a draw that a replay
repeats. L R grows by at most 1 a row on average while block means are exchangeable, so the mean over charts of L R comes to
c only once in c rows. L is the least power of two from which on the means of neighbouring blocks are about uncorrelated.
While an alarm is open the reference stands still, and the alarm ends when a CUSUM of log f(p) is back at 0. Alarms that
follow soon are one: their rows add up to the most that an alarm may be open, and L is estimated across them. A machine that
is on for some minutes an hour else alarms at each of them, and the dependence from row to row is never measured.

What is left of correlation is too weak from block to block to be seen, but a level that wanders slowly adds up, as the LS
error's does of an extractor that goes on learning. Over the blocks in which a power collects its evidence the variance of
the mean is then v times that of independent blocks. A sum of logarithms with v times the variance comes to v log c as often
as an independent one comes to log c, so a power's bets count with a share, 1 / v at the least: the variances of bets rise by
less than those of values, COUNTED (v - 1), as streams showed. s <= 1 keeps the bound on R.

Charts with shares measure all this on log(1 + value / d), which is about -log p where tails are heavy: large squares that
come together, as of latencies or modes with spreads of their own, hardly correlate otherwise. Bets then vary as values do.
"""

from collections.abc import Iterator

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, every
from algorithms.common.protocol import Array, require
from algorithms.common.workspace import Workspace

POWERS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
LEVELS = 10  # blocks of 1, 2, 4 .. 512 rows
LONGEST = 1 << (LEVELS - 1)
HELD, OLDEST, BLOCK, KNOWN, ROWS, SINCE, MARKS = 0, 1, 2, 3, 4, 5, 6  # columns of marks, and how many
TOTAL, CLIMB, AFTER, SUMS = 0, 1, 2, 3  # columns of sums
P, EVIDENCE, CLIMBED, WEIGHED = 0, 1, 2, 3  # of what `weigh` gives
MEAN, VARIANCE, PENDING = 0, 1, 2  # columns of a level
LEAST_BLOCKS = 32  # of a level, before the correlation of its neighbours is looked at
FIRST_LOOK, EVERY = 128, 256  # rows of the first estimate of L, and from one to the next
MEMORY = 16_384  # rows that the variances go back
CORRELATED = 0.15  # of neighbours, that is let pass
LEAST_P, LARGEST = 1e-6, 3e38  # smallest p-value; block means are float32
LOGS = 2  # in KNOWN of a chart with variances of logarithms; -1: and L is not known
FAR, NEAR = 10.0, 3.0  # deviations at which values are cut for the levels, of charts and of errors
FARTHEST = 1e150  # of all values
REACH = (1, 2, 4, 5, 7, 9)  # 2^k blocks in which each power comes from nothing to about 10,000, where p-values are its own
COUNTED = 0.5  # of v - 1; chosen on seeds 0 to 9 of `papers drift_alarms`
FALL_AFTER, FEWEST, FALLEN = 2048, 16, 8.0  # rows before a fall, block means before and after it, deviations of their ranks
TIES = 1  # purpose of the draws; of chart k TIES + k
CERTAIN = 1.5  # most that an open alarm's CUSUM remembers: 4.5 to 1
HELD_OPEN = 16  # blocks, that an alarm may stay open at least
CLOSED = 1 << 32  # added to the rows of an alarm that ended, for the next one
LATELY = 4  # times the most rows an alarm stays open: after more rows without one, the next is another
MOST_EVIDENCE = 1e300  # bound of scores: they grow while an alarm is open, when nothing reads them
AT_BOUND = {"scores": MOST_EVIDENCE}  # state fields that releases up to 0.2.0 did not bound: a stored inf means the bound


def fresh(charts: int, size: int) -> tuple[Array, Array, Array, Array, Array]:
    """reference, marks, sums, scores and levels of so many charts that have seen nothing."""
    marks = np.zeros((charts, MARKS), np.int64)
    marks[:, BLOCK] = 1
    reference = np.zeros((charts, size), np.float32)
    return reference, marks, np.zeros((charts, SUMS)), np.zeros((charts, len(POWERS))), np.zeros((charts, LEVELS, 3))


def check_settings(detector: object, rows_between: float, reference: int, least: int, hold: int) -> None:
    """Raises SettingError for what no chart can have."""
    require(detector, "rows_between", 1 <= rows_between < np.inf, "1 or more")
    require(detector, "reference", 2 <= reference <= 10_000, "2 to 10000")
    require(detector, "least", 1 <= least <= reference, f"1 to reference ({reference})")
    require(detector, "hold", hold >= 0, "0 or more")


def demands(work: Workspace, slots: Array, prefix: str = "") -> Iterator[Demand]:
    """What charts demand of their state: marks name rows to read and write. prefix: of its fields."""
    marks, size = work[f"{prefix}marks"][slots], work[f"{prefix}reference"].shape[-1]
    held, oldest, block, rows = (marks[..., column] for column in (HELD, OLDEST, BLOCK, ROWS))
    ring = (held >= 0) & (held <= size) & (oldest >= 0) & (oldest < size) & ((oldest == 0) | (held == size))
    powers = (block >= 1) & (block <= LONGEST) & (block & (block - 1) == 0) & (rows >= 0) & (rows < block)
    expected = f"blocks of 1, 2, 4 .. {LONGEST} rows in a reference of {size}"
    yield Demand(f"{prefix}marks", expected, every(ring & powers & (marks[..., SINCE] >= 0)))


@compiled
def p_value(reference: Array, held: int, value: float, draw: float) -> float:
    """Share of the first `held` numbers that are above the value; of those equal to it, and itself, a random part."""
    above, equal = np.int32(0), np.int32(0)  # of 32 bits, as the numbers are: counted eight at a time
    v = np.float32(value)
    for i in range(held):
        above = np.int32(above + np.int32(reference[i] > v))
        equal = np.int32(equal + np.int32(reference[i] == v))
    if equal == held:  # nothing moves, as of a sensor that stands still
        return 1.0
    return max(LEAST_P, (above + draw * (equal + 1)) / (held + 1))


@compiled
def bet(p: float, scores: Array, shares: Array, raised: Array) -> float:
    """raised = the scores after a block of this p-value; gives f(p)."""
    log_p, mean = np.log(p), 0.0
    for j in range(scores.size):
        gain = POWERS[j] * np.exp((POWERS[j] - 1.0) * log_p)
        raised[j] = min((1.0 + scores[j]) * (gain if shares[j] == 1.0 else gain ** shares[j]), MOST_EVIDENCE)
        mean += gain / scores.size
    return mean


@compiled
def weigh(
    reference: Array,
    marks: Array,
    sums: Array,
    scores: Array,
    value: float,
    least: int,
    is_open: bool,
    draw: float,
    shares: Array,
    raised: Array,
    weighed: Array,
) -> None:
    """What a row's value would do to a chart: p-value (1 where no block is judged), evidence L R, CUSUM."""
    for j in range(scores.size):
        raised[j] = scores[j]
    weighed[P], weighed[CLIMBED] = 1.0, sums[CLIMB]
    if marks[ROWS] + 1 >= marks[BLOCK] and ready(marks, least):
        weighed[P] = p_value(reference, marks[HELD], block_mean(marks, sums, value), draw)
        climbed = max(0.0, sums[CLIMB] + np.log(bet(weighed[P], scores, shares, raised)))
        if is_open:  # a chart that did not alarm, or is back at 0, stays there
            climbed = min(climbed, CERTAIN) if sums[CLIMB] > 0.0 else 0.0
        weighed[CLIMBED] = climbed
    total = 0.0
    for j in range(scores.size):
        total += raised[j]
    weighed[EVIDENCE] = total / scores.size * marks[BLOCK]


@compiled
def ready(marks: Array, least: int) -> bool:
    """The warm-up is over: L is known, and the reference holds `least` blocks."""
    return marks[KNOWN] > 0 and marks[HELD] >= least


@compiled
def of_logs(marks: Array) -> bool:
    return marks[KNOWN] < 0 or marks[KNOWN] == LOGS


@compiled
def block_mean(marks: Array, sums: Array, value: float) -> float:
    return min(max((sums[TOTAL] + value) / (marks[ROWS] + 1), -LARGEST), LARGEST)


@compiled
def take(
    reference: Array, marks: Array, sums: Array, scores: Array, value: float, keep: bool, raised: Array, weighed: Array
):
    """Learn a row's value as `weigh` has weighed it; keep: its block enters the reference. True where a block ended."""
    marks[SINCE] += 1
    sums[AFTER] += value
    if marks[ROWS] + 1 < marks[BLOCK]:
        marks[ROWS] += 1
        sums[TOTAL] += value
        return False
    if keep:
        remember(reference, marks, block_mean(marks, sums, value))
    marks[ROWS], sums[TOTAL] = 0, 0.0
    for j in range(scores.size):
        scores[j] = raised[j]
    sums[CLIMB] = weighed[CLIMBED]
    if weighed[CLIMBED] == 0.0:  # if anything changes, it is after this block
        marks[SINCE], sums[AFTER] = 0, 0.0
    return True


@compiled
def remember(reference: Array, marks: Array, value: float) -> None:
    """A block mean enters the reference; a full one forgets its oldest."""
    held, oldest = marks[HELD], marks[OLDEST]
    if held < reference.size:
        reference[held] = value
        marks[HELD] = held + 1
    else:
        reference[oldest] = value
        marks[OLDEST] = oldest + 1 if oldest + 1 < reference.size else 0


@compiled
def push(levels: Array, rows: int, value: float, deviations: float) -> None:
    """The row's value, cut at so many deviations, into the variances of the means of 1, 2, 4 .. rows; `rows` counts it."""
    if rows > LEAST_BLOCKS:
        far = deviations * np.sqrt(levels[0, VARIANCE])
        value = min(max(value, levels[0, MEAN] - far), levels[0, MEAN] + far)
    count = rows
    for k in range(LEVELS):
        level = levels[k]
        rate = 1.0 / min(count, max(2 * LEAST_BLOCKS, MEMORY >> k))
        gap = value - level[MEAN]
        level[MEAN] += rate * gap
        level[VARIANCE] = (1.0 - rate) * (level[VARIANCE] + rate * gap * gap)
        if count % 2 == 1:
            level[PENDING] = value
            return
        value = 0.5 * (value + level[PENDING])
        count //= 2


@compiled
def share_out(levels: Array, marks: Array, rows: int, shares: Array) -> None:
    """The share of each power, by the levels that have LEAST_BLOCKS means; longer ones count as the last of these."""
    first, v = 0, 1.0
    while 1 << first < marks[BLOCK]:
        first += 1
    alone = levels[first, VARIANCE]
    for k in range(1, LEVELS):
        at = first + k
        if at < LEVELS and alone > 0.0 and min(rows >> at, max(2 * LEAST_BLOCKS, MEMORY >> at)) >= LEAST_BLOCKS:
            v = max(v, levels[at, VARIANCE] / alone * (1 << k))
        for j in range(shares.size):
            if REACH[j] == k:
                shares[j] = 1.0 / (1.0 + (1.0 if of_logs(marks) else COUNTED) * (v - 1.0))


@compiled
def look(reference: Array, marks: Array, sums: Array, scores: Array, levels: Array, rows: int) -> None:
    """Estimate L again, after `rows` rows. An L once known stays so: it may grow, and shrink where it is far too long."""
    if rows != FIRST_LOOK and rows % EVERY:
        return
    estimate = block_length(levels, rows)
    length = abs(estimate)
    if length > marks[BLOCK] or (4 * length <= marks[BLOCK] and rows >= 2 * LEAST_BLOCKS * marks[BLOCK] and estimate > 0):
        set_length(reference, marks, length)
        forget(marks, sums, scores)
    if estimate > 0 and marks[KNOWN] <= 0:
        marks[KNOWN] = 1 - marks[KNOWN]


@compiled
def fell(reference: Array, marks: Array, sums: Array, scores: Array, levels: Array, rows: int) -> bool:
    """The block means fell, which no detector of rises reports: the reference keeps those since, the variances start over.

    Else the step would count as dependence: blocks would become LONGEST, and 20 of them take 10,000 rows. A level that
    wanders falls too, so that a fall is one of FALLEN deviations of rank sums, and comes after FALL_AFTER rows without one.
    """
    held, oldest, newest, most, ranks = marks[HELD], marks[OLDEST], 0, FALLEN, 0.0
    if rows % EVERY or rows < FALL_AFTER or marks[KNOWN] == 0 or not _lie_low(reference, held, oldest):
        return False
    ordered = np.sort(reference[:held])
    for count in range(1, held - FEWEST + 1):
        mean = reference[(oldest + held - count) % held]
        ranks += 0.5 * (held - np.searchsorted(ordered, mean) - np.searchsorted(ordered, mean, side="right"))
        deviations = ranks / np.sqrt(count * (held - count) * (held + 1) / 12.0)
        if count >= FEWEST and deviations > most:
            newest, most = count, deviations
    if newest > 0:
        _in_order(reference, marks)
        reference[:newest] = reference[held - newest : held].copy()
        marks[HELD] = newest
        forget(marks, sums, scores)
        forget_levels(levels)
    return newest > 0


@compiled
def _lie_low(reference: Array, held: int, oldest: int) -> bool:
    """Three of four of the newest block means are below the mean of all: else a look at all of them is not worth it."""
    mean, low = mean_of(reference, held), 0
    for count in range(1, min(FEWEST, held) + 1):
        low += reference[(oldest + held - count) % held] < mean
    return 4 * low >= 3 * FEWEST


@compiled
def block_length(levels: Array, rows: int) -> int:
    """The least L from which on neighbouring block means are not correlated; -L while longer ones may still be.

    Two lengths in a row without correlation end the search: a longer one would be found correlated by chance alone.
    """
    length, looked, without = 1, 1, 0
    for k in range(LEVELS - 1):
        count = min(rows >> k, max(2 * LEAST_BLOCKS, MEMORY >> k))
        if count < LEAST_BLOCKS or without == 2:
            break
        looked *= 2
        without += 1
        if levels[k, VARIANCE] > 0.0:
            correlation = 2.0 * levels[k + 1, VARIANCE] / levels[k, VARIANCE] - 1.0
            if correlation > CORRELATED + (3.0 if without > 1 else 1.0) / np.sqrt(count):
                length, without = looked, 0
    return length if without > 0 or looked == LONGEST else -length


@compiled
def set_length(reference: Array, marks: Array, length: int) -> None:
    """Blocks of another length: for longer ones pairs of the reference become one, for shorter ones it starts over."""
    if length < marks[BLOCK]:
        marks[HELD], marks[OLDEST] = 0, 0
    else:
        _in_order(reference, marks)
        for _ in range(LEVELS):
            if marks[BLOCK] >= length:
                break
            odd = marks[HELD] % 2
            for i in range(marks[HELD] // 2):
                reference[i] = 0.5 * reference[odd + 2 * i] + 0.5 * reference[odd + 2 * i + 1]
            marks[HELD] //= 2
            marks[BLOCK] *= 2
    marks[BLOCK] = length


@compiled
def forget(marks: Array, sums: Array, scores: Array) -> None:
    """No evidence of a change, and a block begins."""
    for j in range(scores.size):
        scores[j] = 0.0
    for j in range(SUMS):
        sums[j] = 0.0
    marks[ROWS], marks[SINCE] = 0, 0


@compiled
def open_alarm(marks: Array, sums: Array, scores: Array, strongest: bool) -> None:
    """The CUSUM of the chart that alarms goes on, so that its fall can end the alarm."""
    forget(marks, sums, scores)
    sums[CLIMB] = CERTAIN if strongest else 0.0


@compiled
def lately_open(opened: int, watched: int, most_open: int) -> int:
    """Rows of the alarms until `watched` rows ago, opened - CLOSED, if an alarm now goes on with them.

    A new level that a rhythm takes back to normal for hours would else end its alarm and raise it again for ever.
    """
    return opened - CLOSED if opened > CLOSED and watched < LATELY * most_open else 0


@compiled
def begin(marks: Array, sums: Array, scores: Array, levels: Array) -> None:
    """A chart that knows nothing but its L."""
    marks[HELD], marks[OLDEST] = 0, 0
    forget(marks, sums, scores)
    forget_levels(levels)


@compiled
def forget_levels(levels: Array) -> None:
    """The variances start over: together, those before and after a change would look like one value that wanders."""
    for k in range(LEVELS):
        for j in range(3):
            levels[k, j] = 0.0


@compiled
def mean_of(reference: Array, held: int) -> float:
    total = 0.0
    for i in range(held):
        total += reference[i] / held
    return total


@compiled
def _in_order(reference: Array, marks: Array) -> None:
    """Oldest first, by three reversals."""
    held, oldest = marks[HELD], marks[OLDEST]
    if oldest:
        _reverse(reference, 0, oldest)
        _reverse(reference, oldest, held)
        _reverse(reference, 0, held)
        marks[OLDEST] = 0


@compiled
def _reverse(values: Array, first: int, end: int) -> None:
    for i in range((end - first) // 2):
        a, b = first + i, end - 1 - i
        values[a], values[b] = values[b], values[a]

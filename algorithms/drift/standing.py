"""What the detectors with a reference that stands still share: what they keep of it, and how far a value may rise above it.

Source: Coles (2001), An introduction to statistical modeling of extreme values, ch. 4: what exceeds a high level is about
exponential; the level of an exceedance to come, given n past ones of mean s, is that of a Lomax law (Geisser 1984): above
u + x with probability (1 + x / (n s))^-n.
Symbols: u = level, s = excess, n = above, c = rows_between.

While the reference lasts, a moving average is kept every `step` rows; when the room is full, every second one leaves.
Its largest values in blocks of equal length, long enough that neighbours are about uncorrelated, give u (their median), s
and n, and those the limit that is exceeded once in c rows on average. Few blocks give a high limit: n is in the law. Where
fewer than LEAST_BLOCKS are left, no number of rows can be promised.
"""

from collections.abc import Iterator

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, at_most, every
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE
from algorithms.common.protocol import Array, require
from algorithms.common.workspace import Workspace

ROOM = 128  # averages kept
LEAST_ROWS, LEAST_ROWS_PER_COLUMN = 60, 4  # of a reference
LEAST_LIMIT = 0.1  # deviations
BLOCKS = 32  # at least, before they are made longer for correlation; twice as many at most
LEAST_BLOCKS = 12  # for a promise
ENOUGH = 4.0  # independent rows for each column, for a promise
FEWEST_BLOCKS = 6  # for a limit
CORRELATED = 0.15  # of neighbouring blocks, that is let pass
CLIP = 6.0  # deviations at which values are cut
BATCHES = 8  # parts of a reference, for its memory
CLIP_FROM = 30  # rows of a scale before values are cut while it is learned
FARTHEST = 1e70  # largest |x|: sums of its squares stay finite
EARLY = 4  # looks for wild values among the first rows, each after CLIP_FROM rows
TEACHES = 2  # bit of `learn`: the row is one of the reference
STARTED = 0.25  # of the limit: above it a change has begun
LARGEST, FLOAT32 = 3e38, 1.2e-7  # what is kept is float32, which rounds to such a share


def check_settings(detector: object, rows_between: float, rows: int, smoothing: float, ends: float) -> None:
    """Raises SettingError for what no detector can have."""
    require(detector, "rows_between", 1 <= rows_between < np.inf, "1 or more")
    require(detector, "smoothing", 0.001 <= smoothing <= 1, "in [0.001, 1]")
    least = max(LEAST_ROWS, int(3 * np.ceil(2.0 / smoothing)))
    require(detector, "rows", rows == 0 or rows >= least, f"0, or {least} or more")
    require(detector, "ends", 0 < ends <= 1, "in (0, 1]")


def demands(work: Workspace, slots: Array) -> Iterator[Demand]:
    """What detectors with a reference demand of their state."""
    step = work["step"][slots]
    yield Demand("step", "1, 2, 4 ..", (step >= 1) & (step & (step - 1) == 0))
    for field in ("limits", "blocks"):
        yield Demand(field, "numbers from 0", every(work[field][slots] >= 0))
    yield from at_most(work, slots, kept=ROOM)


@compiled
def enough(learned: int, columns: int, first: int) -> bool:
    """The reference may end; first: see `begin`."""
    return learned >= max(LEAST_ROWS, LEAST_ROWS_PER_COLUMN * columns, 3 * first)


@compiled
def begin(smoothing: float) -> int:
    """Rows before the first average that is kept: it has forgotten where it began."""
    return int(np.ceil(2.0 / smoothing))


@compiled
def near(x: float) -> float:
    return min(max(x, -FARTHEST), FARTHEST)


@compiled
def deviation(mean: float, square: float, rows: int) -> float:
    """square: sum of squares of deviations."""
    return max(np.sqrt(square / rows), NO_SPREAD, NO_SPREAD_RELATIVE * abs(mean))


@compiled
def cut_gap(x: float, mean: float, square: float, rows: int) -> float:
    """x - mean while the scale is learned, cut at CLIP deviations; rows: with x."""
    gap, far = near(x) - mean, CLIP * np.sqrt(square / max(rows - 1, 1))
    return min(max(gap, -far), far) if rows > CLIP_FROM and far > 0.0 else gap


@compiled
def keep(kept: Array, held: int, step: int, learned: int, first: int, values: Array) -> int:
    """Keep the values of this row, if it is its turn; gives how many are kept. kept (ROOM + 1, ...)."""
    if learned % step or learned <= first:
        return held
    for i in range(values.size):
        kept[held, i] = min(max(values[i], -LARGEST), LARGEST)
    return held + 1


@compiled
def leave_out_wild(kept, held, smoothing, count, i, mean, square, smooth):
    """Mean, sum of squares and average without a few wild values of the first rows, as `charts` leaves them out.

    The newest rows are in the averages that are kept, if these are of every row. count: rows with the newest; i: of kept.
    """
    part, squares, rounding = 0.0, 0.0, 0.0
    if count % CLIP_FROM or not CLIP_FROM < count <= EARLY * CLIP_FROM or held <= CLIP_FROM:
        return mean, square, smooth
    for m in range(held - CLIP_FROM, held):
        x, rows = kept[m - 1, i] + (kept[m, i] - kept[m - 1, i]) / smoothing, m - held + CLIP_FROM + 1
        gap = x - part
        part += gap / rows
        squares += gap * gap * ((rows - 1.0) / rows)
        rounding += (FLOAT32 * kept[m - 1, i] / smoothing) ** 2
    if squares <= rounding:  # the column stands: a spread so small would cut what it does later
        return mean, square, smooth
    if not lagged_rls.few_are_wild(CLIP, squares / CLIP_FROM, square / count, part - mean, count):
        return mean, square, smooth
    last, smooth = part, part
    for m in range(held):
        x, last = last + (kept[m, i] - last) / smoothing, kept[m, i]
        smooth += smoothing * (x - smooth) if m >= held - CLIP_FROM else 0.0
        kept[m, i] = smooth
    return part, squares * (count / CLIP_FROM), smooth


@compiled
def thin(kept: Array, held: int, step: int, first: int) -> int:
    """Every second one leaves: those stay that a step twice as long would have kept; gives how many."""
    at, stay = first // step + 1, 0  # the first one's row is at * step
    for i in range(held):
        if (at + i) % 2 == 0:
            for j in range(kept.shape[1]):
                kept[stay, j] = kept[i, j]
            stay += 1
    return stay


@compiled
def limit_of(
    values: Array, rows_each: float, memory: float, rows_between: float, most: int, maxima: Array
) -> tuple[float, int]:
    """What is exceeded once in rows_between rows, and by how many blocks that is known; 0 of them: it is a guess.

    values (m,) with m of 1 or more: averages kept one behind the other, each for rows_each rows; memory: rows that an
    average goes back, and a block has at least; most: that n counts, so that the tail of the law stays heavier than an
    exponential one; maxima (m,) is room.
    """
    length = 1
    while values.size // (2 * length) >= BLOCKS or (length * rows_each < memory and 2 * length <= values.size):
        length *= 2
    blocks, correlation = 0, 0.0
    while True:
        blocks = values.size // length
        first = values.size - blocks * length
        for b in range(blocks):
            maxima[b] = -np.inf
            for i in range(first + b * length, first + (b + 1) * length):
                maxima[b] = max(maxima[b], values[i])
        correlation = _correlation(maxima[:blocks])
        if correlation <= CORRELATED + 1.0 / np.sqrt(blocks) or blocks < 2 * FEWEST_BLOCKS:
            break
        length *= 2
    ordered = maxima[:blocks]
    for b in range(1, blocks):
        at, value = b, ordered[b]
        while at > 0 and ordered[at - 1] > value:
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = value
    level, excess, above = 0.5 * (ordered[(blocks - 1) // 2] + ordered[blocks // 2]), 0.0, 0
    for b in range(blocks):
        if ordered[b] > level:
            excess += ordered[b] - level
            above += 1
    known = blocks >= LEAST_BLOCKS and correlation <= CORRELATED + 1.0 / np.sqrt(blocks)
    if above == 0:
        return level, blocks if known else 0
    often = max(0.5 * rows_between / (length * rows_each), 1.0)
    counted = min(above, most)
    return level + excess / above * counted * (often ** (1.0 / counted) - 1.0), blocks if known else 0


@compiled
def memory_of(kept: Array, held: int, column: int, spread: float, rows: int) -> float:
    """Rows that tell as much of a column's mean as one independent row would: by the means of BATCHES parts; 1 or more."""
    mean, square = 0.0, 0.0
    for b in range(BATCHES):
        begin, end, part = b * held // BATCHES, (b + 1) * held // BATCHES, 0.0
        for m in range(begin, end):
            part += (kept[m, column] - kept[0, column]) / (end - begin)
        mean += part / BATCHES
        square += part * part / BATCHES
    variance = max(square - mean * mean, 0.0) * BATCHES / (BATCHES - 1.0)
    return max(1.0, variance / (spread * spread) * rows / BATCHES)


@compiled
def widened(independent: float, columns: float) -> float:
    """Squared lengths of rows to come, to those of the rows that mean and whitener were learned from."""
    return (independent + 1.0) / max(independent - columns - 2.0, 0.25 * independent)


@compiled
def _correlation(values: Array) -> float:
    """Of neighbours."""
    mean, square, product = 0.0, 0.0, 0.0
    for i in range(values.size):
        mean += values[i] / values.size
    for i in range(values.size):
        square += (values[i] - mean) ** 2
        if i:
            product += (values[i] - mean) * (values[i - 1] - mean)
    return product / square if square > 0.0 else 0.0

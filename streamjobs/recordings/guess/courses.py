"""What the numbers of a column do over time, in one key: stand still, trend, count on, repeat each day, follow another."""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from streamjobs.recordings.arrays import Array

LEAST = 100  # rows of a key, to tell anything
NAMED_KEYS, NAMED_ROWS = 5, 3  # least keys, and rows of each, that show a number which names them
RUNS = 5  # least keys that follow one another
BLOCKS = 10  # parts of a key's rows that are compared
STEPS, BACK, FAR = 50, 0.02, 0.5  # of a counter that starts over: least steps, most of them back, each over half its range
RISING = 0.8  # Kendall's tau of the means of the parts: 0.8 by chance in 1 of 4,000 orders
MOVED = 0.5  # smallest way from the first part to the last, in deviations of the rest
OFTEN = 0.01  # least share of rows at 0, of a field that cannot be below
VARIES = 0.1  # least range of most of a counter's rates, over the usual one: a clock has less
MOST_KEYS = 2 / 3  # of the keys, that show it
SAME = 0.999  # smallest correlation of a field that follows another
TURNS = 360.0, 2 * np.pi  # a whole turn, from 0 or around it
WRAPS, MOST_MOVE, ONE_WAY = 5, 0.25, 0.9  # of an angle: least; most of a turn of usual steps; most of them in one direction
SEAM, NAMED_SEAM = 95, 99  # percentile of the other steps that wraps do not exceed; of a column with an angle's name
SPANS = {"1h": 3600.0, "4h": 14_400.0, "1d": 86_400.0}  # of a level's slopes, seconds
JUMP, OF_SPAN, SPANS_OF = 20.0, 12, 10  # usual changes, of a level's jump; least rows of a span, and spans of a key
STEADY, FAR_APART = 0.5, 4.0  # least median slope over the range of 80 % of them; of levels over that of a span's changes
WAYS = "rises", "falls", "rises and starts over", "falls and starts over"
DAY, DAYS, OF_DAY = 86_400.0, 3, 0.25  # least whole days of a daily cycle; least share of a day's variance
WEEK, WEEKS = 7, 3  # days; least weeks of a weekly rhythm
ALIKE, OF_WEEK = 4.0, 0.6  # of the usual deviation of days alike: farthest two of them; of that of all days, at most
FEW_DAYS = 14  # in more, no random walk of 400 repeated a day's wave by chance
STANDS_OUT = 8.0  # a day's power over that of the periods around it; chosen on random walks and noisy days of seed 1
CODED = 3  # rows that must have a code for a missing number
LIMITS = {-127, -128, 255, 32_767, -32_768, 65_535, 2**31 - 1, -(2**31), 2**32 - 1}  # of a sensor or of an integer
USUAL = {-200, *LIMITS}
_NINES = re.compile(r"-?9{2,}(\.9+)?")


def most(shown: Iterable[bool]) -> bool:
    found = list(shown)
    return bool(found) and sum(found) >= MOST_KEYS * len(found)


def never_negative(values: Array) -> bool:
    """Whether numbers are never below 0, and often there, as counts are."""
    there = values[np.isfinite(values)]
    return len(there) > 0 and bool(there.min() == 0.0 and (there == 0.0).mean() >= OFTEN)


def is_still(values: Array) -> bool:
    there = values[np.isfinite(values)]
    return not len(there) or bool((there == there[0]).all())


def is_name(of_keys: Iterable[Array]) -> bool:
    """Whether each of several keys has one whole number, and no other key has it."""
    there = [one for values in of_keys if len(one := values[np.isfinite(values)]) >= NAMED_ROWS]
    numbers = {float(one[0]) for one in there if is_still(one) and float(one[0]).is_integer()}
    return len(numbers) == len(there) >= NAMED_KEYS


def runs(of_keys: Iterable[Array]) -> int:
    """The median rows of keys that follow one another in time, as experiments on one machine do; 0: they do not, or are few.

    of_keys: (rows, columns) of each, times in the first column.

    >>> [runs([np.arange(9.0)[:, None] + start * key for key in range(RUNS)]) for start in (10, 8)]
    [9, 0]
    """
    spans = sorted((float(key[:, 0].min()), float(key[:, 0].max()), len(key)) for key in of_keys)  # NaN without times
    apart = len(spans) >= RUNS and all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    return int(np.median([rows for _, _, rows in spans])) if apart else 0


def trend(values: Array) -> str | None:
    """Whether the means of equal parts rise or fall all the way, and farther than the values vary around them.

    Else whether they rise step by step and start over now and then, as a counter of 16 bits does, or fall, as a battery.

    >>> trend(np.tile(np.arange(100.0), 3)), trend(np.tile(np.arange(100.0)[::-1], 3))
    ('rises and starts over', 'falls and starts over')
    """
    there = values[np.isfinite(values)]
    if len(there) < LEAST:
        return None
    parts = np.array_split(there, BLOCKS)
    means = np.array([part.mean() for part in parts])
    later, earlier = np.triu_indices(BLOCKS, 1)[::-1]
    tau = np.sign(means[later] - means[earlier]).mean()
    spread = np.sqrt(np.mean([part.var() for part in parts]))
    if abs(tau) >= RISING and abs(means[-1] - means[0]) >= MOVED * spread:
        return WAYS[0] if tau > 0 else WAYS[1]
    if _starts_over(there):
        return WAYS[2]
    return WAYS[3] if _starts_over(-there) else None


def _starts_over(there: Array) -> bool:
    """Whether numbers rise step by step, and far back now and then."""
    steps = np.diff(there)
    back, seldom = -steps[steps < 0], BACK * np.count_nonzero(steps)
    return bool(np.count_nonzero(steps) >= STEPS and 0 < len(back) <= seldom and back.min() >= FAR * np.ptp(there))


def rates_of(times: Array, readings: Array) -> Array | None:
    """What readings rose by, a second, NaN where it is not known; None where they fall, or always rise by the same."""
    there = np.flatnonzero(np.isfinite(readings))
    steps, pauses, rates = np.diff(readings[there]), np.diff(times[there]), np.full(len(readings), np.nan)
    if np.count_nonzero(steps) < STEPS or readings[there].min() < 0:
        return None
    if steps.min() < 0 and not _starts_over(readings[there]):
        return None
    known = pauses > 0
    if not known.any():
        return None
    rates[there[1:][known]] = np.where(steps < 0, readings[there[1:]], steps)[known] / pauses[known]
    low, middle, high = np.nanpercentile(rates, (5, 50, 95))
    return rates if high - low > VARIES * middle else None


def slopes_of(times: Array, levels: Array) -> tuple[str, Array] | None:
    """The shortest span over which a level falls, or rises, nearly all the time, but for jumps, as of a battery or a tank.

    Also the slopes a second over spans that end with each row, NaN where they are not known.

    >>> times = 600.0 * np.arange(3000)
    >>> levels = 100 - times / 10_000 % 80 + np.random.default_rng(0).normal(size=3000)
    >>> span, slopes = slopes_of(times, levels)
    >>> span, round(float(np.nanmedian(slopes)), 6)
    ('1d', -0.0001)
    """
    there = np.flatnonzero(np.isfinite(times) & np.isfinite(levels))
    at, slopes = times[there], np.full(len(levels), np.nan)
    steps = np.diff(levels[there])
    if np.count_nonzero(steps) < STEPS or (pauses := np.diff(at)).min() < 0:
        return None
    steps[np.abs(steps) > JUMP * np.median(np.abs(steps[steps != 0]))] = 0.0
    course, far = np.cumsum([0.0, *steps]), _range(levels[there])
    for name, span in SPANS.items():
        if not OF_SPAN * np.median(pauses) <= span <= (at[-1] - at[0]) / SPANS_OF:
            continue
        before = np.searchsorted(at, at - span, side="right") - 1
        known = before >= 0
        slopes[there] = np.where(known, (course - course[before]) / np.maximum(at - at[before], span), np.nan)
        of_known = slopes[there][known]
        usual, apart = abs(np.median(of_known)), _range(of_known - _of_time_of_day(at[known], of_known))
        if VARIES * usual < apart < usual / STEADY and far > FAR_APART * span * apart:
            return name, slopes
    return None


def _range(values: Array) -> float:
    return float(np.subtract(*np.percentile(values, (90, 10))))


def _of_time_of_day(times: Array, values: Array) -> Array:
    """The mean at its hour of the day of each value, where values repeat each day; else 0."""
    if not is_daily(times, values):
        return np.zeros(len(values))
    hours = (times % DAY / 3600).astype(np.int64)
    return (np.bincount(hours, values) / np.maximum(np.bincount(hours), 1))[hours]  # type: ignore[no-any-return]


def turn_of(of_keys: Iterable[Array], named: bool) -> float | None:
    """How much a whole turn of an angle is: its values wrap, by steps that are usual for it, in both directions.

    named: the column has an angle's name. A counter or a clock moves in one direction, and a switch jumps farther than it
    moves elsewhere: neither is an angle.
    """
    there = [values[np.isfinite(values)] for values in of_keys]
    low, high = min(one.min(initial=np.inf) for one in there), max(one.max(initial=-np.inf) for one in there)
    steps = np.concatenate([np.diff(one) for one in there])
    for turn in TURNS:
        start = 0.0 if low >= 0 else -turn / 2
        if low < start or high > start + turn:
            continue
        around = (steps + turn / 2) % turn - turn / 2
        wraps, moves = np.abs(steps) > turn / 2, np.abs(around[around != 0])
        usual = np.abs(steps[~wraps & (steps != 0)])
        if np.count_nonzero(wraps) < WRAPS or len(usual) < STEPS or np.percentile(moves, 90) > MOST_MOVE * turn:
            continue
        near = np.median(np.abs(around[wraps])) <= np.percentile(usual, NAMED_SEAM if named else SEAM)
        if near and 1 - ONE_WAY <= (around > 0).sum() / len(moves) <= ONE_WAY:
            return turn
    return None


def is_daily(times: Array, values: Array) -> bool:
    """Whether a sine of a day, with its double, as on other days, explains a share of the variance of most days."""
    there = np.isfinite(times) & np.isfinite(values)
    times, values = times[there] - times[there].min(initial=np.inf), values[there]
    days = int(np.max(times, initial=0.0) / DAY + OF_DAY) if len(times) >= LEAST else 0
    if days < DAYS:
        return False
    number = np.minimum((times / DAY).astype(np.int64), days - 1)
    counts = np.maximum(np.bincount(number, minlength=days), 1)
    present = np.flatnonzero(np.bincount(number, minlength=days))
    levels = (np.bincount(number, values, days) / counts)[present]
    # a ramp over many days, such as of a battery, resembles a wave in each day
    values = values - times / DAY * np.median(np.diff(levels) / np.diff(present))
    angles = 2 * np.pi / DAY * times
    columns = [values, *(wave(n * angles) for n in (1, 2) for wave in (np.sin, np.cos))]
    within = [
        column - (np.bincount(number, column, days) / counts)[number] for column in columns
    ]  # without the level of each day
    waves = np.stack(within[1:], axis=1)
    rest = within[0].copy()
    for odd in (0, 1):  # every second day by the others
        others = number % 2 != odd
        rest[~others] -= waves[~others] @ np.linalg.lstsq(waves[others], within[0][others], rcond=None)[0]
    left, all_of = (np.bincount(number, one**2, days) for one in (rest, within[0]))
    repeats = most((left < (1 - OF_DAY) * all_of)[np.bincount(number, minlength=days) > 1])
    return repeats and (days > FEW_DAYS or _stands_out(times, values, days))


def week_of(times: Array, values: Array) -> str:
    """A letter for each day from Monday on, the same for days that are alike; "" without a weekly rhythm.

    An hour of a day is compared with those of the other weeks.

    >>> times = 3600.0 * np.arange(28 * 24)  # 1970 began with a Thursday
    >>> week_of(times, np.where(np.isin(times // 86_400 % 7, (2, 3)), 1.0, 5.0))
    'aaaaabb'
    """
    there = np.isfinite(times) & np.isfinite(values)
    hours = np.floor(times[there] / (DAY / 24)).astype(np.int64)
    first = hours.min(initial=np.iinfo(np.int64).max) // 24
    days = int(hours.max(initial=0) // 24 - first + 1) if len(hours) >= LEAST else 0
    if not WEEK * WEEKS <= days <= len(hours):
        return ""
    counts, sums = (np.bincount(hours - 24 * first, of, 24 * days) for of in (None, values[there]))
    means = np.divide(sums, counts, out=np.full(24 * days, np.nan), where=counts > 0).reshape(days, 24)
    weekday = (np.arange(days) + first + 3) % WEEK
    of_days = [means[weekday == day] for day in range(WEEK)]
    present = np.all([np.isfinite(one).sum(axis=0) > 1 for one in of_days], axis=0)  # hours that another week has too
    if not present.any():
        return ""
    usual = np.array([np.nanmedian(one[:, present], axis=0) for one in of_days])
    means, number = means[:, present], np.arange(days)
    of_others = [np.nanmedian(means[(weekday == weekday[n]) & (number != n)], axis=0) for n in number]
    if not np.nanmean(np.abs(means - of_others)) < OF_WEEK * np.nanmean(np.abs(means - np.nanmedian(means, axis=0))):
        return ""
    left = np.nanmean(np.abs(means - usual[weekday]))
    kinds: list[int] = []  # the first day of each
    letters = ""
    for day in range(WEEK):
        kind = next((n for n, one in enumerate(kinds) if np.abs(usual[day] - usual[one]).mean() <= ALIKE * left), len(kinds))
        kinds += [day] if kind == len(kinds) else []
        letters += "abcdefg"[kind]
    return letters if len(kinds) > 1 else ""


def _stands_out(times: Array, values: Array, days: int) -> bool:
    """Whether a day, or half of one, has far more power than the periods around it: a random walk has waves of all periods.

    The power is that of the differences. The usual one is the geometric mean of the powers around, so that any spectrum
    that falls as a power of the frequency, from noise to a random walk, gives about 1.
    """
    order = np.argsort(times, kind="stable")
    times, values = times[order][times[order] < days * DAY], values[order][times[order] < days * DAY]
    pauses, moves = np.diff(times), np.diff(values)
    moves -= pauses * (moves.sum() / pauses.sum())
    middle = (times[1:] + times[:-1]) / 2
    for harmonic in (days, 2 * days):  # waves in all days
        waves = np.arange(harmonic - 2 * days // 3, harmonic + 2 * days // 3 + 1)
        power = np.array([abs(np.exp(-2j * np.pi * wave / (days * DAY) * middle) @ moves) ** 2 for wave in waves])
        usual = np.exp(np.log(np.maximum(power[waves != harmonic], np.finfo(float).tiny)).mean())
        if power[waves == harmonic][0] > STANDS_OUT * usual:
            return True
    return False


def unit_of(numbers: Array) -> Array | None:
    """The columns with mean 0 and length 1, or 0 where they never change; None where a number is missing."""
    if not np.isfinite(numbers).all():
        return None
    apart = numbers - numbers.mean(axis=0)
    length = np.linalg.norm(apart, axis=0)
    return apart / np.where(length > 0, length, np.inf)  # type: ignore[no-any-return]


def same(numbers: Array, unit: Array | None, earlier: Sequence[int], n: int) -> list[bool]:
    """Whether column n has the course of each earlier one. unit: as `unit_of` gives, which compares thousands at once."""
    if unit is None:
        return [_is_same(numbers[:, m], numbers[:, n]) for m in earlier]
    return (np.abs(unit[:, earlier].T @ unit[:, n]) >= SAME).tolist()  # type: ignore[no-any-return]


def _is_same(first: Array, second: Array) -> bool:
    there = np.isfinite(first) & np.isfinite(second)
    first, second = first[there], second[there]
    if len(first) < LEAST or not first.std() or not second.std():
        return False
    return bool(abs(np.corrcoef(first, second)[0, 1]) >= SAME)


def codes_of(values: Array) -> list[float]:
    """Codes among a field's numbers. values: (rows,), NaN where there is none.

    A code is the smallest or the largest number, several rows have exactly it, and it is written as people write codes:
    nines, or the limit of a device. It is farther from the other numbers than these are from one another, or the only one
    below 0.

    >>> there = np.arange(200.0) % 31
    >>> [codes_of(np.append(there, [code] * 4)) for code in (-99.0, 9999.0, 31.0, 0.0)]
    [[-99.0], [9999.0], [], []]
    """
    rest, codes = values[np.isfinite(values)], list[float]()
    while len(rest):
        ends = (float(rest.min()), rest > rest.min()), (float(rest.max()), rest < rest.max())
        found = next((code for code, others in ends if _is_code(code, rest[others], len(rest))), None)
        if found is None:
            break
        codes.append(found)
        rest = rest[rest != found]
    return codes


def _is_code(number: float, others: Array, rows: int) -> bool:
    if rows - len(others) < CODED or len(others) < LEAST or not (number in USUAL or _NINES.fullmatch(f"{number:.10g}")):
        return False
    least, most = others.min(), others.max()
    return bool(number < 0 <= least or max(least - number, number - most) > most - least > 0)

"""The drift detectors on plain lists, as their definitions read. Each gives (n, 4): statistic, alarm, before, after."""

import numpy as np

from algorithms.common.protocol import Array


def page_hinkley(values: Array, *, delta: float, threshold: float, min_between: int) -> Array:
    """m_T - min m_t of the rows since the last alarm, from all of them, every time (forget = 1)."""
    rows, since = [], []
    for x in values:
        since.append(x)
        means = [np.mean(since[: t + 1]) for t in range(len(since))]
        sums = np.concatenate([[0.0], np.cumsum([x - mean - delta for x, mean in zip(since, means, strict=True)])])
        lowest = len(sums) - 1 - int(np.argmin(sums[::-1]))  # the last row at which the sum was at its lowest
        statistic = sums[-1] - sums[lowest]
        before = np.mean(since[:lowest]) if lowest else 0.0
        after = np.mean(since[lowest:]) if lowest < len(since) else np.nan
        alarm = statistic > threshold and len(since) >= min_between
        rows.append((statistic, float(alarm), before, after))
        if alarm:
            since = []
    return np.array(rows)


def adwin(values: Array, *, confidence: float, per_size: int = 5, least: int = 5) -> Array:
    """The exponential histogram with the numbers themselves in its buckets, oldest first."""
    rows, buckets = [], []
    for x in values:
        buckets.append([x])
        ratio, at, before, after = _cut(buckets, confidence, least)
        rows.append((ratio, float(ratio > 1), before, after))
        while ratio > 1:
            buckets = buckets[at:]
            ratio, at, _, _ = _cut(buckets, confidence, least)
        size = 1
        while sum(len(bucket) == size for bucket in buckets) > per_size:
            first = next(i for i, bucket in enumerate(buckets) if len(bucket) == size)
            buckets[first : first + 2] = [buckets[first] + buckets[first + 1]]
            size *= 2
    return np.array(rows)


def _cut(buckets: list[list[float]], confidence: float, least: int) -> tuple[float, int, float, float]:
    """Largest |difference of means| / bound, how many buckets lie before that cut, and the two means."""
    largest = (np.nan, 0, np.nan, np.nan)
    for at in range(1, len(buckets)):
        older, newer = np.concatenate(buckets[:at]), np.concatenate(buckets[at:])
        if len(older) < least or len(newer) < least:
            continue
        both = np.concatenate([older, newer])
        harmonic = 1 / (1 / len(older) + 1 / len(newer))
        surprise = np.log(2 * np.log(len(both)) / confidence)
        bound = np.sqrt(2 / harmonic * both.var() * surprise) + 2 / (3 * harmonic) * surprise
        ratio = abs(older.mean() - newer.mean()) / bound
        if not ratio <= largest[0]:
            largest = (ratio, at, older.mean(), newer.mean())
    return largest


def window_ratio(values: Array, *, short: int, long: int, ratio: float, floor: float) -> Array:
    """The last `short` rows against the up to `long` before them."""
    rows, recent = [], []
    for x in values:
        recent.append(x)
        if len(recent) < short + min(2 * short, long):
            rows.append((np.nan, 0.0, np.nan, np.nan))
            continue
        before, after = np.mean(recent[:-short][-long:]), np.mean(recent[-short:])
        statistic = (after + floor) / (before + floor)
        rows.append((statistic, float(statistic > ratio), before, after))
        if statistic > ratio:
            recent = recent[-short:]
    return np.array(rows)

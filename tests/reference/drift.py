"""The drift detectors on plain lists, as their definitions read. Each gives (n, 4): statistic, alarm, before, after."""

from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms.common.protocol import Array

MEMORY = 1000  # rows that a scale goes back


def in_deviations(values: Array, *, deviations: float, centred: bool) -> tuple[Array, Array, Array]:
    """Values in deviations of those before each, the zero and the size of the unit, by the weights of every row."""
    scaled, zeros, sizes = np.zeros(len(values)), np.zeros(len(values)), np.zeros(len(values))
    for n, x in enumerate(values):
        rates = np.maximum(1 / np.arange(1, n + 1), 1 / MEMORY)
        weights = rates * np.r_[np.cumprod(1 - rates[:0:-1])[::-1], np.ones(min(n, 1))]  # of each row, faded since
        mean = weights @ values[:n]
        deviation = np.sqrt(weights @ (values[:n] - mean) ** 2)
        zeros[n], sizes[n] = mean if centred else 0.0, deviations * deviation
        scaled[n] = (x - zeros[n]) / sizes[n] if deviation > 1e-12 else 0.0
    return scaled, zeros, sizes


def _standardised(detector: Callable[..., Array], values: Array, deviations: float, centred: bool, **settings: Any) -> Array:
    scaled, zeros, sizes = in_deviations(values, deviations=deviations, centred=centred)
    rows = detector(scaled, **settings)
    rows[:, 2:] = zeros[:, None] + sizes[:, None] * rows[:, 2:]
    return rows


def page_hinkley(
    values: Array, *, delta: float, threshold: float, min_between: int, min_rows: int = 0, standardise: bool = False
) -> Array:
    """m_T - min m_t of the rows since the last alarm, from all of them, every time (forget = 1)."""
    settings = {"delta": delta, "threshold": threshold, "min_between": min_between, "min_rows": min_rows}
    if standardise:
        return _standardised(page_hinkley, values, 1.0, True, **settings)
    rows, since = [], []
    for n, x in enumerate(values):
        since.append(x)
        if n < min_rows:
            rows.append((0.0, 0.0, np.mean(since), np.nan))
            continue
        means = [np.mean(since[: t + 1]) for t in range(len(since))]
        excesses = [x - mean - delta for x, mean in zip(since, means, strict=True)]
        taught = max(0, min_rows - (n + 1 - len(since)))  # of these rows: nothing adds up over them
        sums = np.concatenate([np.zeros(taught + 1), np.cumsum(excesses[taught:])])
        lowest = len(sums) - 1 - int(np.argmin(sums[::-1]))  # the last row at which the sum was at its lowest
        statistic = sums[-1] - sums[lowest]
        before = np.mean(since[:lowest]) if lowest else 0.0
        after = np.mean(since[lowest:]) if lowest < len(since) else np.nan
        alarm = statistic > threshold and len(since) >= min_between
        rows.append((statistic, float(alarm), before, after))
        if alarm:
            since = []
    return np.array(rows)


def adwin(
    values: Array, *, confidence: float, per_size: int = 5, least: int = 5, min_rows: int = 0, standardise: bool = False
) -> Array:
    """The exponential histogram with the numbers themselves in its buckets, oldest first."""
    if standardise:
        return _standardised(adwin, values, 6.0, True, confidence=confidence, min_rows=min_rows)
    rows, buckets = [], []
    for n, x in enumerate(values):
        buckets.append([x])
        ratio, at, before, after = _cut(buckets, confidence, least)
        rows.append((ratio, float(ratio > 1 and n >= min_rows), before, after))
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


def window_ratio(
    values: Array, *, short: int, long: int, ratio: float, floor: float, min_rows: int = 0, standardise: bool = False
) -> Array:
    """The last `short` rows against the up to `long` before them."""
    settings = {"short": short, "long": long, "ratio": ratio, "floor": floor, "min_rows": min_rows}
    if standardise:
        return _standardised(window_ratio, values, 1.0, False, **settings)
    rows, recent = [], []
    for n, x in enumerate(values):
        recent.append(x)
        if len(recent) < short + min(2 * short, long):
            rows.append((np.nan, 0.0, np.nan, np.nan))
            continue
        before, after = np.mean(recent[:-short][-long:]), np.mean(recent[-short:])
        statistic = (after + floor) / (before + floor)
        alarm = statistic > ratio and n >= min_rows
        rows.append((statistic, float(alarm), before, after))
        if alarm:
            recent = recent[-short:]
    return np.array(rows)

"""What a window of raw signals is described by: 8 numbers per channel ("simple").

Chosen on wrist and pocket recordings, one person left out, from 32 candidates: with a linear head these 8 are within
.01 of all 32. Quartiles are relative to the mean; `echo_*` is the autocorrelation at that lag, 0 for a flat channel.
Cost: about 4 us per channel of 100 samples.
"""

import math

import numpy as np

from algorithms.common.compiled import compiled

KINDS = ("simple",)
LAGS = (0.08, 0.16, 0.5)  # seconds
SIMPLE = ("mean", "log_sd", "log_jerk", "lower_quartile", "upper_quartile", "echo_80ms", "echo_160ms", "echo_500ms")
PER_CHANNEL = len(SIMPLE)
FLOOR = 1e-3  # added inside logarithms, in units of the channel: an idle sensor is not an outlier


def names(fields: list[str]) -> list[str]:
    """Names of a window's features, channel by channel: "ax_mean", "ax_log_sd", ..."""
    return [f"{field}_{statistic}" for field in fields for statistic in SIMPLE]


@compiled
def simple(windows, counts, rate, out):
    """Statistics of k windows: samples (k, room, dim), of which counts (k,) >= 2 are used, into out (k, 8 dim)."""
    scratch = np.empty(windows.shape[1])
    for k in range(len(windows)):
        _of_window(windows[k], counts[k], rate, out[k], scratch)


@compiled
def _of_window(X, count, rate, out, scratch):
    for channel in range(X.shape[1]):
        at = PER_CHANNEL * channel
        mean = 0.0
        for i in range(count):
            mean += X[i, channel]
        mean /= count
        variance, jerk = 0.0, 0.0
        for i in range(count):
            scratch[i] = X[i, channel] - mean
            variance += scratch[i] * scratch[i]
            if i > 0:
                jerk += abs(scratch[i] - scratch[i - 1])
        flat = 1e-10 * mean  # rounding of the mean alone
        if variance <= count * flat * flat:
            variance = 0.0
        out[at] = mean
        out[at + 1] = math.log(math.sqrt(variance / count) + FLOOR)
        out[at + 2] = math.log(jerk / (count - 1) + FLOOR)
        for lag in range(len(LAGS)):
            out[at + 5 + lag] = _echo(scratch, count, LAGS[lag] * rate, variance)
        _sort(scratch, count)
        out[at + 3] = _quantile(scratch, count, 0.25)
        out[at + 4] = _quantile(scratch, count, 0.75)


@compiled
def _echo(centred, count, lag, variance):
    gap = max(1, int(lag + 0.5))
    total = 0.0
    for i in range(gap, count):
        total += centred[i] * centred[i - gap]
    return total / variance if variance > 0.0 else 0.0


@compiled
def _quantile(ordered, count, share):
    place = share * (count - 1)
    below = int(place)
    if below + 1 == count:
        return ordered[below]
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


@compiled
def _sort(values, count):
    """Ascending, in place (Shell's sort, each gap a third of the one before)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, count):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3

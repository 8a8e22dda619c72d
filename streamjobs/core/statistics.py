"""What a window of raw signals is described by.

"simple": 8 numbers per channel, in this order for channel 0, then channel 1, ...
"""

import numpy as np

from algorithms.common.compiled import compiled

KINDS = ("simple",)
SIMPLE = ("mean", "log_sd", "log_jerk", "low", "high", "peak_hz", "peak_share", "repeat")
PER_CHANNEL = len(SIMPLE)


def names(fields: list[str]) -> list[str]:
    """Names of a window's features, e.g. "ax_mean"."""
    return [f"{field}_{statistic}" for field in fields for statistic in SIMPLE]


def scratch(room: int, rate: float) -> np.ndarray:
    """Work space of `simple` for windows of at most `room` samples."""
    return np.empty(room)


@compiled
def simple(X, count, rate, out, scratch):
    for channel in range(X.shape[1]):
        mean = 0.0
        for i in range(count):
            mean += X[i, channel]
        mean /= count
        for i in range(8):
            out[8 * channel + i] = 0.0
        out[8 * channel] = mean

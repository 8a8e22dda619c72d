"""What a window of raw signals is described by: a set of numbers per channel, and how they are named.

simple   8 numbers per channel: 48 for six axes.
rich     14 per channel, and of every triple of channels (three axes of a sensor: the 1st to 3rd field, the 4th to 6th,
         ...) the 3 correlations of its axes and 5 numbers of its norm: 100 for six axes. A channel left over is in no
         triple.
gravity  for a sensor mounted any way round: the first triple must be acceleration with gravity. The window's mean
         acceleration is the vertical; every triple gives its vertical component, its horizontal magnitude and its norm,
         14 numbers each, and correlations of these (5 for two triples): 89 for six axes. Turning the sensor changes
         nothing; a channel left over is taken as it is.
rich+gravity  the numbers of rich, then those of gravity: 189 for six axes. A linear head can use both.

Quantiles are relative to the mean. `frequency` is the strongest from 0.4 to 10 Hz, `share` about the part of the variance
that a sine of it explains, `echo` the highest autocorrelation after it first fell below 0 (how periodic a signal is).
Bands are the effective value of what lies between their frequencies. A flat channel has 0 for all of these but the bands.
Samples count as evenly spaced, at the declared rate; one that is missing shortens the window.
"""

import functools

from algorithms.common.protocol import Array
from streamjobs.stages.statistics import loops
from streamjobs.stages.statistics.loops import SIMPLE

BOTH = "rich+gravity"
KINDS = ("simple", "rich", "gravity", BOTH)
RICH = (
    *("mean", "log_sd", "log_jerk", "quantile_5", "lower_quartile", "upper_quartile", "quantile_95"),
    *("frequency", "share", "echo", "log_below_1hz", "log_1_2hz", "log_2_4hz", "log_4_10hz"),
)
NORM = ("mean", "log_sd", "log_jerk", "lower_quartile", "upper_quartile")
ALIGNED = ("vertical", "horizontal", "norm")
CONVOLVED = 17, 1000  # samples of a window that convolutions can be made of, at least and at most


def least_channels(kind: str) -> int:
    """How many channels a window must have: for gravity those of the acceleration."""
    return 3 if kind.endswith("gravity") else 1


@functools.cache
def width(kind: str, dim: int) -> int:
    """How many numbers describe a window of `dim` channels.

    >>> width("simple", 6), width("rich", 6), width("gravity", 6), width("gravity", 3)
    (48, 100, 89, 43)
    """
    if kind == BOTH:
        return width("rich", dim) + width("gravity", dim)
    triples = dim // 3
    if kind == "simple":
        return len(SIMPLE) * dim
    if kind == "rich":
        return len(RICH) * dim + (3 + len(NORM)) * triples
    return len(RICH) * dim + 4 * triples - 3


def names(fields: list[str], kind: str = "simple") -> list[str]:
    """Names of a window's features, in order: "ax_mean", "ax_log_sd", ...

    >>> names(["ax", "ay", "az"], "rich")[42:46]
    ['ax_ay_correlation', 'ax_az_correlation', 'ay_az_correlation', 'ax_ay_az_norm_mean']
    """
    if kind == BOTH:
        return names(fields, "rich") + [f"gravity_{name}" for name in names(fields, "gravity")]
    triples = [tuple(fields[at : at + 3]) for at in range(0, len(fields) - 2, 3)]
    if kind == "simple":
        return [f"{field}_{statistic}" for field in fields for statistic in SIMPLE]
    if kind == "rich":
        found = [f"{field}_{statistic}" for field in fields for statistic in RICH]
        for a, b, c in triples:
            found += [f"{one}_{other}_correlation" for one, other in ((a, b), (a, c), (b, c))]
        return found + [f"{a}_{b}_{c}_norm_{statistic}" for a, b, c in triples for statistic in NORM]
    sensors = ["_".join(triple) for triple in triples]
    signals = [f"{sensor}_{part}" for sensor in sensors for part in ALIGNED] + fields[3 * len(triples) :]
    found = [f"{signal}_{statistic}" for signal in signals for statistic in RICH]
    first = sensors[0]
    for sensor in sensors:
        found.append(f"{sensor}_vertical_horizontal_correlation")
        if sensor != first:
            pairs = (("vertical", "vertical"), ("vertical", "horizontal"), ("horizontal", "horizontal"))
            found += [f"{first}_{one}_{sensor}_{other}_correlation" for one, other in pairs]
    return found


def describe(kind: str, windows: Array, counts: Array, rate: float, out: Array) -> None:
    """Statistics of k windows: samples (k, room, dim), of which counts (k,) >= 2 are used, into out (k, width or more)."""
    if kind == "simple":
        loops.simple(windows, counts, rate, out)
        return
    first, scratch = 0, loops.scratch(*windows.shape[1:])
    for part in kind.split("+"):
        loop = loops.rich if part == "rich" else loops.gravity
        loop(windows, counts, rate, out, first, scratch)
        first += width(part, windows.shape[2])

"""The compiled loops behind the statistics of a window; `streamjobs.stages.statistics` says what the numbers are.

The 8 simple ones were chosen on wrist and pocket recordings, one person left out, from 32 candidates: with a linear head
they are within .01 of all 32 (about 4 us per channel of 100 samples). The 14 of `rich` and `gravity` add what a map learned
from many people can use. Spectrum and autocorrelation of two signals at a time go through one complex Fourier transform,
so a long window costs n log n. Nothing overflows for samples up to 1e150 (simple) or 1e300 (the others).
"""

import functools
import math
from typing import Any

import numpy as np

from algorithms.common.compiled import compiled, compiled_in_place
from algorithms.common.protocol import Array

LAGS = (0.08, 0.16, 0.5)  # seconds
SIMPLE = ("mean", "log_sd", "log_jerk", "lower_quartile", "upper_quartile", "echo_80ms", "echo_160ms", "echo_500ms")
PER_CHANNEL = len(SIMPLE)
FLOOR = 1e-3  # added inside logarithms, in units of the channel: an idle sensor is not an outlier
PER_SIGNAL = 14  # numbers of the rich set
BANDS = (0.4, 1.0, 2.0, 4.0, 10.0)  # Hz, edges
FEW = 256  # samples for which counting those below each is faster than sorting
ROUNDING = 1e-10  # a standard deviation up to this share of the signal's size counts as none


@compiled
def simple(windows, counts, rate, out):
    """Statistics of k windows: samples (k, room, dim), of which counts (k,) >= 2 are used, into out (k, 8 dim or more)."""
    scratch, room, taken = np.empty(windows.shape[1]), np.empty(windows.shape[1]), np.empty(windows.shape[1], np.int64)
    for k in range(len(windows)):
        _of_window(windows[k], counts[k], rate, out[k], scratch, room, taken)


@compiled_in_place
def _of_window(X, count, rate, out, scratch, room, taken):
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
            for i in range(count):
                scratch[i] = 0.0
        out[at] = mean
        out[at + 1] = math.log(math.sqrt(variance / count) + FLOOR)
        out[at + 2] = math.log(jerk / (count - 1) + FLOOR)
        for lag in range(len(LAGS)):
            out[at + 5 + lag] = _echo(scratch, count, LAGS[lag] * rate, variance)
        _sort(scratch, count, room, taken)
        ordered = room if count <= FEW else scratch
        out[at + 3] = _quantile(ordered, count, 0.25)
        out[at + 4] = _quantile(ordered, count, 0.75)


@compiled_in_place
def _echo(centred, count, lag, variance):
    gap = max(1, int(lag + 0.5))
    total = 0.0
    for i in range(gap, count):
        total += centred[i] * centred[i - gap]
    return total / variance if variance > 0.0 else 0.0


@compiled_in_place
def _quantile(ordered, count, share):
    place = share * (count - 1)
    below = int(place)
    if below + 1 == count:
        return ordered[below]
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


@compiled_in_place
def _sort(values, count, room, taken):
    """The values ascending: few in `room`, more in place (Shell's sort, each gap a third of the one before)."""
    if count <= FEW:
        kept = values[:count]
        for i in range(count):
            taken[i] = 0
            room[i] = np.nan  # where two are NaN, not what another window left
        for value in kept:
            place = np.int64(0)
            for j in range(len(kept)):  # of a view, or the compiler uses no vector instructions
                place += np.int64(kept[j] < value)
            if not np.isnan(value):
                taken[place] += 1
                place += taken[place] - 1  # equal ones in their order
            room[place] = value
        return
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


def scratch(room: int, dim: int) -> tuple[Any, ...]:
    """Room for the signals of a window, and the tables of its transform."""
    size = 4
    while size < room + room // 2:  # lags up to half the samples do not wrap around
        size *= 2
    signals, sizes = np.empty((dim + 1, room)), np.zeros(dim + 1)
    return signals, sizes, np.empty(7), np.empty(room), np.empty((4, size)), _tables(size), np.empty(room, np.int64)


@functools.lru_cache(maxsize=8)
def _tables(size: int) -> tuple[Array, Array, Array]:
    """Twiddles, those of a stage together, and the numbers below `size` with their bits reversed; only ever read."""
    turns_re, turns_im, places = np.ones(size), np.zeros(size), np.zeros(size, np.int64)
    half = 1
    while half < size:
        for j in range(half):
            turns_re[half + j] = math.cos(math.pi * j / half)
            turns_im[half + j] = -math.sin(math.pi * j / half)
            places[half + j] = places[j] + size // (2 * half)
        half *= 2
    return turns_re, turns_im, places


@compiled_in_place
def rich(windows, counts, rate, out, first, scratch):
    """The rich set of k windows, as `simple`, into the columns from `first` on; see `scratch`."""
    dim = windows.shape[2]
    triples = dim // 3
    signals, sizes = scratch[0], scratch[1]
    for k in range(len(windows)):
        count = counts[k]
        for channel in range(dim):
            sizes[channel] = 0.0
            for i in range(count):
                signals[channel, i] = windows[k, i, channel]
        _describe(scratch, dim, count, rate, out, k, first)
        at = first + PER_SIGNAL * dim
        for a in range(0, 3 * triples, 3):
            out[k, at] = _correlation(signals, a, a + 1, count)
            out[k, at + 1] = _correlation(signals, a, a + 2, count)
            out[k, at + 2] = _correlation(signals, a + 1, a + 2, count)
            at += 3
        for a in range(0, 3 * triples, 3):
            for i in range(count):
                signals[dim, i] = _length(windows[k, i, a], windows[k, i, a + 1], windows[k, i, a + 2])
            sizes[dim] = 0.0
            _moments(scratch, dim, count)
            moments = scratch[2]
            out[k, at], out[k, at + 1], out[k, at + 2] = moments[0], moments[1], moments[2]
            out[k, at + 3], out[k, at + 4] = moments[4], moments[5]
            at += 5


@compiled_in_place
def gravity(windows, counts, rate, out, first, scratch):
    """The gravity-aligned set of k windows, as `rich`; at least three channels."""
    dim = windows.shape[2]
    triples = dim // 3
    signals, sizes = scratch[0], scratch[1]
    for k in range(len(windows)):
        count = counts[k]
        gx, gy, gz = 0.0, 0.0, 0.0
        for i in range(count):
            gx += windows[k, i, 0] / count
            gy += windows[k, i, 1] / count
            gz += windows[k, i, 2] / count
        weight = _length(gx, gy, gz)
        for a in range(0, 3 * triples, 3):
            largest = 0.0
            for i in range(count):
                signals[a + 2, i] = _length(windows[k, i, a], windows[k, i, a + 1], windows[k, i, a + 2])
                largest = max(largest, signals[a + 2, i])
            if a == 0:  # without a mean acceleration nothing is vertical
                known = weight > ROUNDING * largest
                gx, gy, gz = (gx / weight, gy / weight, gz / weight) if known else (0.0, 0.0, 0.0)
            for i in range(count):
                x, y, z = windows[k, i, a], windows[k, i, a + 1], windows[k, i, a + 2]
                up = x * gx + y * gy + z * gz
                signals[a, i] = up
                signals[a + 1, i] = _length(x - up * gx, y - up * gy, z - up * gz)
            for part in range(3):
                sizes[a + part] = largest
        for channel in range(3 * triples, dim):
            sizes[channel] = 0.0
            for i in range(count):
                signals[channel, i] = windows[k, i, channel]
        _describe(scratch, dim, count, rate, out, k, first)
        at = first + PER_SIGNAL * dim
        for a in range(0, 3 * triples, 3):
            out[k, at] = _correlation(signals, a, a + 1, count)
            at += 1
            if a > 0:
                out[k, at] = _correlation(signals, 0, a, count)
                out[k, at + 1] = _correlation(signals, 0, a + 1, count)
                out[k, at + 2] = _correlation(signals, 1, a + 1, count)
                at += 3


@compiled_in_place
def _describe(scratch, dim, count, rate, out, k, first):
    """The 14 numbers of each signal into out[k], from `first`; leaves the signals centred and of variance 1 (or 0: flat)."""
    signals, sizes, moments, _, halves, _, _ = scratch
    for signal in range(dim):
        at = first + PER_SIGNAL * signal
        _moments(scratch, signal, count)
        for j in range(7):
            out[k, at + j] = moments[j]
    for i in range(count):
        signals[dim, i] = 0.0  # the partner of the last of an odd number
    for signal in range(0, dim, 2):
        _spectra(scratch, signal, count)
        for part in range(min(2, dim - signal)):
            at = first + PER_SIGNAL * (signal + part)
            _bands(halves, 2 + part, sizes[signal + part], count, rate, out, k, at)
        _autocorrelations(scratch, count)
        for part in range(min(2, dim - signal)):
            peak = _echo_peak(halves, part, count) if sizes[signal + part] > 0.0 else 0.0
            out[k, first + PER_SIGNAL * (signal + part) + 9] = peak


@compiled_in_place
def _moments(scratch, signal, count):
    """Mean, log_sd, log_jerk and four quantiles of a signal; leaves it centred and of variance 1 (or 0: flat).

    `sizes` has the size of what the signal was made from, where its rounding comes from, and then its standard deviation.
    """
    signals, sizes, moments, centred, halves, _, taken = scratch
    mean, largest, jerk = 0.0, 0.0, 0.0
    for i in range(count):
        mean += signals[signal, i]
    mean /= count
    for i in range(count):
        if i > 0:
            jerk += abs(signals[signal, i] - signals[signal, i - 1])
        centred[i] = signals[signal, i] - mean
        largest = max(largest, abs(centred[i]))
    variance = 0.0
    if largest > 0.0:
        for i in range(count):
            signals[signal, i] = centred[i] / largest  # no square overflows
            variance += signals[signal, i] * signals[signal, i]
    unit = math.sqrt(variance / count)
    sd = largest * unit
    if sd <= ROUNDING * max(abs(mean), sizes[signal]):
        sd = 0.0
    for i in range(count):
        signals[signal, i] = signals[signal, i] / unit if sd > 0.0 else 0.0
        centred[i] = centred[i] if sd > 0.0 else 0.0
    _sort(centred, count, halves[0], taken)
    ordered = halves[0] if count <= FEW else centred
    moments[0] = mean if abs(mean) > ROUNDING * sizes[signal] else 0.0
    moments[1] = math.log(sd + FLOOR)
    moments[2] = math.log(jerk / (count - 1) + FLOOR)
    moments[3] = _quantile(ordered, count, 0.05)
    moments[4] = _quantile(ordered, count, 0.25)
    moments[5] = _quantile(ordered, count, 0.75)
    moments[6] = _quantile(ordered, count, 0.95)
    sizes[signal] = sd


@compiled_in_place
def _length(x, y, z):
    largest = max(abs(x), abs(y), abs(z))
    if largest == 0.0:
        return 0.0
    x, y, z = x / largest, y / largest, z / largest
    return largest * math.sqrt(x * x + y * y + z * z)


@compiled_in_place
def _correlation(signals, a, b, count):
    total = 0.0
    for i in range(count):
        total += signals[a, i] * signals[b, i]
    return total / count


@compiled_in_place
def _spectra(scratch, signal, count):
    """Powers of two signals, one the real part and one the imaginary: into rows 2 and 3 of the halves."""
    signals, _, _, _, halves, tables, _ = scratch
    places, size = tables[2], halves.shape[1]
    for i in range(size):
        halves[0, i] = 0.0
        halves[1, i] = 0.0
    for i in range(count):
        halves[0, places[i]] = signals[signal, i]
        halves[1, places[i]] = signals[signal + 1, i]
    _transform(halves, tables)
    for i in range(size):
        j = size - i if i > 0 else 0
        a, b = halves[0, i] + halves[0, j], halves[1, i] - halves[1, j]
        c, d = halves[1, i] + halves[1, j], halves[0, j] - halves[0, i]
        halves[2, i] = 0.25 * (a * a + b * b)
        halves[3, i] = 0.25 * (c * c + d * d)


@compiled_in_place
def _autocorrelations(scratch, count):
    """The transforms of the powers in rows 2 and 3: size * count times the autocorrelations, into rows 0 and 1."""
    halves, tables = scratch[4], scratch[5]
    places = tables[2]
    for i in range(halves.shape[1]):
        halves[0, places[i]] = halves[2, i]
        halves[1, places[i]] = halves[3, i]
    _transform(halves, tables)


@compiled_in_place
def _transform(halves, tables):
    """Fourier transform in place (Cooley-Tukey), its input in bit-reversed order."""
    turns_re, turns_im, _ = tables
    size, half = halves.shape[1], 4
    for a in range(0, size, 4):  # the first two stages, with turns of quarters
        re0, re1 = halves[0, a] + halves[0, a + 1], halves[0, a] - halves[0, a + 1]
        im0, im1 = halves[1, a] + halves[1, a + 1], halves[1, a] - halves[1, a + 1]
        re2, re3 = halves[0, a + 2] + halves[0, a + 3], halves[0, a + 2] - halves[0, a + 3]
        im2, im3 = halves[1, a + 2] + halves[1, a + 3], halves[1, a + 2] - halves[1, a + 3]
        halves[0, a], halves[1, a] = re0 + re2, im0 + im2
        halves[0, a + 1], halves[1, a + 1] = re1 + im3, im1 - re3
        halves[0, a + 2], halves[1, a + 2] = re0 - re2, im0 - im2
        halves[0, a + 3], halves[1, a + 3] = re1 - im3, im1 + re3
    all_re, all_im = halves[0], halves[1]
    while half < size:
        c, s = turns_re[half : 2 * half], turns_im[half : 2 * half]
        for begin in range(0, size, 2 * half):
            middle, end = begin + half, begin + 2 * half
            re_a, im_a = all_re[begin:middle], all_im[begin:middle]  # views: see `_sort`
            re_b, im_b = all_re[middle:end], all_im[middle:end]
            for j in range(half):
                re = re_b[j] * c[j] - im_b[j] * s[j]
                im = re_b[j] * s[j] + im_b[j] * c[j]
                re_b[j] = re_a[j] - re
                im_b[j] = im_a[j] - im
                re_a[j] += re
                im_a[j] += im
        half *= 2


@compiled_in_place
def _bands(halves, row, sd, count, rate, out, k, at):
    """Dominant frequency, its share and the bands' effective values of the spectrum in a row."""
    size = halves.shape[1]
    best, top, j = 0, 0.0, 0
    while j * rate < BANDS[0] * size:
        j += 1
    for band in range(4):
        energy = 0.0
        while 2 * j <= size and j * rate < BANDS[band + 1] * size:
            power = halves[row, j]
            energy += power if 2 * j < size else 0.5 * power
            if power > top:
                best, top = j, power
            j += 1
        out[k, at + 10 + band] = math.log(sd * math.sqrt(2.0 * energy / (size * count)) + FLOOR)
    flat = sd == 0.0  # what its row has then is the rounding of its partner
    out[k, at + 7] = 0.0 if flat else best * rate / size
    out[k, at + 8] = 0.0 if flat else 2.0 * top / (count * count)


@compiled_in_place
def _echo_peak(halves, row, count):
    """Highest autocorrelation after the first below 0, at lags up to half the samples; 0 without one."""
    peak, below = 0.0, False
    for lag in range(1, count // 2 + 1):
        value = halves[row, lag]
        below = below or value < 0.0
        if below and value > peak:
            peak = value
    return peak / halves[row, 0]

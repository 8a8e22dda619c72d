"""Random convolutions of a window's samples: numbers that `fit` learns from a population's windows, the same for all keys.

Each convolution adds a few channels, and weighs nine samples, `dilation` apart, by 2 or -1. Its numbers are the shares of
the window in which it is above a few biases, which are quantiles over windows of the population. The principal components
of all shares over the population's windows are the columns of a row. It keeps no state of a key.

Channels are the window's own and, of every three (a sensor's axes), the part along gravity, across it and the norm, with the
mean of the first three channels as gravity; each scaled by the population.
Source: Dempster, Schmidt, Webb, MiniRocket, KDD 2021 (kernels, dilations, biases). Departures: gravity, dilations
up to an eighth of the window, components in place of the shares.
Cost of a window: O(convolutions samples + shares count).
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

from algorithms.common import eigen
from algorithms.common.compiled import compiled_in_place
from algorithms.common.linalg import add_four
from algorithms.common.protocol import Array, plain
from algorithms.common.randomness import uniform
from streamjobs.stages.stage import check_numbers, halved, lined_up
from streamjobs.stages.statistics import CONVOLVED

TAPS, HEAVY = 9, 3  # samples that a convolution weighs, and those of weight 2; the others have -1
PER_SET = 12  # convolutions that add the same channels
DILATIONS = 5  # most dilations
BIASES = 3  # biases of a convolution
SEED = 34
MOST_WINDOWS = 4000  # most windows of the population that are learned from
MOST_CHANNELS = 1000  # most channels of a window
AT_ONCE = 8  # windows in one product
LOOKED_AT = 128  # windows of the population that biases are quantiles over
FLOOR = 1e-9  # least spread of a channel
WIDE = 32  # numbers that loops process together
GOLDEN = 0.6180339887498949  # multiples of it modulo 1 are spread evenly


class Convolutions(NamedTuple):
    """What a population learned of windows of T samples of `dim` channels, with C channels made of them."""

    centre: Array  # (C,) mean of each channel
    spread: Array  # (C,) its deviation, above 0
    biases: Array  # (convolutions, BIASES)
    mean: Array  # (convolutions * BIASES,) of the shares
    components: Array  # (convolutions * BIASES, count) float32; float64 where an earlier release learned them

    def replaced(self, X: Array, samples: int, dim: int) -> Array:
        """Rows X (n, statistics + samples * dim) with the columns of the convolutions in the place of the samples."""
        out = np.empty((len(X), X.shape[1] - samples * dim + self.components.shape[1]))
        shares = np.empty((min(len(X), AT_ONCE), len(self.mean)))
        _rows(plain(X, np.float64), (samples, dim), plan_of(samples, dim), self, _room(samples, dim), shares, out)
        return out


def channels(dim: int) -> int:
    """Channels that convolutions see of windows of `dim`."""
    return dim + 3 * (dim // 3)


class Plan(NamedTuple):
    """Sets of convolutions that add the same channels at the same dilation."""

    dilation: Array  # (sets,)
    channels: Array  # (sets, C) bool
    beyond: Array  # (sets,) bool: whether they reach beyond the edges of the window, where a sample is 0
    heavy: Array  # (sets, PER_SET, HEAVY) places of the weights of 2


@functools.lru_cache(maxsize=8)
def plan_of(samples: int, dim: int) -> Plan:
    """The convolutions of windows of so many samples."""
    heavy = np.array(list(itertools.combinations(range(TAPS), HEAVY)), np.int64).reshape(PER_SET, -1, HEAVY).swapaxes(0, 1)
    longest, most = (samples - 1) // (TAPS - 1), channels(dim)
    dilations = np.unique((longest ** np.linspace(0, 1, DILATIONS)).round().astype(np.int64))
    sets = len(heavy) * len(dilations)
    chosen = np.zeros((sets, most), np.bool_)
    for n in range(sets):
        some = max(1, int(2 ** (uniform(SEED, 0, n) * np.log2(min(most, TAPS) + 1))))
        order = np.argsort([uniform(SEED, 1, most * n + c) for c in range(most)], kind="stable")
        chosen[n, order[:some]] = True
    heavy = np.ascontiguousarray(np.repeat(heavy, len(dilations), axis=0))
    return Plan(np.tile(dilations, sets // len(dilations)), chosen, np.arange(sets) % 2 == 0, heavy)


def learn(samples: Array, count: int) -> Convolutions:
    """Learn from windows (n, T, dim), n above 1; missing components are 0."""
    samples = np.ascontiguousarray(samples[:: max(1, len(samples) // MOST_WINDOWS)])
    n, length, dim = samples.shape
    plan, room, scale = plan_of(length, dim), _room(length, dim), (np.zeros(channels(dim)), np.ones(channels(dim)))
    size, total, made = PER_SET * len(plan.dilation), np.zeros((2, channels(dim))), room[0]
    for window in samples:
        _channels(window, *scale, made)
        total += made[:, :length].mean(axis=1, dtype=np.float64), np.square(made[:, :length], dtype=np.float64).mean(axis=1)
    scale = total[0] / n, np.sqrt(np.maximum(total[1] / n - (total[0] / n) ** 2, 0)) + FLOOR
    looked = np.ascontiguousarray(samples[:: max(1, n // LOOKED_AT)][:LOOKED_AT])
    responses = np.empty((size, len(looked), length), np.float32)
    components = np.zeros((size * BIASES, count), np.float32)  # of which a window reads half the memory
    learned = Convolutions(*scale, np.empty((size, BIASES)), np.empty(size * BIASES), components)
    _responses(looked, plan, learned, room, responses)
    levels = (np.arange(1, size * BIASES + 1) * GOLDEN % 1).reshape(size, BIASES)
    biases = np.array([np.quantile(one, level) for one, level in zip(responses, levels, strict=True)])
    shares = np.empty((n, biases.size))
    _all_shares(samples, plan, learned._replace(biases=biases), room, shares)
    _, vectors = eigen.leading(np.cov(shares.T), count)
    components[:, : vectors.shape[1]] = vectors
    return Convolutions(*scale, biases, shares.mean(axis=0), components)


def checked(arrays: list[Array], samples: int, dim: int) -> Convolutions:
    """The convolutions of stored arrays; raises ValueError for what `learn` cannot have made."""
    least, most = CONVOLVED
    if not (least <= samples <= most and 1 <= dim <= MOST_CHANNELS and len(arrays) == len(Convolutions._fields)):
        raise ValueError(
            f"expected convolutions of {least} to {most} samples, got {len(arrays)} arrays of {samples} x {dim}"
        )
    size = PER_SET * len(plan_of(samples, dim).dilation)
    scale, wide = (channels(dim),), size * BIASES
    shapes = scale, scale, (size, BIASES), (wide,), (wide, arrays[-1].shape[-1])
    check_numbers("convolutions", dict(zip(Convolutions._fields, arrays, strict=True)), *shapes)
    learned = Convolutions(*map(lined_up, [*arrays[:-1], halved(arrays[-1])]))
    if not (learned.spread > 0).all():
        raise ValueError("expected a spread above 0 of convolutions")
    learned.replaced(np.zeros((1, samples * dim)), samples, dim)  # compiles the loop
    return learned


def _room(samples: int, dim: int) -> tuple[Array, Array, Array]:
    """Room for the channels of a window, a sum of them with room at its edges, and less the sum of nine samples.

    Each is a multiple of WIDE long, so that no loop over a window ends with single samples; made of zeros.
    """
    edge, wide = (TAPS // 2) * ((samples - 1) // (TAPS - 1)), -(-samples // WIDE) * WIDE
    padded = np.zeros(wide + 2 * edge, np.float32)
    return np.zeros((channels(dim), wide), np.float32), padded, np.empty(wide, np.float32)


@compiled_in_place
def _channels(window, centre, spread, made):
    """Scaled channels (C, T) of a window (T, dim)."""
    length, dim = window.shape
    gx, gy, gz = 0.0, 0.0, 0.0
    if dim >= 3:
        for i in range(length):
            gx += window[i, 0] / length
            gy += window[i, 1] / length
            gz += window[i, 2] / length
        weight = max(np.sqrt(gx * gx + gy * gy + gz * gz), 1e-6)
        gx, gy, gz = gx / weight, gy / weight, gz / weight
    for i in range(length):
        for c in range(dim):
            made[c, i] = (window[i, c] - centre[c]) / spread[c]
        for a in range(0, dim - 2, 3):
            x, y, z = window[i, a], window[i, a + 1], window[i, a + 2]
            up = x * gx + y * gy + z * gz
            u, v, w = x - up * gx, y - up * gy, z - up * gz
            across, norm = np.sqrt(u * u + v * v + w * w), np.sqrt(x * x + y * y + z * z)
            at = dim + a
            made[at, i] = (up - centre[at]) / spread[at]
            made[at + 1, i] = (across - centre[at + 1]) / spread[at + 1]
            made[at + 2, i] = (norm - centre[at + 2]) / spread[at + 2]


# Views of arrays in these loops, because the compiler uses vector instructions for no other way to write them.
@compiled_in_place
def _begin_set(made, plan, n, padded, nine):
    """The sum of a set's channels into the middle of `padded`, and less the sum of all nine samples into `nine`."""
    length, d = len(nine), plan.dilation[n]
    edge = (len(padded) - length) // 2
    summed = padded[edge : edge + length]
    for i in range(length):
        summed[i] = nine[i] = 0.0
    for c in range(len(made)):
        if plan.channels[n, c]:
            channel = made[c]
            for i in range(length):
                summed[i] += channel[i]
    for j in range(0, TAPS, 3):
        at = edge + (j - TAPS // 2) * d
        one, two, three = (
            padded[at : at + length],
            padded[at + d : at + d + length],
            padded[at + 2 * d : at + 2 * d + length],
        )
        for i in range(length):
            nine[i] = nine[i] - one[i] - two[i] - three[i]


@compiled_in_place
def _heavy(plan, n, kernel, padded, length):
    """The samples that a convolution of a set weighs by 2."""
    d, heavy = plan.dilation[n], plan.heavy[n, kernel]
    first = (len(padded) - length) // 2 - (TAPS // 2) * d
    a, b, c = first + heavy[0] * d, first + heavy[1] * d, first + heavy[2] * d
    return padded[a : a + length], padded[b : b + length], padded[c : c + length]


@compiled_in_place
def _responses(samples, plan, learned, room, out):
    made, padded, nine = room
    for k in range(len(samples)):
        _channels(samples[k], learned.centre, learned.spread, made)
        for n in range(len(plan.dilation)):
            _begin_set(made, plan, n, padded, nine)
            for kernel in range(PER_SET):
                one, two, other = _heavy(plan, n, kernel, padded, len(nine))
                response = out[n * PER_SET + kernel, k]
                for i in range(len(response)):
                    response[i] = nine[i] + np.float32(HEAVY) * (one[i] + two[i] + other[i])


@compiled_in_place
def _shares(window, plan, learned, room, shares):
    """The shares of one window (T, dim) in the order of the biases."""
    (made, padded, nine), biases = room, learned.biases
    _channels(window, learned.centre, learned.spread, made)
    for n in range(len(plan.dilation)):
        _begin_set(made, plan, n, padded, nine)
        edge = 0 if plan.beyond[n] else (TAPS // 2) * plan.dilation[n]
        nine[:edge] = nine[len(window) - edge :] = -np.inf  # no bias is below it
        for kernel in range(n * PER_SET, (n + 1) * PER_SET):
            one, two, other = _heavy(plan, n, kernel - n * PER_SET, padded, len(nine))
            above = _count_above(nine, one, two, other, biases[kernel])
            for m in range(BIASES):
                shares[kernel * BIASES + m] = above[m] / (len(window) - 2 * edge)


@compiled_in_place
def _count_above(nine, one, two, other, biases):
    """How many numbers of a convolution are above each of its biases."""
    low, middle, high = np.float32(biases[0]), np.float32(biases[1]), np.float32(biases[2])
    above_low, above_middle, above_high = np.int32(0), np.int32(0), np.int32(0)
    for i in range(len(nine)):
        value = nine[i] + np.float32(HEAVY) * (one[i] + two[i] + other[i])
        above_low = np.int32(above_low + (value > low))
        above_middle = np.int32(above_middle + (value > middle))
        above_high = np.int32(above_high + (value > high))
    return above_low, above_middle, above_high


@compiled_in_place
def _all_shares(samples, plan, learned, room, out):
    for k in range(len(samples)):
        _shares(samples[k], plan, learned, room, out[k])


@compiled_in_place
def _rows(X, shape, plan, learned, room, shares, out):
    """shares: room for AT_ONCE windows."""
    mean, components = learned.mean, learned.components
    whole, kept = len(mean) - len(mean) % 4, out.shape[1] - components.shape[1]
    for first in range(0, len(X), AT_ONCE):  # each reads the components from the cache, for several windows
        rows = out[first : first + AT_ONCE]
        for k in range(len(rows)):
            _shares(X[first + k, kept:].reshape(shape), plan, learned, room, shares[k])
            for at in range(len(mean)):
                shares[k, at] -= mean[at]
            for j in range(kept):
                rows[k, j] = X[first + k, j]
            for j in range(kept, rows.shape[1]):
                rows[k, j] = 0.0
        for at in range(0, whole, 4):
            for k in range(len(rows)):
                add_four(rows[k, kept:], components, at, shares[k])
        for at in range(whole, len(mean)):
            component = components[at]
            for k in range(len(rows)):
                for j in range(len(component)):
                    rows[k, kept + j] += shares[k, at] * component[j]

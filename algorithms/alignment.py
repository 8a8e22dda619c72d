"""Kernel alignment: how well a kernel's values on some rows agree with their labels, and the width that agrees best.

Source: Cristianini, Shawe-Taylor, Elisseeff, Kandola (2002), On kernel-target alignment; Cortes, Mohri, Rostamizadeh (2012),
Algorithms for learning kernels based on centered alignment. The SkeGD paper chooses the widths of its kernels by it.
Readings: a width is judged by the pairs of different rows alone. With a hundred rows the diagonal, which is 1 in every
kernel, would outweigh the labels. Centring kernel values as well chooses worse widths (`python -m papers alignment`, six
data sets): on so few rows it favours any kernel that separates one or two rows from all others.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from algorithms.common.compiled import compiled
from algorithms.common.linalg import distance2
from algorithms.common.protocol import Array

LOWEST, STEPS = -6, 13  # widths tried: the median distance times 2^(-3), 2^(-2.5), .. 2^3
FEWEST = 10  # labelled rows that a width is chosen by
SHORTEST, LONGEST = 1e-100, 1e100  # median distances of which widths are made
UNLABELLED = 0.5  # without labels: this share of the median distance
KNOWN = 4  # mark of a row with a known target


def kernel_alignment(K: ArrayLike, Y: ArrayLike, *, centred: bool = False, diagonal: bool = True) -> float:
    """The cosine of the angle between a kernel matrix and the ideal matrix of the labels, from -1 to 1.

    K (n, n), symmetric; Y (n,) or (n, targets): classes as -1/+1 in one column or as one column each (0/1 or -1/+1), or
    numbers. The ideal value of two rows is 1 in one class and -1/(classes - 1) in two classes; for numbers it is the
    product of their deviations from the mean. centred: both matrices without their means, as in Cortes et al. Without the
    diagonal only pairs of different rows count. NaN if the rows do not differ in their labels, or K is zero.

    >>> X = np.array([[0.0], [0.1], [3.0], [3.1]])
    >>> K = np.exp(-((X - X.T) ** 2) / 2)
    >>> round(kernel_alignment(K, [1, 1, -1, -1]), 4), round(kernel_alignment(K, [1, -1, 1, -1]), 4)
    (0.699, 0.0016)
    """
    values, targets = np.asarray(K, float), np.asarray(Y, float)
    targets = targets.reshape(len(targets), -1)
    n = len(targets)
    if values.shape != (n, n):
        raise ValueError(f"kernel_alignment: expected K of shape {(n, n)}, got {values.shape}.")
    codes = np.empty(n)
    classes = _classes(targets, np.full(n, KNOWN), n, 2, codes)
    if classes == 1:
        return float("nan")
    wanted = np.empty((n, n))
    _all_wanted(targets, targets.mean(axis=0), codes, classes, wanted)
    if centred:
        values, wanted = _centred(values), _centred(wanted)
    if not diagonal:
        values, wanted = (M - np.diag(np.diag(M)) for M in (values, wanted))
    length = float(np.sqrt((values * values).sum() * (wanted * wanted).sum()))
    return float((values * wanted).sum()) / length if length > 0.0 else float("nan")


def _centred(M: Array) -> Array:
    centred: Array = M - M.mean(axis=0) - M.mean(axis=1)[:, None] + M.mean()
    return centred


def aligned_bandwidth(
    X: ArrayLike, Y: ArrayLike | None = None, *, kernel: Literal["gaussian", "laplacian"] = "gaussian"
) -> float:
    """The width of a kernel for these rows: of 13 widths the one with kernel values that agree best with the labels.

    X (n, dim), Y (n, targets) as in `kernel_alignment`, NaN where unknown. The widths go from an eighth of the median
    distance to eight times as much. With fewer than ten labelled rows, or labels that do not differ, it is half the
    median distance; if no two rows differ, sqrt(dim).

    >>> X = np.linspace(0, 10, 41)[:, None]
    >>> slow, fast = np.sign(np.sin(0.6 * X + 0.1)), np.sign(np.sin(3 * X + 0.1))
    >>> [round(aligned_bandwidth(X, Y), 2) for Y in (slow, fast, None)]
    [1.5, 0.38, 1.5]
    """
    rows = np.array(X, float, ndmin=2)
    targets = np.full((len(rows), 1), np.nan) if Y is None else np.array(Y, float).reshape(len(rows), -1)
    known = np.isfinite(targets).all(axis=1)
    targets[~known] = 0.0
    usable = np.isfinite(rows).all(axis=1)
    samples, labels, marks = rows[usable], targets[usable], np.where(known, KNOWN, 0)[usable]
    return float(choose(kernel == "laplacian", samples, len(samples), labels, marks))


@compiled
def choose(laplacian, samples, count, targets, marks):
    """The width for the first `count` rows of samples, with the targets of those that are marked as known."""
    middle = _median_distance(samples, count)
    if not SHORTEST < middle < LONGEST:
        return np.sqrt(float(samples.shape[1]))
    codes = np.empty(count)
    classes = _classes(targets, marks, count, FEWEST, codes)
    if classes == 1:
        return UNLABELLED * middle
    known = 0
    means = np.zeros(targets.shape[1])
    for i in range(count):
        if marks[i] & KNOWN:
            known += 1
            for t in range(means.size):
                means[t] += (targets[i, t] - means[t]) / known

    agreed, lengths2 = np.zeros(STEPS), np.zeros(STEPS)
    for i in range(count):
        if not marks[i] & KNOWN:
            continue
        for j in range(i):
            if not marks[j] & KNOWN:
                continue
            wanted = _wanted(targets[i], targets[j], means, codes[i], codes[j], classes)
            gap2 = distance2(samples[i], samples[j]) / (middle * middle)
            for step in range(STEPS):
                share2 = gap2 * 2.0 ** (-(LOWEST + step))
                near = np.exp(-np.sqrt(share2)) if laplacian else np.exp(-0.5 * share2)
                agreed[step] += near * wanted
                lengths2[step] += near * near
    best, most = -1, -np.inf
    for step in range(STEPS):
        if lengths2[step] > 0.0 and agreed[step] / np.sqrt(lengths2[step]) > most:
            best, most = step, agreed[step] / np.sqrt(lengths2[step])
    return middle * 2.0 ** (0.5 * (LOWEST + best)) if most > 0.0 else UNLABELLED * middle


@compiled
def _classes(targets, marks, count, fewest, codes):
    """How many classes the known targets name, and codes[i], which one; 0: they are numbers.

    1: they do not tell rows apart, or fewer than `fewest` are known.
    """
    known, columns = 0, targets.shape[1]
    numbers = False
    for i in range(count):
        if marks[i] & KNOWN:
            known += 1
            codes[i] = 0.0
            positive = 0
            for t in range(columns):
                if targets[i, t] != 1.0 and targets[i, t] != 0.0 and targets[i, t] != -1.0:
                    numbers = True
                if targets[i, t] > 0.0:
                    codes[i], positive = float(t + 1), positive + 1
            if columns > 1 and positive > 1:
                numbers = True
    if known < fewest:
        return 1
    if numbers:
        for t in range(columns):
            least, top = np.inf, -np.inf
            for i in range(count):
                if marks[i] & KNOWN:
                    least, top = min(least, targets[i, t]), max(top, targets[i, t])
            if 0.0 < top - least < 1e75:
                return 0
        return 1
    classes = 0
    for code in range(columns + 1):
        for i in range(count):
            if marks[i] & KNOWN and codes[i] == code:
                classes += 1
                break
    return max(classes, 1)


@compiled
def _wanted(one, other, means, code, other_code, classes):
    """What a kernel should say of two rows with these targets."""
    if classes > 1:
        return 1.0 if code == other_code else -1.0 / (classes - 1.0)
    total = 0.0
    for t in range(one.size):
        total += (one[t] - means[t]) * (other[t] - means[t])
    return total


@compiled
def _all_wanted(targets, means, codes, classes, wanted):
    for i in range(len(targets)):
        for j in range(len(targets)):
            wanted[i, j] = _wanted(targets[i], targets[j], means, codes[i], codes[j], classes)


@compiled
def _median_distance(samples, count):
    """The median of the distances above 0 between two of these rows; 0 where there are none."""
    gaps2 = np.empty(count * (count - 1) // 2)
    pairs = 0
    for i in range(count):
        for j in range(i):
            gap2 = distance2(samples[i], samples[j])
            if gap2 > 0.0:
                gaps2[pairs] = gap2
                pairs += 1
    if pairs == 0:
        return 0.0
    return np.sqrt(np.partition(gaps2[:pairs], pairs // 2)[pairs // 2])

"""One column forecast from its own last values: recursive least squares on scaled lags, a row at a time.

Source: `rls.py` for the step; a running mean and deviation (Welford's, of `MEMORY` rows at most) scale lags and forecast.
A column is four arrays: lags (LAGS,) newest first, level (2,) mean and variance, weights (SIZE, 1) the last of a constant,
P (TRIANGLE,).
"""

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE
from algorithms.common.protocol import Array

LAGS, SIZE = 16, 17  # inputs, and one that is constant
TRIANGLE = SIZE * (SIZE + 1) // 2
FORGETTING, DELTA = 0.999, 1.0
MEMORY = 1000.0  # rows of mean and deviation
FAR_LAG, FAR = 5.0, 8.0  # deviations at which lags are cut, and forecasts and new values
CLIP_FROM = 30  # rows before new values are cut
LEAST_RATIO = 0.1  # of one deviation to the next: beyond it weights and P stay as they are
EARLY, LATER = 60, 90  # rows after which a few wild values of the first ones leave mean and variance
APART, FEW = 8.0, 3.5  # deviations of all rows, to those of the latest ones, if a few were wild; most such rows
MEAN, VARIANCE = 0, 1


@compiled
def deviation(level: Array) -> float:
    """Of a column; 0 where it has been constant."""
    spread = np.sqrt(level[VARIANCE])
    return spread if spread > max(NO_SPREAD, NO_SPREAD_RELATIVE * abs(level[MEAN])) else 0.0


@compiled
def forecast(lags: Array, level: Array, weights: Array, z: Array) -> float:
    """The value to come; z (SIZE,) is filled with the inputs that it is made of."""
    spread, scaled = deviation(level), weights[LAGS, 0]
    z[LAGS] = 1.0
    for i in range(LAGS):
        z[i] = min(max((lags[i] - level[MEAN]) / spread, -FAR_LAG), FAR_LAG) if spread > 0.0 else 0.0
        scaled += weights[i, 0] * z[i]
    return level[MEAN] + spread * min(max(scaled, -FAR), FAR)


@compiled
def learn(x, rows, lags, level, weights, P, z, room):
    """Learn the value that has come, the column's row number `rows` (from 1); z as `forecast` filled it.

    room (SIZE + 4, SIZE): to work in. Weights learn nothing until all lags are there.
    """
    spread, mean = deviation(level), level[MEAN]
    learns = rows > LAGS and spread > 0.0
    if learns:
        whole = room[:SIZE]
        at = 0
        for i in range(SIZE):
            for j in range(i + 1):
                whole[i, j] = whole[j, i] = P[at]
                at += 1
        fit(min(max((x - mean) / spread, -FAR), FAR), weights, whole, z, room[SIZE:])
    follow(level, x, rows, MEMORY)
    if learns:
        now = deviation(level)
        if LEAST_RATIO * spread < now and LEAST_RATIO * now < spread:
            rescale(spread / now, (level[MEAN] - mean) / now, weights, whole, room[SIZE])
        at = 0
        for i in range(SIZE):
            for j in range(i + 1):
                P[at] = whole[i, j]
                at += 1
    for i in range(LAGS - 1, 0, -1):
        lags[i] = lags[i - 1]
    lags[0] = x


@compiled
def rescale(ratio, shift, weights, P, totals):
    """Weights, and the lower triangle of P (SIZE, SIZE), for lags ratio z - shift in place of z: the forecast stays.

    Without it a forecast would be biased while the first mean of a wave or a walk settles, for more than 1000 rows.
    totals (LAGS,): to work in.
    """
    step, inverse, kept, cross, both = shift / ratio, 1.0 / ratio, 1.0, 0.0, 0.0
    for i in range(LAGS):
        totals[i] = 0.0
    for i in range(LAGS):
        total = P[i, i]
        for j in range(i):
            total += P[i, j]
            totals[j] += P[i, j]
        totals[i] += total
    for i in range(LAGS):
        for j in range(i + 1):
            P[i, j] *= inverse * inverse
        kept -= weights[i, 0]
        cross += P[LAGS, i]
        both += totals[i]
        P[LAGS, i] = (P[LAGS, i] + step * totals[i]) * inverse
    weights[LAGS, 0] = ratio * weights[LAGS, 0] - shift * kept
    P[LAGS, LAGS] += step * (2.0 * cross + step * both)


@compiled
def fit(y, weights, P, z, room):
    """One step of least squares towards y = weights' z; weights (size, 1), P (size, size), z (size,) ends with 1.

    room (4, size): to work in.
    """
    last, wanted, got = z.size - 1, room[2, :1], room[3, :1]
    wanted[0], got[0] = y, weights[last, 0]
    for i in range(last):
        got[0] += weights[i, 0] * z[i]
    rls.learn(weights, weights[last], P, z[:last], wanted, got, z, room[0], room[1], room[2, 1:2], FORGETTING, DELTA)


@compiled
def follow(level: Array, x: float, rows: int, memory: float) -> None:
    """Mean and variance with the value x, the column's row number `rows`, of about `memory` rows; wild values are cut."""
    spread = deviation(level)
    rate, gap = max(1.0 / rows, 1.0 / memory), x - level[MEAN]
    if rows > CLIP_FROM and spread > 0.0:
        gap = min(max(gap, -FAR * spread), FAR * spread)
    level[MEAN] += rate * gap
    level[VARIANCE] = (1.0 - rate) * (level[VARIANCE] + rate * gap * gap)


@compiled
def few_are_wild(clip, part, variance, off, rows):
    """Whether a few wild values gave so many rows their variance.

    Then their spread is more than `clip` times that of the newest rows, and the mean about the same. part: variance of the
    newest rows; off: from the mean of all rows to theirs.
    """
    return part > 0.0 and variance > clip * clip * part and off * off * rows <= FEW * variance


@compiled
def leave_out_wild(latest, level, rows, moves):
    """Mean and variance of the latest values in place of those of all, if a few of these were wild; whether they were.

    moves: not where the latest values are all the same.
    """
    mean, square = latest[0], 0.0
    for value in latest:
        mean += (value - latest[0]) / latest.size  # exact where the column stands
    for value in latest:
        square += (value - mean) ** 2 / latest.size
    part = square if moves else max(square, NO_SPREAD**2)
    if not few_are_wild(APART, part, level[VARIANCE], level[MEAN] - mean, rows):
        return False
    level[MEAN], level[VARIANCE] = mean, square
    return True

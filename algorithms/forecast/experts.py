"""What a column's experts see and foresee: scaled values and steps, a kernel filter, and shares by discounted errors."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.lagged_rls import FAR, FAR_LAG, LAGS

NEAR = 8  # inputs of the kernel filter: NEAR - 1 steps and the level
SAMPLES, STEP_SIZE, QUANTUM = 100, 0.2, 0.05 * NEAR  # of the kernel filter; the quantum is a squared distance
WIDTH2 = 2.0 * NEAR  # 2 bandwidth^2
MEAN, SPREAD, STEP = 0, 1, 2  # of a column at a row: mean and deviation of values, deviation of steps
NAIVE, SEASONAL, SLOW, QUICK, AVERAGE, LEVELS, STEPS, KERNEL = range(8)
DISCOUNT, EAGER = 0.99, 0.3  # of errors a row, and of shares by errors


@compiled
def cut(value: float, most: float) -> float:
    return min(max(value, -most), most)


@compiled
def scaled(value: float, unit: float) -> float:
    """In units, within FAR_LAG; 0 without a unit."""
    return cut(value / unit, FAR_LAG) if unit > 0.0 else 0.0


@compiled
def look(values, row, at_row, back, ahead, unit, known, levels, steps, near):
    """Fill what the experts of one horizon see at `row`: levels (LAGS + 1,), steps (LAGS + 1 or LAGS + 3,), near (NEAR,).

    values: the ring, with the value of row r in r % len; at_row: MEAN, SPREAD, STEP there; unit: deviation of steps of
    `ahead` rows; back: rows of one or more seasons, of which nothing is seen while they are not known.
    """
    room = len(values)
    at = row % room
    newest, mean, spread, step = values[at], at_row[MEAN], at_row[SPREAD], at_row[STEP]
    for i in range(LAGS):
        before = at - 1 if at > 0 else room - 1
        levels[i] = scaled(values[at] - mean, spread)
        if i < LAGS - 1:
            steps[i] = scaled(values[at] - values[before], step)
        at = before
    steps[LAGS - 1] = levels[0]
    if steps.size > LAGS + 1:
        steps[LAGS], steps[LAGS + 1] = 0.0, 0.0
        if known:
            then = values[(row - back) % room]
            steps[LAGS] = scaled(then - newest, spread)
            steps[LAGS + 1] = scaled(values[(row - back + ahead) % room] - then, unit)
    levels[LAGS], steps[-1] = 1.0, 1.0
    for i in range(NEAR - 1):
        near[i] = steps[i]
    near[NEAR - 1] = steps[LAGS - 1]


@compiled
def linear(taps, z):
    total = taps[-1, 0]
    for i in range(z.size - 1):
        total += taps[i, 0] * z[i]
    return cut(total, FAR)


@compiled
def measure(samples, near, gaps2):
    """gaps2 (SAMPLES,): squared distances of near (NEAR,) to the columns of samples (NEAR, SAMPLES), all float32."""
    for i in range(SAMPLES):
        gaps2[i] = 0.0
    for j in range(NEAR):
        for i in range(SAMPLES):
            gap = samples[j, i] - near[j]
            gaps2[i] += gap * gap


@compiled
def alike(gap2):
    """exp(-gap2 / (2 bandwidth^2)) by its limit, within .001 where it counts: ten products, the same bits everywhere."""
    value = np.float32(1.0) - gap2 * np.float32(1.0 / (1024.0 * WIDTH2))
    for _ in range(10):
        value *= value
    return value


@compiled
def kernel(samples, weights, near, gaps2):
    """The kernel filter's sum; gaps2 is filled by `measure`. Samples that are not there yet have weights of 0."""
    measure(samples, near, gaps2)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(0, SAMPLES, 4):
        a += weights[i] * alike(gaps2[i])
        b += weights[i + 1] * alike(gaps2[i + 1])
        c += weights[i + 2] * alike(gaps2[i + 2])
        d += weights[i + 3] * alike(gaps2[i + 3])
    return (a + b) + (c + d)


@compiled
def kernel_learn(y, samples, weights, count, near, gaps2):
    """A step of the quantised kernel least mean squares (`adaptive/qklms.py`) towards y; gives how many are stored.

    Over the budget the lightest leaves, and the one most like it takes over its term.
    """
    along = STEP_SIZE * (y - kernel(samples, weights, near, gaps2))
    nearest, lightest = 0, 0
    for i in range(1, count):
        if gaps2[i] < gaps2[nearest]:
            nearest = i
        if abs(weights[i]) < abs(weights[lightest]):
            lightest = i
    if count > 0 and gaps2[nearest] <= QUANTUM:
        weights[nearest] += along
        return count
    if count < SAMPLES:
        lightest, count = count, count + 1
    elif abs(along) < abs(weights[lightest]):  # the new sample is the lightest
        weights[nearest] += along * alike(gaps2[nearest])
        return count
    else:
        own, heir = gaps2[lightest], 1 if lightest == 0 else 0
        measure(samples, samples[:, lightest].copy(), gaps2)
        for i in range(heir + 1, SAMPLES):
            if i != lightest and gaps2[i] < gaps2[heir]:
                heir = i
        if own < gaps2[heir]:
            along += weights[lightest] * alike(own)
        else:
            weights[heir] += weights[lightest] * alike(gaps2[heir])
    for j in range(NEAR):
        samples[j, lightest] = near[j]
    weights[lightest] = along
    return count


@compiled
def share_out(losses, known, shares):
    """shares (8,): exp(-EAGER C) over their sum, C = discounted errors in units of the naive expert's mean error.

    losses (9,): C of each expert, and of an error of 1 in each row. Without a known season its expert has no share.
    """
    unit, least, total = losses[NAIVE], np.inf, 0.0
    if losses[-1] > 0.0:
        unit /= losses[-1]
    for j in range(shares.size):
        least = min(least, losses[j])
    for j in range(shares.size):
        far = losses[j] - least
        shares[j] = np.exp(-EAGER * far / max(unit, 1e-300)) if j != SEASONAL or known else 0.0
        total += shares[j]
    for j in range(shares.size):
        shares[j] /= total

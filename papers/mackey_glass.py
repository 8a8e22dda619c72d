"""The Mackey-Glass series of the SPEED paper, Section V: one-step prediction from the last 7 samples, random stretches.

dy/dt = .2 y(t - 30) / (1 + y(t - 30)^10) - .1 y from y = .9, by Runge-Kutta steps of .1 s of which every 60th is kept;
10,000 samples, white noise of .02 on them, standardised as a whole and divided by the largest absolute value.
Readings: y was .9 before the start, and between two steps the delayed value is the mean of its neighbours; the test block
begins 200 steps after the last training pair.
"""

import functools
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array

SAMPLES, NOISE = 10_000, 0.02
DIM, TRAINING, GAP, TEST = 7, 2000, 200, 200
STEP, EVERY = 0.1, 60


class Trial(NamedTuple):
    X: Array  # (n, DIM) the last samples, oldest first
    Y: Array  # (n, 1) the next one
    testX: Array  # (TEST, DIM)
    testY: Array  # (TEST, 1)


@functools.lru_cache(maxsize=4)
def series(tau: float = 30.0, samples: int = SAMPLES) -> Array:
    """The series without noise, (samples,), read-only; about a second of plain Python for 10,000."""
    values = [0.9] * (round(tau / STEP) + 1)  # one more than the delay has steps: values[step] is y(t - tau)
    y = values[-1]
    for step in range(samples * EVERY):
        begin, end = values[step], values[step + 1]
        middle = 0.5 * (begin + end)
        fed1, fed2, fed3 = (0.2 * delayed / (1.0 + delayed**10) for delayed in (begin, middle, end))
        k1 = fed1 - 0.1 * y
        k2 = fed2 - 0.1 * (y + 0.5 * STEP * k1)
        k3 = fed2 - 0.1 * (y + 0.5 * STEP * k2)
        k4 = fed3 - 0.1 * (y + STEP * k3)
        y += STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        values.append(y)
    kept = np.array(values[-samples * EVERY :])[EVERY - 1 :: EVERY]
    kept.setflags(write=False)
    return kept


def noisy(clean: Array, random: np.random.Generator) -> Array:
    """Noise on top, then mean 0, deviation 1, and all within [-1, 1]."""
    z = clean + NOISE * random.standard_normal(len(clean))
    z = (z - z.mean()) / z.std()
    return z / np.abs(z).max()


def embedded(z: Array) -> tuple[Array, Array]:
    """Pairs of a series: X (n, DIM) and what comes next, Y (n, 1)."""
    X = np.lib.stride_tricks.sliding_window_view(z, DIM)[:-1]
    return np.ascontiguousarray(X), z[DIM:, None].copy()


def trial(seed: int, training: int = TRAINING, tau: float = 30.0) -> Trial:
    """Training and test pairs of one trial: own noise, own random start."""
    random = np.random.default_rng(seed)
    X, Y = embedded(noisy(series(tau), random))
    begin = int(random.integers(0, len(X) - training - GAP - TEST))
    test = slice(begin + training - 1 + GAP, begin + training - 1 + GAP + TEST)
    return Trial(X[begin : begin + training], Y[begin : begin + training], X[test], Y[test])


def switching(seed: int, first: float = 30.0, second: float = 17.0, rows: int = TRAINING) -> Trial:
    """`rows` pairs of one regime, then `rows` of another delay's; the test block is of the second.

    Both series are scaled together, so that the change is one of dynamics and not of units.
    """
    random = np.random.default_rng(seed)
    z = noisy(np.concatenate([series(first), series(second)]), random)
    (X1, Y1), (X2, Y2) = embedded(z[:SAMPLES]), embedded(z[SAMPLES:])
    one, two = (int(begin) for begin in random.integers(0, len(X1) - rows - GAP - TEST, 2))
    test = slice(two + rows - 1 + GAP, two + rows - 1 + GAP + TEST)
    X, Y = (np.concatenate([a[one : one + rows], b[two : two + rows]]) for a, b in ((X1, X2), (Y1, Y2)))
    return Trial(X, Y, X2[test], Y2[test])

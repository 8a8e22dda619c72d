"""Intervals of a stated coverage: a tracked quantile of each error in units of a running mean; and trust in forecasts.

Trust is the share of a forecast against the last value, by the errors of both in about 1000 rows. Source: Vovk (1990),
Aggregating strategies, of two experts; for values that come `ahead` rows later the rate is divided by sqrt(ahead), after
Joulani, Gyorgy, Szepesvari (2013), Online learning under delayed feedback.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import NO_SPREAD_RELATIVE
from algorithms.forecast import table
from algorithms.forecast.experts import DISCOUNT, EAGER, NAIVE, cut

EXPERTS, HALF = 3, 11  # of what is kept of a forecast, behind `table.MADE`; HALF and on: half widths
OWN, PLAIN, SCALE, TOP, WIDTHS = 0, 1, 2, 3, 4  # of the errors of a horizon; WIDTHS and on: tracked quantiles
FIRST = 20  # errors before the first interval
CUT, CUT_FROM = 50.0, 30  # running means at which errors are cut for their mean, and errors before that
FIRST_CUT = 8.0  # of the first errors, for the first interval
WILD = 20.0  # the naive expert's mean errors at which one error of an expert is cut
FARTHEST, WIDEST = 20.0, 40.0  # largest size of an error for the quantile, and largest quantile, in running means
AGAIN, GROWS = 0.98, 4.0  # largest sizes a few rows apart are a sensor that wakes up: its scale grows so many times
MEMORY, SCALE_MEMORY = 1000.0, 500.0
FADES = 0.995  # of the largest size of an error, a row
FORECAST, LAST, ROWS, OF_TRUST = 0, 1, 2, 3  # discounted errors of forecasts and of last values, discounted rows; how many
REMEMBERS, DOUBT = 0.999, 9.0  # discount a row, and the last value's weight for a forecast's 1 at the start


@compiled
def lose(x, made, losses, judged):
    """The experts' discounted errors with the value x that `made` foresaw."""
    usual = losses[NAIVE] / losses[-1] if judged > CUT_FROM else 0.0
    for j in range(HALF - EXPERTS):
        one = abs(made[EXPERTS + j] - x)
        losses[j] = DISCOUNT * losses[j] + (min(one, WILD * usual) if usual > 0.0 else one)
    losses[-1] = DISCOUNT * losses[-1] + 1.0


@compiled
def judge(x, naive, value, halves, errors, first, judged, coverage, rate):
    """The value x has come. Gives how many were judged. It was forecast as `value`, with half widths, and as `naive`."""
    error, plain, scale = abs(value - x), abs(naive - x), errors[SCALE]
    if error <= NO_SPREAD_RELATIVE * abs(x):  # rounding, of a sensor that stands still
        error = 0.0
    judged += 1
    slow = max(1.0 / judged, 1.0 / MEMORY)
    errors[OWN] += slow * (error - errors[OWN])
    errors[PLAIN] += slow * (plain - errors[PLAIN])

    size = min(error / scale, FARTHEST) if scale > 0.0 else (FARTHEST if error > 0.0 else 0.0)
    again = size >= FARTHEST and errors[TOP] >= AGAIN * FARTHEST and judged > CUT_FROM
    if judged > FIRST and halves[0] >= 0.0:
        errors[TOP] = max(size, FADES * errors[TOP])
        for c in range(coverage.size):
            missed = 1.0 if error > halves[c] else 0.0
            wider = errors[WIDTHS + c] + rate * errors[TOP] * (missed - 1.0 + coverage[c])
            errors[WIDTHS + c] = min(max(wider, 0.0), WIDEST)
    if again:
        errors[SCALE] = max(GROWS * scale, error / FARTHEST / GROWS)
    else:
        most = CUT * scale if judged > CUT_FROM and scale > 0.0 else error
        errors[SCALE] += max(1.0 / judged, 1.0 / SCALE_MEMORY) * (min(error, most) - scale)
    if judged <= FIRST:
        first[judged - 1] = error
    if judged == FIRST:
        begin(errors, first, coverage)
    return judged


@compiled
def begin(errors, first, coverage):
    """The quantiles of the first errors."""
    sizes = np.empty(FIRST)
    for i in range(FIRST):
        size = cut(first[i] / errors[SCALE], FIRST_CUT) if errors[SCALE] > 0.0 else 0.0
        at = i
        while at > 0 and sizes[at - 1] > size:
            sizes[at] = sizes[at - 1]
            at -= 1
        sizes[at] = size
    errors[TOP] = sizes[FIRST - 1]
    for c in range(coverage.size):
        place = coverage[c] * (FIRST - 1)
        below = int(place)
        above = min(below + 1, FIRST - 1)
        errors[WIDTHS + c] = sizes[below] + (place - below) * (sizes[above] - sizes[below])


@compiled
def note_due(x, naive, value, halves, least, field):
    """Write what was forecast for the value x."""
    field[table.DUE], field[table.DUE_NAIVE] = value, naive
    for c in range(halves.size):
        if halves[c] >= 0.0:
            inside = abs(value - x) <= halves[c] and x >= least
            field[table.FIRST_INTERVAL + 3 * c + table.INSIDE] = 1.0 if inside else 0.0


@compiled
def note(value, naive, ready, least, halves, errors, field):
    """Write a forecast with its intervals, and fill its half widths: -1 where it is not ready."""
    for c in range(halves.size):
        half = errors[WIDTHS + c] * errors[SCALE] + NO_SPREAD_RELATIVE * abs(value)  # with room for rounding
        halves[c] = half if ready else -1.0
        if ready:
            field[table.FIRST_INTERVAL + 3 * c + table.LOW] = max(value - half, least)
            field[table.FIRST_INTERVAL + 3 * c + table.HIGH] = value + half
    field[table.VALUE], field[table.NAIVE] = value, naive
    if ready and errors[PLAIN] > 0.0:
        field[table.RATIO] = errors[OWN] / errors[PLAIN]


@compiled
def compare(x, last, value, judged, trust):
    """The value x has come: errors of the forecast `value`, before any share was taken of it, and of the last value.

    The first ones do not count: a learner that knows nothing yet may be far out.
    """
    if judged < FIRST:
        return
    usual = trust[LAST] / trust[ROWS] if trust[ROWS] > CUT_FROM else 0.0
    most = WILD * usual if usual > 0.0 else np.inf
    trust[FORECAST] = REMEMBERS * trust[FORECAST] + min(abs(value - x), most)
    trust[LAST] = REMEMBERS * trust[LAST] + min(abs(last - x), most)
    trust[ROWS] = REMEMBERS * trust[ROWS] + 1.0


@compiled
def trusted(x, value, ahead, trust):
    """The forecast to give: as far from the last value x towards `value` as forecasts have earned."""
    usual = trust[LAST] / max(trust[ROWS], 1.0)
    lost = EAGER / np.sqrt(ahead) * (trust[FORECAST] - trust[LAST]) / max(usual, 1e-300)
    return x + (value - x) / (1.0 + DOUBT * np.exp(lost))

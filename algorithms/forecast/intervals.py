"""Intervals of a stated coverage: a tracked quantile of each error in units of a running mean."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.lagged_rls import NO_SPREAD_RELATIVE
from algorithms.forecast.experts import DISCOUNT, NAIVE, cut

ROW, UNIT, VALUE, EXPERTS, HALF = 0, 1, 2, 3, 11  # of what is kept of a forecast; HALF and on: half widths
OWN, PLAIN, SCALE, TOP, WIDTHS = 0, 1, 2, 3, 4  # of the errors of a horizon; WIDTHS and on: tracked quantiles
FIRST = 20  # errors before the first interval
CUT, CUT_FROM = 50.0, 30  # running means at which errors are cut for their mean, and errors before that
FIRST_CUT = 8.0  # of the first errors, for the first interval
WILD = 20.0  # the naive expert's mean errors at which one error of an expert is cut
FARTHEST, WIDEST = 20.0, 40.0  # largest size of an error for the quantile, and largest quantile, in running means
AGAIN, GROWS = 0.98, 4.0  # largest sizes a few rows apart are a sensor that wakes up: its scale grows so many times
MEMORY, SCALE_MEMORY = 1000.0, 500.0
FADES = 0.995  # of the largest size of an error, a row


@compiled
def judge(x, naive, made, losses, errors, first, judged, coverage, rate):
    """The value x has come that `made` foresaw. Gives how many were judged. The naive forecast was `naive`."""
    error, plain, scale = abs(made[VALUE] - x), abs(naive - x), errors[SCALE]
    if error <= NO_SPREAD_RELATIVE * abs(x):  # rounding, of a sensor that stands still
        error = 0.0
    usual = losses[NAIVE] / losses[-1] if judged > CUT_FROM else 0.0
    for j in range(HALF - EXPERTS):
        one = abs(made[EXPERTS + j] - x)
        losses[j] = DISCOUNT * losses[j] + (min(one, WILD * usual) if usual > 0.0 else one)
    losses[-1] = DISCOUNT * losses[-1] + 1.0
    judged += 1
    slow = max(1.0 / judged, 1.0 / MEMORY)
    errors[OWN] += slow * (error - errors[OWN])
    errors[PLAIN] += slow * (plain - errors[PLAIN])

    size = min(error / scale, FARTHEST) if scale > 0.0 else (FARTHEST if error > 0.0 else 0.0)
    again = size >= FARTHEST and errors[TOP] >= AGAIN * FARTHEST and judged > CUT_FROM
    if judged > FIRST and made[HALF] >= 0.0:
        errors[TOP] = max(size, FADES * errors[TOP])
        for c in range(coverage.size):
            missed = 1.0 if error > made[HALF + c] else 0.0
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

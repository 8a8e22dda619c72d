"""What all drift detectors share: how they report.

A detector is a learner of kind "drift". X holds the watched number (dim 1), or the columns of a detector that states
`columns = True`; a row that is NaN or infinite is skipped and its outputs are NaN. `out.features` has the four columns
below, or those and more behind them. A detector counts time in rows, so a pause in the stream is not drift.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, reject

COLUMNS = 4
STATISTIC, ALARM, BEFORE, AFTER = 0, 1, 2, 3  # NaN: not ready yet; alarm is 0 or 1
LONG_COLUMNS = 9  # of detectors that keep a stated number of false alarms
SINCE, OPEN, READY, P_VALUE = 4, 5, 6, 7  # rows since the estimated change (in an alarm); 0 or 1; 0 or 1; 1: none judged
REFERENCE = 8  # rows that the newest are compared with (in an alarm); below 0: too few to keep the stated number
NAMED = 3  # most columns that an alarm names
CHART_NAMES = ("mean", "whitened mean", "whitened row")
CHART, FIRST_COLUMN = 9, 10  # of detectors that watch columns: the chart; of each column named, by size:
COLUMN, SHIFT, USUAL, SPREAD, OF_COLUMN = 0, 1, 2, 3, 4  # its place, its shift in deviations, mean and deviation before
FIRST_SHIFT = FIRST_COLUMN + SHIFT
WIDE_COLUMNS = FIRST_COLUMN + OF_COLUMN * NAMED


def watches_columns(detector: object) -> bool:
    """It watches the columns of rows; False: one number a row."""
    return bool(getattr(detector, "columns", False))


def watches_one(owner: object, dim: int) -> None:
    """Raises SettingError unless rows are one number each."""
    if dim != 1:
        reject(owner, "dim", "1, the watched number", dim)


@compiled
def report(row: Array, statistic: float, alarm: bool, before: float, after: float) -> None:
    """Fill a row: statistic, alarm, mean before the suspected change, mean after it."""
    row[0], row[2], row[3] = statistic, before, after
    row[1] = 1.0 if alarm else 0.0


@compiled
def report_more(row: Array, since: float, still_open: bool, ready: bool, p: float, reference: float) -> None:
    """The columns behind those of `report`: rows since the change, is an alarm open, is the warm-up over, p-value, rows."""
    row[4], row[7], row[8] = since, p, reference
    row[5] = 1.0 if still_open else 0.0
    row[6] = 1.0 if ready else 0.0


@compiled
def name_columns(shift: Array, least_share: float, row: Array) -> int:
    """Up to NAMED columns by how far they moved, shift (columns,) in deviations; gives how many.

    Those that moved less than this share of the first are not named. The caller fills USUAL and SPREAD of each.
    """
    farthest, last, most = np.inf, -1, 0.0
    for place in range(NAMED):
        best, largest = -1, 0.0
        for i in range(shift.size):
            size = abs(shift[i])
            after_last = size < farthest or (size == farthest and i > last)
            if after_last and size > largest:
                best, largest = i, size
        if best < 0 or largest < least_share * most:
            return place
        farthest, last, most = largest, best, max(most, largest)
        at = FIRST_COLUMN + OF_COLUMN * place
        row[at + COLUMN], row[at + SHIFT] = best, shift[best]
    return NAMED

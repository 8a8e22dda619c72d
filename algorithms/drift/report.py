"""What all drift detectors share: how they report.

A detector is a learner of kind "drift" with dim 1: X holds the watched number (NaN or infinite: the row is skipped and its
outputs are NaN), and `out.features` has the four columns below. Rows are all a detector knows of time, so a pause in the
stream is no drift.
"""

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, reject

COLUMNS = 4
STATISTIC, ALARM, BEFORE, AFTER = 0, 1, 2, 3  # NaN: not ready yet; alarm is 0 or 1


def watches_one(owner: object, dim: int) -> None:
    """Raises SettingError unless rows are one number each."""
    if dim != 1:
        reject(owner, "dim", "1, the watched number", dim)


@compiled
def report(row: Array, statistic: float, alarm: bool, before: float, after: float) -> None:
    """Fill a row: statistic, alarm, mean before the suspected change, mean after it."""
    row[0], row[2], row[3] = statistic, before, after
    row[1] = 1.0 if alarm else 0.0

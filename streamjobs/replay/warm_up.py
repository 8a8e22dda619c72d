"""How many rows and days a key needs before its detectors can alarm; rows are measured on noise."""

from typing import Any

import numpy as np

from algorithms import Learner
from algorithms.drift.report import LONG_COLUMNS, READY
from streamjobs.core.job import Job
from streamjobs.settings.types import many
from streamjobs.stages.events.rhythm import KNOWN

STEP, MOST = 500, 50_000  # rows of noise at once, and at most


def rows_to_alarm(job: Job) -> int | None:
    """Rows of a key before all its detectors can alarm, at least: where rows resemble the rows before, they need more.

    None where no detector keeps a number of false alarms, because the others can alarm from the first rows on; and with
    [drift] reference, which says itself how long a key is watched before.
    """
    if job.steps.reference is not None:
        return None
    needed = [
        _rows_to_ready(steps.detector.learner, job.template[steps.watch.detector_stage])
        for steps in job.steps.watches
        if not steps.watch.control and steps.detector.learner.width >= LONG_COLUMNS
    ]
    return max(needed, default=None)


def days_to_alarm(job: Job) -> int:
    """Whole days of a key before the first of these rows: those that [drift] daily needs."""
    return KNOWN if job.settings.drift is not None and job.settings.drift.daily else 0


def in_words(rows: int, days: int) -> str:
    """What a key needs before its detectors can alarm.

    >>> in_words(1129, 0), in_words(429, 2)
    ('1,129 rows', '2 days and 429 rows')
    """
    return f"{many(days, 'day')} and {rows:,} rows" if days else f"{rows:,} rows"


def _rows_to_ready(detector: Learner, state: Any) -> int:
    random = np.random.default_rng(0)
    for begin in range(0, MOST, STEP):
        state, out = detector.run(state, random.normal(size=(STEP, detector.dim(state))))
        ready = np.flatnonzero(out.features[:, READY] > 0)
        if len(ready):
            return begin + int(ready[0]) + 1
    return MOST

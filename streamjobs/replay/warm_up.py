"""How many rows and days a key needs before its detectors can alarm; rows are measured on noise."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from algorithms import Learner
from algorithms.drift.report import LONG_COLUMNS, READY
from streamjobs.core.job import Job
from streamjobs.settings.types import many
from streamjobs.stages.events.rhythm import DAY, KNOWN

LONGER = "from more where rows resemble the rows before them, such as over a day"
STEP, MOST = 500, 50_000  # rows of noise at once, and at most
FEW_COLUMNS = 8  # charts on columns need as many rows for these as for more, and a row costs the square of their number


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


def days_to_alarm(job: Job) -> float:
    """Days of a key before the first of these rows: those that [drift] daily needs, after the longest span of slopes."""
    drift = job.settings.drift
    if drift is None:
        return 0
    return (KNOWN if drift.daily else 0) + max((drift.slopes or {}).values(), default=0.0) / DAY


def in_words(rows: int, days: float) -> str:
    """What a key needs before its detectors can alarm.

    >>> in_words(1129, 0), in_words(429, 2), in_words(429, 2 + 1 / 6)
    ('1,129 rows', '2 days and 429 rows', '2 days, 4 hours and 429 rows')
    """
    whole, hours = divmod(round(24 * days, 1), 24)
    times = [many(int(whole), "day")] * (whole > 0) + [f"{hours:g} hour{'s' * (hours != 1)}"] * (hours > 0)
    return f"{', '.join(times)} and {rows:,} rows" if times else f"{rows:,} rows"


def cannot_alarm_yet(summary: Mapping[str, Any]) -> str | None:
    """How many keys of a replay, or which detectors of them, still warm up, and for how long; None if none does."""
    alarms, keys = summary["alarms"], many(summary["keys"], "key")
    if alarms["keys_warming_up"]:
        rows, average = alarms["rows_to_alarm"], summary["rows"] / max(summary["keys"], 1)
        enough = rows is not None and average >= rows
        needed = "its [drift] reference" if rows is None else f"at least {in_words(rows, alarms['days_to_alarm'])}"
        return (
            f"{alarms['keys_warming_up']:,} of {keys} cannot alarm yet: a detector first learns what is normal for it, "
            f"from {needed}{f', {LONGER}' if enough else ''}"
            f"{', and again after a change that lasts' if alarms['total'] else ''}; a key has {average:,.0f} rows on average"
        )
    if warming := alarms["keys_warming_up_by_watch"]:
        few = ", ".join(f"'{watch}' of {count:,} of {keys}" for watch, count in warming.items())
        return f"[drift] watch: {few} cannot alarm yet, the others can; a detector learns {LONGER}"
    return None


def _rows_to_ready(detector: Learner, state: Any) -> int:
    from algorithms.drift.charts import ColumnDetector  # which a job without [drift] does not load

    if isinstance(detector, ColumnDetector):
        state = detector.init(dim=min(detector.dim(state), FEW_COLUMNS), targets=0, seed=0)
    random = np.random.default_rng(0)
    for begin in range(0, MOST, STEP):
        state, out = detector.run(state, random.normal(size=(STEP, detector.dim(state))))
        ready = np.flatnonzero(out.features[:, READY] > 0)
        if len(ready):
            return begin + int(ready[0]) + 1
    return MOST

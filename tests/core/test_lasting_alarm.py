"""An alarm that lasts leaves states that can be read, and the job goes on from them."""

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.forms import unwritable
from streamjobs.core.live.stored import load_snapshot
from tests.core.streams import Worker, record, settings

QUIET = 2_000  # rows before the change
LEARNER = {"name": "okfeb", "role": "head", "rank": 8, "budget": 16}
JOBS = {
    "columns": {"watch": "columns", "false_alarms": "1 per 10000 rows"},  # as in README
    "conformal": {"detector": "conformal"},
    "columns and errors": {"watch": ["columns", "ls_error"], "false_alarms": "1 per 10000 rows"},
    "columns and errors of a reference": {
        "watch": ["columns", "ls_error"],
        "false_alarms": "1 per 10000 rows",
        "reference": "first 400 rows",
        "extractor": {"name": "last_points", "rank": 5},
    },
}


def rows(begin: int, end: int, level: float) -> list:
    """Records of one key; from row QUIET on, column ay is at another level."""
    records = []
    for row in range(begin, end):
        x = np.random.default_rng(row).normal(size=3)
        x[1] += level * (row >= QUIET)
        records.append(record(row, b"p0", {"ax": x[0], "ay": x[1], "az": x[2], "ts": 1.7e9 + 0.1 * row}))
    return records


def alarm_that_lasts(drift: dict, after: int, level: float) -> None:
    """A key with `after` rows at a new level: every snapshot is read, and every second one starts another worker."""
    job = Job.from_settings(settings(window=None, learner=LEARNER, drift=drift))
    worker, alarms = Worker(job), 0
    worker.apply(rows(0, QUIET, level))
    for at, begin in enumerate(range(QUIET, QUIET + after, 50)):
        made = worker.apply(rows(begin, begin + 50, level))
        alarms += sum(b'"drift":true' in one.value for one in made)
        assert unwritable(worker.live, list(worker.live.slot_of.values())) == {}
        worker.checkpoint()
        load_snapshot(job, worker.store[b"p0"])
        if at % 2:
            worker.crash()
    assert alarms >= 1


@pytest.mark.parametrize("which", JOBS)
def test_an_alarm_open_for_hundreds_of_rows_leaves_states_that_are_read(which):
    alarm_that_lasts(JOBS[which], 700, 8.0)


@pytest.mark.slow
@pytest.mark.parametrize("which", JOBS)
def test_a_high_level_that_stays_for_5000_rows_leaves_states_that_are_read(which):
    alarm_that_lasts(JOBS[which], 5_000, 1e5)


@pytest.mark.long
@pytest.mark.parametrize("which", JOBS)
def test_a_level_that_stays_for_10000_rows_leaves_states_that_are_read(which):
    alarm_that_lasts(JOBS[which], 10_000, 8.0)

"""`verify`: each thing that can be wrong is found, and nothing else."""

import pytest

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.maintenance.verify import verified
from tests.core.streams import samples, settings
from tests.maintenance.copying import copy_of, stored

RECORDS = samples(360)
KEY = (0, b"p1")


@pytest.fixture(scope="module")
def job() -> Job:
    return Job.from_settings(settings())


@pytest.fixture(scope="module")
def older(job):
    return copy_of(job, stored(job, RECORDS[:180]))


@pytest.fixture(scope="module")
def copy(job):
    return copy_of(job, stored(job, RECORDS), offset=10)


def with_offsets(copy, offsets):
    entry = copy.entries[KEY]
    data = snapshot.encode(snapshot.decode(entry.data)._replace(offsets=offsets))
    return copy._replace(entries=copy.entries | {KEY: entry._replace(data=data)})


def test_good_states_have_no_problems(job, older, copy):
    found = verified(job, copy, {0: 360}, {0: 359}, older)
    assert (found.keys, found.ahead, found.problems) == (3, 1, [])
    assert verified(job, copy, None, None, copy).problems == []


def test_each_problem_is_reported_once_with_its_keys(job, older, copy):
    entry = copy.entries[KEY]
    damaged = copy._replace(entries=copy.entries | {KEY: entry._replace(data=entry.data[:-3])})
    gone = copy._replace(entries={place: one for place, one in copy.entries.items() if place != KEY})
    other = Job.from_settings(settings(learner={"name": "okfeb", "rank": 2, "budget": 5}))
    cases = [
        (verified(job, damaged, None, None, None), "damaged"),
        (verified(other, copy, None, None, None), "3 keys ('p0'[0], 'p1'[0], 'p2'[0]): snapshot was written with"),
        (verified(job, with_offsets(copy, {("imu", 1): 5}), None, None, None), "partition 1"),
        (verified(job, with_offsets(copy, {("old", 0): 5}), None, None, None), "got offsets of old"),
        (verified(job, copy, {0: 358}, None, None), "beyond the end of imu[0], 358"),
        (verified(job, gone, None, None, copy), "forgotten since?"),
        (verified(job, with_offsets(copy, {("imu", 0): 3}), None, None, older), "learned twice"),
        (verified(job, older, None, None, copy), "lost records"),
        (verified(job, with_offsets(copy, {("imu", 0): 900}), None, None, copy), "its bytes differ"),
    ]
    for found, words in cases:
        assert len(found.problems) == 1 and words in found.problems[0], (words, found.problems)

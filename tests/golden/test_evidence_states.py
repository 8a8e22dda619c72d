"""Keys with an open alarm that releases up to 0.2.0 stored with infinite evidence go on by themselves."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from algorithms.drift.ranked import MOST_EVIDENCE
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.state import snapshot
from streamjobs.settings.load import settings_from
from tests.core.streams import record
from tests.golden.make_evidence_states import JOBS, LATER, OPEN, QUIET, bodies

each_job = pytest.mark.parametrize("name", JOBS)
each_way = pytest.mark.parametrize("together", [True, False], ids=["in columns", "one by one"])


def stored(name: str) -> tuple[Job, bytes, bytes]:
    """The job, the key's snapshot with infinite evidence, and the later one."""
    with zipfile.ZipFile(Path(__file__).parent / "evidence-4e5b17d.zip") as archive:
        return Job.from_settings(settings_from(json.loads(archive.read(f"{name}/job.json")))), *(
            archive.read(f"{name}/{word}") for word in ("open", "later")
        )


def read(job: Job, data: bytes, together: bool) -> Live:
    live = Live(job, {b"k": data}.get)
    assert live.columns is not None
    if together:
        assert live.columns.decode(
            [data], live._take([b"other"]), live.offsets, live.names, job.most_names, job.given_names
        ) == [True]
    else:
        live.columns = None
    return live


@each_job
def test_the_stored_evidence_is_infinite(name):
    _, data, _ = stored(name)
    assert any(np.isinf(array).any() and array.shape[-1] == 6 for array in snapshot.decode(data).arrays)


@each_job
@each_way
def test_infinite_evidence_is_read_as_its_bound(name, together):
    job, data, _ = stored(name)
    live = read(job, data, together)
    live.tick()
    scores = live.states(live.slot(b"k"))["drift"].scores
    assert scores.max() == MOST_EVIDENCE
    np.testing.assert_array_equal(scores, load_snapshot(job, data)[0]["drift"].scores)


@each_job
@each_way
def test_the_key_goes_on_to_the_state_of_a_worker_that_never_stopped(name, together):
    """The alarm ends after as many rows, and all that is learned then is the same."""
    job, data, later = stored(name)
    live = read(job, data, together)
    begin = QUIET + OPEN
    for at in range(begin, QUIET + LATER, 50):
        advance(job, live, [record(at + n, b"k", body) for n, body in enumerate(bodies(at, min(at + 50, QUIET + LATER)))])
        ((_, written),) = live.snapshots()
        load_snapshot(job, written)
    for got, expected in zip(snapshot.decode(written).arrays, snapshot.decode(later).arrays, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)

"""How live keys stand, as metrics tell it: from real batches, not from numbers made up."""

import json
from hashlib import blake2b

import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.live_stats import WORST
from tests.core.streams import START, record, samples, settings

DRIFT = {"detector": {"name": "page_hinkley", "delta": 0.01, "threshold": 0.1}}


@pytest.fixture(scope="module")
def job() -> Job:
    return Job.from_settings(settings(drift=DRIFT))


def outputs(advanced, sink):
    return [json.loads(output.value) for output in advanced.outputs if output.sink == sink]


def test_the_worst_keys_are_those_with_the_largest_newest_ls_errors(job):
    live = Live(job, {}.get)
    advanced = advance(job, live, samples(900, keys=15))
    newest, every = {}, []
    for one in outputs(advanced, "features"):
        if one["ls_error"] is not None:
            newest[one["key"]] = one["ls_error"]
            every.append((one["ls_error"], blake2b(one["key"].encode(), digest_size=8).hexdigest(), one["ts"]))
    assert len(newest) == 15
    assert live.stats(0).worst == tuple(sorted(newest.values(), reverse=True)[:WORST])
    assert advanced.report.worst in every and advanced.report.worst.ls_error == max(every)[0]
    assert sorted(np.concatenate(advanced.report.ls_errors).tolist()) == sorted(error for error, _, _ in every)


def test_keys_are_active_while_their_records_come_and_in_drift_while_alarms_do(job):
    live = Live(job, {}.get)
    advanced = advance(job, live, samples(600, keys=3))
    alarmed = {one["key"] for one in outputs(advanced, "drift") if one["alarm"]}
    assert alarmed
    assert (live.stats(0).active, live.stats(0).drifting) == (3, len(alarmed))
    batches = live.now
    advance(job, live, [one for one in samples(606, keys=3)[600:] if one.key == b"p0"])
    assert (live.stats(batches).active, live.stats(0).active, live.keys) == (1, 3, 3)
    assert live.stats(batches).drifting == 0
    assert live.stats(live.now).worst == () and live.stats(batches).active == 1


def test_the_budget_fills_and_the_rank_with_it(job):
    live = Live(job, {}.get)
    stream = samples(400, keys=1)
    assert np.isnan(live.stats(0).budget_used) and np.isnan(live.stats(0).rank)
    advance(job, live, stream[:12])  # one window
    assert live.stats(0).budget_used == pytest.approx(1 / 5) and live.stats(0).rank == 0
    advance(job, live, stream[12:300])
    advance(job, live, stream[300:])
    assert live.stats(0).budget_used == 1.0 and live.stats(0).rank == 3


def test_a_model_that_stores_nothing_has_no_budget():
    job = Job.from_settings(settings(head=None, drift=None, learner={"name": "rls", "task": "regression"}, window=None))
    live = Live(job, {}.get)
    advance(job, live, samples(10, keys=2, labelled=False))
    assert np.isnan(live.stats(0).budget_used) and np.isnan(live.stats(0).rank)
    assert live.stats(0).active == 2


def test_keys_that_leave_for_want_of_room_are_counted_and_no_longer_active(job):
    live, left = Live(job, {}.get, most_bytes=1), 0
    stream = samples(400, keys=40)
    for at in range(0, 400, 10):
        left += advance(job, live, stream[at : at + 10]).report.keys_evicted
        live.snapshots()
    assert live.keys <= 16 < left
    assert live.stats(0).active == live.keys
    assert advance(job, Live(job, {}.get), stream).report.keys_evicted == 0


def test_a_labels_delay_is_its_records_time_less_the_rows():
    job = Job.from_settings(settings(window=None, drift=None))
    x = {"ax": 1.0, "ay": 0.0, "az": 0.0}
    late = record(0, b"p", x | {"ts": START - 30.0, "activity": "run"})
    assert advance(job, Live(job, {}.get), [late]).report.label_delay == pytest.approx(30.0)
    newest = record(1, b"p", x | {"ts": START - 4.0})
    report = advance(job, Live(job, {}.get), [late, newest]).report
    assert (report.labels, report.label_delay) == (1, pytest.approx(30.0)) and report.newest_delay == pytest.approx(5.0)
    assert np.isnan(advance(job, Live(job, {}.get), [newest]).report.label_delay)


def test_a_live_key_takes_at_most_half_as_much_again_as_its_state():
    """With Python's own objects for a key, about 900 bytes; the job is the one of `tests.bench keys`."""
    made = Job.from_settings(settings(learner={"name": "okfeb", "rank": 10, "budget": 15}, head={"name": "rls"}))
    live = Live(made)
    assert live.slot_bytes + 1000 <= 1.5 * made.state_bytes, (live.slot_bytes, made.state_bytes)

"""The core as a worker uses it: crashes, redelivery, batches, bounded memory, dead letters, warm starts."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import starting_from
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from tests.core.people import job_of_people, late_labels
from tests.core.streams import Worker, record, samples, settings, values
from tests.sizes import first_fast

RECORDS = samples(360)


class Case(NamedTuple):
    job: Job
    records: list[Stored]


@pytest.fixture(scope="module", params=first_fast(["own map", "population", "late labels"]))
def case(request) -> Case:
    """What follows holds where every key learns its own scale and map, where all share a population's, and where a
    person's labels come late or are held back, with a filter behind a head that sees rows and features."""
    if request.param == "own map":
        return Case(Job.from_settings(settings()), RECORDS)
    if request.param == "population":
        return Case(job_of_people(), RECORDS)
    labels = {"wait": "10s", "delay": "1s", "most": 8}
    learner = {"name": "ald", "above": 0.1, "budget": 20, "input": True}
    head = {"name": "rls", "filter": "hmm", "fallback": "last_label"}
    return Case(job_of_people(labels=labels, learner=learner, head=head), late_labels(RECORDS))


@pytest.fixture(scope="module")
def job(case) -> Job:
    return case.job


@pytest.fixture(scope="module")
def records(case) -> list[Stored]:
    return case.records


@pytest.fixture(scope="module")
def uninterrupted(job, records) -> tuple[list, dict]:
    worker = Worker(job)
    outputs = values(worker.apply(records))
    worker.checkpoint()
    return outputs, worker.store


def test_the_stream_gives_all_three_kinds_of_output(uninterrupted):
    outputs, _ = uninterrupted
    sinks = [output[0] for output in outputs]
    assert sinks.count("features") == sinks.count("predictions") == sinks.count("drift") > 50
    assert "dlq" not in sinks
    last = json.loads([output[2] for output in outputs if output[0] == "predictions"][-1])
    assert last["predicted_class"] in ("run", "sit") and last["classes"] == 2 and last["ls_error"] >= 0
    assert sorted(last["labelled"]) == ["run", "sit"]


def test_replay_after_a_crash_at_any_record_repeats_outputs_exactly(job, records, uninterrupted):
    wanted, states = uninterrupted
    for crash in range(0, len(records), 7):
        worker = Worker(job)
        before = values(worker.apply(records[:crash]))
        stored = crash // 2  # the checkpoint before it: a fresh worker at that point
        safe = Worker(job)
        safe.apply(records[:stored])
        safe.checkpoint()
        again = Worker(job, dict(safe.store))
        after = values(again.apply(records[stored:]))
        again.checkpoint()
        done = {output[4][0][1] + output[0].encode(): output for output in before}
        for output in after:
            earlier = done.setdefault(output[4][0][1] + output[0].encode(), output)
            assert earlier == output
        assert set(done.values()) == set(wanted)
        assert again.store == states


def test_a_crash_after_every_single_record_changes_nothing(job, records, uninterrupted):
    wanted, states = uninterrupted
    worker, outputs = Worker(job), []
    for one in records:
        outputs += values(worker.apply([one]))
        worker.checkpoint()
        worker.crash()
    assert outputs_of(outputs) == outputs_of(wanted)
    assert worker.store == states


def outputs_of(outputs):
    return sorted(outputs, key=lambda o: (o[4][0][1], o[0]))


def test_redelivered_records_train_no_key_twice(job, records, uninterrupted):
    _, states = uninterrupted
    worker = Worker(job)
    worker.apply(records)
    again = advance(job, worker.live, records[100:])
    assert again.outputs == [] and again.report.redelivered == len(records) - 100
    worker.checkpoint()
    assert worker.store == states


def test_a_batch_with_each_record_twice_trains_no_key_twice(job, records, uninterrupted):
    worker = Worker(job)
    outputs = values(worker.apply([one for record in records for one in (record, record)]))
    worker.checkpoint()
    assert (outputs, worker.store) == uninterrupted


@given(st.lists(st.integers(1, 90), min_size=1, max_size=12))
@how(max_examples=15, deadline=None)
def test_any_split_into_batches_gives_the_same_bits(job, records, uninterrupted, sizes):
    wanted, states = uninterrupted
    worker, outputs, at = Worker(job), [], 0
    for size in [*sizes, len(records)]:
        outputs += values(worker.apply(records[at : at + size]))
        at += size
    worker.checkpoint()
    assert outputs_of(outputs) == outputs_of(wanted)
    assert worker.store == states


def test_each_key_alone_gives_what_it_gives_among_others(job, records, uninterrupted):
    wanted, states = uninterrupted
    for key in (b"p0", b"p1", b"p2"):
        worker = Worker(job)
        alone = values(worker.apply([r for r in records if r.key == key]))
        worker.checkpoint()
        assert alone == [output for output in wanted if output[1] == key]
        assert worker.store[key] == states[key]


def test_more_keys_than_room_gives_the_same_states(job):
    many = samples(1500, keys=100)
    roomy, tight = Worker(job), Worker(job, most_bytes=1)
    for at in range(0, len(many), 250):
        assert outputs_of(values(roomy.apply(many[at : at + 250]))) == outputs_of(values(tight.apply(many[at : at + 250])))
        if at % 500 == 0:
            tight.checkpoint()
    assert tight.live.keys <= tight.live.most_slots == 16 < roomy.live.keys
    roomy.checkpoint()
    assert tight.live.parked.bytes > 0
    tight.checkpoint()
    assert tight.store == roomy.store and not tight.live.parked and tight.live.parked.bytes == 0


def test_a_changed_job_is_refused_and_says_what_changed():
    worker = Worker(Job.from_settings(settings()))
    worker.apply(RECORDS[:60])
    worker.checkpoint()
    other = Job.from_settings(settings(learner={"name": "okfeb", "rank": 4, "budget": 5}))
    live = Live(other, worker.store.get)
    with pytest.raises(SnapshotError, match=r"rank=3.*rank=4"):
        advance(other, live, RECORDS[:3])


def test_records_that_cannot_be_used_become_dead_letters_and_change_nothing(job):
    bad = [
        record(0, b"p0", b"{not json"),
        record(1, None, {"ax": 1, "ay": 1, "az": 1, "ts": 1_700_000_000.0}),
        record(2, b"p0", {"ax": 1, "ay": 1, "ts": 1_700_000_000.0}),
        record(3, b"p0", b""),
        record(4, b"p0", {"ax": 1, "ay": 1, "az": 1, "ts": 1_700_000_000.0, "activity": ["a"]}),
    ]
    worker = Worker(job)
    advanced = advance(job, worker.live, bad)
    assert [output.sink for output in advanced.outputs] == ["dlq"] * 5
    assert sum(advanced.report.dead_lettered.values()) == 5
    for output, original in zip(advanced.outputs, bad, strict=True):
        headers = dict(output.headers)
        assert (output.key, output.value, output.timestamp) == (original.key, original.value, original.timestamp)
        assert headers["streamjobs-error-offset"] == str(original.offset).encode()
        assert headers["streamjobs-error-reason"] and headers["streamjobs-error-message"]
    assert worker.live.snapshots() == []


def test_a_new_key_starts_from_an_exported_state():
    job = Job.from_settings(settings())
    pooled = Worker(job, pooled=True)
    pooled.apply(RECORDS)
    exported = pooled.live.export()
    warm = Worker(starting_from(Job.from_settings(settings()), exported))
    new = [r._replace(key=b"new") for r in samples(60, keys=1, labelled=False)]
    predictions = [json.loads(o.value) for o in warm.apply(new) if o.sink == "predictions"]
    assert (
        predictions[0]["predicted_class"] in ("run", "sit") and predictions[0]["n_seen"] > 50 and predictions[0]["seq"] == 0
    )
    cold = [json.loads(o.value) for o in Worker(job).apply(new) if o.sink == "predictions"]
    assert cold[0]["predicted_class"] is None and cold[0]["n_seen"] == 0


def test_a_pooled_model_keeps_each_keys_signal_apart(job, records):
    pooled, single = Worker(job, pooled=True), Worker(job)
    a = pooled.apply(records)
    b = single.apply(records)
    assert [(o.key, o.timestamp) for o in a if o.sink == "features"] == [
        (o.key, o.timestamp) for o in b if o.sink == "features"
    ]


def test_the_state_of_a_key_stays_within_what_is_announced(job, uninterrupted):
    _, states = uninterrupted
    assert max(map(len, states.values())) <= job.state_bytes


def test_class_names_are_each_keys_own(job):
    x = {"ax": 1.0, "ay": 0.0, "az": 0.0}
    job = Job.from_settings(settings(window=None, drift=None, head={"name": "rls", "max_classes": 2}))
    worker = Worker(job)
    stream = [
        record(0, b"a", x | {"ts": 1.0, "activity": "run"}),
        record(1, b"b", x | {"ts": 1.0, "activity": "sit"}),
        record(2, b"a", x | {"ts": 2.0, "activity": "sit"}),
        record(3, b"a", x | {"ts": 3.0, "activity": "lie"}),
    ]
    outputs = worker.apply(stream)
    assert worker.live.names[worker.live.slot_of[b"a"]] == ("run", "sit")
    assert worker.live.names[worker.live.slot_of[b"b"]] == ("sit",)
    assert dict(outputs[-1].headers)["streamjobs-error-reason"] == b"too_many_classes"


def test_a_snapshot_packed_from_the_arrays_is_that_of_the_saved_state(job, records):
    worker = Worker(job)
    worker.apply(records[:200])
    live = worker.live
    packed = dict(live.snapshots())
    for key, slot in live.slot_of.items():
        saved = job.encode(live.states(slot), live.names[slot], live.offsets[slot])
        assert saved == packed[key]

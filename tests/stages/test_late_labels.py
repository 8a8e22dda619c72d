"""Rows that wait for labels: the stage against a plain one, and late labels as records through the core."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.stages.late_labels import LateLabels
from streamjobs.stages.rows import Rows
from tests.core.driving import fresh, same_bits
from tests.core.people import job_of_people
from tests.core.streams import START, Worker, record, samples, settings
from tests.reference.waiting import Waiting as Plain
from tests.sizes import examples

KEYS = 2
event = st.tuples(
    st.sampled_from(["row", "row", "label"]),
    st.integers(0, KEYS - 1),
    st.integers(0, 12),  # time, less than the one before it now and then
    st.sampled_from([np.nan, 0.0, 1.0]),
    st.sampled_from([3, 3, 3, 0]),
)


def arrays(events: list[tuple], kind: str) -> Rows:
    chosen = [(n, one) for n, one in enumerate(events) if one[0] == kind]
    column = [
        np.array([one[i] for _, one in chosen], dtype) for i, dtype in ((1, np.int64), (2, float), (3, float), (4, np.int8))
    ]
    slots, times, L, learn = column
    owner = np.array([n for n, _ in chosen], np.int64)
    return Rows(slots, times, owner[:, None] * 10.0 + 1.0, L[:, None], owner, learn)


def labelled(events: list[tuple]) -> list[tuple]:
    """Times rise by steps so that they differ; a label alone is never unknown."""
    found = []
    for n, (kind, key, time, label, learn) in enumerate(events):
        moment = n + time * 0.4 - 2.0
        found.append((kind, key, moment, 1.0 if kind == "label" and np.isnan(label) else label, learn))
    return found


@given(
    st.lists(event, max_size=50),
    st.sampled_from([0.0, 2.0, 8.0]),
    st.sampled_from([0.0, 3.0]),
    st.sampled_from([0.0, 0.7, 3.0]),
    st.integers(1, 6),
    st.lists(st.integers(0, 50), max_size=4),
)
@how(max_examples=examples(150), deadline=None)
def test_rows_and_labels_meet_as_in_the_plain_version_in_any_batches_across_restarts(
    events, wait, delay, within, most, cuts
):
    events = labelled(events)
    plain = Plain(wait, delay, within, most)
    for n, (kind, key, time, label, learn) in enumerate(events):
        if kind == "row":
            plain.row(key, time, n * 10.0 + 1.0, label, learn)
        else:
            plain.label(key, time, label)
    stage = LateLabels(wait=wait, delay=delay, within=within, most=most)
    states = [fresh(stage, 1, 1) for _ in range(KEYS)]
    made, missed, skipped = [], [], {"unlabelled": 0, "waiting_full": 0}
    for begin, end in itertools.pairwise([0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]):
        work = stage.workspace(states[0], slots=KEYS)
        for slot, state in enumerate(states):
            stage.load(work, slot, state)
        part = events[begin:end]
        came, late = arrays(part, "row"), arrays(part, "label")
        came, late = (rows._replace(X=rows.X + begin * 10.0) for rows in (came, late))
        met = stage.advance(work, came, late)
        stage.remember(work, met.rows.slots, np.zeros(len(met.rows.slots), np.int64))
        rows = met.rows
        made += zip(rows.slots, rows.times, rows.X[:, 0], rows.L[:, 0], rows.learn, strict=True)
        missed += met.missed.tolist()
        for reason, count in met.skipped.items():
            skipped[reason] += count
        states = [stage.save(work, slot, state) for slot, state in enumerate(states)]
    assert same_bits(np.array(made, float).reshape(-1, 5), np.array(plain.made, float).reshape(-1, 5))
    assert missed == plain.missed and skipped == plain.skipped
    for key, state in enumerate(states):
        assert sorted(state.times) == sorted(row[0] for row in plain.rows.get(key, []))
        assert len(state.times) <= most and (state.said == 0).all()


def late_label(offset: int, key: bytes, time: float, label: object) -> object:
    return record(offset, key, {"ts": time, "activity": label})


def job_with(labels: dict, **sections) -> Job:
    return Job.from_settings(settings(labels=labels, **sections))


def by_sink(outputs, sink: str) -> list[dict]:
    return [json.loads(o.value) for o in outputs if o.sink == sink]


def test_a_label_that_comes_late_teaches_the_head_of_its_row_and_gives_no_output():
    job, unlabelled = job_of_people(labels={"wait": "5s"}), samples(60, keys=1, labelled=False)
    worker = Worker(job)
    rows = by_sink(worker.apply(unlabelled), "predictions")
    before = worker.live.states(0)
    worker.checkpoint()
    last = rows[-1]["ts"]
    advanced = advance(job, worker.live, [late_label(60, b"p0", last + 0.2, "sit")])
    after = worker.live.states(0)
    assert advanced.outputs == [] and advanced.report.labels == 1 and worker.live.dirty
    assert advanced.report.wrong == (rows[-1]["predicted_class"] != "sit")
    assert after["learner"].labels == before["learner"].labels + 1 == 1
    assert len(after["waiting"].times) == len(before["waiting"].times) - 1 and last not in after["waiting"].times
    for untouched in ("order", "windows", "smoothing", "drift"):
        assert same_bits([np.asarray(a) for a in before[untouched]], [np.asarray(a) for a in after[untouched]])
    assert after["books"].rows == before["books"].rows and after["books"].labelled.tolist() == [0, 1]


def test_a_delayed_label_is_learned_as_one_that_comes_late_by_itself():
    """The same rows, labels and moments: with the rows and delayed, or in records of their own."""
    head = {"name": "rls", "classes": ["run", "sit"]}
    window = {"length": "1s", "hop": "1s", "rate": 10.0}
    stream = samples(400, keys=1)
    delayed = Worker(job_with({"delay": "3s"}, head=head, window=window))
    theirs = by_sink(delayed.apply(stream), "predictions")
    late = Worker(job_with({"wait": "20s"}, head=head, window=window))
    ours, pending, offset = [], [], 0
    for one in stream:
        body = json.loads(one.value)
        body.pop("activity", None)
        said = by_sink(late.apply([record(offset, b"p0", body)]), "predictions")
        offset += 1
        for row in said:
            ours.append(row)
            label = next(o["true_class"] for o in theirs if o["ts"] == row["ts"])
            pending.append((row["ts"], label))
            for time, name in [p for p in pending if p[1] is not None and row["ts"] - p[0] >= 3.0]:
                pending.remove((time, name))
                assert late.apply([late_label(offset, b"p0", time, name)]) == []
                offset += 1
    assert len(ours) > 30 and len({row["predicted_class"] for row in ours}) == 3  # none, run, sit
    for a, b in zip(ours, theirs, strict=True):
        assert {k: v for k, v in a.items() if k not in ("true_class", "drift")} == {
            k: v for k, v in b.items() if k not in ("true_class", "drift")
        }


def test_a_label_that_meets_no_row_becomes_a_dead_letter_with_the_reason():
    worker = Worker(job_with({"wait": "2s", "most": 3}))
    rows = by_sink(worker.apply(samples(60, keys=1, labelled=False)), "predictions")
    first, last = rows[0]["ts"], rows[-1]["ts"]
    for offset, time, label in ((60, first, "sit"), (61, last + 5, "sit"), (62, last, "run")):
        letters = [o for o in worker.apply([late_label(offset, b"p0", time, label)]) if o.sink == "dlq"]
        assert bool(letters) == (time != last)
        for letter in letters:
            headers = dict(letter.headers)
            assert headers["streamjobs-error-reason"] == b"unmatched_label"
            assert b"offset %d: expected a label within 0.25 s" % offset in headers["streamjobs-error-message"]
    again = worker.apply([late_label(63, b"p0", last, "run")])
    assert [o.sink for o in again] == ["dlq"]  # that row has its label


def test_several_labels_in_one_record_and_those_that_meet_nothing_are_counted():
    job = job_with({"wait": "10s"})
    worker = Worker(job)
    rows = by_sink(worker.apply(samples(60, keys=1, labelled=False)), "predictions")
    times = [rows[-2]["ts"], rows[-1]["ts"], rows[-1]["ts"] + 60]
    report = advance(job, worker.live, [record(60, b"p0", {"ts": times, "activity": "sit"})]).report
    assert report.labels == 2 and report.skipped == {"unmatched_label": 1} and not report.dead_lettered
    report = advance(job, worker.live, [record(61, b"p0", {"ts": times[:2], "activity": ["sit"]})]).report
    assert report.dead_lettered == {"bad_label": 1}


def test_rows_whose_label_never_comes_leave_and_are_counted_and_a_full_buffer_drops_the_oldest():
    patient, full = job_with({"wait": "2s"}), job_with({"wait": "100s", "most": 4})
    stream = samples(300, keys=1, labelled=False)
    reports = {}
    for job in (patient, full):
        worker = Worker(job)
        reports[job.fingerprint] = advance(job, worker.live, stream).report.skipped
        assert len(worker.live.states(0)["waiting"].times) <= job.stages["waiting"].most <= 5
        worker.checkpoint()
        assert len(worker.store[b"p0"]) <= job.state_bytes
    assert list(reports[patient.fingerprint]) == ["unlabelled"] and list(reports[full.fingerprint]) == ["waiting_full"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"ts": START, "activity": None}, "missing_field"),
        ({"ts": START}, "missing_field"),
        ({"activity": "sit"}, "missing_field"),
        ({"ts": START, "activity": "sit", "ax": 1.0}, "missing_field"),
        ({"ts": START + 1e6, "activity": "sit"}, "future"),
        ({"ts": [START, START], "activity": ["sit", "run", "sit"]}, "bad_time"),
        ({"ts": START, "activity": {"a": 1}}, "bad_label"),
        ({"ts": START, "activity": "x" * 300}, "bad_label"),
    ],
)
def test_a_broken_label_record_is_a_dead_letter_that_says_why(body, reason):
    worker = Worker(job_with({"wait": "5s"}))
    letters = worker.apply([record(0, b"p0", body)])
    assert [dict(o.headers)["streamjobs-error-reason"].decode() for o in letters] == [reason]
    assert worker.live.snapshots() == []


def test_without_waiting_a_label_alone_is_a_record_without_x():
    letters = Worker(Job.from_settings(settings())).apply([late_label(0, b"p0", START, "sit")])
    assert dict(letters[0].headers)["streamjobs-error-reason"] == b"missing_field"


def test_late_labels_of_msgpack_records_and_of_x_in_one_field():
    import msgspec

    source = {"topic": "imu", "format": "msgpack", "dim": 3, "time": "ts", "label": "activity"}
    worker = Worker(job_with({"wait": "10s"}, source=source))
    encoded = []
    for offset, one in enumerate(samples(60, keys=1, labelled=False)):
        body = json.loads(one.value)
        body = {"x": [body["ax"], body["ay"], body["az"]], "ts": body["ts"]}
        encoded.append(record(offset, b"p0", msgspec.msgpack.encode(body)))
    rows = by_sink(worker.apply(encoded), "predictions")
    body = msgspec.msgpack.encode({"ts": [rows[-1]["ts"]], "activity": "sit"})
    assert worker.apply([record(60, b"p0", body)]) == []
    assert worker.live.states(0)["books"].labelled[0] == 1


def test_samples_without_windows_wait_for_labels_of_their_exact_time():
    job = job_with({"wait": "10s"}, window=None)
    worker = Worker(job)
    worker.apply(samples(20, keys=1, labelled=False))
    assert [o.sink for o in worker.apply([late_label(20, b"p0", START + 0.55, "sit")])] == ["dlq"]
    assert worker.apply([late_label(21, b"p0", START + 0.5, "sit")]) == []


def test_a_regression_learns_numbers_that_come_late():
    job = job_with({"wait": "10s"}, head={"name": "rls", "task": "regression"}, window=None, drift=None)
    worker = Worker(job)
    worker.apply(samples(20, keys=1, labelled=False))
    assert worker.apply([late_label(20, b"p0", START + 1.0, 2.5)]) == []
    assert np.abs(worker.live.states(0)["learner"].head.bias).sum() > 0

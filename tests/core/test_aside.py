"""A key with a state that cannot be read or written is set aside: its records become dead letters, all else goes on."""

import contextlib
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live import aside
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, last_event
from streamjobs.core.messages import Output, Report, Stored
from streamjobs.errors import ForeignStateError, SnapshotError
from streamjobs.stages.learner import LearnerStage
from tests.core.streams import TOPIC, Worker, record, samples, settings, values

BAD = b"p1"
RECORDS = samples(360)
BEFORE, AFTER = RECORDS[:180], RECORDS[180:]
ROWS = {"window": None, "scaling": {"method": "none"}}  # every sample is a row


@pytest.fixture(scope="module")
def job() -> Job:
    return Job.from_settings(settings())


@pytest.fixture(scope="module")
def store(job: Job) -> dict[bytes, bytes]:
    worker = Worker(job)
    worker.apply(BEFORE)
    worker.checkpoint()
    return worker.store


def letters(outputs: list[Output], reason: bytes = b"state") -> list[int]:
    """Input offsets of the dead letters with this reason, in the order that they are sent."""
    headers = [dict(one.headers) for one in outputs if one.sink == "dlq"]
    return [int(one["streamjobs-error-offset"]) for one in headers if one["streamjobs-error-reason"] == reason]


def others(outputs: list[Output]) -> list[tuple]:
    """What was said of all other keys."""
    return sorted(values([one for one in outputs if one.key != BAD]))


def offsets(records: list[Stored]) -> list[int]:
    return [one.offset for one in records if one.key == BAD]


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


def contradicting(job: Job, data: bytes) -> bytes:
    """More stored samples than the budget allows, with a checksum that fits."""
    states, names, applied = decode_snapshot(job, data)
    broken = states["order"]._replace(newest=float("nan"))
    return job.encode(states | {"order": broken}, names, applied)


DAMAGES: dict[str, Callable[[Job, bytes], bytes]] = {
    "a bit": lambda job, data: data[:200] + bytes([data[200] ^ 4]) + data[201:],
    "magic": lambda job, data: b"XX" + data[2:],
    "version without its checksum": lambda job, data: data[:2] + b"\x09" + data[3:],
    "fingerprint without its checksum": lambda job, data: data[:6] + bytes([data[6] ^ 1]) + data[7:],
    "truncated": lambda job, data: data[: len(data) // 2],
    "empty": lambda job, data: b"SJ",
    "arrays cut off": lambda job, data: sealed(data[:-40]),
    "a value that no stage leaves": contradicting,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("at_once", [1, 50, 180])
def test_records_of_a_damaged_key_become_dead_letters_and_every_other_key_goes_on(job, store, damage, at_once):
    damaged = store | {BAD: DAMAGES[damage](job, store[BAD])}
    worker, whole, made, report = Worker(job, dict(damaged)), Worker(job, dict(store)), [], Report()
    for at in range(0, len(AFTER), at_once):
        outputs, part = advance(job, worker.live, AFTER[at : at + at_once])
        made += outputs
        report.add(part)
    assert letters(made) == offsets(AFTER)
    assert others(made) == others(whole.apply(AFTER))
    assert report.dead_lettered == {"state": 60} and report.records == 180 and len(report.set_aside) == 1
    worker.checkpoint()
    whole.checkpoint()
    assert worker.store == whole.store | {BAD: damaged[BAD]}
    assert worker.live.busy(BAD, 0) and len(worker.live.aside) == 1


def test_the_letters_are_the_same_in_any_split_of_the_records(job, store):
    damaged = store | {BAD: store[BAD][:-1]}
    mixed = [one if at % 7 else record(one.offset, one.key, b"{") for at, one in enumerate(AFTER)]
    whole = values(Worker(job, dict(damaged)).apply(mixed))
    single = Worker(job, dict(damaged))
    assert sorted(whole) == sorted(value for one in mixed for value in values(single.apply([one])))
    reasons = [dict(value[4])["streamjobs-error-reason"] for value in whole if value[0] == "dlq" and value[1] == BAD]
    assert len(reasons) == 60 and set(reasons) == {b"state", b"malformed"}


def test_the_letter_names_the_key_the_reason_and_the_commands(job, store):
    made = Worker(job, {BAD: store[BAD][:-1]}).apply(AFTER[:3])
    (letter,) = [dict(one.headers) for one in made if one.sink == "dlq"]
    text = letter["streamjobs-error-message"].decode()
    assert text.startswith(
        "topic imu[0] offset 181: expected a state of key 'p1' that can be read, got a state that cannot ("
    )
    assert "checksum" in text and "'streamjobs state reset JOB KEY'" in text and "dlq redrive JOB --reason state" in text


def test_a_long_key_is_cut_in_the_letter(job, store):
    key = b"k" * 2_000
    made = Worker(job, {key: b"SJ"}).apply([one._replace(key=key) for one in AFTER[:1]])
    (letter,) = [dict(one.headers) for one in made if one.sink == "dlq"]
    assert len(letter["streamjobs-error-message"]) < 700


def test_an_intact_state_of_another_job_or_release_stops_the_worker(job, store):
    other = Job.from_settings(settings(learner={"name": "okfeb", "rank": 4, "budget": 5}))
    with pytest.raises(ForeignStateError, match=r"rank=3.*rank=4"):
        Worker(other, dict(store)).apply(AFTER)
    later = sealed(store[BAD][:2] + b"\x09" + store[BAD][3:-4])
    with pytest.raises(ForeignStateError, match="version 9 is unknown"):
        Worker(job, store | {BAD: later}).apply(AFTER)


def test_more_damaged_keys_than_are_remembered_give_the_same_letters(job, store, monkeypatch):
    keys = [b"d%d" % number for number in range(40)]
    records = [one._replace(key=keys[at % 40]) for at, one in enumerate(AFTER[:160])]
    wanted = values(Worker(job, dict.fromkeys(keys, b"SJ")).apply(records))
    monkeypatch.setattr(aside, "MOST", 5)
    worker, made = Worker(job, dict.fromkeys(keys, b"SJ")), []
    for at in range(0, 160, 20):
        made += values(worker.apply(records[at : at + 20]))
    assert made == wanted and len(wanted) == 160 and len(worker.live.aside) == 5


def spoil(live: Live, key: bytes = BAD) -> None:
    """What no reader takes back comes into the live state of a key."""
    live.work["order"]["newest"][live.slot_of[key]] = np.nan


def test_a_state_that_cannot_be_written_is_not_and_its_records_become_dead_letters(job, store):
    worker, whole = Worker(job, dict(store)), Worker(job, dict(store))
    made = worker.apply(AFTER[:60])
    spoil(worker.live)
    worker.checkpoint()
    owed, report = worker.live.owed()
    whole.apply(AFTER[:60])
    whole.checkpoint()
    assert worker.store == whole.store | {BAD: store[BAD]}
    assert letters(owed) == offsets(AFTER[:60]) and len(owed) == report.dead_lettered["state"] == 20
    (entry,) = report.set_aside
    assert entry.what == "written" and "order.newest" in entry.why and "p1" not in str(entry)
    rest = worker.apply(AFTER[60:])
    assert letters(rest) == offsets(AFTER[60:]) and others(rest) == others(whole.apply(AFTER[60:]))
    assert not letters(made)


def test_records_that_were_dead_letters_already_or_that_the_stored_state_has_are_not_sent_again(job, store):
    worker = Worker(job, dict(store))
    again = [*BEFORE[-6:], *AFTER[:12], record(192, BAD, b"{"), AFTER[14]]
    made = worker.apply(again)
    spoil(worker.live)
    worker.live.snapshots()
    assert letters(worker.live.owed().outputs) == offsets(AFTER[:12])
    assert letters(made, b"malformed") == [192]
    repeated = advance(job, worker.live, BEFORE[-6:])
    assert not repeated.outputs and repeated.report.redelivered == 6


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_changed_key_with_damaged_stored_bytes_that_cannot_be_written_is_set_aside(job, store, damage):
    worker, whole = Worker(job, dict(store)), Worker(job, dict(store))
    worker.apply(AFTER[:60])
    damaged = worker.store[BAD] = DAMAGES[damage](job, store[BAD])
    spoil(worker.live)
    worker.checkpoint()
    assert letters(worker.live.owed().outputs) == offsets(AFTER[:60])
    whole.apply(AFTER[:60])
    rest = worker.apply(AFTER[60:])
    assert letters(rest) == offsets(AFTER[60:]) and others(rest) == others(whole.apply(AFTER[60:]))
    worker.checkpoint()
    whole.checkpoint()
    assert worker.store == whole.store | {BAD: damaged}


@pytest.mark.parametrize("at_once", [1, 50, 180])
@pytest.mark.parametrize("how", ["read", "written"])
def test_a_record_that_is_read_again_gets_no_second_letter(job, store, at_once, how):
    """As the states of other keys: a partition that goes back to its committed offset without a restart skips both."""
    worker = Worker(job, store | ({BAD: store[BAD][:-1]} if how == "read" else {}))
    made = worker.apply(AFTER[:60])
    if how == "written":
        worker.store[BAD] = store[BAD][:-1]
        spoil(worker.live)
        worker.live.snapshots()
        made += worker.live.owed().outputs
    assert letters(made) == offsets(AFTER[:60])
    again = []
    for at in range(0, len(AFTER), at_once):
        again += worker.apply(AFTER[at : at + at_once])
    assert letters(again) == offsets(AFTER[60:])


@pytest.mark.parametrize("damage", ["a bit", "a value that no stage leaves"])
def test_bytes_that_are_damaged_while_their_key_is_live_and_a_stage_fails_lose_no_record(job, store, monkeypatch, damage):
    """What the key had applied comes back as letters: its states are read again from the store, which no longer has them."""
    real = LearnerStage.advance

    def fails(self, work, slots, X, *columns):
        if (X == 4711.0).any():
            raise IndexError("planted")
        return real(self, work, slots, X, *columns)

    monkeypatch.setattr(LearnerStage, "advance", fails)
    rows = Job.from_settings(settings(**ROWS))
    worker = Worker(rows)
    worker.apply(BEFORE)
    worker.checkpoint()
    worker.apply(AFTER[:60])
    worker.store[BAD] = DAMAGES[damage](rows, worker.store[BAD])
    guilty = record(240, b"p0", {"ax": 4711.0, "ay": 0.0, "az": 0.0, "ts": 1_700_000_100.0})
    made = advance(rows, worker.live, [guilty, *AFTER[61:90]]).outputs
    wanted = [offset for offset in offsets(AFTER[:90]) if offset != 240]
    assert letters(made) == wanted and letters(made, b"learner_failed") == [240]
    assert letters(worker.live.owed().outputs) == [] and letters(worker.apply(AFTER[61:])) == offsets(AFTER[90:])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("writable", [True, False])
def test_bytes_that_are_damaged_while_their_key_is_live_stop_no_other_key(job, store, damage, writable):
    """At each door: a checkpoint, a key that leaves for want of room and comes back, a look from the page, an expiry."""
    keys = [b"k%d" % number for number in range(20)]
    others_come = [one._replace(key=keys[at % 20], offset=400 + at) for at, one in enumerate(samples(400, seed=5)[180:])]
    worker, whole = Worker(job, dict(store), most_bytes=0), Worker(job, dict(store), most_bytes=0)
    made = worker.apply(AFTER[:60])
    worker.store[BAD] = DAMAGES[damage](job, store[BAD])
    if not writable:
        spoil(worker.live)
    made += worker.apply(others_come[:100])  # 16 keys fit
    assert BAD not in worker.live.slot_of
    whole.apply(AFTER[:60])
    whole.apply(others_come[:100])
    with contextlib.suppress(SnapshotError):
        worker.live.look_up(BAD)
    with contextlib.suppress(SnapshotError):
        last_event(job, worker.store[BAD])
    made += worker.apply(AFTER[60:120])
    worker.checkpoint()
    made += worker.live.owed().outputs
    made += worker.apply(others_come[100:])
    made += worker.apply(AFTER[120:])
    whole.apply(AFTER[60:120])
    whole.checkpoint()
    whole.apply(others_come[100:])
    whole.apply(AFTER[120:])
    assert letters(made) == ([] if writable else offsets(AFTER))
    worker.checkpoint()
    whole.checkpoint()
    assert {key: data for key, data in worker.store.items() if key != BAD} == {
        key: data for key, data in whole.store.items() if key != BAD
    }
    assert worker.live.stats(0).keys == worker.live.keys and worker.live.worst(0, 3)


def test_letters_come_again_where_a_failing_stage_repeats_their_batch(job, store, monkeypatch):
    real = LearnerStage.advance

    def fails(self, work, slots, X, *columns):
        if (X == 4711.0).any():
            raise IndexError("planted")
        return real(self, work, slots, X, *columns)

    monkeypatch.setattr(LearnerStage, "advance", fails)
    rows = Job.from_settings(settings(**ROWS))
    worker = Worker(rows, {BAD: b"SJ"})
    guilty = record(90, b"p0", {"ax": 4711.0, "ay": 0.0, "az": 0.0, "ts": 1_700_000_100.0})
    made = advance(rows, worker.live, [*RECORDS[:90], guilty, *RECORDS[91:180]]).outputs
    assert letters(made) == offsets(RECORDS[:180]) and letters(made, b"learner_failed") == [90]


def test_a_new_key_that_cannot_be_written_loses_no_record(job):
    worker = Worker(job)
    worker.apply(RECORDS[:90])
    spoil(worker.live)
    worker.checkpoint()
    assert letters(worker.live.owed().outputs) == offsets(RECORDS[:90]) and BAD not in worker.store


@pytest.mark.parametrize("at_once", [1, 16, 40])
def test_a_state_that_cannot_be_written_when_its_key_leaves_for_want_of_room(job, at_once):
    """16 keys fit. What came of the key in the same call, before it left, becomes dead letters too."""
    keys = [b"k%d" % number for number in range(20)]
    stream = [one._replace(key=keys[at % 20]) for at, one in enumerate(samples(200))]
    stream += [one._replace(key=BAD, offset=200 + at) for at, one in enumerate(samples(5, keys=1, seed=9))]
    tail = [one._replace(key=keys[at % 20], offset=205 + at) for at, one in enumerate(samples(240, seed=2)[200:])]
    tail += [one._replace(key=BAD, offset=245 + at) for at, one in enumerate(samples(10, keys=1, seed=9)[5:])]
    worker, whole, made = Worker(job, most_bytes=0), Worker(job), []
    worker.apply(stream)
    spoil(worker.live)
    for at in range(0, len(tail), at_once):
        made += worker.apply(tail[at : at + at_once])
    worker.checkpoint()
    whole.apply(stream)
    assert letters(made) == [*range(200, 205), *range(245, 250)]
    assert others(made) == others(whole.apply(tail))
    whole.checkpoint()
    assert worker.store == {key: data for key, data in whole.store.items() if key != BAD}


def test_what_a_call_applied_before_its_key_left_becomes_dead_letters(job, monkeypatch):
    """The key is good when the call begins, and cannot be written when it leaves within the same call."""
    keys = [b"k%d" % number for number in range(40)]
    stream = [one._replace(key=BAD, offset=at) for at, one in enumerate(samples(3, keys=1))]
    stream += [one._replace(key=keys[at], offset=3 + at) for at, one in enumerate(samples(40, keys=1))]
    monkeypatch.setattr(
        "streamjobs.core.live.live.unwritable",
        lambda live, slots: {slot: "spoiled." for slot in slots if live.key_of[slot] == BAD},
    )
    worker = Worker(job, most_bytes=0)
    made = worker.apply(stream)
    assert letters(made) == [0, 1, 2] and not worker.live.owed().outputs


def test_a_stage_that_fails_next_to_a_key_that_cannot_be_written(monkeypatch):
    """Undoing a record that a stage fails on keeps states as bytes: a state that cannot be written is set aside then."""
    job, real = Job.from_settings(settings(**ROWS)), LearnerStage.advance

    def fails(self, work, slots, X, *columns):
        if (X == 4711.0).any():
            raise IndexError("planted")
        return real(self, work, slots, X, *columns)

    monkeypatch.setattr(LearnerStage, "advance", fails)
    guilty = record(90, b"p0", {"ax": 4711.0, "ay": 0.0, "az": 0.0, "ts": 1_700_000_100.0})
    worker = Worker(job)
    first = advance(job, worker.live, [*RECORDS[:90], guilty])
    assert letters(first.outputs, b"learner_failed") == [90]
    spoil(worker.live)
    made = advance(job, worker.live, RECORDS[91:180])
    assert letters(made.outputs) == offsets(RECORDS[:180])
    worker.checkpoint()
    assert BAD not in worker.store and not worker.live.owed().outputs


def test_after_a_reset_the_redriven_records_give_what_they_would_have_given(job, store):
    damaged = store | {BAD: store[BAD][:-1]}
    made = Worker(job, dict(damaged)).apply(AFTER)
    redriven = [
        Stored(TOPIC, 0, 1_000 + at, one.timestamp, one.key, one.value)
        for at, one in enumerate(output for output in made if output.sink == "dlq")
    ]
    worker, fresh = Worker(job, {key: data for key, data in damaged.items() if key != BAD}), Worker(job)
    again = worker.apply(redriven)
    wanted = fresh.apply([one for one in AFTER if one.key == BAD])
    assert [one.value for one in again] == [one.value for one in wanted] and not letters(again)

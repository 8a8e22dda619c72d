"""Records that name no time: the record's timestamp is their time, the offset their order, and none is a duplicate."""

import json

import msgspec
import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.settings.notes import notes
from tests.core.streams import START, TOPIC, Worker, settings, values

MOMENT = int(START * 1000)


def job(source: dict[str, object] | None = None, **sections: object) -> Job:
    table = {"topic": TOPIC, "fields": ["ax", "ay", "az"], **(source or {})}
    return Job.from_settings(settings(**({"source": table, "window": None, "head": None, "drift": None} | sections)))


def sent(n: int, stamps: list[int] | None = None, encode=lambda x: json.dumps(x).encode(), headers=()) -> list[Stored]:
    X = np.random.default_rng(4).normal(size=(n, 3))
    stamps = [MOMENT] * n if stamps is None else stamps
    values = [encode(dict(zip(("ax", "ay", "az"), x, strict=True))) for x in X.tolist()]
    return [Stored(TOPIC, 0, i, stamps[i], b"pump", values[i], headers) for i in range(n)]


def raw(row: dict[str, float]) -> bytes:
    return np.array(list(row.values()), "<f8").tobytes()


RAW = (("streamjobs-shape", b"3"), ("streamjobs-dtype", b"f8"))


@pytest.mark.parametrize("name", ["json", "msgpack", "raw"])
def test_a_thousand_samples_of_one_millisecond_are_all_learned(name):
    encode = {"json": lambda x: json.dumps(x).encode(), "msgpack": msgspec.msgpack.encode, "raw": raw}[name]
    worker = Worker(job({"format": name}))
    outputs = worker.apply(sent(1000, encode=encode, headers=RAW if name == "raw" else ()))
    assert [json.loads(output.value)["seq"] for output in outputs] == list(range(1000))


@pytest.mark.parametrize("late", ["learn", "predict_only", "drop", "dlq"])
@pytest.mark.parametrize("lateness", [0.0, 5.0])
def test_a_timestamp_that_goes_back_is_taken_in_offset_order_and_kept(late, lateness):
    stamps = [MOMENT + 1000 * (i % 5) for i in range(50)]
    outputs = Worker(job({"late": late, "lateness": lateness})).apply(sent(50, stamps))
    told = [json.loads(output.value) for output in outputs]
    assert [output.sink for output in outputs] == ["features"] * 50
    assert [row["seq"] for row in told] == [row["n_seen"] for row in told] == list(range(50))
    assert [round(row["ts"] * 1000) for row in told] == stamps


def test_a_raw_record_that_names_its_time_twice_is_still_a_duplicate():
    header = ("streamjobs-time", b"%d" % START)
    worker = Worker(job({"format": "raw"}))
    assert len(worker.apply(sent(10, encode=raw, headers=(*RAW, header)))) == 1


def test_windows_take_the_timestamps_without_losing_those_that_go_back():
    window = {"length": "1s", "hop": "1s", "rate": 10.0}
    stamps = [MOMENT + 100 * i - 50 * (i % 4 == 3) for i in range(100)]
    back = [stamp - 10**7 for stamp in stamps]  # and a producer that sends what is hours older
    outputs = Worker(job(window=window)).apply(sent(200, [*stamps, *back]))
    assert len(outputs) == 20


def test_a_split_or_a_crash_after_every_record_gives_the_same_bits():
    window = {"length": "1s", "hop": "500ms", "rate": 10.0}
    stamps = [MOMENT + int(stamp) for stamp in np.random.default_rng(1).normal(np.arange(80) * 100, 150)]
    records = sent(80, stamps)
    whole = Worker(job(window=window))
    expected = values(whole.apply(records))
    whole.checkpoint()
    crashing, got = Worker(job(window=window)), []
    for record in records:
        got += crashing.apply([record])
        crashing.checkpoint()
        crashing.crash()
    assert values(got) == expected and crashing.store == whole.store


def test_a_state_in_which_samples_wait_goes_on_with_none_lost():
    """Earlier releases let samples without a time wait like others, so their states are those of a job with a time."""
    timed = Worker(job({"time": "ts", "lateness": 5.0}))
    before = [
        record._replace(value=json.dumps({**json.loads(record.value), "ts": START + i % 3}).encode())
        for i, record in enumerate(sent(3))
    ]
    assert not timed.apply(before)
    timed.checkpoint()
    outputs = Worker(job({"lateness": 5.0}), timed.store).apply([one._replace(offset=3) for one in sent(1)])
    told = [json.loads(output.value) for output in outputs]
    assert [row["seq"] for row in told] == [0, 1, 2, 3]
    assert [row["ts"] for row in told] == [START, START + 1, START + 2, START]


def test_a_timestamp_that_goes_back_does_not_end_a_key():
    stamps = [MOMENT, MOMENT - 10**9, MOMENT + 1000]
    outputs = Worker(job(state={"ttl": "1h"})).apply(sent(3, stamps))
    assert [json.loads(output.value)["seq"] for output in outputs] == [0, 1, 2]


def test_check_says_what_windows_and_the_settings_of_time_do_without_a_time():
    said = notes(settings(source={"topic": TOPIC, "fields": ["x"], "late": "drop", "lateness": 3.0}))
    assert any("time is not set" in note and "windows" in note and "full speed" in note for note in said)
    assert any("late, lateness have no effect" in note for note in said)
    timed = notes(settings(source={"topic": TOPIC, "fields": ["x"], "time": "ts", "late": "drop", "lateness": 3.0}))
    assert not any("time is not set" in note or "no effect" in note for note in timed)
    assert not any("time is not set" in note for note in notes(settings(window=None, source={"topic": TOPIC, "dim": 3})))

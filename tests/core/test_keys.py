"""Keys inside values: what becomes a key, that everything goes by it, and that a key has one partition."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.decoding.keys import each_keyed, key_bytes, keyed
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import crc32, murmur2
from streamjobs.core.state import snapshot
from streamjobs.errors import ConfigError, SetupError
from streamjobs.recordings.files import records_of
from streamjobs.settings.load import settings_from
from streamjobs.settings.source import SourceSection
from tests.core.streams import samples, settings
from tests.sizes import examples

SOURCE = {"topic": "imu", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"}
INSIDE = {**SOURCE, "key": "device.id"}
PARTITIONS = 4


def with_key_inside(record: Stored, key: object = None, own_key: bytes | None = None) -> Stored:
    body = json.loads(record.value or b"") | {"device": {"id": (record.key or b"").decode() if key is None else key}}
    return record._replace(key=own_key, value=json.dumps(body).encode())


def run(source: dict[str, object], records: list[Stored]) -> tuple[list[tuple[object, ...]], dict[bytes, bytes]]:
    """Outputs without what names the record, and states without offsets."""
    job = Job.from_settings(settings(source=source))
    live = Live(job, lambda key: None)
    outputs = [(one.sink, one.key, one.value, one.timestamp) for one in advance(job, live, records).outputs]
    return outputs, {key: snapshot.encode(snapshot.decode(data)._replace(offsets={})) for key, data in live.snapshots()}


def test_records_with_keys_inside_give_the_outputs_and_states_of_keyed_ones() -> None:
    records = samples(900)
    own, inside = run(SOURCE, records), run(INSIDE, [with_key_inside(one) for one in records])
    assert {sink for sink, *_ in own[0]} == {"features", "predictions", "drift"} and len(own[1]) == 3
    assert inside == own
    assert run(INSIDE, [with_key_inside(one, own_key=b"another") for one in records]) == own


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *(("p7", b"p7"), ("ä", "ä".encode()), (7, b"7"), (-7, b"-7"), (2**70, b"%d" % 2**70), (True, b"true")),
        *((False, b"false"), (7.0, None), ("", None), (None, None), ([1], None), ({}, None), (b"x", None), ("\ud800", None)),
    ],
)
def test_texts_whole_numbers_and_booleans_are_keys(value: object, key: bytes | None) -> None:
    assert key_bytes(value) == key


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_path_leads_to_the_key_in_every_format(form: str) -> None:
    encode = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}[form]
    source = SourceSection(topic="imu", dim=1, format=form, key="ids[1]")  # type: ignore[arg-type]
    records = [
        Stored("imu", 0, n, 1, None, encode({"x": [1], "ids": ["no", key]})) for n, key in enumerate(("a", 12, False))
    ]
    assert [one.key for one in keyed(source)(records)] == [b"a", b"12", b"false"]
    assert [one.key for one in each_keyed(source, records)] == [b"a", b"12", b"false"]


@pytest.mark.parametrize(
    ("value", "reason", "says"),
    [
        (b'{"ax":1,"ay":1,"az":1,"ts":1700000000}', "no_key", "in field 'device.id', the key, got nothing"),
        (b'{"device":{"id":null}}', "no_key", "got null"),
        (b'{"device":{"id":1.5}}', "no_key", "got a number"),
        (b'{"device":{"id":""}}', "no_key", "got an empty text"),
        (b'{"device":"secret"}', "no_key", "got nothing"),
        (b"{", "malformed", "expected json, got bytes that are not"),
        (None, "malformed", "expected a value, got none"),
        (b'{"device":{"id":"p7"}}' + b" " * 300, "too_large", "at most 200 bytes"),
        (b'{"device":{"id":"%s"}}' % (b"k" * 100), "long_key", "at most 64 bytes, got 100"),
    ],
)
def test_a_record_without_a_key_is_a_dead_letter_as_it_came(value: bytes | None, reason: str, says: str) -> None:
    job = Job.from_settings(settings(source=INSIDE | {"max_bytes": 200, "max_key_bytes": 64}))
    live = Live(job, lambda key: None)
    (letter,) = advance(job, live, [Stored("imu", 2, 9, 5, b"own", value, (("a", b"b"),))]).outputs
    headers = dict(letter.headers)
    assert (letter.sink, letter.key, letter.value, letter.timestamp, headers["a"]) == ("dlq", b"own", value, 5, b"b")
    assert headers["streamjobs-error-reason"].decode() == reason and says in headers["streamjobs-error-message"].decode()
    assert b"secret" not in headers["streamjobs-error-message"] and not live.keys


@pytest.mark.parametrize(("partitioner", "choose"), [("murmur2", murmur2), ("crc32", crc32)])
def test_a_key_on_another_partition_than_its_own_stops_everything_before_it_is_learned(partitioner: str, choose) -> None:
    source = INSIDE | {"partitioner": partitioner}
    job = Job.from_settings(settings(source=source)).on_partitions(PARTITIONS)
    live = Live(job, lambda key: None)
    records = [with_key_inside(one) for one in samples(60)]
    place = choose(b"p1", PARTITIONS)
    mine = [one._replace(partition=place) for one in records if b'"p1"' in (one.value or b"")]
    assert mine and not any(output.sink == "dlq" for output in advance(job, live, mine).outputs)
    before = live.snapshots()
    stray = mine[-1]._replace(partition=(place + 1) % PARTITIONS, offset=1000)
    with pytest.raises(SetupError, match=r"belongs in partition .*streamjobs rekey JOB") as error:
        advance(job, live, [mine[-1]._replace(offset=999), stray])
    assert "p1" not in str(error.value), "keys are not for logs"
    assert before and live.snapshots() == []
    assert Job.from_settings(settings(source=source)).keyed([stray])[0].key == b"p1", "one partition: all is well"


def test_a_job_without_the_setting_gets_its_records_as_they_are() -> None:
    records = samples(5)
    job = Job.from_settings(settings(source=SOURCE))
    assert job.keyed(records) is records and job.on_partitions(PARTITIONS).keyed(records) is records


def test_a_rekeyed_job_reads_the_copy_and_goes_by_the_keys_of_records() -> None:
    source = settings(source=INSIDE | {"rekeyed": True}).source
    assert (source.topic, source.base_topic, source.key_in_value) == ("imu.by-key", "imu", False)
    assert settings(source=INSIDE | {"rekeyed": True, "topic": "imu.by-key"}).source.topic == "imu.by-key"
    job = Job.from_settings(settings(source=INSIDE | {"rekeyed": True}))
    records = samples(5)
    assert job.keyed(records) is records and job.sinks["predictions"] == "imu.predictions"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"rekeyed": True}, "rekeyed has no meaning without the field with the key"),
        ({"partitioner": "crc32"}, "partitioner has no meaning without"),
        ({"key": "id", "rekeyed": True, "partitioner": "crc32"}, "partitioner has no meaning with rekeyed"),
        ({"key": "id", "rekeyed": True, "topic": "t" * 245}, "topic must have at most 249 characters"),
        ({"key": "id", "rekeyed": True, "topic": ""}, "topic must be a topic's name"),
        (
            {"key": "id", "format": "raw", "fields": None, "dim": 3, "time": None, "label": None},
            "raw records have no fields",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(source: dict[str, object], says: str) -> None:
    table = {"source": {**SOURCE, **source}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}, "head": {"name": "rls"}}
    table["source"] = {name: value for name, value in table["source"].items() if value is not None}
    with pytest.raises(ConfigError, match=says):
        settings_from(table, {})


@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda key: json.dumps({"device": {"id": key}}).encode()))
@hypothesis(derandomize=True, deadline=None, max_examples=examples(300))
def test_any_value_gives_a_key_or_a_reason(value: bytes) -> None:
    (record,) = keyed(SourceSection(topic="imu", dim=1, key="device.id"))([Stored("imu", 0, 1, 1, b"own", value)])
    assert (record.key is None) == (record.problem is not None) and record.value == value


def test_files_have_the_keys_of_records(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("device,ax,ay,az,ts\np7,1,2,3,1700000000\n12,1,2,3,1700000001\n")
    source = SourceSection(**SOURCE | {"key": "device"})  # type: ignore[arg-type]
    records = list(records_of(path, source, None))
    assert [one.key for one in records] == [b"p7", b"12"] == [one.key for one in keyed(source)(records)]
    with pytest.raises(ConfigError, match="leave --key out, got 'ax'"):
        records_of(path, source, "ax")
    with pytest.raises(ConfigError, match="a file needs --key"):
        records_of(path, SourceSection(**SOURCE), None)  # type: ignore[arg-type]


def test_the_timestamps_of_files_are_in_the_unit_of_the_first_number(tmp_path: Path) -> None:
    path, times = tmp_path / "some.jsonl", (5, 1_700_000_000_000, 1_700_000_000_500)
    path.write_text("".join(json.dumps({"device": "a", "ts": ts}) + "\n" for ts in times))
    source = SourceSection(topic="imu", dim=1, key="device", time="ts", time_unit="auto")
    assert [one.timestamp for one in records_of(path, source, None)] == [0, *times[1:]]

"""`produce` on librdkafka's mock broker: what is in the topic afterwards; `init --from-topic` reads it back."""

import json
import shlex
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamjobs.core.messages import LETTER_HEADERS
from streamjobs.demo.mock import PARTITIONS, MockBroker
from streamjobs.job_files import broker_of, job_of, load_job
from streamjobs.kafka.reader import topic_records
from streamjobs.kafka.send import Retention, Sender, SendError
from streamjobs.kafka.topics import changelog
from streamjobs.recordings.files import records_of
from streamjobs.recordings.tables import How
from tests.commands.jobs import JOB, command, job_file, jsonl, rows

NOBODY = "kafka://127.0.0.1:9"  # nothing listens there


@pytest.fixture(scope="module")
def broker():
    with MockBroker() as running:
        yield running


@pytest.fixture
def mock(broker, monkeypatch):
    """It knows no DescribeConfigs, which says how long a topic keeps records: that runs on a real Kafka (tests/brokers)."""
    monkeypatch.setattr("streamjobs.kafka.send._retention", lambda *_: Retention(None))
    return broker


def job_on(mock, folder, topic, source=""):
    """source: more lines of [source]."""
    mock.create([topic])
    return job_file(folder, JOB.replace('topic = "imu"', f'topic = "{topic}"\n{source}') + f'[broker]\nurl = "{mock.url}"\n')


def read(mock, topic):
    return list(topic_records(broker_of(mock.url), topic))


def test_every_row_is_a_record_with_its_key_and_event_time(mock, tmp_path, capsys):
    table = list(rows(300))
    job = job_on(mock, tmp_path, "whole")
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", table), "--key", "person") == 0
    assert "300 records in whole, all acknowledged" in capsys.readouterr().out
    found = read(mock, "whole")
    assert sorted(record.key for record in found) == sorted(row["person"].encode() for row in table)
    for person in ("p0", "p1", "p2"):
        mine = [record for record in found if record.key == person.encode()]
        assert [json.loads(record.value) for record in mine] == [row for row in table if row["person"] == person]
        assert [record.timestamp / 1000 for record in mine] == [
            pytest.approx(row["ts"], abs=1e-3) for row in table if row["person"] == person
        ]
        assert len({record.partition for record in mine}) == 1


def test_times_that_count_from_zero_are_timestamps_also_where_they_equal_the_number_of_the_row(mock, tmp_path, capsys):
    """The client reads the timestamp 0 as the present: the key's later samples would be late or after a gap of years."""
    job = job_on(mock, tmp_path, "zero")
    made = [row | {"t": n / 1000} for n, row in enumerate(rows(30))]
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", made), "--key-is", "me", "--time", "t") == 0
    sent = [record.timestamp for record in read(mock, "zero")]
    assert sent == [1, *range(1, 30)]
    source = load_job(job).source
    assert [one.timestamp for one in records_of(tmp_path / "a.jsonl", source, None, "t", how=How(key_is="me"))] == sent


@pytest.mark.parametrize("counts", [False, True], ids=["since 1970", "from 0"])
def test_what_init_prints_after_the_trial_sends_the_sample_to_its_topic(mock, tmp_path, capsys, monkeypatch, counts):
    """Records without labels: after `check` and `replay` come the topics, the records and the worker, as they are typed."""
    topic = f"after-{counts}"
    mock.create([topic])
    monkeypatch.setattr("streamjobs.commands.recordings.tries._try", lambda file, sample, guessed, *_: guessed)
    start = 0 if counts else 1_700_000_000
    made = [f"{start + n / 50},{n * 7 % 11},{n * 5 % 13}\n" for n in range(600)]
    sample = tmp_path / "a machine.csv"
    sample.write_text("t,a,b\n" + "".join(made))
    job = tmp_path / "job.toml"
    assert command("init", job, "--sample", sample, "--topic", topic, "--broker", mock.url, "--yes") == 0
    trial, then = capsys.readouterr().out.splitlines()
    assert [words.split()[1] for words in trial.partition("Next: ")[2].split("; ")] == ["check", "replay"]
    steps = [shlex.split(words) for words in then.partition(": ")[2].split("; ")]
    assert [words[1:-1] for words in (steps[0], steps[2])] == [["topics", "create"], ["run"]]
    assert ("--start" in steps[1]) == counts
    assert command(*steps[1][1:]) == 0
    sent = read(mock, topic)
    assert len(sent) == 600 and {record.key for record in sent} == {b"a machine"}
    assert abs(sent[0].timestamp / 1000 - (sample.stat().st_mtime if counts else start)) <= 86_400


def test_timestamps_of_sending_and_real_time(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "paced")
    sample = jsonl(tmp_path / "a.jsonl", list(rows(30)))  # 0.9 s of three keys
    before = time.time()
    words = ("produce", job, sample, "--key-is", "me", "--timestamps", "now", "--speed", "1", "--json")
    assert command(*words) == 0
    found = read(mock, "paced")
    assert {record.key for record in found} == {b"me"}
    assert json.loads(capsys.readouterr().out)["acknowledged"] == 30
    assert found[0].timestamp / 1000 >= before - 1 and found[-1].timestamp - found[0].timestamp >= 800


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "produce needs the key: --key COLUMN, --key-from file (or folder), or --key-is NAME"),
        (("--key-is", "a", "--key-from", "file"), "--key-from and --key-is both set the key"),
        (("--key", "who"), "no column 'who' for the key"),
        (("--key-is", "a", "--speed", "0"), "--speed must be 'max' or a number above 0"),
        (
            ("--key-is", "a", "--timestamps", "old"),
            "'--timestamps': 'old' is not one of 'event', 'now'. See 'streamjobs produce --help'",
        ),
        (("--key-is", "a", "--partitioner", "md5"), "'--partitioner': 'md5' is not one of 'murmur2', 'crc32', 'fnv1a'"),
    ],
)
def test_wrong_options_are_one_sentence_before_anything_is_sent(tmp_path, capsys, words, said):
    assert command("produce", job_file(tmp_path), jsonl(tmp_path / "a.jsonl", list(rows(3))), *words) == 2
    err = capsys.readouterr().err.strip()
    assert said in err and len(err.splitlines()) == 1


def test_without_a_broker_it_ends_with_code_3(tmp_path, capsys, monkeypatch):
    sample = jsonl(tmp_path / "a.jsonl", list(rows(3)))
    job = job_file(tmp_path, JOB.replace('topic = "imu"', 'topic = "nowhere"') + f'[broker]\nurl = "{NOBODY}"\n')
    monkeypatch.setattr("streamjobs.kafka.timeouts.LOOKUP", 0.5)
    assert command("produce", job, sample, "--key", "person") == 3
    assert "broker 127.0.0.1:9: no answer" in capsys.readouterr().err


def test_what_the_topic_would_delete_at_once_is_not_sent():
    now = 1_700_000_000.0
    Retention(604_800.0).refuse("imu", round(1000 * (now - 604_000)), now)
    Retention(None).refuse("imu", 0, now)
    with pytest.raises(SendError, match=r"keeps records for 7 days .* has the time 2023-11-01 .* --timestamps now"):
        Retention(604_800.0).refuse("imu", round(1000 * (now - 13 * 86_400)), now)


def test_a_record_from_the_future_is_refused_with_its_time():
    now = 1_764_000_000.0
    Retention(None, 3600.0).refuse("imu", round(1000 * (now + 3500)), now)
    with pytest.raises(SendError, match=r"up to 1 h ahead .* has the time 2025-11-24 18:00: correct the times or --start"):
        Retention(None, 3600.0).refuse("imu", round(1000 * (now + 7200)), now)
    with pytest.raises(SendError, match="has the time 9999-12-31"):
        Retention(None, 3600.0).refuse("imu", 10**18, now)


def test_init_reads_a_live_topic_and_leaves_no_trace(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "live")
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", list(rows(600))), "--key", "person") == 0
    file = tmp_path / "live.toml"
    words = ("--from-topic", "live", "--broker", mock.url, "--records", "400", "--seconds", "1", "--yes")
    assert command("init", file, *words) == 0
    settings = load_job(file, {})
    assert (settings.source.topic, settings.broker.url) == ("live", mock.url)
    assert (settings.source.fields, settings.source.time) == (["ax", "ay", "az"], "ts")
    assert settings.window is not None and settings.window.rate == 10.0  # of a key, though three are mixed
    out, err = capsys.readouterr()
    assert "400 of 400 records have a key, 3 different ones" in err
    assert out.endswith(f"replay {file} --input topic; streamjobs topics create {file}; streamjobs run {file}\n")
    assert command("replay", file, "--input", "topic") == 0
    assert "600 records of 3 keys" in capsys.readouterr().out
    consumer = Consumer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "group.id": "streamjobs-replay"})
    try:
        committed = consumer.committed([TopicPartition("live", n) for n in range(4)], timeout=10)
    finally:
        consumer.close()
    assert all(one.offset < 0 for one in committed)


def test_records_that_the_job_cannot_use_are_sent_with_a_warning(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "zoneless")
    table = [{**row, "ts": f"2026-11-23T10:00:{number:02}"} for number, row in enumerate(rows(30))]
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", table), "--key", "person") == 0
    out, err = capsys.readouterr()
    assert out.startswith("30 records in zoneless, all acknowledged")
    assert err.startswith("warning: the job would make the first 30 records dead letters: record 1: expected ")
    assert "or set time_zone" in err
    mended = job_on(mock, tmp_path, "zoned", 'time_zone = "UTC"\n')
    assert command("produce", mended, tmp_path / "a.jsonl", "--key", "person") == 0 and not capsys.readouterr().err


def test_values_with_schema_ids_are_reported_as_such(mock, tmp_path, capsys):
    mock.create(["schemas"])
    producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
    for _ in range(3):
        producer.produce("schemas", b"\0\0\0\0\x07\x02a")
    assert producer.flush(20) == 0
    words = ("--from-topic", "schemas", "--broker", mock.url, "--seconds", "1", "--yes")
    assert command("init", tmp_path / "a.toml", *words) == 2
    assert "most of 3 values begin like values with a schema id" in capsys.readouterr().err


def test_an_empty_topic_is_waited_for_and_then_one_sentence(mock, tmp_path, capsys):
    mock.create(["empty"])
    words = ("--from-topic", "empty", "--broker", mock.url, "--seconds", "0.6")
    assert command("init", tmp_path / "a.toml", *words) == 2
    assert "topic empty: no record came within 0.6 s; start its producer" in capsys.readouterr().err


def test_of_dead_letters_those_that_were_sent_back_are_found_too(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "lettered")
    mock.create(["lettered.dlq"])
    stated = {"topic": "lettered", "partition": "0", "offset": "0", "attempt": "1", "timestamp": "1", "reason": "malformed"}
    headers = [(name, stated.get(name.removeprefix("streamjobs-error-"), "?").encode()) for name in LETTER_HEADERS]
    producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
    producer.produce("lettered.dlq", b"no JSON", b"p1", headers=headers)
    assert producer.flush(20) == 0
    assert command("dlq", "list", job) == 0
    out, err = capsys.readouterr()
    assert out.endswith("1 dead letter in lettered.dlq: malformed 1\n")
    assert "those that were sent back stay in the topic: 'streamjobs dlq redrive JOB --all --dry-run'" in err


def test_a_small_topic_to_which_nothing_comes_is_not_waited_for(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "quiet")
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", list(rows(30))), "--key", "person") == 0
    before = time.monotonic()
    words = ("--from-topic", "quiet", "--broker", mock.url, "--seconds", "600", "--yes")
    assert command("init", tmp_path / "quiet.toml", *words) == 0
    assert "30 of 30 records have a key" in capsys.readouterr().err and time.monotonic() - before < 300


def test_recordings_of_a_folder_play_at_once_and_a_long_wait_is_printed(mock, tmp_path, capsys, monkeypatch):
    job = job_on(mock, tmp_path, "played")
    monkeypatch.setattr("streamjobs.commands.recordings.produce.LONG", 0.3)
    folder, day = tmp_path / "people", 86_400.0
    folder.mkdir()
    table = list(rows(30, keys=1))
    for name, begin in (("anna", 0.0), ("ben", day), ("carl", 9 * day)):
        pause = [400.0 * (i == 29) for i in range(30)]  # before the last record
        jsonl(folder / f"{name}.jsonl", [{**row, "ts": row["ts"] + begin + pause[i]} for i, row in enumerate(table)])
    started = time.monotonic()
    assert command("produce", job, folder, "--key-from", "file", "--speed", "1000") == 0
    assert time.monotonic() - started < 300  # without --speed 9 days, with it and one recording after the other 13 minutes
    err = capsys.readouterr().err
    assert "3 recordings of 3 keys play at once, each key from its first record on" in err
    assert "waiting 0 s for the next record: it is 403 s after the first, at --speed 1000" in err
    assert len(read(mock, "played")) == 90


def keyless(mock, topic, keys=24):
    """Records of so many sensors of one site, without Kafka keys."""
    mock.create([topic])
    producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
    for i in range(10 * keys):
        body = {"device": "gateway-1", "sensor_id": f"s{i % keys}", "ts": 1_700_000_000 + i, "temp": (7 * i) % 11 / 10}
        producer.produce(topic, json.dumps(body), partition=i % PARTITIONS)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_of_records_without_keys_init_writes_the_field_with_the_key(mock, tmp_path, capsys, monkeypatch, partitions):
    keyless(mock, "keyless")
    if partitions == 1:
        monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.connect", lambda *_: (None, {"keyless": 1}))
    file = tmp_path / "keyless.toml"
    assert command("init", file, "--from-topic", "keyless", "--broker", mock.url, "--seconds", "1", "--yes") == 0
    source = load_job(file, {}).source
    assert (source.key, source.rekeyed) == ("sensor_id", partitions > 1), "the gateway has one value"
    if partitions > 1:  # the job reads a copy in which each key is in one partition
        assert f"Next: streamjobs rekey {file} --once; then: streamjobs check {file};" in capsys.readouterr().out
    else:
        assert command("replay", file, "--input", "topic") == 0
        assert "240 records of 24 keys" in capsys.readouterr().out


def test_of_a_topic_too_columns_that_fall_all_the_time_are_left_out(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "falling")
    table = [{**row, "battery": 3.6 - 0.001 * n + 0.01 * (n % 7)} for n, row in enumerate(rows(900))]
    for row in table:
        del row["activity"]
    text = job.read_text().replace('"ax", "ay", "az"]', '"ax", "ay", "az", "battery"]')
    job.write_text(text)
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", table), "--key", "person") == 0
    file = tmp_path / "falling.toml"
    assert command("init", file, "--from-topic", "falling", "--broker", mock.url, "--seconds", "1", "--yes") == 0
    assert load_job(file, {}).source.fields == ["ax", "ay", "az"]
    assert "left out of x: battery: falls all through the sample" in capsys.readouterr().err


def test_check_online_reads_the_newest_records(mock, tmp_path, capsys):
    job = job_on(mock, tmp_path, "looked")
    made = job_of(job)
    mock.create([*made.sinks.values(), changelog(made.settings)])
    assert command("check", job, "--online") == 0
    out = capsys.readouterr().out
    assert "the input topic is empty" in out and "has no offsets yet\n" in out
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", list(rows(300))), "--key", "person") == 0
    capsys.readouterr()
    assert command("check", job, "--online") == 0
    out = capsys.readouterr().out
    assert "of the newest 100, 100 have a key (3 different) and 100 can be used" in out and ": no mistakes" in out
    assert f"{made.settings.job.name} has no offsets yet: it begins at the first of 300" in out
    assert command("state", "list", job) == 0
    assert "no state is written yet: a worker that runs writes each change within 4 minutes" in capsys.readouterr().err


def job_with_records(mock, folder, topic, options_of):
    """A job whose topics exist and whose input has 30 records; options_of: what `produce` is given for a row, as its key."""
    job = job_on(mock, folder, topic)
    made = job_of(job)
    mock.create([*made.sinks.values(), changelog(made.settings)])
    producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
    for row in rows(30):
        producer.produce(topic, json.dumps(row), **options_of(row))
    assert producer.flush(20) == 0
    return job


def test_check_online_names_keys_that_are_alone_in_their_partition(mock, tmp_path, capsys):
    options = lambda row: {"key": row["person"], "partition": int(row["person"] == "p2")}  # noqa: E731
    job = job_with_records(mock, tmp_path, "lonely", options)
    assert command("check", job, "--online") == 0
    assert "  silent " not in capsys.readouterr().out, "this job has no such alarms"
    job.write_text(job.read_text() + '[alarms]\nsilent = "10m"\n')
    mock.create(["lonely.alarms"])
    assert command("check", job, "--online") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  silent ")]
    assert "1 of 3 keys in these records had no other key in the partition" in line


@pytest.mark.parametrize(("days", "told"), [(0, None), (3, "3.0 days before")])
def test_check_online_names_times_far_from_the_timestamps_of_their_records(mock, tmp_path, capsys, days, told):
    options = lambda row: {"key": row["person"], "timestamp": round(1000 * (row["ts"] + 86_400 * days))}  # noqa: E731
    job = job_with_records(mock, tmp_path, f"times{days}", options)
    assert command("check", job, "--online") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  times ")]
    assert line.endswith(f"{told} the records' timestamps: are they right?") if told else "timestamps" not in line


def test_check_online_does_not_call_records_without_keys_right(mock, tmp_path, capsys):
    job = job_with_records(mock, tmp_path, "blind", lambda row: {})
    assert command("check", job, "--online") == 1
    out, err = capsys.readouterr()
    assert "of the newest 30, 0 have a key (0 different) and 0 can be used" in out and "no mistakes" not in out
    assert "the input topic: all 30 records would be dead letters" in err


@pytest.mark.parametrize(
    ("of_each", "told"),
    [(70, f"has passed {70 * PARTITIONS} of 300 offsets"), (300, "has already passed all 300 offsets: 'run' waits for new")],
)
def test_the_group_has_passed_what_its_outputs_have_though_states_are_written_later(
    mock, tmp_path, monkeypatch, capsys, of_each, told
):
    job = job_on(mock, tmp_path, name := f"lagging{of_each}")
    made = job_of(job)
    mock.create([*made.sinks.values(), changelog(made.settings)])
    assert command("produce", job, jsonl(tmp_path / "a.jsonl", list(rows(300))), "--key", "person") == 0
    commits = {(name, n): SimpleNamespace(offset=3, metadata=f"progress={of_each}") for n in range(PARTITIONS)}
    monkeypatch.setattr("streamjobs.kafka.preflight._commits", lambda *_: commits)
    assert command("check", job, "--online") == 0
    assert f"{made.settings.job.name} {told}" in capsys.readouterr().out


@pytest.mark.parametrize("acknowledged", [0, 2])
def test_only_records_that_arrived_can_be_late_when_the_file_is_sent_again(acknowledged):
    sender = object.__new__(Sender)
    sender.topic, sender.sent, sender.acknowledged, sender.problem = "in", 3, acknowledged, "not allowed to write"
    sender.producer = SimpleNamespace(flush=lambda seconds: 0)
    with pytest.raises(SendError) as failed:
        sender.send([], stamped=False, progress=lambda sent, acknowledged: None)
    said = str(failed.value)
    assert said.startswith(f"topic in: {acknowledged} of 3 records acknowledged (not allowed to write).")
    assert ("If you send the file again" in said) == bool(acknowledged)

"""The worker on librdkafka's mock broker: its topics hold what replay computes; and the demo, whole."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import numpy as np
import pytest
from confluent_kafka import Producer

from streamjobs.demo.mock import PARTITIONS, MockBroker
from streamjobs.job_files import job_of
from streamjobs.kafka.topics import changelog
from streamjobs.outputs.files import ADDED
from tests.commands.jobs import SESSION, command, job_file, jsonl, rows
from tests.docs.named import blocks
from tests.parts import CHECKOUT

MARK = "TESTED_DEMO"  # an environment variable
WITHIN = 150  # seconds; a cold compile cache on a busy machine included


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A job whose worker has caught up with 1,500 good records and two bad ones on a mock broker."""
    folder = tmp_path_factory.mktemp("worked")
    with MockBroker() as mock, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        patch.setenv(*SESSION)
        patch.setenv("STREAMJOBS_STATE__DIRECTORY", str(folder / "state"))
        patch.setenv("STREAMJOBS_METRICS__PORT", "0")
        job = job_file(folder)
        made = job_of(job)
        mock.create(["imu", *made.sinks.values(), changelog(made.settings)])
        producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
        for i, row in enumerate(rows()):
            key, stamp = row["person"], round(row["ts"] * 1000)
            producer.produce("imu", json.dumps(row), key=key, partition=int(key[1]) % PARTITIONS, timestamp=stamp)
            if i in (100, 700):
                producer.produce("imu", b"{broken", key=key, partition=int(key[1]) % PARTITIONS, timestamp=stamp)
        assert producer.flush(20) == 0
        words = [sys.executable, "-m", "streamjobs", "run", str(job), "--once"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        yield job


@pytest.mark.slow
def test_the_topics_hold_what_replay_of_the_input_topic_computes(worked, capsys):
    assert command("replay", worked, "--input", "topic", "--expect", "topics", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["samples"], found["dead_lettered"]) == (1500, {"malformed": 2})
    assert found["compared"] == 3 * found["rows"] + 2


@pytest.mark.slow
def test_a_replay_of_a_part_of_the_topic_differs_and_says_where(worked, capsys):
    assert command("replay", worked, "--input", "topic", "--from", "1700000010", "--expect", "topics") == 4
    assert "mismatch: " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["features", "predictions", "dlq"])
def test_an_exported_topic_has_what_a_replay_writes(worked, sink, tmp_path, capsys):
    assert command("export", worked, sink, "-o", tmp_path / "topic.jsonl") == 0
    assert command("replay", worked, "--input", "topic", "--output-dir", tmp_path) == 0
    exported, replayed = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()] for name in ("topic", sink)
    )
    if sink == "dlq":
        exported = [{name: one[name] for name in ("key", "reason", "message", "value")} for one in exported]
        replayed = [{name: one[name] for name in ("key", "reason", "message", "value")} for one in replayed]
    else:
        exported = [{name: value for name, value in one.items() if name not in ADDED} for one in exported]
        replayed = [one["value"] for one in replayed]
    assert sorted(map(json.dumps, exported)) == sorted(map(json.dumps, replayed))
    assert len(exported) == (2 if sink == "dlq" else 297)
    assert "repeats" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_worker_says_that_a_topic_of_features_gets_none_if_it_is_not_named(worked):
    unnamed = worked.with_name("unnamed.toml")
    unnamed.write_text(re.sub(r'(?m)^features = "imu.features"$', "", worked.read_text()))
    assert unnamed.read_text() != worked.read_text()
    words = [sys.executable, "-m", "streamjobs", "run", str(unnamed), "--once"]
    for features, said in ((None, 1), ("", 0)):
        env = os.environ if features is None else {**os.environ, "STREAMJOBS_SINKS__FEATURES": features}
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        told = [json.loads(line) for line in done.stderr.splitlines() if "features are not sent" in line]
        assert len(told) == said
        if said:
            assert "Set features = 'imu.features' to go on" in told[0]["reason"]


def test_without_a_broker_a_replay_of_a_topic_ends_with_code_3(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("streamjobs.kafka.timeouts.LOOKUP", 0.5)
    monkeypatch.setenv("STREAMJOBS_BROKER__URL", "kafka://127.0.0.1:9")
    assert command("replay", job_file(tmp_path), "--input", "topic") == 3
    err = capsys.readouterr().err
    assert "broker 127.0.0.1:9" in err and len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_first_job_of_the_readme_runs_as_it_is_written(tmp_path, monkeypatch):
    text = (CHECKOUT / "README.md").read_text().partition("## A first job")[2].partition("\n## ")[0]
    written = [(language, textwrap.dedent(contents)) for language, contents in blocks(text)]
    job, read = dict(written)["toml"], dict(written)["python"]
    example = json.loads(dict(reversed(written))["json"])
    rng = np.random.default_rng(5)
    moved = ({name: rng.normal() for name in ("ax", "ay", "az", "wx", "wy", "wz")} for _ in range(600))
    lines = [{**example, **x, "person": f"p{i % 2}", "ts": example["ts"] + i // 2 / 50} for i, x in enumerate(moved)]
    (tmp_path / "job.toml").write_text(job)
    jsonl(tmp_path / "records.jsonl", lines)
    monkeypatch.chdir(tmp_path)
    with MockBroker() as mock:
        at_home, here = "localhost:9092", mock.url.removeprefix("kafka://")
        monkeypatch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        monkeypatch.setenv("STREAMJOBS_METRICS__PORT", "0")
        made = job_of(tmp_path / "job.toml")
        mock.create([made.settings.source.topic, *made.sinks.values(), changelog(made.settings)])
        producer = Producer({"bootstrap.servers": here, "log_level": 0})  # the mock lacks what `produce` asks a broker
        for line in lines:
            producer.produce(made.settings.source.topic, json.dumps(line).encode(), line["person"].encode())
        assert producer.flush(20) == 0
        words = [sys.executable, "-m", "streamjobs", "run", "job.toml", "--once"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        reader = [sys.executable, "-c", read.replace(at_home, here)]
        with subprocess.Popen(reader, stdout=subprocess.PIPE, text=True) as reading:
            try:
                told = [
                    json.loads(reading.stdout.readline()) for _ in range(10)
                ]  # windows of 2 s every second, of 6 s of two keys
            finally:
                reading.kill()
    assert [one["seq"] for one in told if one["key"] == "p0"] == [0, 1, 2, 3, 4]
    assert {one["true_class"] for one in told} == {example["activity"]}
    assert set(told[0]) == set(json.loads(dict(written)["json"]))


@pytest.mark.slow
def test_the_demo_shows_every_window_of_five_people_and_leaves_nothing_behind():
    words, mark = [sys.executable, "-m", "streamjobs", "demo", "--seconds", "8"], str(uuid.uuid4())
    env = {**os.environ, MARK: mark}
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * WITHIN, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"The worker's live page: http://127.0.0.1:\d+/", done.stdout)
    assert "1,254 of 1,254 windows out" in done.stdout and "0 dead letters" in done.stdout
    people = {}
    for line in done.stdout.splitlines():
        found = re.match(r"\s*(person-\d\d|all)\s+(\d+)" + r"\s+(\d+) %" * 3 + r"\s*$", line)
        if found:
            people[found[1]] = tuple(int(number) for number in found.groups()[1:])
    assert len(people) == 6 and people["all"][0] == 1254 == sum(people[name][0] for name in people) / 2
    # What is right, fixed and last follows from the recordings alone (tests/fit/test_demo.py has the whole of it).
    assert people["all"][1] > people["all"][2] > people["all"][3]
    assert done.stdout.index("last label: repeating") < done.stdout.index("person-02"), "the legend is above the table"
    assert re.search(r"second half of each person's windows \d+ %, and \d+ % with", " ".join(done.stdout.split()))
    assert not _marked(mark)


def _marked(mark: str) -> set[int]:
    """The processes with this MARK in their environment: other tests run workers of the demo's job file meanwhile."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                found.add(int(pid))
    return found


@pytest.mark.slow
def test_the_demo_stopped_early_ends_its_worker_and_its_broker():
    mark, words = str(uuid.uuid4()), [sys.executable, "-m", "streamjobs", "demo"]
    demo = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, MARK: mark})
    started = set()
    begun = time.monotonic()
    while len(started) < 2 and time.monotonic() - begun < WITHIN:
        started = _children(demo.pid)
        time.sleep(0.05)
    assert _marked(mark) >= {demo.pid}, "the search that the test above relies on finds them"
    demo.send_signal(signal.SIGTERM)
    said = demo.communicate(timeout=WITHIN)[1].decode()
    assert demo.returncode == 130, said
    assert len(started) >= 2  # a broker, and a worker or those that compile for it
    begun = time.monotonic()
    while any(os.path.exists(f"/proc/{pid}") for pid in started):  # a busy machine may not have given them a turn to end
        assert time.monotonic() - begun < WITHIN
        time.sleep(0.05)


def _children(pid: int) -> set[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return {int(child) for child in file.read().split()}

"""What deployments need of the command line: compiling ahead, resources for Strimzi, a feed of recordings."""

import json
import re
import time
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from algorithms.common.cache_folder import cache_root
from streamjobs.cli import run
from streamjobs.core.job import Job
from streamjobs.demo.feed import endless, feed
from streamjobs.demo.job import demo_job
from streamjobs.demo.mock import MockBroker
from streamjobs.demo.player import key_of
from streamjobs.demo.recordings import PAUSE, Sample, samples
from streamjobs.errors import ConfigError
from streamjobs.kafka import send
from streamjobs.kafka.topics import changelog
from tests.deploy.tools import DEPLOY

JOB = '[source]\ntopic = "{topic}"\ndim = 2\n[learner]\nname = "okfeb"\nrank = 2\nbudget = 3\n'


@pytest.fixture(scope="module")
def played() -> list[Sample]:
    return samples()


def test_the_feed_sends_the_recordings_with_the_time_of_their_sending(
    played: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "_retention", lambda *_: send.Retention(None))  # the mock broker has no settings of topics
    with MockBroker() as broker:
        job = demo_job({"STREAMJOBS_BROKER__URL": broker.url})
        topic = job.settings.source.topic
        broker.create([topic, *job.sinks.values(), changelog(job.settings)])
        before = time.time()
        sent = feed(broker.url, 2.0)
        after = time.time()
        reader = Consumer({"bootstrap.servers": broker.url.removeprefix("kafka://"), "group.id": "reader", "log_level": 0})
        reader.assign([TopicPartition(topic, number, 0) for number in range(4)])
        records = []
        while len(records) < sent and (record := reader.poll(10)) is not None:
            records.append((json.loads(record.value())["ts"], record.key().decode()))
        reader.close()
    assert sent == len(records) > 0
    records.sort()
    begun = records[0][0] - played[0].at
    assert before <= begun <= records[-1][0] <= after
    assert [(round(ts - begun, 3), key) for ts, key in records] == [(one.at, key_of(one.person)) for one in played[:sent]]


def test_the_feed_goes_on_after_the_last_sample_and_times_never_go_back(played: list[Sample]) -> None:
    times = [at for at, _ in islice(endless(played), len(played) + 10)]
    assert times == sorted(times)
    assert times[len(played)] - times[len(played) - 1] == pytest.approx(PAUSE + played[0].at)


def test_topics_for_strimzi_have_names_that_kubernetes_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.toml").write_text(JOB.format(topic="Raw_IMU"))
    words = [
        "topics",
        "plan",
        str(tmp_path / "job.toml"),
        "--principal",
        "User:w1",
        "--strimzi",
        "main",
        "--replication",
        "2",
    ]
    assert run(words) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    topics = {one["spec"]["topicName"]: one for one in items if one["kind"] == "KafkaTopic"}
    names = [one["metadata"]["name"] for one in items]
    assert "Raw_IMU" in topics and topics["Raw_IMU"]["spec"]["replicas"] == 2
    assert len(set(names)) == len(names) and all(name == name.lower() and "_" not in name for name in names)
    assert {one["metadata"]["labels"]["strimzi.io/cluster"] for one in items} == {"main"}


@pytest.mark.parametrize("principal", ["User:Wrist", "Group:w", "User:w_1"])
def test_a_principal_that_can_be_no_kafka_user_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], principal: str
) -> None:
    (tmp_path / "job.toml").write_text(JOB.format(topic="t"))
    assert run(["topics", "plan", str(tmp_path / "job.toml"), "--principal", principal, "--strimzi", "main"]) == 2
    assert (
        f"--principal: the name of a KafkaUser has small letters, digits, '-' and '.', such as User:wrist; got '{principal}'"
        in (capsys.readouterr().err)
    )


def test_check_compiles_the_loops_of_the_job_if_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(Job, "compile", lambda job: compiled.append(job.model))
    (tmp_path / "job.toml").write_text(JOB.format(topic="t"))
    assert run(["check", str(tmp_path / "job.toml"), "--json"]) == 0
    assert compiled == [] and "compiled" not in json.loads(capsys.readouterr().out)
    assert run(["check", str(tmp_path / "job.toml"), "--compile", "--json"]) == 0
    assert compiled == ["okfeb"]
    assert json.loads(capsys.readouterr().out)["compiled"] == str(cache_root())


def test_the_page_says_how_to_upgrade_and_to_roll_back() -> None:
    text = (
        (DEPLOY / "README.md").read_text(encoding="utf-8").partition("### Upgrade and roll back")[2].partition("\n### ")[0]
    )
    upgrade, _, back = text.partition("**To roll back**")
    steps = re.findall(r"`streamjobs ([a-z ]+?) job\.toml", upgrade)
    assert (
        steps == ["state export", "check", "state verify"] and "`streamjobs state import job.toml before.copy --all`" in back
    )


def test_the_feed_names_the_option_with_a_wrong_url() -> None:
    with pytest.raises(ConfigError, match=r"^--feed \[broker\]: url must be kafka://.* got 'localhost:1'"):
        feed("localhost:1", 1.0)

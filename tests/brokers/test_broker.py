"""The development broker, and the topics made on it."""

import asyncio
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import ConfigResource, NewTopic

from streamjobs.core.job import Job
from streamjobs.core.messages import Output
from streamjobs.errors import SetupError
from streamjobs.kafka import preflight, topics
from streamjobs.kafka.devbroker import jars
from streamjobs.kafka.devbroker.broker import Broker, free_port, prepare, start_detached, stop_detached
from streamjobs.kafka.reader import topic_records
from streamjobs.settings.load import settings_from
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.outbox import Outbox
from tests.brokers.fixtures import MakeJob
from tests.brokers.kafka_job import ANSWER, KafkaJob, create
from tests.brokers.load import SOURCE, samples

SINKS = {"features": "in.features", "dlq": "in.dlq"}


def test_a_killed_broker_restarts_with_everything_it_acknowledged(broker: Broker, tmp_path: Path) -> None:
    with Broker() as own:
        job = KafkaJob(own.bootstrap, tmp_path, "kept", source=SOURCE)
        count = job.produce(samples(500))
        url = own.url
        own.kill()
        own.restart()
        assert own.url == url
        assert len(job.inputs()) == count
        folder = own.folder
    assert not folder.exists()  # a temporary folder goes with the broker


def test_a_topic_that_refuses_timestamps_takes_records_without_one(make_job: MakeJob) -> None:
    job, now = make_job("unstamped", source=SOURCE), int(1000 * time.time())
    topic = job.core.sinks["dlq"]
    assert topics.limits(job.settings, {"dlq": topic}, job.admin).spans == {}  # the input refuses the same
    job.alter(job.input, topics.AFTER_MAX, str(topics.ANY))
    limits = topics.limits(job.settings, {"dlq": topic}, job.admin)
    spans = {topic: topics.Span(topics.ANY - topics.SLACK, 3_300_000)}
    assert limits == (spans, topics.BATCH_BYTES, topics.TOMBSTONES / 1000)
    job.alter(job.changelog, "max.message.bytes", "70000")
    assert topics.limits(job.settings, {"dlq": topic}, job.admin).batch_bytes == 70_000
    outputs = [Output("dlq", b"k", b"v", at, []) for at in (now, now + 86_400_000, now)]

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=job.bootstrap) as producer:
            outbox = Outbox(1, {"dlq": topic}, lambda: producer, Backpressure(), spans=limits.spans)
            await outbox.send(outputs)
            await outbox.wait_acknowledged(list(outbox.unacknowledged))

    asyncio.run(send())
    found = topic_records(job.settings.broker, topic)
    assert [record.timestamp for record in found] == [now, -1, now]


def test_a_taken_port_is_a_setup_error_that_names_it(broker: Broker) -> None:
    with pytest.raises(SetupError, match=f"port {broker.port} of 127.0.0.1 is taken"):
        Broker().start(broker.port)


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"needs Java 17 or newer and Maven, but 'java' is not on PATH; install"):
        jars.fetch_jars()


def test_without_maven_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_java(tmp_path, "17.0.9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if not _has_maven() else str(tmp_path))
    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SetupError, match="'mvn' is not on PATH; install Maven"):
        jars.fetch_jars()


def test_a_folder_that_cannot_be_made_or_is_not_known_is_one_sentence_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path / "file"))
    said = r"broker: .*/file/kafka-.* cannot be used \(Not a directory\); set STREAMJOBS_CACHE"
    with pytest.raises(SetupError, match=said), jars.locked():
        pass
    monkeypatch.delenv("STREAMJOBS_CACHE")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("Could not determine home directory.")))
    with pytest.raises(SetupError, match="broker: this user has no home folder; set STREAMJOBS_CACHE"):
        jars.home()


def test_an_old_java_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"'java -version' prints openjdk version \"11\.0\.2\"; put a JDK 17 first"):
        jars.fetch_jars()


def test_options_in_the_environment_need_no_other_class_data_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = jars.archive()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dof.this.run=1")
    assert jars.archive() == usual


def _fake_java(folder: Path, version: str) -> None:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def _has_maven() -> bool:
    return any((Path(folder) / "mvn").exists() for folder in ("/usr/bin", "/bin"))


def test_a_detached_broker_outlives_its_starter_and_keeps_its_data(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare()
    shared, own = jars.home(), tmp_path / "cache" / jars.home().name
    own.mkdir(parents=True)
    (own / "libs").symlink_to(shared / "libs")  # Maven is not needed again
    usual = jars.archive()
    monkeypatch.setenv("STREAMJOBS_CACHE", str(own.parent))
    jars.archive().symlink_to(usual)  # to make one would take two thirds of this test
    port = free_port()
    script = f"from streamjobs.kafka.devbroker.broker import start_detached; print(start_detached({port}))"
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=90)
        url = f"kafka://127.0.0.1:{port}"
        assert done.stdout.strip() == url == start_detached()  # it runs already
        job = Job.from_settings(_settings(url))
        topics.create(job.settings, job_sinks=job.sinks)
        with pytest.raises(SetupError, match=f"already running at 127.0.0.1:{port}; stop it .* STREAMJOBS_CACHE"):
            start_detached(free_port())
        assert stat.S_IMODE((own / "node").stat().st_mode) == 0o700
        assert stop_detached() == url
        assert stop_detached() is None
        assert start_detached(port) == url
        assert preflight.obstacles(job.settings, job) == []
    finally:
        stop_detached()


def _settings(url: str):
    return settings_from(
        {"broker": {"url": url}, "source": {"topic": "in"} | SOURCE, "learner": {"name": "okfeb", "rank": 2, "budget": 4}}
    )


def test_created_topics_have_the_inputs_partitions_and_the_changelog_is_compacted(make_job: MakeJob) -> None:
    job = make_job("made", make=False, source=SOURCE)
    assert len(preflight.obstacles(job.settings, job.core)) == 2 + len(job.core.sinks)
    create(job.admin, NewTopic(job.input, 6, 1))
    created = topics.create(job.settings, job_sinks=job.core.sinks)
    assert {one.name for one in created} == {*job.core.sinks.values(), job.changelog}
    found = job.admin.list_topics(timeout=ANSWER).topics
    assert {len(found[one.name].partitions) for one in created} == {6}
    resource = ConfigResource(ConfigResource.Type.TOPIC, job.changelog)
    assert job.admin.describe_configs([resource])[resource].result(ANSWER)["cleanup.policy"].value == "compact"
    assert preflight.obstacles(job.settings, job.core) == []
    assert topics.create(job.settings, job_sinks=job.core.sinks) == []


def test_another_number_of_partitions_than_the_inputs_is_refused(make_job: MakeJob) -> None:
    job = make_job("refused", source=SOURCE)
    with pytest.raises(SetupError, match="expected 3 partitions as requested, got 4"):
        topics.create(job.settings, partitions=3, job_sinks=job.core.sinks)


def test_a_changelog_that_deletes_is_found_before_it_forgets_keys(make_job: MakeJob) -> None:
    job = make_job("forgetful", make=False, source=SOURCE)
    create(job.admin, NewTopic(job.changelog, 4, 1))
    topics.create(job.settings, job_sinks=job.core.sinks)
    (problem,) = preflight.obstacles(job.settings, job.core)
    assert problem.startswith(f"topic {job.changelog} (state): expected cleanup.policy compact, got delete")


def test_a_dead_letter_fits_wherever_its_input_did() -> None:
    settings = _settings("kafka://127.0.0.1:1")
    planned = {one.role: one for one in topics.plan(settings, SINKS, 4)}
    assert int(planned["dlq"].config["max.message.bytes"]) >= settings.source.max_bytes + topics.HEADER_BYTES


def test_a_broker_that_does_not_answer_is_one_sentence_within_seconds() -> None:
    port = free_port()
    job = Job.from_settings(_settings(f"kafka://127.0.0.1:{port}"))
    begin = time.monotonic()
    (problem,) = preflight.obstacles(job.settings, job)
    assert problem.startswith(f"broker 127.0.0.1:{port}: no answer within") and "[broker] url" in problem
    assert time.monotonic() - begin < 60

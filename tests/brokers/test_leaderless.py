"""Two nodes, topics with one replica: partitions of the node that is down wait, and all others go on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import NewTopic

from streamjobs.kafka.devbroker.broker import Broker, free_port
from tests.brokers.hash_jobs import ONCE, expected, numbers, states
from tests.brokers.kafka_job import KafkaJob, create, until
from tests.brokers.workers import HASH, Worker, running_worker, wait_for_exit

TOPICS = ("spread.in", "spread-state-changelog", "spread.in.predictions")
SECOND = {0: 1, 1: 2, 2: 1, 3: 2}  # the node of each partition


@pytest.fixture
def nodes(tmp_path: Path, broker: Broker) -> Iterator[tuple[Broker, Broker]]:  # `broker`: skipped without Java
    """The first one is the controller too, and has Kafka's own topics."""
    controller = free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{controller}"}
    first = Broker(data=tmp_path / "one", port=free_port())
    first._controller = controller
    second = Broker(data=tmp_path / "two", port=free_port())
    second.extra = {
        **voters,
        "node.id": "2",
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://127.0.0.1:{second.port}",
    }
    with first:
        job = KafkaJob(first.bootstrap, tmp_path, "begin", source={"dim": 1}, head={"name": "rls"})
        with_topics = Worker(job, program=HASH)  # makes Kafka's own topics, while there is one node
        with_topics.ready()
        job.produce(numbers(40))
        job.wait_until_done([with_topics])
        assert with_topics.stop() == 0
        try:
            second.restart()
            until(lambda: len(job.admin.list_topics(timeout=5).brokers) == 2, "two nodes")
            yield first, second
        finally:
            second.kill()


def spread(bootstrap: str, folder: Path, *, only: str = "", guarantee: str = "at_least_once") -> KafkaJob:
    """A job with each odd partition on the second node; only: of this topic, and all others on the first."""
    options = {"job": {"guarantee": guarantee}, "source": {"dim": 1}, "head": {"name": "rls"}, "state": {"replay": "0s"}}
    job = KafkaJob(bootstrap, folder, "spread", make=False, **options)
    for name in (job.input, job.changelog, *job.core.sinks.values()):
        on = [[SECOND[number] if only in ("", name) else 1] for number in range(4)]
        config = {"cleanup.policy": "compact"} if name == job.changelog else {}
        create(job.admin, NewTopic(name, 4, replica_assignment=on, config=config))
    return job


def answer(worker: Worker) -> dict[str, Any]:
    """Of /ready."""
    (serving,) = worker.events("serving /metrics and /health")
    try:
        with urlopen(f"http://127.0.0.1:{serving['port']}/ready", timeout=10) as page:
            return dict(json.load(page))
    except HTTPError as error:
        return dict(json.load(error))


@pytest.mark.parametrize(
    ("only", "guarantee"),
    [
        ("", "exactly_once"),
        *(pytest.param(name, "at_least_once", marks=pytest.mark.long) for name in ("", *TOPICS)),
    ],
)
def test_partitions_without_a_leader_wait_and_the_others_go_on(
    nodes: tuple[Broker, Broker], tmp_path: Path, only: str, guarantee: str
) -> None:
    job = spread(nodes[0].bootstrap, tmp_path, only=only, guarantee=guarantee)
    job.produce(numbers(400))
    worker = Worker(job, program=HASH).ready()
    job.wait_until_done([worker])
    assert worker.stop() == 0
    nodes[1].kill()
    until(lambda: job.admin.list_topics(timeout=5).topics[only or job.input].partitions[1].leader < 0, "no leader")
    job.produce([one for one in numbers(400) if one.partition in (0, 2)])
    with running_worker(job, program=HASH) as worker:  # it can be stopped while partitions wait
        assert worker.stop() == 0 and worker.events("stopped")
    worker = Worker(job, program=HASH)
    try:
        (ready,) = worker.ready(120).events("ready")
        assert ready["partitions"] == [0, 2]
        until(lambda: "2 partitions without a leader in spread" in answer(worker)["reason"], "/ready names it")
        until(lambda: [job.committed()[number] for number in (0, 2)] == [200, 200], "the others go on")
        nodes[1].restart()
        until(lambda: len(worker.events("ready")) > 1, "its leaders are back")
        until(lambda: answer(worker)["ready"], "/ready")
        assert worker.events("ready")[-1]["partitions"] == [0, 1, 2, 3]
        job.produce([one for one in numbers(400) if one.partition in (1, 3)])
        job.wait_until_done([worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    assert states(job) == expected(job)


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "exits", "says"),
    [("in", 3, "cannot read its end offsets"), ("changelog", 1, "names a partition without a leader")],
)
def test_run_once_ends_where_a_partition_has_no_leader(
    nodes: tuple[Broker, Broker], tmp_path: Path, topic: str, exits: int, says: str
) -> None:
    job = spread(nodes[0].bootstrap, tmp_path, only=next(name for name in TOPICS if topic in name))
    job.produce(numbers(400))
    assert Worker(job, program=ONCE).process.wait(120) == 0
    nodes[1].kill()
    code, lines = wait_for_exit(Worker(job, program=ONCE), within=200)
    assert code == exits and len(lines) == 1 and says in lines[0] and "leader" in lines[0], lines

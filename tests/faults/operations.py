"""What operators do to a cluster under running workers.

Partitions are moved between nodes, preferred leaders elected, the group's offsets deleted, and clients held to a quota.
"""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest
from confluent_kafka import ElectionType, TopicPartition

from streamjobs.kafka.devbroker import jars
from streamjobs.kafka.topic_id import MISSING, topic_ids
from tests.brokers.cluster import NODES
from tests.brokers.kafka_job import until
from tests.faults.case import Case, retried

OFFSETS = "__consumer_offsets"
INTERNAL = ("__transaction_state", OFFSETS)
TURNS: tuple[tuple[int, ...], ...] = ((1, 2), (2, 3), (3, 1), NODES)  # replicas, the preferred leader first
QUOTA = 20_000  # bytes a second that each client may write and read
HELD = 20.0  # seconds


def moved(case: Case) -> None:
    """All partitions of the job, of groups and of transactions move from node to node while outputs are open."""
    job, cluster = case.make_job(), case.cluster
    case.run_two_workers()
    case.start_load()
    names = [job.input, job.changelog, *job.core.sinks.values(), *INTERNAL]
    for replicas in TURNS:
        case.wait_for_commits()
        case.wait_for_open_outputs()
        asyncio.run(reassign(cluster.bootstrap, names, replicas))
        until(lambda replicas=replicas: _led_from(case, names) <= set(replicas), f"leaders among {replicas}", 90)  # type: ignore[misc]
        case.wait_for_commits()
    case.prove(f"leaders of all partitions among {', '.join(map(str, TURNS))} in turn")


def _led_from(case: Case, names: Sequence[str]) -> set[int]:
    """The nodes that lead any partition of these topics."""
    found = retried(lambda: case.job.admin.list_topics(timeout=10))
    return {part.leader for name in names for part in found.topics[name].partitions.values()}


def preferred(case: Case) -> None:
    """Each node restarted, so that others lead, and all preferred leaders elected again while outputs are open."""
    job, cluster = case.make_job(), case.cluster
    case.run_two_workers()
    case.start_load(60)
    moved = 0
    for node in cluster.nodes:
        case.wait_for_commits()
        cluster.stop(node)
        until(lambda node=node: node not in cluster.alive(), "the node gone from the metadata", 90)  # type: ignore[misc]
        cluster.restart(node)
        cluster.in_sync()
        case.wait_for_open_outputs()
        away = [place for place, (leader, first) in _leaders(case).items() if leader != first]
        moved += len(away)
        job.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(*place) for place in away]).result(30)
        until(lambda: all(leader == first for leader, first in _leaders(case).values()), "preferred leaders", 90)
        case.wait_for_commits()
    assert moved, "every leader was the preferred one"
    case.prove(f"{moved} leaders moved back by 3 preferred elections")


def _leaders(case: Case) -> dict[tuple[str, int], tuple[int, int]]:
    """The leader and the preferred one of each partition."""
    found = retried(lambda: case.job.admin.list_topics(timeout=10)).topics
    return {(name, one.id): (one.leader, one.replicas[0]) for name in found for one in found[name].partitions.values()}


def offsets_gone(case: Case) -> None:
    """The topic with the offsets of all groups deleted under two workers: they commit again, and repeat nothing."""
    job = case.make_job()
    workers = case.run_two_workers()
    case.start_load(40)
    case.wait_for_commits(len(case.records) // 10)
    before = topic_ids(job.admin, [OFFSETS])[OFFSETS]
    (deleted,) = job.admin.delete_topics([OFFSETS]).values()
    deleted.result(30)
    until(lambda: topic_ids(job.admin, [OFFSETS])[OFFSETS] not in (before, MISSING), f"a new {OFFSETS}", 90)
    case.wait_for_commits(len(case.records) // 10)
    for worker in workers:
        worker.assert_running()
    case.wait_for_two_members()
    case.prove(f"{OFFSETS} {before} became {topic_ids(job.admin, [OFFSETS])[OFFSETS]}, both workers went on")


async def reassign(bootstrap: str, names: Sequence[str], replicas: Sequence[int]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        described = await admin.describe_topics(list(names))
        topics: list[Any] = [
            (one["topic"], [(part["partition"], list(replicas), {}) for part in one["partitions"]], {}) for one in described
        ]
        answer = await admin._send_to_controller(AlterPartitionReassignmentsRequest(30_000, topics, {}))  # no public call
        codes = {part[1] for one in answer.responses for part in one[1]}
        assert answer.error_code == 0 and codes == {0}, f"the controller refused: {answer}"
    finally:
        await admin.close()


def throttled(case: Case) -> None:
    """All clients are held to a few kilobytes a second, for 20 s."""
    case.make_job()
    workers = case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    _set_quota(case, f"--add-config=producer_byte_rate={QUOTA},consumer_byte_rate={QUOTA}")
    try:
        before = sum(case.job.committed().values())
        time.sleep(HELD)
        for worker in workers:
            worker.assert_running()
        held = sum(case.job.committed().values()) - before
    finally:
        _set_quota(case, "--delete-config=producer_byte_rate,consumer_byte_rate")
    case.wait_for_commits(held)  # nodes make their clients wait for a while longer
    begun = time.monotonic()
    case.wait_for_commits(held)
    freed = time.monotonic() - begun
    assert freed < HELD, f"{held} records in {HELD:.0f} s of the quota, as many in {freed:.0f} s without it"
    case.prove(f"{held} records committed in {HELD:.0f} s of {QUOTA} bytes/s a client, as many in {freed:.1f} s without")


def _set_quota(case: Case, change: str) -> None:
    asked = ["--bootstrap-server", case.cluster.bootstrap, "--alter", "--entity-type", "clients", "--entity-default", change]
    command = [*jars.java_command(case.folder), "kafka.admin.ConfigCommand", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"

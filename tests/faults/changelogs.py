"""The changelog deleted and recreated under its name, or without its last states."""

import asyncio
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, TopicPartition

from streamjobs.kafka import topics
from streamjobs.kafka.topic_id import topic_ids
from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import Sent, until
from tests.brokers.workers import CHECKOUT, Worker
from tests.faults.case import Case, retried
from tests.faults.load import KEYS
from tests.faults.operations import reassign

OF_CHANGELOG = (1, 2)  # nodes, the preferred leader first; the third one is left to keep the quorum
QUIET = 20  # keys whose last record is sent before the fault


def recreated(case: Case) -> None:
    """The changelog recreated under two workers: they end, and their local stores give every state back."""
    job = case.make_job(state=case.soon)
    quiet = send_first(case)
    workers = case.run_two_workers()
    case.start_load(60)
    until(lambda: all(job.committed()[number] >= count for number, count in quiet.items()), "the quiet keys' states", 180)
    before, after = recreate(case)
    for worker in workers:
        case.wait_for_exit(worker, 3, "state restore JOB --from-local")
    case.wait_for_exit(case.start_worker("a"), 3, "state restore JOB --from-local")
    until(lambda: job.members() == [], "the sessions of workers that could not leave", 60)
    held = len(job.snapshots())
    assert held <= KEYS - QUIET, f"the recreated changelog has {held} states of {KEYS}: nothing was lost"
    restore_from(case, *workers)
    restored = len(job.snapshots())
    assert restored >= QUIET, f"{restored} states after the restore"
    case.prove(f"{before} became {after}; both workers ended; {held} states before, {restored} after they were restored")
    start_again(case, *(worker.name for worker in workers))
    case.wait_for_two_members()
    case.wait_for_commits()


def cut(case: Case, words: Sequence[str] | None = None) -> None:
    """The changelog loses its last states, as by an unclean election: workers with and without a local store end.

    words: the program of a worker without a local store that is to go on.
    """
    job = case.make_job(state=case.soon)
    case.start_load(60)
    ends = []
    for put in (False, True):
        worker = case.run_worker("a")
        case.wait_for_commits(len(case.records) // 5)
        case.stop_worker(worker)
        job.wait_for_markers(job.changelog)
        ends.append(job.ends(job.changelog))
        swap_logs(case, job.changelog, put=put)
    kept, written = ends
    assert job.ends(job.changelog, committed_only=False) == kept != written, f"it ends at {job.ends(job.changelog)}"
    case.prove(f"{sum(written.values()) - sum(kept.values())} of {sum(written.values())} records of the changelog lost")
    if words is not None:
        case.run_worker("b", program=words)
        return
    case.wait_for_exit(case.start_worker("b"), 3, "states were written up to offset")
    case.wait_for_exit(case.start_worker("a"), 3, "the local store holds changelog offset")
    restore_from(case, worker)
    start_again(case, "a", "b")


def cut_unnoticed(case: Case) -> None:
    """Planted: a worker without a local store ignores how far the changelog went."""
    cut(case, program("ignores-states"))


def unclean(case: Case) -> None:
    """A node without the changelog's last states becomes its leader under two workers, whose local stores give them back."""
    job, cluster = case.make_job(state=case.soon), case.cluster
    first, second = OF_CHANGELOG
    asyncio.run(reassign(cluster.bootstrap, [job.changelog], OF_CHANGELOG))
    for setting, value in (("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1")):
        job.alter(job.changelog, setting, value)
    until(lambda: _in_sync(case) == {first, second}, "the moved changelog in sync", 90)
    job.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(job.changelog, part.id) for part in _partitions(case)])
    until(lambda: _led_by(case) == {first}, f"all partitions of {job.changelog} led by node {first}", 90)
    workers = case.run_two_workers()
    case.start_load(60)
    case.wait_for_commits()
    cluster.kill(second)
    until(lambda: _in_sync(case) == {first}, f"node {second} out of sync", 90)
    case.wait_for_commits(len(case.records) // 5)
    written = job.ends(job.changelog)
    cluster.kill(first)
    cluster.restart(second)
    until(lambda: _led_by(case) == {second}, f"all partitions of {job.changelog} led by node {second}", 90)
    # Some partitions refuse the next batch, others take it; then a worker may take over from one that has ended.
    says = {1: "OutOfOrderSequenceNumber", 3: "states were written up to offset"}
    codes = [worker.process.wait(200) for worker in workers]
    for worker, code in zip(workers, codes, strict=True):
        assert code in says, f"worker {worker.name} ended with code {code}:\n{worker.text()[-3000:]}"
        case.wait_for_exit(worker, code, says[code])
    kept = job.ends(job.changelog)
    lost = sum(written.values()) - sum(kept.values())
    assert lost > 0, f"the changelog ended at {written} and ends at {kept}: nothing was lost"
    case.prove(f"node {second} leads without {lost} of {sum(written.values())} records of the changelog; codes {codes}")
    cluster.whole()
    case.wait_for_exit(case.start_worker("c"), 3, "states were written up to offset")
    case.wait_for_exit(case.start_worker("a"), 3, "the local store holds changelog offset")
    restore_from(case, *workers)
    start_again(case, *(worker.name for worker in workers))
    case.wait_for_commits()


def _led_by(case: Case) -> set[int]:
    return {part.leader for part in _partitions(case)}


def _in_sync(case: Case) -> set[int]:
    return {node for part in _partitions(case) for node in part.isrs}


def _partitions(case: Case) -> list[Any]:
    topics_now = retried(lambda: case.job.admin.list_topics(timeout=10)).topics
    return list(topics_now[case.job.changelog].partitions.values())


def swap_logs(case: Case, topic: str, *, put: bool) -> None:
    """While no node runs, keep the topic's logs, or put what was kept in their place."""
    cluster, kept = case.cluster, case.folder / f"{case.name}.kept"
    cluster.each(cluster.nodes, cluster.kill)
    for node, broker in cluster.nodes.items():
        for log in (broker.folder / "log").glob(f"{topic}-*"):
            copy = kept / f"{node}" / log.name
            if put:
                shutil.rmtree(log)
            shutil.copytree(*((copy, log) if put else (log, copy)))
    cluster.whole()


def start_again(case: Case, *names: str) -> None:
    """All of them before any is waited for, so that they share the partitions at once."""
    for worker in [case.start_worker(name) for name in names]:
        worker.ready()


def restore_from(case: Case, *workers: Worker) -> None:
    stores: list[str | Path] = [word for worker in workers for word in ("--directory", worker.state)]
    command = [sys.executable, "-m", "streamjobs", "state", "restore", case.job.path, "--from-local", *stores]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def send_first(case: Case) -> dict[int, int]:
    """Let some keys' records come first, so that nothing writes their states again; gives how many in each partition."""

    def is_quiet(record: Sent) -> bool:
        return int((record.key or b"").rpartition(b"-")[2]) < QUIET

    case.records = sorted(case.records, key=lambda record: not is_quiet(record))
    return Counter(record.partition for record in case.records if is_quiet(record))


def recreate(case: Case) -> tuple[str, str]:
    """The changelog's ids before and after."""
    job = case.job
    before = topic_ids(job.admin, [job.changelog])[job.changelog]
    (deleted,) = job.admin.delete_topics([job.changelog]).values()
    deleted.result(30)
    until(lambda: job.changelog not in job.admin.list_topics(timeout=10).topics, f"{job.changelog} gone", 60)
    retried(
        lambda: topics.create(job.settings, job_sinks=job.core.sinks, state_bytes=job.core.state_bytes, roles=("state",))
    )
    after = topic_ids(job.admin, [job.changelog])[job.changelog]
    assert before and after and before != after, f"the changelog's id was {before!r} and is {after!r}"
    return before, after

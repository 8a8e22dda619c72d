"""All states of a job move to another one with fewer partitions, and its worker goes on with them."""

import json
from pathlib import Path

from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.partitioners import murmur2
from streamjobs.core.state import snapshot
from streamjobs.kafka import topics
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import ANSWER, PARTITIONS, KafkaJob, Sent, until
from tests.brokers.workers import running_worker
from tests.commands.jobs import command

KEYS, ROWS, FEWER = 9, 20, 2
LEARNER = {"name": "lms"}


def records(begin: int, count: int, partitions: int) -> list[Sent]:
    """Rows begin to begin + count of every key, where a Java producer sends them."""
    rows = [(n, b"k%d" % k) for n in range(begin, begin + count) for k in range(KEYS)]
    return [
        Sent(key, json.dumps({"x": [n % 7, n / 9], "y": n}).encode(), murmur2(key, partitions), 1_700_000_000_000 + n)
        for n, key in rows
    ]


def rows_of(job: KafkaJob) -> dict[tuple[int, bytes], int]:
    states = {place: data for place, data in job.snapshots().items() if data is not None}
    return {place: decode_snapshot(job.core, data)[0]["books"].rows for place, data in states.items()}


def learned_and_copied(job: KafkaJob, fork_server: ForkServer) -> Path:
    """A copy of its states after the first rows."""
    job.produce(records(0, ROWS, PARTITIONS))
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    copy = job.folder / "copy"
    assert command("state", "export", job.path, "--all", "-o", copy) == 0
    return copy


def test_states_go_on_in_a_job_with_fewer_partitions(make_job: MakeJob, fork_server: ForkServer) -> None:
    sections = {"source": {"dim": 2, "label": "y"}, "learner": LEARNER, "state": {"replay": "0s"}}
    job, other = make_job("many", **sections), make_job("fewer", make=False, **sections)
    topics.create(other.settings, partitions=FEWER, job_sinks=other.core.sinks, state_bytes=other.core.state_bytes)
    copy = learned_and_copied(job, fork_server)
    assert command("state", "import", other.path, copy, "--all") == 2
    assert command("state", "import", other.path, copy, "--all", "--partitioner", "murmur2") == 0
    before, moved = job.snapshots(), other.snapshots()
    assert moved.keys() == {(murmur2(key, FEWER), key) for _, key in before}
    for (_, key), data in moved.items():
        saved = snapshot.decode(before[murmur2(key, PARTITIONS), key])
        assert data == snapshot.encode(saved._replace(offsets={}))  # of another topic
    assert command("state", "import", other.path, copy, "--all", "--partitioner", "murmur2") == 0  # and again: the same
    assert other.snapshots() == moved
    other.produce(records(ROWS, ROWS, FEWER))
    with running_worker(other, fork_server=fork_server) as worker:
        until(lambda: set(rows_of(other).values()) == {2 * ROWS}, "every key has gone on where it was")
        assert worker.stop() == 0
    assert command("state", "verify", other.path) == 0


def test_states_go_on_in_another_cluster_with_the_input_of_their_name(make_job: MakeJob, fork_server: ForkServer) -> None:
    sections = {"source": {"dim": 2, "label": "y"}, "learner": LEARNER, "state": {"replay": "0s"}}
    job = make_job("cluster", **sections)
    copy = learned_and_copied(job, fork_server)
    _as_in_another_cluster(job)
    assert command("state", "import", job.path, copy, "--all") == 0
    job.produce(records(ROWS, ROWS, PARTITIONS))
    with running_worker(job, "other-directory", fork_server=fork_server) as worker:
        until(lambda: set(rows_of(job).values()) == {2 * ROWS}, "every key has gone on, and no record was skipped")
        assert worker.stop() == 0
    ids = [dict(record.headers())["streamjobs-id"].decode() for record in job.sink("predictions")]
    assert len(ids) == KEYS * ROWS and all(one.startswith(f"{job.input}~") for one in ids)  # of the former input: no "~"
    assert command("state", "verify", job.path) == 0


def _as_in_another_cluster(job: KafkaJob) -> None:
    """The topics are others under the same names, and there is no group."""
    named = {job.input, job.changelog, *job.core.sinks.values()}
    for name in named & set(job.admin.list_topics(timeout=ANSWER).topics):
        job.delete(name)
    job.delete_group()
    topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.core.sinks, state_bytes=job.core.state_bytes)

"""All states of a job move to another one with fewer partitions, and its worker goes on with them."""

import json

from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.partitioners import murmur2
from streamjobs.core.state import snapshot
from streamjobs.kafka import topics
from tests.brokers.fixtures import MakeJob
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, until
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
    return {place: decode_snapshot(job.core, data)[0]["books"].rows for place, data in job.snapshots().items()}


def test_states_go_on_in_a_job_with_fewer_partitions(make_job: MakeJob) -> None:
    sections = {"source": {"dim": 2, "label": "y"}, "learner": LEARNER, "state": {"replay": "0s"}}
    job, other = make_job("many", **sections), make_job("fewer", make=False, **sections)
    topics.create(other.settings, partitions=FEWER, job_sinks=other.core.sinks, state_bytes=other.core.state_bytes)
    job.produce(records(0, ROWS, PARTITIONS))
    with running_worker(job) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    copy = job.folder / "copy"
    assert command("state", "export", job.path, "--all", "-o", copy) == 0
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
    with running_worker(other) as worker:
        until(lambda: set(rows_of(other).values()) == {2 * ROWS}, "every key has gone on where it was", 60)
        assert worker.stop() == 0
    assert command("state", "verify", other.path) == 0

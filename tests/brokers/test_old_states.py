"""A worker over the changelog of an earlier commit, on a real Kafka: it goes on, or stops and leaves everything as it is."""

from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, Sent, new_producer, send
from tests.brokers.verification import identity
from tests.brokers.workers import Worker, running_worker, wait_for_exit
from tests.faults.audit import opened
from tests.golden.old import Old, later_version, stored

COMMIT = "04aad75"


def _bed(make_job: MakeJob, name: str, states: dict[bytes, bytes], old: Old) -> KafkaJob:
    """The old job's topics: the states in its changelog, every record in partition 0 of its input."""
    sections: dict[str, Any] = {section: values for section, values in old.stated.items() if section != "population"}
    job = make_job(f"old-{name}", population=old.population, **sections)
    producer = new_producer(job.bootstrap)
    for key, data in states.items():
        send(producer, job.changelog, Sent(key, data, 0, 1_700_000_000_000), lambda error, _: None)
    assert producer.flush(30) == 0
    job.produce(Sent(one.key, one.value, 0, one.timestamp) for one in old.records)
    return job


@pytest.mark.parametrize("name", ["activity", "people", "numbers"])
def test_a_worker_goes_on_from_the_states_of_an_earlier_commit(
    make_job: MakeJob, fork_server: ForkServer, name: str
) -> None:
    old = stored(COMMIT, name)
    job = _bed(make_job, name, old.half, old)
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    live = Live(job.core, old.half.get)
    due = {identity(one.headers) for one in advance(job.core, live, old.rest).outputs if one.sink == "predictions"}
    assert job.snapshots() == {(0, key): data for key, data in live.snapshots()}
    assert {identity(message.headers()) for message in job.sink("predictions")} == due  # none of the first half again


def test_a_state_of_a_later_release_stops_the_worker_and_stays_where_it_is(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    old = stored(COMMIT, "okfeb")
    states = {key: later_version(data) if key == b"p1" else data for key, data in old.half.items()}
    job = _bed(make_job, "later", states, old)
    for _ in range(2):  # the second time it has a local store of its own
        worker = Worker(job, fork_server=fork_server)
        code, lines = wait_for_exit(worker)
        assert code == 1 and len(lines) == 1, lines
        assert "snapshot version 3 is unknown to this release, which reads versions 1 and 2" in lines[0]
        assert job.snapshots() == {(0, key): data for key, data in states.items()}
        assert job.ends(job.changelog)[0] == len(states) and sum(job.committed().values()) == 0
        assert opened(worker.state)[0][:2] == (len(states) - 1, states)  # the offset of the last, and all of them

"""Idle workers of a broker that forgets transactional ids within seconds, instead of 7 days."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import LEARNING
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, until
from tests.brokers.load import samples
from tests.brokers.verification import verify
from tests.brokers.workers import pause, run_until_done, running_worker, wait_for_exit

FORGETTING = {
    "transactional.id.expiration.ms": "12000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "12000",
    "producer.id.expiration.check.interval.ms": "500",
}
FORGOTTEN = 15.0  # seconds; a zombie's partitions move earlier
KEEPS_ALIVE = program("keeps-alive", 1)


@pytest.fixture(scope="module")
def forgetting() -> Iterator[str]:
    with Broker(extra=FORGETTING) as broker:
        yield broker.bootstrap


def forgotten(job: KafkaJob) -> bool:
    """Whether the broker's last record of each transactional id of the job is a tombstone."""
    newest = {message.key(): message.value() for message in job.read("__transaction_state")}
    of_job = [value for key, value in newest.items() if f"{job.name}-".encode() in key]
    return bool(of_job) and not any(of_job)


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_an_idle_worker_continues_and_a_zombie_stays_fenced(
    guarantee: str, forgetting: str, broker: Broker, tmp_path: Path, fork_server: ForkServer
) -> None:
    job = KafkaJob(forgetting, tmp_path, guarantee, job={"guarantee": guarantee}, **LEARNING)
    idle = {"program": KEEPS_ALIVE, "fork_server": fork_server}
    with running_worker(job, **idle) as former, running_worker(job, "spare", **idle) as owner:
        job.produce(samples(1000, seed=1))
        job.wait_until_done([former, owner])
        former.freeze()
        until(lambda: job.members() == [4], "the group has given all partitions to the other worker")
        pause(FORGOTTEN)
        job.produce(samples(1000, seed=2))
        job.wait_until_done([owner])
        former.wake()
        until(lambda: former.events("partition taken over by another worker"), "the zombie is refused")
        job.produce(samples(1000, seed=3))
        job.wait_until_done([former, owner])
        assert (former.stop(), owner.stop()) == (0, 0)

    with running_worker(job, "hourly", fork_server=fork_server) as worker:  # the broker does forget
        until(lambda: forgotten(job), "the broker has forgotten its transactional ids", every=0.5)
        job.produce(samples(1000, seed=4))
        code, lines = wait_for_exit(worker)
    assert code == 1 and len(lines) == 1 and "has forgotten this worker's transactional id" in lines[0]
    run_until_done(job, fork_server=fork_server)
    verify(job, repeats=guarantee == "at_least_once", expect=4000, committed_only=guarantee == "exactly_once")

"""How a worker starts in difficult surroundings: a broker that stands still meanwhile, and more workers than partitions."""

import os
import signal
import time
from contextlib import ExitStack

from confluent_kafka import KafkaException

from streamjobs.kafka.devbroker.broker import Broker
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.hash_jobs import HASH, expected, hash_job, numbers, states
from tests.brokers.kafka_job import KafkaJob, until
from tests.brokers.workers import Worker, running_worker

ATTEMPTS = 5
STILL = 7.0  # seconds, beyond the 6 s of the session of a group and the 4 s of the node


def silent(job: KafkaJob) -> bool:
    """Whether the broker gives no answer within a second."""
    try:
        job.admin.list_topics(timeout=1)
    except KafkaException:
        return True
    return False


def test_a_broker_that_stands_still_under_a_starting_worker_only_delays_it(
    make_job: MakeJob, broker: Broker, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "still")
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server) as first:
        job.wait_until_done([first])
    job.produce(numbers(400))
    assert broker.process is not None
    for _ in range(ATTEMPTS):
        until(lambda: not silent(job), "the broker answers")
        worker = Worker(job, program=HASH, fork_server=fork_server)
        try:
            until(lambda: worker.events("learner loops compiled"), "the worker is about to join its group", every=0.01)  # noqa: B023
            os.kill(broker.process.pid, signal.SIGSTOP)
            try:
                in_time = not worker.events("ready")  # a busy machine may have looked too late
                time.sleep(STILL)
                assert silent(job) and not (in_time and worker.events("ready"))
            finally:
                os.kill(broker.process.pid, signal.SIGCONT)
            worker.ready()
            job.wait_until_done([worker])
            assert worker.stop() == 0
        finally:
            worker.end()
        if in_time:
            break
    assert in_time, f"the broker never stood still before the worker was ready, {ATTEMPTS} times"
    assert states(job) == expected(job)


def test_a_worker_too_many_is_ready_without_partitions_and_takes_over(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "spare", partitions=2)
    records = [record._replace(partition=record.partition % 2) for record in numbers(400)]
    job.produce(records)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(running_worker(job, name, program=HASH, fork_server=fork_server)) for name in ("a", "b", "c")
        ]

        def at_work() -> list[Worker]:
            return [worker for worker in workers if worker.events("ready")[-1]["partitions"]]

        until(lambda: len(at_work()) == 2, "one partition each, and a worker without")
        job.wait_until_done(workers)
        leaving = at_work()[0]
        workers.remove(leaving)
        assert leaving.stop() == 0
        until(lambda: len(at_work()) == 2, "the one without takes over")
        job.produce(records)
        job.wait_until_done(workers)
    assert states(job) == expected(job)

"""A topic deleted under a worker: the worker ends soon with one sentence, and loses nothing."""

import signal
import time

import pytest

from streamjobs.kafka import topics
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.hash_jobs import HASH, expected, hash_job, numbers, states
from tests.brokers.workers import Worker, run_until_done, running_worker, wait_for_exit

SOON = 20.0  # seconds; clients ask for metadata at once, and a deletion must be confirmed for a few


def test_a_deleted_input_ends_a_worker_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "no-input")
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.delete(job.input)
        code, lines = wait_for_exit(worker, SOON)
    assert code == 3 and len(lines) == 1, (code, lines)
    assert f"topic {job.input} (input): it was deleted" in lines[0] and "state forget-offsets" in lines[0]
    assert sum(count for _, count, _ in states(job).values()) == 400


@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_a_deleted_output_ends_a_worker_with_code_3_and_a_new_topic_gets_what_was_not_acknowledged(
    make_job: MakeJob, fork_server: ForkServer, guarantee: str
) -> None:
    job = hash_job(make_job, f"no-output-{guarantee}", job={"guarantee": guarantee})
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        predictions = job.core.sinks["predictions"]
        job.delete(predictions)
        job.produce(numbers(40))
        code, lines = wait_for_exit(worker, SOON)
    assert code == 3 and len(lines) == 1, (code, lines)
    assert f"topic {predictions} (predictions): it was deleted" in lines[0] and "topics create" in lines[0]
    assert sum(job.committed().values()) == 400
    topics.create(job.settings, job_sinks=job.core.sinks)
    run_until_done(job, program=HASH, fork_server=fork_server)
    assert states(job) == expected(job) and len(job.sink("predictions", committed_only=True)) == 40


def test_sigterm_ends_a_worker_with_a_deleted_output_soon(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "no-output-sigterm")
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.delete(job.core.sinks["predictions"])
        job.produce(numbers(40))
        time.sleep(0.3)
        worker.process.send_signal(signal.SIGTERM)
        code, lines = wait_for_exit(worker, SOON)
    assert code == 3 and len(lines) == 1 and "it was deleted" in lines[0], (code, lines)
    assert sum(job.committed().values()) == 400


def test_an_output_that_was_recreated_at_once_gets_what_follows(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "new-output")
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.delete(job.core.sinks["predictions"])
        topics.create(job.settings, job_sinks=job.core.sinks)
        job.produce(numbers(40))
        job.wait_until_done([worker])
        assert worker.stop() == 0
    assert states(job) == expected(job) and len(job.sink("predictions")) == 40


def test_an_input_that_was_recreated_at_once_ends_a_worker_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "new-input")
    job.produce(numbers(400))
    worker: Worker
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        worker.freeze()
        job.delete(job.input)
        topics.create(job.settings, job_sinks=job.core.sinks, partitions=4)
        job.produce(numbers(40))
        worker.wake()
        code, lines = wait_for_exit(worker, 40.0)
    assert code == 3 and len(lines) == 1, (code, lines)
    assert "deleted and recreated" in lines[0] and "state forget-offsets" in lines[0]
    assert sum(count for _, count, _ in states(job).values()) == 400

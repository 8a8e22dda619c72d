"""A worker that is killed while it has work left."""

from tests.brokers.fault_injection import program
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, Sent, until
from tests.brokers.workers import Worker, running_worker

STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}  # a restart need not wait for the dead one's session to end
PATIENCE = 180.0  # seconds; a check of what must come, not of how fast
FEW = 50  # records produced between two looks at what is committed


def kill_in_the_middle(job: KafkaJob, records: list[Sent], fork_server: ForkServer) -> int:
    """A worker works through the first half; SIGKILL once more is committed of the second. Gives what was left."""
    half = len(records) // 2
    job.produce(records[:half])
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        job.wait_until_done([worker], PATIENCE)
        return kill_within(job, records[half:], worker)


def kill_within(job: KafkaJob, records: list[Sent], worker: Worker) -> int:
    """SIGKILL once more of these is committed, of a worker that has finished what came before. Gives what was left.

    They are produced few at a time until then, and the rest after the kill: a worker that keeps up with a slow producer
    would otherwise be done before anybody looks.
    """
    before, sent = sum(job.committed().values()), 0
    while sent < len(records) and sum(job.committed().values()) == before:
        sent += job.produce(records[sent : sent + FEW])
    until(lambda: sum(job.committed().values()) > before, "more is committed", PATIENCE, every=0.002)
    assert worker.kill() == -9
    job.produce(records[sent:])
    left = job.lag()
    assert before > 0 and 0 < left < len(records), f"killed when its work was done: {before} committed before, {left} left"
    return left


def run_until_crash(job: KafkaJob, fault: str, **options: object) -> None:
    """A worker with this fault runs until it kills itself with work left."""
    worker = Worker(job, program=program(fault), **options, **STATIC)  # type: ignore[arg-type]
    try:
        assert worker.process.wait(400) == -9, worker.text()[-2000:]  # it may compile first
        assert job.lag() > 0, "it crashed after its work was done"
    finally:
        worker.end()


def run_to_the_end(job: KafkaJob, **options: object) -> None:
    with running_worker(job, **options, **STATIC) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0

"""The worker on a quiet day: everything answered once, stopped cleanly."""

import json
import re
import time
import urllib.request

from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.hash_jobs import HASH, hash_job, numbers
from tests.brokers.kafka_job import ANSWER, PARTITIONS, new_producer, send, until
from tests.brokers.load import SOURCE, samples
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker


def test_a_stopped_worker_has_answered_committed_and_stored_everything_once(make_job: MakeJob) -> None:
    job = make_job("quiet", source=SOURCE, head={"name": "rls"}, drift={"detector": "page_hinkley"})
    count = job.produce(samples(20_000))
    with running_worker(job) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    assert job.committed() == job.ends()
    verify(job, repeats=False, expect=count)


LINGER = 1  # seconds


def test_records_that_linger_at_the_broker_are_processed_together(make_job: MakeJob, fork_server: ForkServer) -> None:
    """100 records, 10 ms apart: one by one a batch each, but for those that a busy machine lets come together."""
    job = make_job("linger", source=SOURCE | {"linger": f"{LINGER}s"}, head={"name": "rls"})
    with running_worker(job, fork_server=fork_server) as worker:
        worker.ready()
        producer, begun = new_producer(job.bootstrap, **{"linger.ms": 0}), time.monotonic()
        for record in samples(100):
            send(producer, job.input, record, lambda error, _: None)
            time.sleep(0.01)
        assert producer.flush(60) == 0
        looks = (time.monotonic() - begun) / LINGER + 2  # each gives a batch of each partition at most
        until(lambda: job.committed() == job.ends(), "every record is committed")
        (serving,) = worker.events("serving /metrics and /health")
        with urllib.request.urlopen(f"http://127.0.0.1:{serving['port']}/metrics", timeout=ANSWER) as answer:
            (batches,) = re.findall(rb"^streamjobs_processing_delay_seconds_count (\S+)", answer.read(), re.MULTILINE)
        assert 0 < float(batches) <= PARTITIONS * looks
        assert worker.stop() == 0


def test_markers_of_a_transactional_input_are_no_lag(make_job: MakeJob, fork_server: ForkServer) -> None:
    """Such as the outputs of another job with exactly_once. No commit comes for a marker, so a quiet job looked stuck."""
    job = hash_job(make_job, "markers")
    producer = new_producer(job.bootstrap, **{"transactional.id": job.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for record in numbers(400):
        send(producer, job.input, record, lambda error, _: None)
    producer.commit_transaction(30)
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        (serving,) = worker.events("serving /metrics and /health")

        def lags() -> dict[str, int]:
            with urllib.request.urlopen(f"http://127.0.0.1:{serving['port']}/health", timeout=ANSWER) as answer:
                return json.load(answer)["lag"]

        done = {number: end - 1 for number, end in job.ends().items()}
        until(lambda: job.committed() == done, "every record is committed, and no marker")
        until(lambda: set(lags().values()) == {0}, lambda: f"no lag: {lags()}")
        job.produce(numbers(40))
        until(lambda: job.committed() == job.ends(), "records after the markers are committed")
        assert worker.stop() == 0

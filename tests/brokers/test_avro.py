"""Records in Avro through a kill -9 on a real Kafka: final states are those of a replay of the same rows as JSON."""

import time

import msgspec

from streamjobs.core.messages import PlainRow
from streamjobs.schema_registry.lookup import ready_now
from tests.brokers.fixtures import MakeJob
from tests.brokers.kafka_job import Sent, until
from tests.brokers.verification import replayed, verify
from tests.brokers.workers import running_worker
from tests.schema_registry import server, writers

EACH = 1000
STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}


def test_a_killed_worker_of_avro_records_has_the_states_of_their_rows(make_job: MakeJob) -> None:
    rows = [writers.row(number) for number in range(2 * EACH)]
    with server.serving() as registry:
        values = writers.avro(registry.url, rows).values
        source = {**writers.SETTINGS, "format": "avro"}
        job = make_job("avro", source=source, registry={"url": registry.url}, head={"name": "rls"})
        records = [
            Sent(b"p%d" % (number % 7), value, number % 7 % 4, writers.NOW + number) for number, value in enumerate(values)
        ]
        registry.mode = "broken"
        job.produce(records[:EACH])
        with running_worker(job, **STATIC) as worker:
            until(lambda: worker.events("waiting for schema registry"), "the worker waits for the registry", 120)
            time.sleep(1.0)
            assert sum(job.committed().values()) == 0, "records were taken without their schema"
            registry.mode = "well"
            job.wait_until_done([worker])
            job.produce(records[EACH:])
            assert worker.kill() == -9
        assert job.lag() > 0, "it was killed after its work was done"
        with running_worker(job, **STATIC) as worker:
            job.wait_until_done([worker])
            assert worker.stop() == 0
        ready_now(job.settings, job.core.schemas, job.inputs())
        verify(job, repeats=True, expect=2 * EACH)
    offsets = [0] * 4
    as_rows = []
    for sent, row in zip(records, rows, strict=True):
        at = sent.partition
        as_rows.append(PlainRow(job.input, at, offsets[at], sent.timestamp, sent.key, msgspec.json.encode(row)))
        offsets[at] += 1
    truth = replayed(job.core, as_rows)
    assert not truth.answers["dlq"] and len(truth.snapshots) == 7
    assert job.snapshots() == truth.snapshots

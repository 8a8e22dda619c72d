"""Records with schemas of a registry through a kill -9 on a real Kafka: final states are those of the same rows as JSON."""

import time
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from streamjobs.core.messages import PlainRow
from streamjobs.schema_registry.ready_now import ready_now
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import Sent, until
from tests.brokers.killing import STATIC, kill_within
from tests.brokers.verification import replayed, verify
from tests.brokers.workers import running_worker
from tests.commands.jobs import command
from tests.schema_registry import apicurio, server, writers

EACH = 1000
WRITERS = {"avro": writers.avro, "protobuf": writers.protobuf}
OFTEN = {"checkpoint": "20ms", "checkpoint_records": 50}  # many checkpoints, so that the kill comes between two of them


@pytest.mark.parametrize(
    ("form", "real"),
    [
        ("avro", False),  # answers that a real registry gave
        pytest.param("avro", True, marks=pytest.mark.long),
        pytest.param("protobuf", True, marks=pytest.mark.long),
    ],
)
def test_a_killed_worker_of_records_with_schemas_has_the_states_of_their_rows(
    make_job: MakeJob, tmp_path: Path, form: str, real: bool, fork_server: ForkServer
) -> None:
    rows = [writers.row(number) for number in range(2 * EACH)]
    with apicurio.running(tmp_path) if real else nullcontext() as behind, server.serving(behind) as registry:
        values = WRITERS[form](registry.url, rows).values
        source = {**writers.SETTINGS, "format": form}
        job = make_job(form, source=source, registry={"url": registry.url}, head={"name": "rls"}, state=OFTEN)
        records = [
            Sent(b"p%d" % (number % 7), value, number % 7 % 4, writers.NOW + number) for number, value in enumerate(values)
        ]
        registry.mode = "broken"
        job.produce(records[:EACH])
        with running_worker(job, fork_server=fork_server, **STATIC) as worker:
            until(lambda: worker.events("waiting for schema registry"), "the worker waits for the registry", 120)
            time.sleep(1.0)
            assert sum(job.committed().values()) == 0, "records were taken without their schema"
            registry.mode = "well"
            job.wait_until_done([worker])
            left = kill_within(job, records[EACH:], worker)
        with running_worker(job, fork_server=fork_server, **STATIC) as worker:
            job.wait_until_done([worker])
            assert worker.stop() == 0
        ready_now(job.settings, job.core.schemas, job.inputs())
        results = verify(job, repeats=True, expect=2 * EACH)
        assert command("replay", job.path, "--input", "topic", "--expect", "topics") == 0
    print(f"{left} of {2 * EACH} records were left, {results}")
    offsets = [0] * 4
    as_rows = []
    for sent, row in zip(records, rows, strict=True):
        at = sent.partition
        as_rows.append(PlainRow(job.input, at, offsets[at], sent.timestamp, sent.key, msgspec.json.encode(row)))
        offsets[at] += 1
    truth = replayed(job.core, as_rows)
    assert not truth.answers["dlq"] and len(truth.snapshots) == 7
    assert job.snapshots() == truth.snapshots

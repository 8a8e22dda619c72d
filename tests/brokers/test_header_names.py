"""A producer that names a header in no known letters holds nothing up: its record is learned, or a dead letter."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import START
from tests.brokers.workers import running_worker
from tests.commands.jobs import command

RECORDS, ODD, BROKEN = 30, 12, 20


class Foreign(str):
    """A header name that no text encodes to."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:  # type: ignore[override]
        return b"\xff\xfe"


@pytest.fixture
def whatever_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """aiokafka's own builder of batches in Python asks a name for its bytes."""
    monkeypatch.setattr(message_accumulator, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)
    yield


async def sent(job: KafkaJob) -> None:
    async with AIOKafkaProducer(bootstrap_servers=job.bootstrap) as producer:
        for n in range(RECORDS):
            body = {"x": [n / 10, 1.0, 0.5, -n / 20], "ts": START + n}
            value = b"{" if n == BROKEN else json.dumps(body).encode()
            headers = [(Foreign("odd"), b"v")] if n in (ODD, BROKEN) else []
            batch = producer.create_batch()
            assert batch.append(timestamp=round(1000 * (START + n)), key=b"p1", value=value, headers=headers)
            await (await producer.send_batch(batch, job.input, partition=0))


@pytest.mark.usefixtures("whatever_names")
def test_a_header_name_that_is_not_text_ends_no_worker_and_no_command(
    make_job: MakeJob, fork_server: ForkServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("headers", **LEARNING)
    asyncio.run(sent(job))
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    said = [json.loads(one.value())["seq"] for one in job.sink("predictions")]
    assert said == list(range(RECORDS - 1))
    (letter,) = job.sink("dlq")
    assert letter.value() == b"{" and ("\\xff\\xfe", b"v") in letter.headers()

    def told(*words: object) -> dict[str, Any]:
        capsys.readouterr()
        assert command(*words, "--json") == 0, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    # Commands read such names too, and read them alike.
    assert told("replay", job.path, "--input", "topic", "--expect", "topics")["dead_lettered"] == {"malformed": 1}
    assert told("dlq", "redrive", job.path, "--all")["sent"] == 1
    assert told("dlq", "redrive", job.path, "--all")["sent_before"] == 1
    held = told("state", "forget", job.path, "p1")["held"]
    assert {one["role"]: one["records"] for one in held}["input"] == RECORDS + 1

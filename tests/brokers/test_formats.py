"""Every format of values on a real Kafka: a worker and `replay --input topic` give the bits of the core."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from streamjobs.job_files import job_of
from streamjobs.schema_registry.ready_now import ready_now
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import Sent
from tests.brokers.rekeyed import create_base, produce, rekey
from tests.brokers.verification import replayed, verify
from tests.brokers.workers import run_until_done
from tests.commands.jobs import command
from tests.core.written_formats import FORMATS, KEYS, row
from tests.schema_registry import server, writers

ROWS = [row(number) for number in range(700)]
USUAL = ("CloudEvents, structured", "protobuf of a registry")  # the others with -m "long or not long"
OF_REGISTRY = {"avro of a registry": writers.avro, "protobuf of a registry": writers.protobuf}


def cases() -> Iterator[Any]:
    for number, (name, one) in enumerate(FORMATS.items()):
        missing = one.policies[number % len(one.policies)]
        yield pytest.param(name, missing, id=f"{name}-{missing}", marks=[] if name in USUAL else [pytest.mark.long])


@pytest.mark.parametrize(("name", "missing"), list(cases()))
def test_a_worker_and_a_replay_of_its_topic_give_the_bits_of_the_core(
    make_job: MakeJob, fork_server: ForkServer, tmp_path: Path, name: str, missing: str
) -> None:
    one, write = FORMATS[name], OF_REGISTRY.get(name)
    with server.serving() if write is not None else nullcontext() as registry:
        if write is not None:  # by the serializers of Confluent's client
            values = [(value, ()) for value in write(registry.url, [_own(each) for each in ROWS]).values]
        else:
            values = list(map(one.write, ROWS))
        own = {"registry": {"url": registry.url}} if write is not None else {}
        source = {setting: value for setting, value in one.source(missing, tmp_path).items() if value is not None}
        job = make_job("format", source=source, **own, **one.sections())
        job.core = job_of(job.path)  # with the schema of its file
        places = [number % KEYS % 4 for number in range(len(ROWS))]
        sent = zip(ROWS, values, places, strict=True)
        assert job.produce(Sent(each["person"].encode(), value, at, each["at"], told) for each, (value, told), at in sent)
        run_until_done(job, fork_server=fork_server)
        records = ready_now(job.settings, job.core.schemas, job.inputs())
        found = verify(job, repeats=False, expect=len(ROWS))
        assert command("replay", job.path, "--input", "topic", "--output-dir", tmp_path / "out") == 0
    assert found["features"].answers > 200 and (found["dlq"].answers > 0) == (missing == "dlq")
    truth = replayed(job.core, records)
    assert len(truth.snapshots) == KEYS
    for sink in ("features", "drift"):
        lines = (tmp_path / "out" / f"{sink}.jsonl").read_bytes().splitlines()
        assert len(lines) == found[sink].answers
        assert sorted(_value(line) for line in lines) == sorted(
            value or b"" for _, _, value, *_ in truth.answers[sink].values()
        )


def _own(one: dict[str, Any]) -> dict[str, Any]:
    """A reading, as the schema has it."""
    return {name: one[name] for name in ("temp", "rpm", "place", "at", "doing")}


def _value(line: bytes) -> bytes:
    """What a line of `replay --output-dir` says that the record's value is, to the byte."""
    return line.partition(b'"value":')[2][:-1]


@pytest.mark.long
@pytest.mark.parametrize("name", OF_REGISTRY)
def test_rekey_finds_keys_in_values_whose_schema_a_registry_has(make_job: MakeJob, name: str) -> None:
    with server.serving() as registry:
        values = OF_REGISTRY[name](registry.url, [_own(each) for each in ROWS]).values
        own = {**FORMATS[name].own, **writers.SETTINGS, "key": "place.floor", "fields": ["temp", "rpm"], "rekeyed": True}
        job = make_job("rekeyed", make=False, source=own, registry={"url": registry.url})
        create_base(job)
        produce(job, [Sent(None, value, number % 4, ROWS[number]["at"]) for number, value in enumerate(values)])
        produce(job, [Sent(None, b"no value of a schema", 0, writers.NOW)])
        code, text = rekey(job, "--once")
        assert code == 0, text
    copies = job.inputs()
    wanted = {value: b"%d" % one["place"]["floor"] for one, value in zip(ROWS, values, strict=True)}
    assert len(copies) == len(values) and all(wanted[one.value] == one.key for one in copies if one.value is not None)
    (letter,) = job.sink("dlq", committed_only=True)
    assert dict(letter.headers())["streamjobs-error-reason"] == b"malformed"

"""Values that Confluent's serializers wrote, with schemas that its own client registered, are the rows they were made of."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.schema_registry import apicurio, server, writers
from tests.schema_registry.exchange import job_settings, read, read_rows

ROWS = [writers.row(number) for number in range(30)]
FORMATS = {"avro": writers.avro, "protobuf": writers.protobuf}


def check_same_samples(url: str, data_format: str) -> None:
    settings = job_settings(url, data_format)
    made = read(settings, FORMATS[data_format](url, ROWS).values)
    rows = read_rows(settings, [msgspec.json.encode(one) for one in ROWS])
    assert not made.errors and not rows.errors
    assert made.X.tobytes() == rows.X.tobytes() and made.times.tobytes() == rows.times.tobytes()
    assert made.labels == rows.labels and np.isnan(made.X[:, 1]).sum() == 3 and len(made.X) == 30


def check_sources(url: str) -> None:
    """A Protobuf schema may be there as its source, with another id."""
    source = writers.source_of_protobuf(url)
    values = [b"\0" + source.to_bytes(4) + value[5:] for value in writers.protobuf(url, ROWS).values]
    made = read(job_settings(url, "protobuf"), values)
    assert not made.errors and made.X[:, 0].tolist() == [one["temp"] for one in ROWS]


@pytest.mark.parametrize("data_format", FORMATS)
def test_values_of_confluents_serializers_are_the_same_samples_as_their_rows(data_format):
    """With recorded answers of a real registry; the next test asks one."""
    with server.serving() as recorded:
        check_same_samples(recorded.url, data_format)


def test_a_protobuf_schema_may_be_registered_as_its_source():
    with server.serving() as recorded:
        check_sources(recorded.url)


@pytest.mark.long
def test_a_real_registry_gives_the_same(tmp_path: Path):
    with apicurio.running(tmp_path) as url:
        for data_format in FORMATS:
            check_same_samples(url, data_format)
        check_sources(url)
        missing = b"\0" + (999).to_bytes(4) + b"\0"
        ((_, error),) = read(job_settings(url, "avro"), [missing]).errors
        assert error.reason == "schema" and "the registry has no schema 999" in str(error)

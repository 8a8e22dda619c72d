"""Keys inside values, and several sensors in one topic, in every format of values: what JSON gives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.core.decoding.keys import each_keyed
from streamjobs.core.job import Job
from streamjobs.core.messages import Refused, Stored
from streamjobs.errors import SetupError
from streamjobs.job_files import job_from
from streamjobs.settings.load import composition_from
from tests.commands.jobs import problems
from tests.core import written_formats
from tests.core.values import ID
from tests.core.written_formats import FORMATS, Format

ROWS = [written_formats.row(number) for number in range(40)]
IN_VALUES = [name for name, one in FORMATS.items() if name not in ("raw", "sensors")]
SENSORS = {  # the field with the activity stands for the name of a sensor
    "name": "doing",
    "rate": 4,
    "each": {"run": {"fields": ["temp", "rpm"], "rate": 4}, "idle": {"fields": ["place.floor"], "rate": 4}},
}


def job_of(one: Format, folder: Path, **own: Any) -> Job:
    source = {"topic": "plant", **one.source("skip", folder), **own}
    table: dict[str, Any] = {
        "source": {name: value for name, value in source.items() if value is not None},
        "learner": {"name": "okfeb", "rank": 3, "budget": 5},
        **({"registry": {"url": "http://localhost:1"}} if one.schema is not None else {}),
    }
    job = job_from(composition_from(table))
    if one.schema is not None:
        assert job.schemas is not None and not job.schemas.add(ID, one.schema)
    return job


def records_of(one: Format, partition: int = 0) -> list[Stored]:
    return [Stored("plant", partition, n, row["at"], b"own", *one.write(row)) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize("name", IN_VALUES)
def test_a_key_is_found_inside_the_value_and_the_samples_beside_it(tmp_path: Path, name: str) -> None:
    one = FORMATS[name]
    job = job_of(one, tmp_path, key="place.floor", fields=["temp", "rpm"])
    keyed = job.keyed(records_of(one))
    assert [record.key for record in keyed] == [b"%d" % row["place"]["floor"] for row in ROWS]
    decoded = job.decode(keyed)
    assert decoded.X[:, 0].tolist() == [row["temp"] for row in ROWS] and not decoded.errors


@pytest.mark.parametrize("name", ["avro of a registry", "protobuf of a file"])
def test_a_value_without_a_key_keeps_its_reason_and_its_own_key(tmp_path: Path, name: str) -> None:
    one = FORMATS[name]
    job = job_of(one, tmp_path, key="rpm", fields=["temp"], missing="dlq")
    good, damaged = records_of(one)[1], records_of(one)[2]._replace(value=b"\0\0\0\0\x07\xff\xff")
    whole, broken = job.keyed([good, damaged])
    assert whole.key is None and broken.key is None  # 1501.0 is no key
    reasons = [error.reason for _, error in job.decode([whole, broken]).errors]
    assert reasons == ["no_key", "malformed"]


def test_a_record_whose_schema_is_nowhere_is_reported_by_its_schema(tmp_path: Path) -> None:
    job = job_of(FORMATS["avro of a registry"], tmp_path, key="place.floor", fields=["temp"])
    refused = Refused(*records_of(FORMATS["avro of a registry"])[0])
    refused.problem = "expected a schema of the registry"
    ((_, error),) = job.decode(job.keyed([refused])).errors
    assert error.reason == "schema" and "expected a schema of the registry" in str(error)


def test_with_several_partitions_a_key_of_a_schema_stands_on_its_own_one(tmp_path: Path) -> None:
    one = FORMATS["protobuf of a registry"]
    job = job_of(one, tmp_path, key="place.floor", fields=["temp"]).on_partitions(4)
    with pytest.raises(SetupError, match=r"its key in field 'place\.floor'"):
        job.keyed(records_of(one))


def test_who_has_no_schemas_names_the_topic_that_needs_none(tmp_path: Path) -> None:
    job = job_of(FORMATS["avro of a file"], tmp_path, key="place.floor", fields=["temp"])
    with pytest.raises(SetupError, match="rekeyed = true and run 'streamjobs rekey JOB'"):
        list(each_keyed(job.settings.source, records_of(FORMATS["avro of a file"])))


@dataclass
class Sampled:
    X: list[list[float]]
    times: list[float]
    skipped: dict[str, int]


def sampled(of: str, folder: Path, **own: Any) -> Sampled:
    one = FORMATS[of]
    job = job_of(one, folder, fields=None, label=None, sensors={**SENSORS, **own})
    decoded = job.decode(records_of(one))
    assert not decoded.errors and len(decoded.X) > 30
    return Sampled(np.nan_to_num(decoded.X, nan=-1.0).tolist(), decoded.times.tolist(), dict(decoded.skipped))


@pytest.mark.parametrize("name", IN_VALUES[1:])
def test_sensors_are_read_in_every_format_with_names(tmp_path: Path, name: str) -> None:
    assert sampled(name, tmp_path) == sampled("json", tmp_path)


@pytest.mark.parametrize("name", ["CloudEvents, binary", "CloudEvents, structured"])
def test_an_attribute_of_the_event_may_name_the_sensor(tmp_path: Path, name: str) -> None:
    each = {"reading": {"fields": ["temp", "rpm", "place.floor"], "rate": 4}}
    assert sampled(name, tmp_path, name="ce.type", each=each).X[0] == [20.5, 1500.0, 0.0]


@pytest.mark.parametrize("name", ["msgpack", "gzip of json", "CloudEvents, structured"])
def test_a_key_that_is_no_field_of_a_sensor_is_found_beside_the_samples(tmp_path: Path, name: str) -> None:
    job = job_of(FORMATS[name], tmp_path, key="person", fields=None, label=None, sensors=SENSORS)
    keyed = job.keyed(records_of(FORMATS[name]))
    assert [record.key for record in keyed] == [row["person"].encode() for row in ROWS]


def test_what_has_no_names_has_no_sensors_and_schemas_say_what_times_are() -> None:
    sensors = {"topic": "t", "time": "t", "format": "raw", "sensors": SENSORS}
    assert any(
        "format must be one of json, msgpack, avro" in one
        for one in problems({"source": sensors, "learner": {"name": "okfeb"}})
    )
    auto = {"topic": "t", "fields": ["a"], "time": "t", "format": "avro", "schema_file": "a.avsc", "time_unit": "auto"}
    assert any(
        "time_unit = 'auto' has no meaning" in one for one in problems({"source": auto, "learner": {"name": "okfeb"}})
    )

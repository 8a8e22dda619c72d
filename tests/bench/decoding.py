"""What decoding costs: microseconds of processor a record, for each way a record may be written.

    python -m tests.bench decoding

Records of six numbers, a time and a label, in batches of 1000 as a worker fetches them. Beside it the library alone: what
msgspec, fastavro, protobuf or zlib takes to read the same bytes into its own objects. Best of many runs.

Of several sensors (100, 25 and 1 Hz, as Sensor Logger pushes them) a sample's cost: one a record, and a second's in a list;
and what it costs to bring them together to rows of 100 Hz.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from streamjobs.core.decoding.records import decoder
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from streamjobs.settings.source import SourceSection
from streamjobs.stages.names import SENSORS
from tests.bench.wrapped import written
from tests.core import phones

BATCH, RUNS, NOW = 1000, 60, 1_700_000_000.0
FIELDS = ["ax", "ay", "az", "gx", "gy", "gz"]
FLAT: dict[str, Any] = {"fields": FIELDS, "time": "ts", "label": "activity"}
Body = Callable[[list[float], float], dict[str, Any]]


def flat(x: list[float], at: float) -> dict[str, Any]:
    return dict(zip(FIELDS, x, strict=True), ts=at, activity="walk")


def nested(x: list[float], at: float) -> dict[str, Any]:
    return {"acc": dict(zip(FIELDS[:3], x[:3], strict=True)), "gyro": x[3:], "meta": {"ts": at, "activity": "walk"}}


def objects(x: list[float], at: float) -> dict[str, Any]:
    acc, gyro = dict(zip("xyz", x[:3], strict=True)), dict(zip("xyz", x[3:], strict=True))
    return {"acc": acc, "gyro": gyro, "meta": {"ts": at, "activity": "walk"}}


def by_name(x: list[float], at: float) -> dict[str, Any]:
    return {
        "list": [{"name": name, "value": one} for name, one in zip(FIELDS, x, strict=True)],
        "ts": at,
        "activity": "walk",
    }


def odd(x: list[float], at: float) -> dict[str, Any]:
    """One record of a hundred needs the parser of single records, for its label."""
    return flat(x, at) | ({"activity": 7} if round((at - NOW) * 50) % 100 == 50 else {})


def listed(x: list[float], at: float) -> dict[str, Any]:
    return {"x": x, "ts": at, "activity": "walk"}


PATHS = {"fields": ["acc.ax", "acc.ay", "acc.az", "gyro[0]", "gyro[1]", "gyro[2]"]}
INNER = {"fields": [f"{sensor}.{axis}" for sensor in ("acc", "gyro") for axis in "xyz"]}
META = {"time": "meta.ts", "label": "meta.activity"}
CASES: tuple[tuple[str, Body, dict[str, Any]], ...] = (
    ("json, fields", flat, FLAT),
    ("json, x as a list", listed, {"dim": 6, "time": "ts", "label": "activity"}),
    ("json, fields in objects", objects, {**INNER, **META}),
    ("json, fields in objects and lists", nested, {**PATHS, **META}),
    ("json, fields by name in a list", by_name, {**FLAT, "fields": [f"list[name={name}].value" for name in FIELDS]}),
    ("json, fields, 1 % with another parser", odd, FLAT),
    ("json, fields, missing = hold", flat, {**FLAT, "missing": "hold"}),
    ("msgpack, fields", flat, {**FLAT, "format": "msgpack"}),
    ("msgpack, x as a list", listed, {"dim": 6, "time": "ts", "label": "activity", "format": "msgpack"}),
    ("msgpack, fields in objects and lists", nested, {**PATHS, **META, "format": "msgpack"}),
)
WRITTEN = {"fields": FIELDS, "label": "activity"}
WRAPPED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("raw, one sample", {"format": "raw", "dim": 6}),
    ("gzip of json, fields", {**FLAT, "compression": "gzip"}),
    ("CloudEvents, binary", {**WRITTEN, "time": "ce.time", "envelope": "cloudevents"}),
    ("CloudEvents, structured", {**WRITTEN, "time": "ce.time", "envelope": "cloudevents"}),
    ("avro", {**FLAT, "format": "avro"}),
    ("protobuf", {**FLAT, "format": "protobuf"}),
)


def records_of(body: Body, form: str) -> list[Stored]:
    rng = np.random.default_rng(1)
    encode = msgspec.msgpack.encode if form == "msgpack" else lambda one: json.dumps(one).encode()
    bodies = [body(rng.normal(size=6).round(6).tolist(), NOW + n / 50) for n in range(BATCH)]
    return [Stored("imu", 0, n, round((NOW + n) * 1000), b"p%d" % (n % 9), encode(one)) for n, one in enumerate(bodies)]


def microseconds(run: Callable[[Any], object], records: Any, of: int = BATCH) -> float:
    """Of processor for each of the records, or of what else there are so many of."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        run(records)
        times.append(time.process_time() - started)
    return min(times) / of * 1e6


def measure(body: Body, source: dict[str, Any]) -> tuple[float, float]:
    """A record decoded by a job with this [source], and by the library alone."""
    made = SourceSection(topic="imu", **source)
    records = records_of(body, made.format)
    decode, bare = decoder(made, 6), msgspec.msgpack.decode if made.format == "msgpack" else msgspec.json.decode
    decoded = decode(records)
    assert not decoded.errors and len(decoded.X) == BATCH
    values = [record.value for record in records]
    return microseconds(decode, records), microseconds(lambda all_values: list(map(bare, all_values)), values)


def measure_wrapped(name: str, settings: dict[str, Any]) -> tuple[float, float]:
    """As `measure`, of values in an envelope, compressed or with a schema."""
    source = SourceSection(topic="imu", **settings)
    records, definition, bare = written(name, [json.loads(record.value or b"") for record in records_of(flat, "json")])
    schemas = make_schemas(source, None)
    if schemas is not None:
        assert definition is not None and not schemas.add(7, definition)
    decode = decoder(source, 6, schemas=schemas)
    decoded = decode(records)
    assert not decoded.errors and len(decoded.X) == BATCH
    values = [record.value for record in records]
    return microseconds(decode, records), microseconds(lambda all_values: list(map(bare, all_values)), values)


def measure_sensors() -> Iterator[tuple[str, float, float]]:
    """What a sample of one of several sensors costs: (name, decoded or brought together, by the library alone)."""
    messages = phones.pushes(40, keys=3)
    one_each = [
        record._replace(value=json.dumps(reading).encode())
        for record in messages
        for reading in json.loads(record.value or b"")["payload"]
    ]
    listed = phones.SOURCE["sensors"]
    alone = {name: setting for name, setting in listed.items() if name != "samples"}
    for name, records, sensors in (("a sample a record", one_each[:BATCH], alone), ("in a list", messages, listed)):
        job = Job.from_settings(settings_from({**phones.JOB, "source": {**phones.SOURCE, "sensors": sensors}}))
        decoded, count = job.decode(records), len(job.decode(records).owner)
        assert not decoded.errors and count > 500
        values = [record.value for record in records]
        library = microseconds(lambda all_values: list(map(msgspec.json.decode, all_values)), values, count)
        yield f"json, sensors, {name}", microseconds(job.decode, records, count), library
    stage = job.steps.sensors
    rows = (
        np.array([int(records[at].key[-1:]) for at in decoded.owner]),
        decoded.times,
        decoded.X,
        decoded.X[:, :1],
        decoded.owner,
    )

    def bring_together(samples: Any) -> None:
        work = stage.workspace(job.template[SENSORS], slots=3)
        for slot in range(3):
            stage.load(work, slot, job.template[SENSORS])
        assert len(stage.advance(work, *samples).times) > 3 * 3000

    yield "sensors, samples to rows of 100 Hz", microseconds(bring_together, rows, count), float("nan")


def main(arguments: list[str] | None = None) -> int:
    print(f"{'a record':40}{'decoded':>10}{'library':>10}   us")
    for name, body, source in CASES:
        print(f"{name:40}{{:10.2f}}{{:10.2f}}".format(*measure(body, source)), flush=True)
    for name, source in WRAPPED:
        print(f"{name:40}{{:10.2f}}{{:10.2f}}".format(*measure_wrapped(name, source)), flush=True)
    for row in measure_sensors():
        print("{:40}{:10.2f}{:10.2f}".format(*row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The same readings written in every format of values: the part of [source], and the values and headers of their records."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.messages import Headers
from tests.core import values
from tests.schema_registry import writers

KEYS = 7
POLICIES = ("dlq", "skip", "hold", "mean", "of each field")
OF_EACH = {"temp": "skip", "rpm": "hold", "place.floor": "mean"}
SECTIONS: dict[str, Any] = {
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "head": {"name": "rls"},
    "drift": {"detector": "page_hinkley"},
}
SCHEMA: dict[str, Any] = {  # without references, for a file; rpm may be missing
    **writers.READING,
    "fields": [one | {"type": writers.PLACE} if one["name"] == "place" else one for one in writers.READING["fields"]],
}
EVENT = {"specversion": "1.0", "id": "1", "source": "/plant", "type": "reading"}
SENSORS = {
    "name": "sensor",
    "rate": 4,
    "each": {"engine": {"fields": ["temp", "rpm"], "rate": 4}, "lift": {"fields": ["place.floor"], "rate": 4}},
}
Value = tuple[bytes, Headers]


class Format(NamedTuple):
    """One way to write readings."""

    name: str
    own: Mapping[str, Any]  # settings of [source]
    write: Callable[[dict[str, Any]], Value]
    schema: Definition | None = None  # that a registry has under `values.ID`
    files: Mapping[str, str] = {}  # schema_file: what is in it
    policies: Sequence[str] = POLICIES  # of missing numbers
    same: bool = True  # gives the rows of all others
    time: str | None = None  # column of the records' timestamps, where records have no time of their own

    def source(self, missing: str, folder: Path) -> dict[str, Any]:
        """[source], with the files in a folder that it names."""
        for file, text in self.files.items():
            (folder / file).write_text(text)
        named = [("schema_file", str(folder / file)) for file in self.files]
        return {**writers.SETTINGS, "missing": OF_EACH if missing == "of each field" else missing, **self.own, **dict(named)}

    def sections(self) -> dict[str, Any]:
        """The others of the job; without labels there is nothing to predict."""
        return SECTIONS if self.own.get("label", "") is not None else {k: v for k, v in SECTIONS.items() if k != "head"}


def row(number: int) -> dict[str, Any]:
    """As of a file, with the key and a sensor."""
    return {"person": f"p{number % KEYS}", "sensor": ("engine", "lift")[number // KEYS % 2], **writers.row(number)}


def _json(one: dict[str, Any]) -> bytes:
    return json.dumps(one).encode()


def _structured(one: dict[str, Any]) -> Value:
    return _json({**EVENT, "data": one}), (("content-type", b"application/cloudevents+json; charset=UTF-8"),)


def _binary(one: dict[str, Any]) -> Value:
    return _json(one), (
        *((f"ce_{name}", text.encode()) for name, text in EVENT.items()),
        ("content-type", b"application/json"),
    )


def _raw(one: dict[str, Any]) -> Value:
    numbers = [np.nan if number is None else number for number in (one["temp"], one["rpm"], one["place"]["floor"])]
    return np.array(numbers, "<f8").tobytes(), (("streamjobs-shape", b"3"), ("streamjobs-dtype", b"f8"))


def _avro(one: dict[str, Any]) -> bytes:
    return values.avro(SCHEMA, _own(one))


def _protobuf(one: dict[str, Any]) -> bytes:
    kind: Any = writers.message_class()
    told = _own(one)
    message = kind(**{name: value for name, value in told.items() if name != "at" and value is not None})
    message.at.FromMilliseconds(told["at"])
    return bytes(message.SerializeToString())


def _own(one: dict[str, Any]) -> dict[str, Any]:
    """What of a reading the schema has."""
    return {name: one[name] for name in ("temp", "rpm", "place", "at", "doing")}


IN_REGISTRY = b"\x04\x02\x02"  # place of the message type in its schema
FORMATS = {
    one.name: one
    for one in (
        Format("json", {}, lambda one: (_json(one), ())),
        Format("msgpack", {"format": "msgpack"}, lambda one: (msgspec.msgpack.encode(one), ())),
        Format("gzip of json", {"compression": "gzip"}, lambda one: (gzip.compress(_json(one)), ())),
        Format("CloudEvents, binary", {"envelope": "cloudevents"}, _binary),
        Format("CloudEvents, structured", {"envelope": "cloudevents"}, _structured),
        Format(
            "avro of a registry",
            {"format": "avro"},
            lambda one: (values.prefixed(_avro(one)), ()),
            values.avro_definition(SCHEMA),
        ),
        Format("avro of a file", {"format": "avro"}, lambda one: (_avro(one), ()), files={"a.avsc": json.dumps(SCHEMA)}),
        Format(
            "protobuf of a registry",
            {"format": "protobuf"},
            lambda one: (values.prefixed(IN_REGISTRY + _protobuf(one)), ()),
            writers.protobuf_definition(),
        ),
        Format(
            "protobuf of a file",
            {"format": "protobuf", "message": "Reading"},
            lambda one: (_protobuf(one), ()),
            files={"a.proto": writers.PROTO},
        ),
        Format(
            "sensors",
            {"fields": None, "sensors": SENSORS},
            lambda one: (_json(one), ()),
            policies=("dlq", "skip"),
            same=False,
        ),
        Format("raw", {"format": "raw", "time": None, "label": None}, _raw, same=False, time="at"),
        Format("JSON after a schema id", {"envelope": "schema_id"}, lambda one: (values.prefixed(_json(one)), ())),
    )
}

"""Records that are more than JSON or MessagePack, for `decoding`: written by fastavro, protobuf and the standard library."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import fastavro
import msgspec
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.messages import Stored

ID = b"\0" + (7).to_bytes(4)
Written = tuple[list[Stored], Definition | None, Callable[[bytes], Any]]
DOUBLE, STRING = 1, 9  # types of Protobuf's fields


def written(name: str, rows: Sequence[dict[str, Any]]) -> Written:
    """The rows as records, their schema, and what the library does to read one of the values."""
    values, headers = [json.dumps(row).encode() for row in rows], [()] * len(rows)
    definition, bare = None, msgspec.json.decode
    if name.startswith("raw"):
        values = [np.array([row[field] for field in list(row)[:6]], "<f4").tobytes() for row in rows]
        usual = (("streamjobs-shape", b"6"), ("streamjobs-dtype", b"f4"), ("streamjobs-label", b"walk"))
        headers, bare = [(*usual, ("streamjobs-time", repr(row["ts"]).encode())) for row in rows], _floats
    elif name.startswith("gzip"):
        values, bare = list(map(gzip.compress, values)), lambda value: zlib.decompress(value, 31)
    elif name.startswith("CloudEvents"):
        events = [_event(row) for row in rows]
        if name.endswith("binary"):
            headers = [tuple((f"ce_{key}", text.encode()) for key, text in event.items()) for event in events]
        else:
            headers = [(("content-type", b"application/cloudevents+json"),)] * len(rows)
            values = [json.dumps({**event, "data": row}).encode() for event, row in zip(events, rows, strict=True)]
    elif name == "avro":
        values, definition, bare = _avro(rows)
    elif name == "protobuf":
        values, definition, bare = _protobuf(rows)
    made = enumerate(zip(values, headers, rows, strict=True))
    return (
        [
            Stored("imu", 0, number, round(row["ts"] * 1000), b"p%d" % (number % 9), value, told)
            for number, (value, told, row) in made
        ],
        definition,
        bare,
    )


def _floats(value: bytes) -> Any:
    return np.frombuffer(value, "<f4")


def _event(row: dict[str, Any]) -> dict[str, str]:
    at = datetime.fromtimestamp(row["ts"], UTC).isoformat()
    return {"specversion": "1.0", "id": "1", "source": "/watch", "type": "reading", "time": at}


def _avro(rows: Sequence[dict[str, Any]]) -> tuple[list[bytes], Definition, Callable[[bytes], Any]]:
    fields = [{"name": name, "type": "string" if name == "activity" else "double"} for name in rows[0]]
    schema = {"type": "record", "name": "Reading", "fields": fields}
    parsed, values = fastavro.parse_schema(schema), []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        values.append(ID + stream.getvalue())
    read = fastavro.schemaless_reader
    return values, Definition("AVRO", json.dumps(schema)), lambda value: read(io.BytesIO(value[5:]), parsed, None)


def _protobuf(rows: Sequence[dict[str, Any]]) -> tuple[list[bytes], Definition, Callable[[bytes], Any]]:
    file = descriptor_pb2.FileDescriptorProto(name="reading.proto", package="bench", syntax="proto3")
    kind = file.message_type.add(name="Reading")
    for number, name in enumerate(rows[0], 1):
        kind.field.add(name=name, number=number, type=STRING if name == "activity" else DOUBLE, label=1)  # type: ignore[arg-type]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]
    made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Reading"))
    values = [ID + b"\0" + made(**row).SerializeToString() for row in rows]
    definition = Definition("PROTOBUF", descriptors=descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return values, definition, lambda value: made.FromString(value[6:])

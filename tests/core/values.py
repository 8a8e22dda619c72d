"""Records in formats that have a schema, an envelope or compression, and what a decoder makes of them."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from streamjobs.core.decoding.records import Decoded, decoder
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.decoding.with_schema.wire_format import Definition, SchemaId
from streamjobs.core.messages import Stored
from streamjobs.settings.source import SourceSection

NOW = 1_700_000_000.0  # seconds since 1970
ID = 7  # of a schema


def record(value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> Stored:
    return Stored("plant", 3, 1041, int(NOW * 1000), b"p1", value, headers)


def source(**settings: Any) -> SourceSection:
    return SourceSection(topic="plant", **settings)


def decoded(
    records: Sequence[Stored],
    schemas: Mapping[SchemaId, Definition] | None = None,
    fixed: Definition | None = None,
    **settings: Any,
) -> Decoded:
    """What the decoder of [source] settings makes of the records. schemas: those of the registry, by id."""
    made = source(**settings)
    known = make_schemas(made, None, fixed)
    for schema, definition in (schemas or {}).items():
        assert known is not None
        known.add(schema, definition)
    return decoder(made, len(made.columns) if made.fields else made.dim or 3, schemas=known)(records)


def reason(decoded: Decoded) -> str:
    """Reason and text of the only record, which is a dead letter."""
    ((_, error),) = decoded.errors
    assert not len(decoded.owner)
    return f"{error.reason}: {str(error).partition(': ')[2]}"


def prefixed(payload: bytes, schema: int = ID) -> bytes:
    return b"\0" + schema.to_bytes(4) + payload


def avro(schema: Any, message: Any, references: Sequence[Any] = ()) -> bytes:
    named: dict[str, Any] = {}
    for one in references:
        fastavro.parse_schema(one, named_schemas=named)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas=named), message)
    return stream.getvalue()


def avro_definition(schema: Any, references: Sequence[Any] = ()) -> Definition:
    return Definition("AVRO", json.dumps(schema), [json.dumps(one) for one in references])


def avro_record(name: str, **fields: Any) -> dict[str, Any]:
    """A schema of a record. fields: name -> type."""
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}

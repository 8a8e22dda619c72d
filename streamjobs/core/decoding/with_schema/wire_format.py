"""Which schema a record was written with: its id, as Confluent's serializers write it, and what is known of the schema.

A schema id stands before the value: a byte 0 and four bytes of a number, or a byte 1 and sixteen bytes of a GUID. Newer
serializers put the same bytes into the header `__value_schema_id`, and the value has nothing before it. In Protobuf, the
place of the message type in its schema follows the id.

What an id means never changes, so that states need not hold which ids were in use: the records that are read again after a
crash name their schemas themselves.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamjobs.core.decoding.samples import Problem
from streamjobs.core.messages import Headers

HEADER = "__value_schema_id"
ID, GUID = 0, 1  # the first byte
ID_END, GUID_END = 5, 17  # bytes of both, with the first
KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}  # [source] format -> how a registry calls it

SchemaId = int | str  # a number, or a GUID as text
# Decodes a value: the bytes that follow the id where it stands, and the value if that is another place.
Read = Callable[[bytes, bytes | None], dict[str, Any]]


class Definition(NamedTuple):
    """A schema as a registry or a file has it."""

    kind: str  # AVRO, PROTOBUF, JSON, ...
    text: str = ""  # of Avro: JSON
    references: Sequence[str] = ()  # of Avro: schemas with the types that it names, each before those that need it
    descriptors: bytes = b""  # of Protobuf: a FileDescriptorSet, with the file itself last
    message: str | None = None  # of Protobuf: the type of the values, where they do not state it
    problem: str = ""  # why it cannot be used, the end of a sentence; found by who fetched it


class SchemaError(Exception):
    """A schema that cannot be used; the message is the end of a sentence."""


def id_of(value: bytes, headers: Headers) -> tuple[SchemaId, bytes, bytes | None]:
    """The schema id of a value, the bytes that follow it, and the value where the id is in a header. Raises Problem."""
    if headers:
        for name, text in headers:
            if name == HEADER:
                schema, rest = _split(text or b"", f"header {HEADER}")
                return schema, rest, value
    schema, rest = _split(value, "value")
    return schema, rest, None


def _split(data: bytes, where: str) -> tuple[SchemaId, bytes]:
    first = data[0] if data else None
    if first == ID and len(data) >= ID_END:
        return int.from_bytes(data[1:ID_END]), data[ID_END:]
    if first == GUID and len(data) >= GUID_END:
        return str(uuid.UUID(bytes=data[1:GUID_END])), data[GUID_END:]
    got = f"{len(data)} bytes" if first in (None, ID, GUID) else f"the byte {first}"
    raise Problem(
        "malformed", f"expected the {where} to begin with a schema id (a byte 0 and 4 bytes, or a byte 1 and 16), got {got}"
    )

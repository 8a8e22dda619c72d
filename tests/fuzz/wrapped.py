"""Values that are compressed, in an envelope or with a schema: hostile bytes give nothing but a RecordError.

What follows the decoding is the same for all formats, and is tried by the families of records.
"""

import gzip
import io
import json
from random import Random
from typing import Any

import fastavro
import numpy as np

from streamjobs.core.decoding.records import decoder
from streamjobs.core.decoding.unwrap import make_schemas, schema_ids
from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.settings.source import SourceSection
from tests.fuzz.bytes import bent
from tests.fuzz.case import Case, Family, must, outcome_of
from tests.fuzz.grammar import as_json, near
from tests.schema_registry.writers import PLACE, READING, SETTINGS, message_class, protobuf_definition, row

ID = 7
PREFIX = b"\0" + ID.to_bytes(4)
JSON_HEADERS = (("ce_specversion", b"1.0"), ("ce_time", b"2023-11-14T22:13:20Z"), ("content-type", b"application/json"))
EVENT_HEADERS = (("content-type", b"application/cloudevents+json"),)
WIDE = {  # types that READING has not
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "temp", "type": ["int", "double", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}]},
        {"name": "rpm", "type": ["null", {"type": "int", "logicalType": "date"}, "float"]},
        {"name": "place", "type": {"type": "map", "values": ["int", "string", {"type": "array", "items": "double"}]}},
        {"name": "at", "type": ["long", {"type": "long", "logicalType": "local-timestamp-micros"}, "string"]},
        {"name": "doing", "type": ["null", {"type": "enum", "name": "Doing", "symbols": ["idle", "run"]}]},
    ],
}


class Wrapped(Family):
    """form: gzip, cloudevents, avro or protobuf."""

    def __init__(self, form: str) -> None:
        self.name = self.form = form
        settings: dict[str, Any] = {"topic": "plant", **SETTINGS, "time_zone": "UTC", "max_bytes": 1 << 16}
        if form in ("avro", "protobuf"):
            settings["format"] = form
        elif form == "gzip":
            settings["compression"] = "gzip"
        else:
            settings |= {"envelope": "cloudevents", "time": "ce.time"}
        self.source = SourceSection(**settings)
        schemas = make_schemas(self.source, None)
        definitions = self._definitions()
        for schema, definition in definitions.items():
            assert schemas is not None
            must(not schemas.add(schema, definition), "the schema cannot be used")
        self.decode = decoder(self.source, 3, schemas=schemas)
        self.known = {*definitions, None}
        self.bodies = [row(number) for number in (1, 9, 77)]
        self.valid = [self._written(body, Random(number)) for number, body in enumerate(self.bodies * 4)]

    def _definitions(self) -> dict[Any, Definition]:
        if self.form == "avro":
            place = json.dumps(PLACE)
            return {ID: Definition("AVRO", json.dumps(READING), [place]), 8: Definition("AVRO", json.dumps(WIDE))}
        return {ID: protobuf_definition()} if self.form == "protobuf" else {}

    def _written(self, body: dict[str, Any], rnd: Random) -> tuple[bytes, Any]:
        text = json.dumps(body).encode()
        if self.form == "gzip":
            return gzip.compress(text), ()
        if self.form == "cloudevents":
            if rnd.random() < 0.5:
                return text, JSON_HEADERS
            event = {
                "specversion": "1.0",
                "id": "1",
                "source": "/",
                "type": "r",
                "time": "2023-11-14T22:13:20Z",
                "data": body,
            }
            return json.dumps(event).encode(), EVENT_HEADERS
        if self.form == "protobuf":
            made = message_class()(**{name: value for name, value in body.items() if name != "at" and value is not None})
            made.at.FromMilliseconds(body["at"])
            payload = b"\x04\x02\x02" + made.SerializeToString()
        else:
            named: dict[str, Any] = {}
            fastavro.parse_schema(PLACE, named_schemas=named)
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, fastavro.parse_schema(READING, named_schemas=named), body)
            payload = stream.getvalue()
        if rnd.random() < 0.3:
            return (payload, (("__value_schema_id", PREFIX),)) if self.form == "avro" else (PREFIX + payload, ())
        return PREFIX + payload, ()

    def draw(self, rnd: Random) -> Case:
        data, headers = rnd.choice(self.valid)
        if self.form in ("gzip", "cloudevents") and rnd.random() < 0.4:
            text = as_json(rnd, {name: near(rnd, one) for name, one in rnd.choice(self.bodies).items()})
            data, headers = (gzip.compress(text, 1), ()) if self.form == "gzip" else (text, JSON_HEADERS)
        elif self.form == "avro" and rnd.random() < 0.3:
            data = b"\0" + (8).to_bytes(4) + rnd.randbytes(rnd.randrange(40))
        if rnd.random() < 0.85:
            data = bent(data, rnd, rnd.choice(self.valid)[0])
        if headers and rnd.random() < 0.2:
            at, made = rnd.randrange(len(headers)), list(headers)
            made[at] = made[at][0], bent(made[at][1], rnd)
            headers = tuple(made)
        return Case(0, data, (headers,))

    def attempt(self, case: Case) -> str:
        (headers,) = case.around
        one = Stored("plant", 0, 0, 1_700_000_000_000, b"p", case.data, headers)
        (schema,) = schema_ids([one], self.source)
        try:
            decoded = self.decode([one])
        except SetupError:
            must(schema not in self.known, "a schema that is known was missing")
            return "unknown schema"
        n = len(decoded.owner)
        must(len(decoded.times) == len(decoded.X) == len(decoded.labels) == n, "lengths differ")
        must((n == 0) == bool(decoded.errors), "neither samples nor an error")
        must(bool(np.isfinite(decoded.times).all() and not np.isinf(decoded.X).any()), "numbers that are not finite")
        return outcome_of(decoded.errors)

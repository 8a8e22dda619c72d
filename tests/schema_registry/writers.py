"""Records as other people's writers make them: Confluent's serializers, with schemas that its own client registers."""

import json
import warnings
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the HTTP library that the client uses
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.schema_registry.descriptors import descriptors_of

NOW = 1_700_000_000_000  # milliseconds since 1970
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "floor", "type": "int"}]}
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "temp", "type": "double"},
        {"name": "rpm", "type": ["null", "double"]},
        {"name": "place", "type": "Place"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "doing", "type": ["null", "string"]},
    ],
}
PROTO = """
syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
message Unused { double y = 1; }
message Outer {
  message Place { int32 floor = 1; }
  message Reading {
    double temp = 1;
    optional double rpm = 2;
    Place place = 3;
    google.protobuf.Timestamp at = 4;
    optional string doing = 5;
  }
}
"""
SETTINGS = {"fields": ["temp", "rpm", "place.floor"], "time": "at", "time_unit": "ms", "label": "doing", "missing": "skip"}


class Written(NamedTuple):
    topic: str
    values: list[bytes]


def row(number: int) -> dict[str, Any]:
    """A reading, as a row of a file has it."""
    wave = (number * 37 % 101) / 50.0
    rpm = None if number % 10 == 9 else 1500.0 + number % 7
    place, doing = {"floor": number % 5}, ("run" if wave > 1 else "idle")
    return {"temp": 20.5 + wave, "rpm": rpm, "place": place, "at": NOW + 20 * number, "doing": doing}


def avro(url: str, rows: list[dict[str, Any]], topic: str = "plant.avro") -> Written:
    """By Confluent's serializer; the schema refers to another one, which is registered before."""
    client = SchemaRegistryClient({"url": url})
    client.register_schema("place", Schema(json.dumps(PLACE), "AVRO"))
    schema = Schema(json.dumps(READING), "AVRO", [SchemaReference("Place", "place", 1)])
    serialize, context = AvroSerializer(client, schema), SerializationContext(topic, MessageField.VALUE)
    return Written(topic, [serialize(one, context) for one in rows])


def protobuf(url: str, rows: list[dict[str, Any]], topic: str = "plant.protobuf") -> Written:
    """By Confluent's serializer, which registers the descriptors of its message class."""
    kind: Any = message_class()
    client = SchemaRegistryClient({"url": url})
    serialize = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    context, values = SerializationContext(topic, MessageField.VALUE), []
    for one in rows:
        message = kind(**{name: value for name, value in one.items() if name != "at" and value is not None})
        message.at.FromMilliseconds(one["at"])
        values.append(serialize(message, context))
    return Written(topic, values)


def source_of_protobuf(url: str) -> int:
    """The id under which the same schema is registered as its source, as serializers in Java do."""
    client = SchemaRegistryClient({"url": url})
    return int(client.register_schema("plant.source", Schema(PROTO, "PROTOBUF")))


@cache
def protobuf_definition() -> Definition:
    return Definition("PROTOBUF", descriptors=descriptors_of({"plant.proto": PROTO}, "plant.proto"))


@cache
def message_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(protobuf_definition().descriptors).file:
        pool.Add(file)  # type: ignore[no-untyped-call]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("plant.Outer.Reading"))

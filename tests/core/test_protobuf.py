"""Protobuf values: what each type of a schema becomes, and the reasons of what cannot be read."""

from functools import cache

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.errors import ConfigError
from streamjobs.schema_registry.descriptors import descriptors_of
from tests.core.values import ID, NOW, decoded, prefixed, reason, record

SOURCE = """
syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Valve { OPEN = 0; SHUT = 1; }
message Other { double y = 1; }
message Outer {
  message Unused { double z = 1; }
  message Reading {
    double temp = 1;
    optional double rpm = 2;
    int64 count = 3;
    Valve valve = 4;
    google.protobuf.Timestamp at = 5;
    repeated float acc = 6;
    oneof label { string doing = 7; int32 code = 8; }
    map<string, double> extra = 9;
    Place place = 10;
    google.protobuf.DoubleValue wrapped = 11;
    google.protobuf.Duration took = 12;
    repeated Place places = 13;
    bool ok = 14;
    sint32 below = 15;
    fixed64 big = 16;
    message Place { sint32 floor = 1; Place inner = 2; repeated Valve valves = 3; }
  }
}
"""
OLD = """
syntax = "proto2";
message Old { required double temp = 1; optional double rpm = 2; optional int32 pole = 3 [default = 4]; }
"""
READING = b"\x04\x02\x02"  # two indexes: message 1 of the file, message 1 in it


@cache
def definition(text=SOURCE, message=None):
    return Definition("PROTOBUF", descriptors=descriptors_of({"schema.proto": text}, "schema.proto"), message=message)


def message_class(name, text=SOURCE):
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(definition(text).descriptors).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def reading(**fields):
    made = message_class("plant.Outer.Reading")(**fields)
    made.at.FromMilliseconds(int(NOW * 1000) + 123)
    return made


def of_protobuf(*messages, fixed=False, **settings):
    values = [message.SerializeToString() for message in messages]
    if fixed:
        return decoded(list(map(record, values)), fixed=definition(message="Reading"), format="protobuf", **settings)
    values = [prefixed(READING + value) for value in values]
    return decoded(list(map(record, values)), {ID: definition()}, format="protobuf", **settings)


@pytest.mark.parametrize("fixed", [False, True])
def test_numbers_times_and_labels_are_those_that_were_written(fixed):
    first, second = reading(temp=20.5, rpm=1.5, count=10**8, doing="sit", ok=True), reading(rpm=0.0, code=3)
    made = of_protobuf(first, second, fixed=fixed, fields=["temp", "rpm", "count", "ok"], time="at", label="doing")
    assert not made.errors and made.labels == ["sit", None]
    assert made.X.tolist() == [[20.5, 1.5, 1e8, 1.0], [0.0, 0.0, 0.0, 0.0]]
    assert made.times.tolist() == [NOW + 0.123] * 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_are_right_in_every_time_unit(unit):
    made = of_protobuf(reading(), fields=["temp"], time="at", time_unit=unit)
    assert made.times.tolist() == pytest.approx([NOW + 0.123], abs=3e-7 if unit == "ns" else 0, rel=0)


def test_nested_messages_lists_maps_enums_wrappers_and_durations_have_their_place():
    made = reading(acc=[1.5, 2.5], valve=1, extra={"rpm": 9.0}, below=-7, big=2)
    made.place.inner.floor = -3
    made.places.add(floor=4, valves=[1, 0])
    made.wrapped.value = 6.5
    made.took.FromMilliseconds(250)
    fields = ["acc[1]", "valve", "extra.rpm", "place.inner.floor", "places[0].floor", "wrapped", "took", "below", "big"]
    got = of_protobuf(made, fields=fields, categories={"valve": ["OPEN", "SHUT"]}, label="places[0].valves[0]")
    assert got.X.tolist() == [[2.5, 0.0, 1.0, 9.0, -3.0, 4.0, 6.5, 0.25, -7.0, 2.0]] and got.labels == ["SHUT"]


def test_a_repeated_field_is_x():
    assert of_protobuf(reading(acc=[1, 2, 3]), x="acc", dim=3, time="at").X.tolist() == [[1, 2, 3]]


def test_what_has_presence_may_be_absent_and_what_has_none_has_its_default():
    assert "got nothing" in reason(of_protobuf(reading(), fields=["temp", "rpm"]))
    assert of_protobuf(reading(), fields=["temp", "count"]).X.tolist() == [[0, 0]]
    held = of_protobuf(reading(rpm=2), reading(), fields=["temp", "rpm"], missing="mean")
    assert not held.errors and str(held.X.tolist()) == "[[0.0, 2.0], [0.0, nan]]"


def test_proto2_has_defaults_and_required_fields():
    old = message_class("Old", OLD)
    values = [old(temp=1.5).SerializeToString(), old(temp=2.5, rpm=9, pole=6).SerializeToString(), b""]
    got = decoded(
        [record(prefixed(b"\0" + value)) for value in values],
        {ID: definition(OLD)},
        format="protobuf",
        fields=["temp", "pole"],
    )
    assert got.X.tolist() == [[1.5, 4], [2.5, 6]]
    ((index, error),) = got.errors
    assert index == 2 and error.reason == "missing_field"


def test_the_first_message_type_has_a_short_form():
    other = message_class("plant.Other")(y=3.0).SerializeToString()
    for index in (b"\0", b"\x02\0"):
        made = decoded([record(prefixed(index + other))], {ID: definition()}, format="protobuf", fields=["y"])
        assert made.X.tolist() == [[3.0]]


def test_an_id_and_the_message_type_may_stand_in_a_header():
    value = reading(temp=2).SerializeToString()
    header = [("__value_schema_id", b"\0" + ID.to_bytes(4) + READING)]
    made = decoded([record(value, header)], {ID: definition()}, format="protobuf", fields=["temp"])
    assert made.X.tolist() == [[2]]
    header = [("__value_schema_id", b"\0" + ID.to_bytes(4) + READING + b"!")]
    text = reason(decoded([record(value, header)], {ID: definition()}, format="protobuf", fields=["temp"]))
    assert "malformed: expected a schema id and message type in its header, got 1 bytes more" in text


def test_a_schema_file_may_be_older_than_its_writers():
    made = message_class("plant.Outer.Reading")(temp=1.0).SerializeToString() + b"\xa0\x06\x01"  # field 100
    fixed = decoded([record(made)], fixed=definition(message="plant.Outer.Reading"), format="protobuf", fields=["temp"])
    assert fixed.X.tolist() == [[1.0]]
    text = reason(decoded([record(prefixed(READING + made))], {ID: definition()}, format="protobuf", fields=["temp"]))
    assert text.startswith("malformed: expected fields of the schema, got number 100")


GOOD = reading(temp=20.5, doing="sit").SerializeToString()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\5" + GOOD, "malformed: expected the value to begin with a schema id"),
        (prefixed(READING + GOOD[:-3]), "malformed: expected protobuf as its schema says, got bytes that are not"),
        (prefixed(b""), "malformed: expected a message type after the schema id"),
        (prefixed(b"\xff" * 9), "malformed: expected a message type after the schema id"),
        (prefixed(b"\x01" + GOOD), "malformed: expected a message type of at most 32 indexes, got -1"),
        (prefixed(b"\x02\x08" + GOOD), "schema: expected one of the schema's message types, got number 4 of 2"),
        (prefixed(b"\x02\x01" + GOOD), "schema: expected one of the schema's message types, got number -1 of 2"),
        (prefixed(READING + b"\x0a\x01x"), "wrong_value: expected field 'temp' of the type that its schema says"),
        (prefixed(READING + GOOD, 8), "but it is of type AVRO, not PROTOBUF"),
        (prefixed(READING + GOOD, 9), "but it is not a set of Protobuf descriptors"),
    ],
)
def test_poison_is_a_dead_letter_with_a_reason(value, expected):
    schemas = {ID: definition(), 8: Definition("AVRO"), 9: Definition("PROTOBUF", descriptors=b"\xff\xff")}
    assert expected in reason(decoded([record(value)], schemas, format="protobuf", fields=["temp"]))


def test_the_reason_names_the_field():
    assert "'doing', got a text" in reason(of_protobuf(reading(doing="sit"), fields=["doing"]))
    assert "'tmp', got nothing" in reason(of_protobuf(reading(), fields=["tmp"]))
    assert "'place', got an object" in reason(of_protobuf(reading(place={"floor": 1}), fields=["place"]))


def test_a_message_type_that_the_file_has_not_is_reported_with_those_it_has():
    with pytest.raises(ConfigError, match=r"has no message type 'Reding'; it has plant.Other, plant.Outer"):
        decoded([], fixed=definition(message="Reding"), format="protobuf", fields=["temp"], schema_file="plant.proto")

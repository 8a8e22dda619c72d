"""Avro values: what each type of a schema becomes, and the reasons of what cannot be read."""

import decimal
import json
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, timedelta

import fastavro
import pytest

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.errors import ConfigError, SetupError
from tests.core.values import ID, NOW, avro, avro_definition, avro_record, decoded, prefixed, reason, record

AT = datetime.fromtimestamp(NOW, UTC) + timedelta(milliseconds=123)
LONG_TIMES = {"timestamp-millis": AT, "timestamp-micros": AT + timedelta(microseconds=456)}
READING = avro_record(
    "Reading",
    temp="double",
    rpm=["null", "float"],
    count="long",
    ok="boolean",
    at={"type": "long", "logicalType": "timestamp-millis"},
    doing=["null", "string"],
)
FIELDS = {"fields": ["temp", "rpm", "count", "ok"], "time": "at", "label": "doing"}
GOOD = {"temp": 20.5, "rpm": 1.5, "count": 10**8, "ok": True, "at": AT, "doing": "sit"}


def of_avro(schema, *messages, **settings):
    values = [record(prefixed(avro(schema, message))) for message in messages]
    return decoded(values, {ID: avro_definition(schema)}, format="avro", **settings)


def test_numbers_times_and_labels_are_those_that_were_written():
    made = of_avro(READING, GOOD, {**GOOD, "doing": None, "ok": False}, **FIELDS)
    assert not made.errors and made.labels == ["sit", None]
    assert made.X.tolist() == [[20.5, 1.5, 1e8, 1.0], [20.5, 1.5, 1e8, 0.0]]
    assert made.times.tolist() == [NOW + 0.123] * 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("logical", LONG_TIMES)
def test_times_of_a_logical_type_are_right_in_every_time_unit(logical, unit):
    schema = avro_record("R", x="double", at={"type": "long", "logicalType": logical})
    made = of_avro(schema, {"x": 1.0, "at": LONG_TIMES[logical]}, fields=["x"], time="at", time_unit=unit)
    assert made.times.tolist() == pytest.approx([LONG_TIMES[logical].timestamp()], abs=3e-7 if unit == "ns" else 0, rel=0)


def test_nanoseconds_and_dates_are_times_too():
    schema = avro_record(
        "R", x={"type": "int", "logicalType": "date"}, at={"type": "long", "logicalType": "timestamp-nanos"}
    )
    made = of_avro(schema, {"x": date(1970, 1, 3), "at": int(NOW * 10**9) + 1}, fields=["x"], time="at")
    assert made.X.tolist() == [[2 * 86_400.0]] and made.times.tolist() == [NOW]


def test_a_local_time_needs_a_zone():
    schema = avro_record("R", x="double", at={"type": "long", "logicalType": "local-timestamp-millis"})
    message = {"x": 1.0, "at": datetime(2023, 11, 14, 22, 13, 20)}
    made = of_avro(schema, message, fields=["x"], time="at", time_zone="UTC")
    assert made.times.tolist() == [NOW]
    assert reason(of_avro(schema, message, fields=["x"], time="at")).startswith("bad_time: expected a time with a zone")


def test_decimals_enums_nested_records_arrays_and_maps_have_their_place():
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fixed = {"type": "fixed", "name": "Four", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1}
    schema = avro_record(
        "R",
        cost=money,
        level=fixed,
        valve={"type": "enum", "name": "Valve", "symbols": ["open", "shut"]},
        inner={**avro_record("Inner", acc={"type": "array", "items": "float"}), "namespace": "a.b"},
        more={"type": "map", "values": ["null", "double"]},
        id={"type": "string", "logicalType": "uuid"},
    )
    message = {
        **{"cost": decimal.Decimal("-12.34"), "level": decimal.Decimal("3.5"), "valve": "shut"},
        **{"inner": {"acc": [1.5, 2.5]}, "more": {"rpm": 9.0}, "id": uuid.UUID(int=7)},
    }
    fields = ["cost", "level", "valve", "inner.acc[1]", "more.rpm"]
    made = of_avro(schema, message, fields=fields, categories={"valve": ["open", "shut"]}, label="id")
    assert made.X.tolist() == [[-12.34, 3.5, 0.0, 1.0, 2.5, 9.0]] and made.labels == [str(uuid.UUID(int=7))]


def test_arrays_are_frames_and_x():
    schema = avro_record(
        "R", x={"type": "array", "items": {"type": "array", "items": "float"}}, t={"type": "array", "items": "double"}
    )
    made = of_avro(schema, {"x": [[1, 2, 3], [4, 5, 6]], "t": [NOW, NOW + 1]}, dim=3, time="t")
    assert made.X.tolist() == [[1, 2, 3], [4, 5, 6]] and made.times.tolist() == [NOW, NOW + 1]


def test_a_schema_may_name_types_of_others():
    place = avro_record("Place", floor="int")
    schema = avro_record("R", x="double", place="Place")
    value = prefixed(avro(schema, {"x": 1.0, "place": {"floor": 3}}, [place]))
    made = decoded([record(value)], {ID: avro_definition(schema, [place])}, format="avro", fields=["x", "place.floor"])
    assert made.X.tolist() == [[1.0, 3.0]]


def test_a_named_type_may_be_used_twice_with_its_logical_type():
    stamp = {"type": "fixed", "name": "Cost", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}
    schema = avro_record("R", a=stamp, b="Cost")
    made = of_avro(schema, {"a": decimal.Decimal("1.5"), "b": decimal.Decimal("-2.5")}, fields=["a", "b"])
    assert made.X.tolist() == [[1.5, -2.5]]


def test_records_of_two_schemas_are_read_each_with_its_own():
    later = avro_record("Reading", doing=["null", "string"], rpm="double", temp="float")
    schemas = {ID: avro_definition(avro_record("Reading", temp="double", rpm="int")), 8: avro_definition(later)}
    values = [
        prefixed(avro(avro_record("Reading", temp="double", rpm="int"), {"temp": 1.0, "rpm": 2})),
        prefixed(avro(later, {"temp": 3.0, "rpm": 4.0, "doing": "sit"}), 8),
    ]
    made = decoded(list(map(record, values)), schemas, format="avro", fields=["temp", "rpm"], label="doing")
    assert made.X.tolist() == [[1, 2], [3, 4]] and made.labels == [None, "sit"]


def test_an_id_may_be_a_guid_and_stand_in_a_header():
    guid = uuid.UUID("2f3a1b7c-0000-4000-8000-0000000000aa")
    payload = avro(READING, GOOD)
    known = {str(guid): avro_definition(READING), ID: avro_definition(READING)}
    forms = [
        record(payload, [("__value_schema_id", b"\1" + guid.bytes), ("__key_schema_id", b"x")]),
        record(payload, [("__value_schema_id", b"\0" + ID.to_bytes(4))]),
        record(b"\1" + guid.bytes + payload),
    ]
    made = decoded(forms, known, format="avro", **FIELDS)
    assert not made.errors and made.labels == ["sit"] * 3


def test_a_schema_file_reads_values_without_an_id():
    made = decoded([record(avro(READING, GOOD))], fixed=avro_definition(READING), format="avro", **FIELDS)
    assert made.labels == ["sit"]


def test_the_library_s_own_logical_types_stay_as_they_are():
    of_avro(READING, GOOD, **FIELDS)
    schema = avro_record("R", at={"type": "long", "logicalType": "timestamp-millis"})
    stream = __import__("io").BytesIO(avro(schema, {"at": AT}))
    assert fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None) == {"at": AT}


PAYLOAD = avro(READING, GOOD)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\5" + PAYLOAD, "malformed: expected the value to begin with a schema id (a byte 0 and 4 bytes"),
        (b"\0\0\0", "malformed: expected the value to begin with a schema id"),
        (b'{"temp": 1}', "got the byte 123"),
        (prefixed(PAYLOAD[:-1]), "malformed: expected avro as its schema says, got bytes that are not"),
        (prefixed(PAYLOAD + b"!!"), "malformed: expected avro as its schema says, got 2 bytes more"),
        (prefixed(b""), "malformed: expected avro as its schema says"),
        (
            prefixed(PAYLOAD, 8),
            "schema: expected schema 8 of the registry to be usable, but it is of type PROTOBUF, not AVRO",
        ),
    ],
)
def test_poison_is_a_dead_letter_with_a_reason(value, expected):
    schemas = {ID: avro_definition(READING), 8: Definition("PROTOBUF")}
    assert expected in reason(decoded([record(value)], schemas, format="avro", **FIELDS))


def test_the_reason_names_the_field():
    fields = {"fields": ["temp", "rpm"], "time": "at"}
    assert "missing_field: expected a number in field 'rpm', got null" in reason(
        of_avro(READING, {**GOOD, "rpm": None}, **fields)
    )
    assert "missing_field: expected a number in field 'tmp', got nothing" in reason(
        of_avro(READING, GOOD, fields=["temp", "tmp"])
    )
    assert "wrong_value: expected a number in field 'doing', got a text" in reason(of_avro(READING, GOOD, fields=["doing"]))
    assert "bad_time: " in (text := reason(of_avro(READING, GOOD, fields=["temp"], time="ok"))) and "'ok'" in text


def test_an_id_that_was_not_looked_up_stops_the_job_instead_of_losing_records():
    with pytest.raises(SetupError, match="schema 7 was not read"):
        decoded([record(prefixed(PAYLOAD))], {}, format="avro", **FIELDS)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (avro_record("R", next=["null", "R"]), "is recursive: a 'R' may contain another 'R'"),
        (avro_record("R", x={"type": "array", "items": "null"}), "has an array with items of 0 bytes"),
        (avro_record("R", x={"type": "array", "items": avro_record("E")}), "has an array with items of 0 bytes"),
        (avro_record("R", x="Unknown"), "is not an Avro schema: unknown type Unknown"),
        ({"type": "array", "items": "int"}, "is not of a record"),
        ("string", "is not of a record"),
        ({"type": "record"}, "is not an Avro schema"),
    ],
)
def test_a_schema_that_cannot_be_used_makes_dead_letters_that_say_why(schema, expected):
    text = reason(decoded([record(prefixed(b"\0"))], {ID: avro_definition(schema)}, format="avro", fields=["x"]))
    assert text.startswith("schema: expected schema 7 of the registry to be usable, but it ") and expected in text
    with pytest.raises(ConfigError, match="schema_file"):
        decoded([], fixed=avro_definition(schema), format="avro", fields=["x"], schema_file="r.avsc")


def test_deep_nesting_and_text_that_is_no_json_are_refused():
    deep = "double"
    for level in range(60):
        deep = avro_record(f"R{level}", x=deep)
    for definition in (avro_definition(deep), Definition("AVRO", "{"), Definition("AVRO", "[" * 100_000)):
        assert reason(decoded([record(prefixed(b""))], {ID: definition}, format="avro", fields=["x"])).startswith("schema: ")


@pytest.mark.slow
def test_a_schema_that_names_itself_would_end_the_process():
    """Why such schemas are refused. Where this fails, fastavro bounds the depth, and the refusal may go."""
    lines = [
        "import fastavro, io",
        "schema = fastavro.parse_schema(" + json.dumps(avro_record("N", next=["null", "N"])) + ")",
        "fastavro.schemaless_reader(io.BytesIO(b'\\2' * 3_000_000 + b'\\0'), schema, None)",
    ]
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, check=False).returncode < 0

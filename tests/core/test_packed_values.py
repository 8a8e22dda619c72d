"""Values compressed one by one."""

import gzip
import json

import msgspec
import pytest

from tests.core.values import NOW, avro, avro_definition, avro_record, decoded, prefixed, reason, record, source

FIELDS = {"fields": ["a", "b"], "time": "t", "compression": "gzip"}
VALUE = json.dumps({"a": 1, "b": 2.5, "t": NOW}).encode()


def test_a_value_is_unpacked_before_it_is_decoded():
    packed = [gzip.compress(VALUE), gzip.compress(VALUE[:9]) + gzip.compress(VALUE[9:])]
    made = decoded(list(map(record, packed)), **FIELDS)
    assert made.X.tolist() == [[1, 2.5]] * 2 and made.times.tolist() == [NOW] * 2


def test_every_format_can_be_packed():
    raw = [("streamjobs-shape", b"2"), ("streamjobs-dtype", b"f8")]
    value = b"\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\4@"
    assert decoded([record(gzip.compress(value), raw)], format="raw", dim=2, compression="gzip").X.tolist() == [[1, 2.5]]
    value = msgspec.msgpack.encode({"a": 1, "b": 2.5, "t": NOW})
    assert decoded([record(gzip.compress(value))], format="msgpack", **FIELDS).X.tolist() == [[1, 2.5]]
    schema = avro_record("R", a="int", b="double", t="double")
    value = prefixed(avro(schema, {"a": 1, "b": 2.5, "t": NOW}))
    made = decoded([record(gzip.compress(value))], {7: avro_definition(schema)}, format="avro", **FIELDS)
    assert made.X.tolist() == [[1, 2.5]]


@pytest.mark.parametrize("place", [b"\0\0\0\0\7", b"\1" + bytes(range(16))], ids=["id", "guid"])
def test_json_may_follow_the_id_of_its_schema_or_have_it_in_a_header(place):
    how = {"fields": ["a", "b"], "time": "t", "envelope": "schema_id"}
    made = decoded([record(place + VALUE), record(VALUE, [("__value_schema_id", place)])], **how)
    assert made.X.tolist() == [[1, 2.5]] * 2 and made.times.tolist() == [NOW] * 2
    assert "to begin with a schema id" in reason(decoded([record(VALUE)], **how))
    assert decoded([record(gzip.compress(place + VALUE))], **how, compression="gzip").X.tolist() == [[1, 2.5]]


def test_a_bomb_is_abandoned_at_the_limit():
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) < 1 << 17
    text = reason(decoded([record(bomb)], max_bytes="1MB", **FIELDS))
    assert text == "too_large: expected a value of at most 1048576 bytes, got one that unpacks to more."
    exact = gzip.compress(VALUE + b" " * (1000 - len(VALUE)))
    assert not decoded([record(exact)], max_bytes=1000, **FIELDS).errors
    assert reason(decoded([record(exact)], max_bytes=999, **FIELDS)).startswith("too_large")


@pytest.mark.parametrize("value", [VALUE, gzip.compress(VALUE)[:-9], b"\x1f\x8b", gzip.compress(VALUE)[:-8] + b"01234567"])
def test_what_is_no_gzip_or_damaged_is_a_dead_letter(value):
    assert reason(decoded([record(value)], **FIELDS)).startswith("malformed: expected a value in gzip, got other or damaged")


def test_without_the_setting_nothing_is_unpacked():
    assert reason(decoded([record(gzip.compress(VALUE))], fields=["a", "b"])).startswith("malformed: expected json")
    assert not source(fields=["a"]).wrapped

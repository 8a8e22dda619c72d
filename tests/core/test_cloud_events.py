"""CloudEvents, as their Kafka binding and the project's own SDK write them."""

import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from streamjobs.core.decoding.keys import keyed
from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import PlainRow
from tests.core.values import NOW, avro, avro_definition, avro_record, decoded, prefixed, reason, record, source

AT = datetime.fromtimestamp(NOW, UTC)
FIELDS = {"fields": ["a", "b"], "envelope": "cloudevents"}
DATA = {"a": 1, "b": 2.5, "ce": {"time": 7.0}, "who": "sit"}
WRITERS = {"binary": to_binary, "structured": to_structured}


def event(data=DATA, kind="application/json", **attributes):
    usual = {"type": "reading", "source": "/pump", "id": "1", "specversion": "1.0", "time": AT, "datacontenttype": kind}
    return CloudEvent({**usual, **attributes}, data)


def of_event(mode, made):
    message = WRITERS[mode](made, JSONFormat())
    headers = [(name, text if isinstance(text, bytes) else text.encode()) for name, text in message.headers.items()]
    return record(message.value, headers)


@pytest.mark.parametrize("mode", WRITERS)
def test_the_value_is_the_data_of_the_event(mode):
    made = decoded([of_event(mode, event())], label="who", **FIELDS)
    assert made.X.tolist() == [[1, 2.5]] and made.labels == ["sit"]


@pytest.mark.parametrize("mode", WRITERS)
def test_attributes_are_paths_that_begin_with_ce(mode):
    made = decoded([of_event(mode, event(subject="p9"))], time="ce.time", label="ce.subject", **FIELDS)
    assert made.times.tolist() == [NOW] and made.labels == ["p9"]


@pytest.mark.parametrize("mode", WRITERS)
def test_the_key_may_be_an_attribute_or_in_the_data(mode):
    one = of_event(mode, event(partitionkey="p9"))
    for name, key in (("ce.partitionkey", b"p9"), ("who", b"sit")):
        made = source(key=name, time="ce.time", time_unit="auto", **FIELDS)
        (given,) = keyed(made)([one])
        assert (given.key, given.problem) == (key, None) and decoder(made.in_unit("ms"), 2)([given]).X.tolist() == [[1, 2.5]]
    row = PlainRow("plant", 0, 0, int(NOW * 1000), None, b'{"a":1,"b":2,"ce":{"partitionkey":"p7"}}')
    (given,) = keyed(source(key="ce.partitionkey", **FIELDS))([row])
    assert given.key == b"p7" and decoder(source(key="ce.partitionkey", **FIELDS), 2)([given]).X.tolist() == [[1, 2]]
    assert keyed(source(key="ce.subject", **FIELDS))([one])[0].problem[0] == "no_key"


@pytest.mark.parametrize("mode", WRITERS)
def test_a_field_of_the_data_that_is_called_ce_is_quoted(mode):
    made = decoded([of_event(mode, event())], fields=["a", '"ce".time'], time="ce.time", envelope="cloudevents")
    assert made.X.tolist() == [[1, 7.0]] and made.times.tolist() == [NOW]


def test_no_field_of_the_data_passes_for_an_attribute():
    hostile = {**DATA, "ce.time": 5.0, "\0ce": {"time": 5.0, "subject": 6.0}}
    made = of_event("binary", event(hostile))
    assert decoded([made], time="ce.time", **FIELDS).times.tolist() == [NOW]
    assert "got nothing" in reason(decoded([made], fields=["a", "ce.subject"], envelope="cloudevents"))


def test_data_in_avro_comes_as_bytes_or_as_base64():
    schema = avro_record("R", a="int", b="double")
    value = prefixed(avro(schema, {"a": 1, "b": 2.5}))
    for mode in WRITERS:
        made = of_event(mode, event(value, "application/avro"))
        got = decoded([made], {7: avro_definition(schema)}, format="avro", time="ce.time", **FIELDS)
        assert got.X.tolist() == [[1, 2.5]] and got.times.tolist() == [NOW]


def test_a_field_of_an_event_that_is_missing_is_named():
    text = reason(decoded([of_event("binary", event({"a": 1}))], time="ce.time", **FIELDS))
    assert text == "missing_field: expected a number in field 'b', got nothing."
    untimed = CloudEvent({"type": "r", "source": "/p", "id": "1", "specversion": "1.0"}, {"a": 1, "b": 2})
    headers = [(name, text) for name, text in of_event("binary", untimed).headers if name != "ce_time"]
    text = reason(decoded([record(b'{"a":1,"b":2}', headers)], time="ce.time", **FIELDS))
    assert text.startswith("bad_time: ") and "'ce.time', got nothing" in text


STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
BINARY = [("ce_specversion", b"1.0"), ("content-type", b"application/json")]
USUAL = {"specversion": "1.0", "type": "r", "source": "/p", "id": "1"}


@pytest.mark.parametrize(
    ("value", "headers", "expected"),
    [
        (b'{"a":1,"b":2}', [], "malformed: expected a CloudEvent, with a header ce_specversion or content-type"),
        (b"{", STRUCTURED, "malformed: expected a CloudEvent as JSON, got bytes that are not"),
        (b"[]", STRUCTURED, "malformed: expected a CloudEvent as JSON"),
        (
            json.dumps(USUAL).encode(),
            STRUCTURED,
            "missing_field: expected data or data_base64 in the CloudEvent, got neither",
        ),
        (json.dumps({**USUAL, "data": 1, "data_base64": ""}).encode(), STRUCTURED, "got both"),
        (json.dumps({**USUAL, "data_base64": "!"}).encode(), STRUCTURED, "malformed: expected a CloudEvent as JSON"),
        (json.dumps({**USUAL, "data": "text"}).encode(), STRUCTURED, "malformed: expected json with an object, got a text"),
        (json.dumps({"data": {}}).encode(), STRUCTURED, "malformed: expected a CloudEvent, with a header ce_specversion"),
        (
            b"{}",
            [("content-type", b"application/cloudevents+avro")],
            "malformed: expected a structured CloudEvent as application/",
        ),
        (b"[]", [("content-type", b"application/cloudevents-batch+json")], "malformed: expected a structured CloudEvent"),
        (b"{}", [("ce_specversion", b"0.3")], "malformed: expected a CloudEvent of specversion 1.0, got another version"),
        (b"{}", [("ce_specversion", b"\xff")], "headers: expected text in the header ce_specversion"),
        (b"{}", [BINARY[0], ("content-type", b"application/avro")], "got a CloudEvent with datacontenttype avro"),
        (b'{"a":"x"}', BINARY, "wrong_value: "),
    ],
)
def test_poison_is_a_dead_letter_with_a_reason(value, headers, expected):
    assert expected in reason(decoded([record(value, headers)], **FIELDS))

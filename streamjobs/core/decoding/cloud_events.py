"""Takes the data and the attributes out of CloudEvents 1.0, as their Kafka binding describes them.

Binary: the value is the data, each attribute a header `ce_NAME`, and `content-type` says what the data is. Structured: the
value is the whole event as JSON, `content-type` is application/cloudevents+json, and the data is in `data`, or as base64 in
`data_base64`.
"""

import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from streamjobs.core.decoding.loading import undecodable
from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.messages import Headers

STRUCTURED = "application/cloudevents"
PREFIX = "ce_"
DATA_TYPE = "datacontenttype"
_FORMATS = ("json", "xml", "msgpack", "avro", "protobuf", "csv", "text/")  # that a content type may name
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_any = msgspec.json.Decoder().decode


class Event(NamedTuple):
    data: bytes
    attributes: dict[str, Any]  # texts; of a structured event also numbers and booleans


def event_of(value: bytes, headers: Headers, data_format: str) -> Event:
    """The event in a record. data_format: [source] format. Raises Problem."""
    found = {name.lower(): text for name, text in headers}
    content_type = _text(found.get("content-type"), "content-type")
    if content_type.lower().startswith(STRUCTURED):
        event = _structured(value, content_type)
    else:
        attributes = _attributes(found)
        if content_type:
            attributes[DATA_TYPE] = content_type
        event = Event(value, attributes)
    version = event.attributes.get("specversion")
    if version is None:
        raise Problem(
            "malformed", "expected a CloudEvent, with a header ce_specversion or content-type application/cloudevents+json"
        )
    if not str(version).startswith("1."):
        raise Problem("malformed", "expected a CloudEvent of specversion 1.0, got another version")
    _check_format(event.attributes.get(DATA_TYPE), data_format)
    return event


def _attributes(found: Mapping[str, bytes | None]) -> dict[str, Any]:
    try:
        return {name[3:]: text.decode() for name, text in found.items() if name[:3] == PREFIX}  # type: ignore[union-attr]
    except (AttributeError, UnicodeDecodeError):  # a header that is null, or no text
        return {name[3:]: _text(text, name) for name, text in found.items() if name[:3] == PREFIX}


def _structured(value: bytes, content_type: str) -> Event:
    if not content_type.lower().startswith(f"{STRUCTURED}+json"):
        raise Problem("malformed", "expected a structured CloudEvent as application/cloudevents+json, got another format")
    try:
        members = _decode(value)
        data, coded = members.pop("data", None), members.pop("data_base64", None)
        if (data is None) == (coded is None):
            got = "neither" if data is None else "both"
            raise Problem("missing_field", f"expected data or data_base64 in the CloudEvent, got {got}")
        content = bytes(data) if data is not None else binascii.a2b_base64(_decode_text(coded or b""), strict_mode=True)
        attributes = {name: _decode_any(text) for name, text in members.items()}
    except UNDECODABLE:
        raise undecodable("json", value, "a CloudEvent as JSON") from None
    return Event(content, {name: text for name, text in attributes.items() if type(text) in (str, int, float, bool)})


def _check_format(content_type: Any, data_format: str) -> None:
    """Raises Problem where the event says that its data has another format."""
    named = _format_in(str(content_type or ""))
    if named is not None and named != data_format:
        raise Problem("malformed", f"expected data in {data_format}, got a CloudEvent with {DATA_TYPE} {named}")


@lru_cache(maxsize=256)
def _format_in(content_type: str) -> str | None:
    stated = content_type.lower()
    return next((name for name in _FORMATS if name in stated), None)


def _text(value: bytes | None, name: str) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise Problem("headers", f"expected text in the header {name}") from None

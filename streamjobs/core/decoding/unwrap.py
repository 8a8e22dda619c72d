"""Parses values that are more than JSON, MessagePack or raw: compressed, in an envelope, or with a schema.

A value is unpacked ([source] compression), the event's data is taken out of it (envelope), and that is decoded (format).
Rows of files are none of this: they are read as [source] has them without it.
"""

import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from streamjobs.core.decoding import loading
from streamjobs.core.decoding.by_path import path_parser
from streamjobs.core.decoding.gunzip import GzipError, GzipTooLarge, gunzip
from streamjobs.core.decoding.samples import UNDECODABLE, Frame, LabelsAlone, Parse, Problem, Sample
from streamjobs.core.decoding.sensors import sensor_fields, sensor_parser
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.decoding.with_schema.wire_format import Definition, SchemaId, id_of
from streamjobs.core.messages import Headers, Keyed, PlainRow, Record, Refused, Stored, Unread
from streamjobs.settings.paths import ATTRIBUTES, event_path, path_of
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection

STRUCTURED = "application/cloudevents"
PREFIX = "ce_"
DATA_TYPE = "datacontenttype"
_FORMATS = ("json", "xml", "msgpack", "avro", "protobuf", "csv", "text/")  # that a content type may name
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_any = msgspec.json.Decoder().decode


class Event(NamedTuple):
    """Of CloudEvents 1.0 as their Kafka binding describes them.

    Binary: the value is the data, each attribute a header `ce_NAME`, and `content-type` says what the data is. Structured:
    the value is the whole event as JSON, `content-type` is application/cloudevents+json, and the data is in `data`, or as
    base64 in `data_base64`.
    """

    data: bytes
    attributes: dict[str, Any]  # texts; of a structured event also numbers and booleans


class MakeParser(Protocol):
    def __call__(self, source: SourceSection, dim: int, mirror: MirrorSection | None, late: bool) -> Parse: ...


def opener(source: SourceSection) -> Callable[[bytes, Headers], Event]:
    """A function from a value and its headers to what [source] format encodes; it raises Problem."""
    packed, enveloped = source.compression == "gzip", source.envelope == "cloudevents"
    identified = source.envelope == "schema_id"
    most, data_format = source.max_bytes, source.format
    nan_is_null = source.may_miss and data_format == "json"

    def opened(value: bytes, headers: Headers) -> Event:
        if packed:
            value = _unpacked(value, most)
        if identified:
            _, rest, whole = id_of(value, headers)
            return Event(rest if whole is None else whole, {})
        if not enveloped:
            return Event(value, {})
        try:
            return event_of(value, headers, data_format)
        except Problem:
            if not nan_is_null or (changed := loading.without_nan(value)) == value:
                raise
        return event_of(changed, headers, data_format)

    return opened


def _unpacked(value: bytes, most: int) -> bytes:
    try:
        return gunzip(value, most)
    except GzipTooLarge:
        raise Problem("too_large", f"expected a value of at most {most} bytes, got one that unpacks to more") from None
    except GzipError as error:
        raise Problem("malformed", f"expected a value in gzip, got other or damaged bytes ({error})") from None


def unwrapping(
    source: SourceSection, dim: int, mirror: MirrorSection | None, late: bool, schemas: Schemas | None, make: MakeParser
) -> Parse:
    """A function that parses one record's value, as `formats.parser`. make: parser of plain values."""
    plain, opened = make(source.unwrapped, dim, mirror, late), opener(source)
    paths = loading.Paths.of(source, mirror)
    decode = _decoder(source, paths, opened, schemas)
    if source.sensors is not None and (source.has_schema or source.envelope != "none"):
        parse_wrapped = sensor_parser(source, dim, late, decode)
    elif source.has_schema or any(path.top == ATTRIBUTES for path in paths.all):
        parse_wrapped = path_parser(source, dim, mirror, late, decode)
    else:

        def parse_wrapped(record: Record) -> Sample | Frame | LabelsAlone:
            data = opened(record.value or b"", record.headers).data
            return plain(Stored(record.topic, record.partition, record.offset, record.timestamp, None, data, record.headers))

    def parse(record: Record) -> Sample | Frame | LabelsAlone:
        itself = record.origin if type(record) is Keyed else record
        if type(itself) is PlainRow:
            return plain(record)
        if type(itself) is Refused:
            raise Problem("schema", itself.problem)
        return parse_wrapped(record)

    return parse


def _decoder(
    source: SourceSection, paths: loading.Paths, opened: Callable[[bytes, Headers], Event], schemas: Schemas | None
) -> loading.Decode:
    """Decodes values in record order to messages, with the attributes of their events."""
    if schemas is not None:
        decode: loading.Decode = schemas.message
    elif source.sensors is not None:
        decode = loading.decoder_of_fields(source.format, sensor_fields(source), source.may_miss)
    else:
        decode = loading.decoder_of_paths(source, paths)
    if source.envelope == "none" and source.compression == "none":
        return decode

    def decode_wrapped(value: bytes, headers: Headers) -> loading.Message:
        data, attributes = opened(value, headers)
        message = decode(data, headers)
        if attributes:
            message[ATTRIBUTES] = attributes
        return message

    return decode_wrapped


def make_schemas(source: SourceSection, mirror: MirrorSection | None, fixed: Definition | None = None) -> Schemas | None:
    """What decodes the values of a format with schemas; None for other formats. Raises ConfigError."""
    if not source.has_schema:
        return None
    tops = {path.top for path in loading.Paths.of(source, mirror).all} | set(sensor_fields(source))
    if source.key is not None:
        tops.add((event_path if source.envelope == "cloudevents" else path_of)(source.key).top)
    return Schemas(source, tops, fixed)


def schema_ids(records: Sequence[Record], source: SourceSection) -> list[SchemaId | None]:
    """The schema id of each record; None where it states none, or cannot be read so far."""
    opened = None if source.compression == "none" and source.envelope == "none" else opener(source)
    ids: list[SchemaId | None] = []
    for record in records:
        found: SchemaId | None = None
        if type(record) not in (PlainRow, Refused, Unread) and record.value and len(record.value) <= source.max_bytes:
            try:
                value = record.value if opened is None else opened(record.value, record.headers).data
                found = id_of(value, record.headers)[0]
            except Problem:
                pass
        ids.append(found)
    return ids


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
    named = _format_in(str(event.attributes.get(DATA_TYPE) or ""))
    if named is not None and named != data_format:
        raise Problem("malformed", f"expected data in {data_format}, got a CloudEvent with {DATA_TYPE} {named}")
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
        raise loading.undecodable("json", value, "a CloudEvent as JSON") from None
    return Event(content, {name: text for name, text in attributes.items() if type(text) in (str, int, float, bool)})


@lru_cache(maxsize=256)
def _format_in(content_type: str) -> str | None:
    stated = content_type.lower()
    return next((name for name in _FORMATS if name in stated), None)


def _text(value: bytes | None, name: str) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise Problem("headers", f"expected text in the header {name}") from None

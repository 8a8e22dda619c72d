"""Reads one field of a record before all others: its key, or the time that tells the unit of times."""

from collections.abc import Callable
from typing import Any

from streamjobs.core.decoding.by_path import Message, Paths, loader
from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.decoding.unwrap import opener, plain_decoder
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Headers, Keyed, PlainRow, Record, Refused
from streamjobs.errors import SetupError
from streamjobs.settings.paths import ATTRIBUTES, FieldPath, event_path, path_of
from streamjobs.settings.source import SourceSection

FieldOf = Callable[[Record], Any]


def field_reader(source: SourceSection, name: str, schemas: Schemas | None = None) -> FieldOf:
    """A function that gives what a record has in a field, by name or path; ABSENT where it has nothing.

    It raises Problem for a value that is missing, larger than [source] max_bytes, or not in the format.
    schemas: those of the format, as `formats.parser` takes them; without them a value that needs one raises SetupError.
    """
    if source.wrapped:
        return _wrapped_reader(source, name, schemas)
    path = path_of(name)
    load, find, most = loader(source, Paths([path], None, None, None)), path.getter, source.max_bytes

    def field_of(record: Record) -> Any:
        value = _value(record, most)
        try:
            return find(load(value))
        except UNDECODABLE:
            raise Problem("malformed", f"expected {source.format}, got bytes that are not") from None

    return field_of


def _wrapped_reader(source: SourceSection, name: str, schemas: Schemas | None) -> FieldOf:
    """Of values that are compressed, in an envelope or with a schema; rows of files are none of this."""
    plain, opened, most = field_reader(source.unwrapped, name), opener(source), source.max_bytes
    path = event_path(name) if source.envelope == "cloudevents" else path_of(name)
    decode = _decoder(source, path, schemas)
    find = path.getter

    def field_of(record: Record) -> Any:
        itself = record.origin if type(record) is Keyed else record
        if type(itself) is PlainRow:
            return plain(record)
        if type(itself) is Refused:
            raise Problem("schema", itself.problem)
        data, attributes = opened(_value(record, most), record.headers)
        if path.top == ATTRIBUTES:
            return find({ATTRIBUTES: attributes})
        return find(decode(data, record.headers))

    return field_of


def _decoder(source: SourceSection, path: FieldPath, schemas: Schemas | None) -> Callable[[bytes, Headers], Message]:
    if not source.has_schema:
        return plain_decoder(source, Paths([path], None, None, None))
    if schemas is not None:
        return schemas.message

    def decode(data: bytes, headers: Headers) -> Message:
        raise SetupError(
            f"{path.text!r} of a record in {source.format} cannot be read here without the record's schema; set [source] "
            "rekeyed = true and run 'streamjobs rekey JOB', which gives records their keys."
        )

    return decode


def _value(record: Record, most: int) -> bytes:
    value = record.value
    if not value:
        raise Problem("malformed", "expected a value, got none")
    if len(value) > most:
        raise Problem("too_large", f"expected a value of at most {most} bytes, got {len(value)}")
    return value

"""Reads one field of a record before all others: its key, or the time that tells the unit of times."""

from collections.abc import Callable
from typing import Any

from streamjobs.core.decoding.loading import Decode, Message, Paths, decoder_of_paths
from streamjobs.core.decoding.samples import Problem
from streamjobs.core.decoding.unwrap import opener
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
    path = (event_path if source.envelope == "cloudevents" else path_of)(name)
    decode, find, most = _decoder(source, path, schemas), path.find, source.max_bytes
    if not source.wrapped:
        return lambda record: find(decode(_value(record, most), record.headers))
    plain, opened = field_reader(source.unwrapped, name), opener(source)

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


def _decoder(source: SourceSection, path: FieldPath, schemas: Schemas | None) -> Decode:
    if not source.has_schema:
        return decoder_of_paths(source, Paths([path], None, None, None))
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

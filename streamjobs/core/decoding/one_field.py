"""Reads one field of a record before all others: its key, or the time that tells the unit of times."""

from collections.abc import Callable
from typing import Any

from streamjobs.core.decoding.by_path import Paths, loader
from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.decoding.unwrap import opener
from streamjobs.core.messages import Keyed, PlainRow, Record
from streamjobs.settings.paths import ATTRIBUTES, event_path, path_of
from streamjobs.settings.source import SourceSection

FieldOf = Callable[[Record], Any]


def field_reader(source: SourceSection, name: str) -> FieldOf:
    """A function that gives what a record has in a field, by name or path; ABSENT where it has nothing.

    It raises Problem for a value that is missing, larger than [source] max_bytes, or not in the format. A format with
    schemas has no such function.
    """
    if source.wrapped:
        return _wrapped_reader(source, name)
    path = path_of(name)
    load, find, most = loader(source, Paths([path], None, None, None)), path.getter, source.max_bytes

    def field_of(record: Record) -> Any:
        value = _value(record, most)
        try:
            return find(load(value))
        except UNDECODABLE:
            raise Problem("malformed", f"expected {source.format}, got bytes that are not") from None

    return field_of


def _wrapped_reader(source: SourceSection, name: str) -> FieldOf:
    """Of values that are compressed or in an envelope; rows of files are neither."""
    plain, opened, most = field_reader(source.unwrapped, name), opener(source), source.max_bytes
    path = event_path(name) if source.envelope == "cloudevents" else path_of(name)
    load, find = loader(source, Paths([path], None, None, None)), path.getter

    def field_of(record: Record) -> Any:
        if type(record.origin if type(record) is Keyed else record) is PlainRow:
            return plain(record)
        data, attributes = opened(_value(record, most), record.headers)
        if path.top == ATTRIBUTES:
            return find({ATTRIBUTES: attributes})
        try:
            return find(load(data))
        except UNDECODABLE:
            raise Problem("malformed", f"expected {source.format}, got bytes that are not") from None

    return field_of


def _value(record: Record, most: int) -> bytes:
    value = record.value
    if not value:
        raise Problem("malformed", "expected a value, got none")
    if len(value) > most:
        raise Problem("too_large", f"expected a value of at most {most} bytes, got {len(value)}")
    return value

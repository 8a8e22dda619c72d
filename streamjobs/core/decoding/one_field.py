"""Reads one field of a record before all others: its key, or the time that tells the unit of times."""

from collections.abc import Callable
from typing import Any

from streamjobs.core.decoding.by_path import Paths, _loader
from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.messages import Record
from streamjobs.settings.paths import path_of
from streamjobs.settings.source import SourceSection


def field_reader(source: SourceSection, name: str) -> Callable[[Record], Any]:
    """A function that gives what a record has in a field, by name or path; ABSENT where it has nothing.

    It raises Problem for a value that is missing, larger than [source] max_bytes, or not in the format.
    """
    path = path_of(name)
    load, find, most = _loader(source, Paths([path], None, None, None)), path.getter, source.max_bytes

    def field_of(record: Record) -> Any:
        value = record.value
        if not value:
            raise Problem("malformed", "expected a value, got none")
        if len(value) > most:
            raise Problem("too_large", f"expected a value of at most {most} bytes, got {len(value)}")
        try:
            return find(load(value))
        except UNDECODABLE:
            raise Problem("malformed", f"expected {source.format}, got bytes that are not") from None

    return field_of

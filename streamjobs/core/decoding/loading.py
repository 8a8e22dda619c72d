"""Decodes a value to a message: a dict of the fields of its own that are read, which a reader makes samples of."""

import re
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec

from streamjobs.core.decoding.samples import UNDECODABLE, Frame, LabelsAlone, Parse, Problem, Sample
from streamjobs.core.decoding.values import kind_of
from streamjobs.core.messages import Headers, Record
from streamjobs.errors import ConfigError
from streamjobs.settings.paths import FieldPath, event_path, path_of
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection

Message = dict[str, Any]
Decode = Callable[[bytes, Headers], Message]  # a value with its record's headers; raises Problem
Read = Callable[[Message], Sample | Frame | LabelsAlone]  # raises Problem, or an OverflowError
_UP_TO_NAN = re.compile(rb'((?:[^"N]|"(?:[^"\\]|\\[\s\S])*+"|N(?!aN))*+)(NaN|[\s\S]*+)')  # outside texts; or to the end
_BYTE = re.compile(r"\(byte ([0-9]+)\)$")
_DECODE: dict[str, Callable[[bytes], Any]] = {"json": msgspec.json.decode, "msgpack": msgspec.msgpack.decode}
WHOLE = "value"  # the field that a number or a list is read as, which is all of a record
_IS_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Paths(NamedTuple):
    """Where the job's fields are in a record."""

    x: list[FieldPath]  # [source] fields, or the one that holds x as a list
    time: FieldPath | None
    label: FieldPath | None
    side: FieldPath | None  # of [window] mirror

    @classmethod
    def of(cls, source: SourceSection, mirror: MirrorSection | None) -> "Paths":
        """Raises ConfigError if two fields have the same name."""
        x = [source.x] if source.fields is None else source.fields
        others = [source.time, source.label, None if mirror is None else mirror.field]
        find = event_path if source.envelope == "cloudevents" else path_of
        time, label, side, *fields = [None if text is None else find(text) for text in (*others, *x)]
        paths = cls(fields, time, label, side)  # type: ignore[arg-type]
        if twice := [text for text, times in Counter(path.text for path in paths.all).items() if times > 1]:
            raise ConfigError(f"job file [source]: field {min(twice)!r} is named twice; give every field one meaning.")
        return paths

    @property
    def all(self) -> list[FieldPath]:
        return [*self.x, *(path for path in (self.time, self.label, self.side) if path is not None)]


def parser_of(decode: Decode, read: Read) -> Parse:
    """A function that decodes a record's value and reads it; it raises Problem and nothing else."""

    def parse(record: Record) -> Sample | Frame | LabelsAlone:
        message = decode(record.value or b"", record.headers)
        try:
            return read(message)
        except (OverflowError, struct.error):
            raise Problem("out_of_range", "expected numbers that a float can hold, got larger ones") from None
        except (RecursionError, MemoryError):
            raise Problem("malformed", "expected a value that can be read, got one nested too deeply or too large") from None

    return parse


def decoder_of_paths(source: SourceSection, paths: Paths) -> Decode:
    """Decodes to the fields of a value's own that the paths begin with; the others are skipped as they are read."""
    tops = {name: Any for path in paths.all for name in (path.top, path.literal) if name is not None}
    if source.format == "msgpack" and source.fields is None:
        tops["dtype"] = Any
    return decoder_of_fields(source.format, tops, source.may_miss)


def decoder_of_fields(form: str, tops: dict[str, Any], may_miss: bool) -> Decode:
    """Decodes to these fields of a value's own, of these types. form: json or msgpack.

    may_miss: numbers may be missing, and so be NaN, as many writers of JSON have it.
    """
    for name in tops:
        msgspec.json.encode(name)  # a name beyond ASCII keeps its UTF-8 from now on; without it msgspec skips the field
    shape: Any = TypedDict("Message", tops, total=False)  # type: ignore[misc]
    module = msgspec.msgpack if form == "msgpack" else msgspec.json
    load = module.Decoder(shape).decode

    def decode(value: bytes, headers: Headers) -> Message:
        try:
            return load(value)  # type: ignore[no-any-return]
        except UNDECODABLE:
            pass
        known = value
        if may_miss and form == "json":
            known = without_nan(value)
            try:
                return load(known)  # type: ignore[no-any-return]
            except UNDECODABLE:
                pass
        if WHOLE in tops:
            try:
                if (message := as_field(module.decode(known))) is not None:
                    return message
            except UNDECODABLE:
                pass
        raise undecodable(form, value)

    return decode


def as_field(whole: Any) -> Message | None:
    """A number or a list, which is all of a record, as the field WHOLE; None for anything else."""
    return {WHOLE: whole} if isinstance(whole, (int, float, list)) else None


def without_nan(value: bytes) -> bytes:
    """JSON with null in place of NaN, which JSON does not have. Infinity stays: it is not a missing number."""
    if b"NaN" not in value:
        return value
    return _UP_TO_NAN.sub(lambda found: found[1] + (b"null" if found[2] == b"NaN" else found[2]), value)


def undecodable(form: str, value: bytes, what: str | None = None) -> Problem:
    """Of a value that is not in the format, or not an object. what: a name of what was expected."""
    got = "bytes that are not"
    try:
        other = _DECODE[form](value) if form in _DECODE else {}
    except UNDECODABLE:
        other = {}
    if not isinstance(other, dict):
        several = f"; it is read as the field {WHOLE!r}" * (as_field(other) is not None)
        return Problem("malformed", f"expected {what or form} with an object, got {kind_of(other)}{several}")
    if form == "json":
        try:
            _IS_OBJECT(value)
        except UNDECODABLE as error:
            place = _BYTE.search(str(error))
            if place is not None and value[int(place[1]) :].startswith((b"NaN", b"Infinity")):
                got = "NaN or infinity, which JSON does not have; write null"
    return Problem("malformed", f"expected {what or form}, got {got}")

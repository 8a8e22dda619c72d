"""Parsers of record values: JSON and MessagePack through typed structs here, raw numbers in `raw`, others in `unwrap`.

`parser` reads one record, `batch_parser` the usual case of many records with one sample each, by `at_once`.

A record holds one sample (numbers, a time, a label) or a frame of n samples: `x` as n lists or the named fields as n
numbers each, `time` as n numbers (in MessagePack also as little-endian f64 bytes), `label` as one value for all or as
a list of n values. In a frame a list is always one value per sample; elsewhere it is the numbers of one label.
MessagePack also takes numbers as little-endian bytes, f32 unless the message says `"dtype": "f8"`.

If the rows of a job wait for labels, a record with time and label but without the numbers of x is one or several late
labels: `time` and `label` are lists, or one of them is a single value for all. The time is the `ts` of the label's row.

In a job that mirrors, every record must have the field that says how the sensor is worn, one value for all its samples.
Mirrored samples are ordinary samples from here on: if a key's stream changes sides, both sides are in one frame of
reference, and windows continue across the change.
"""

import operator
import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from streamjobs.core.decoding.at_once.names import Names, Rows
from streamjobs.core.decoding.by_path import needs_paths, path_parser
from streamjobs.core.decoding.loading import Paths, undecodable
from streamjobs.core.decoding.raw import raw_singles, read_raw
from streamjobs.core.decoding.samples import (
    MAX_LABEL,
    UNDECODABLE,
    Frame,
    LabelsAlone,
    Parse,
    Problem,
    Sample,
    Singles,
    columns_of,
    is_side,
    labels_of,
    late_labels,
    require_one,
    rows_of,
    times_of,
)
from streamjobs.core.decoding.sensors import sensor_parser
from streamjobs.core.decoding.unwrap import unwrapping
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Record, record_value
from streamjobs.errors import ConfigError
from streamjobs.settings.paths import path_of
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import TIME_UNITS

_WHERE = re.compile(r"at `\$\.?([^`]*)`$")
_TYPES = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_KINDS = {"str": "a text", "null": "null", "None": "null", "object": "an object", "array": "a list", "bytes": "bytes"}
_KINDS |= dict.fromkeys(("int", "float"), "a number") | {"bool": "true or false"}

_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Label = str | int | float | bool | list[Any] | None

ParseAll = Callable[[Sequence[Record]], Singles | None]


class TextTime(Problem):
    """Of a time that is a text."""


def parser(
    source: SourceSection,
    dim: int,
    mirror: MirrorSection | None = None,
    late: bool = False,
    schemas: Schemas | None = None,
) -> Parse:
    """A function that parses one record's value; it raises Problem and nothing else.

    late: records may hold late labels. mirror needs named fields, late needs named time and label, both in any format but
    raw. schemas: those of [source] format, which must hold each schema before its records come: else SetupError is raised.
    """
    if source.wrapped:
        return unwrapping(source, dim, mirror, late, schemas, parser)
    if source.format == "raw":
        return lambda record: read_raw(record, source.max_samples, dim)
    if source.sensors is not None:
        return sensor_parser(source, dim, late)
    paths = Paths.of(source, mirror)
    if needs_paths(source, paths):
        return path_parser(source, dim, mirror, late, paths=paths)
    typed = _typed(source, dim, mirror, paths)
    if late:
        typed = _or_late_labels(typed, source, paths)
    return _or_text_times(typed, path_parser(source, dim, mirror, late, paths=paths)) if source.time is not None else typed


def _or_text_times(samples: Parse, by_path: Parse) -> Parse:
    """Parses samples; if their times are texts, field by field."""

    def parse(record: Record) -> Sample | Frame | LabelsAlone:
        try:
            return samples(record)
        except TextTime:
            return by_path(record)

    return parse


def _or_late_labels(samples: Parse, source: SourceSection, paths: Paths) -> Parse:
    """Parses samples, else late labels: a record without any field of x."""
    module = msgspec.msgpack if source.format == "msgpack" else msgspec.json
    scale = TIME_UNITS[source.time_unit]
    assert paths.time is not None and paths.label is not None
    x_fields: list[Any] = [(f"f{i}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for i in range(len(paths.x))]
    timed = _Integer | float | list[_Integer | float]
    rename = {f"f{i}": path.top for i, path in enumerate(paths.x)} | {"time": paths.time.top, "label": paths.label.top}
    decode = module.Decoder(
        msgspec.defstruct("Late", [("time", timed), ("label", _Label), *x_fields], rename=rename, gc=False)
    ).decode

    def parse(record: Record) -> Sample | Frame | LabelsAlone:
        try:
            return samples(record)
        except Problem as problem:
            try:
                message = decode(record.value)
            except UNDECODABLE:
                raise problem from None
            alone = all(getattr(message, name) is msgspec.UNSET for name, *_ in x_fields)
            if not alone or message.label is None or (type(message.label) is list and None in message.label):
                raise
        return late_labels(message.time, message.label, scale, source.max_samples)

    return parse


def values_of(dim: int) -> Callable[[Any], tuple[float, ...]]:
    """A getter of the named fields of a message."""
    return operator.attrgetter(*(f"f{i}" for i in range(dim))) if dim > 1 else lambda message: (message.f0,)


def _typed(source: SourceSection, dim: int, mirror: MirrorSection | None, paths: Paths) -> Parse:
    binary = source.format == "msgpack"
    one, many = structs(source, binary, paths)
    module = msgspec.msgpack if binary else msgspec.json
    decode_one, decode_many = module.Decoder(one).decode, module.Decoder(many).decode
    named, timed, labelled = source.fields is not None, source.time is not None, source.label is not None
    scale, max_samples = TIME_UNITS[source.time_unit], source.max_samples
    values = values_of(dim)
    signs = _signs(source, mirror)
    when = mirror.when if mirror is not None else None
    pack = struct.Struct(f"{dim}d").pack  # per record, while the numbers are in cache: a third of NumPy's time for lists

    def parse(record: Record) -> Sample | Frame:
        try:
            message = decode_one(record.value)
        except msgspec.ValidationError as single:
            try:
                message = decode_many(record.value)
            except UNDECODABLE as error:
                raise _problem(error if _is_frame(single, mirror) else single, source, record) from None
            return frame(message)
        except UNDECODABLE as error:
            raise _problem(error, source, record) from None
        if named:
            x = values(message)
            if when is not None and is_side(message.side, when):
                x = tuple(map(operator.mul, x, signs))
        else:
            x = message.x
            if type(x) is bytes:
                return frame(message)
            if len(x) != dim:
                raise Problem("wrong_dimension", f"expected {dim} finite features, got {len(x)}")
        return pack(*x), message.time if timed else None, message.label if labelled else None

    def frame(message: Any) -> Frame:
        if named:
            X = columns_of([getattr(message, f"f{i}") for i in range(dim)], source.fields or [], max_samples)
            if when is not None and is_side(message.side, when):
                X *= np.array(signs)
        else:
            X = rows_of(message.x, message.dtype if binary else "f4", dim, max_samples)
        times = None
        if timed:
            times = times_of(message.time, len(X), scale)
        else:
            require_one(len(X))
        return Frame(X, times, labels_of(message.label if labelled else None, len(X)))

    return parse


class _Field(NamedTuple):
    """A field of a message: its attribute in the structs, its name in a record, its types in a sample and in a frame."""

    attribute: str
    name: str
    one: Any
    many: Any
    default: tuple[Any, ...] = ()  # empty: the field is required


def structs(source: SourceSection, binary: bool, paths: Paths) -> tuple[Any, Any]:
    """The struct types of a message with one sample and of one with a frame, with the job file's field names.

    Raises ConfigError if two fields have the same name.
    """
    fields = _fields(source, binary, paths)
    twice = sorted(name for name, times in Counter(field.name for field in fields).items() if times > 1)
    if twice:
        raise ConfigError(f"job file [source]: field {twice[0]!r} is named twice; give every field one meaning.")
    rename = {field.attribute: field.name for field in fields}
    one = [(field.attribute, field.one, *field.default) for field in fields]
    many = [(field.attribute, field.many, *field.default) for field in fields]
    return (
        msgspec.defstruct("One", one, rename=rename, gc=False),
        msgspec.defstruct("Many", many, rename=rename, gc=False),
    )


def _fields(source: SourceSection, binary: bool, paths: Paths) -> list[_Field]:
    """The fields of a message, required ones first."""
    fields: list[_Field] = []
    if paths.side is not None:
        side = str | int | float | bool
        fields.append(_Field("side", paths.side.top, side, side))
    numbers: Any = list[float | bool]
    rows: Any = list[numbers]
    if binary:
        numbers, rows = numbers | bytes, rows | bytes
    if source.fields is None:
        fields.append(_Field("x", paths.x[0].top, numbers, rows))
    else:
        fields += [_Field(f"f{i}", path.top, float | bool, numbers) for i, path in enumerate(paths.x)]
    if paths.time is not None:
        times = _Integer | float | list[_Integer | float]
        fields.append(_Field("time", paths.time.top, _Integer | float, times | bytes if binary else times))
    if paths.label is not None:
        fields.append(_Field("label", paths.label.top, _Label, _Label, (None,)))
    if binary and source.fields is None:
        fields.append(_Field("dtype", "dtype", str, str, ("f4",)))
    return fields


def _signs(source: SourceSection, mirror: MirrorSection | None) -> tuple[float, ...]:
    columns = mirror.columns if mirror is not None else []
    return tuple(-1.0 if field in columns else 1.0 for field in source.fields or ())


def _is_frame(error: Exception, mirror: MirrorSection | None) -> bool:
    text = str(error)
    return "got `array` - at" in text and not (mirror is not None and text.endswith(f"`$.{path_of(mirror.field).top}`"))


def _problem(error: Exception, source: SourceSection, record: Record) -> Problem:
    """The reason for a decoding error. msgspec's sentence names the field and the types, never the contents."""
    if not isinstance(error, msgspec.ValidationError):
        return undecodable(source.format, record.value or b"")
    text = str(error).replace("bool | float", "float")
    path = _WHERE.search(text)
    time, label = (None if name is None else path_of(name).top for name in (source.time, source.label))
    if path is not None and time is not None and _is_part_of(path[1], time) and "got `str`" in text:
        return TextTime("bad_time", "expected a number")
    if "missing required field" in text:
        reason = "bad_time" if f"`{time}`" in text else "missing_field"
    elif path is None:
        reason = "malformed"
    elif time is not None and _is_part_of(path[1], time):
        reason = "bad_time"
    elif label is not None and _is_part_of(path[1], label):
        reason = "bad_label"
    else:
        return _wrong_value(text, path[1])
    return Problem(reason, text[0].lower() + text[1:])


def _wrong_value(text: str, field: str) -> Problem:
    """A field that has another type, in the words of the other formats."""
    kinds = _TYPES.match(text)
    reason = "missing_field" if kinds is not None and kinds[2] in ("null", "None") else "wrong_value"
    if kinds is None and "out of range" in text:
        reason = "out_of_range"
    if kinds is None or kinds[1] not in _KINDS or kinds[2] not in _KINDS:
        return Problem(reason, text[0].lower() + text[1:])
    return Problem(reason, f"expected {_KINDS[kinds[1]]} in field {field!r}, got {_KINDS[kinds[2]]}")


def _is_part_of(path: str, field: str) -> bool:
    return path == field or path.startswith((field + "[", field + "."))


def _at_once(form: str) -> tuple[Callable[..., Rows], Callable[[bytes], str]]:
    """What reads samples of a format, and what decodes their labels. A start imports the loops of its own format."""
    if form == "json":
        from streamjobs.core.decoding.at_once.json_rows import read_rows as read_json

        return read_json, msgspec.json.Decoder(str).decode
    from streamjobs.core.decoding.at_once.msgpack_rows import read_rows as read_msgpack

    return read_msgpack, msgspec.msgpack.Decoder(str).decode


def batch_parser(source: SourceSection, dim: int, mirror: MirrorSection | None = None) -> ParseAll | None:
    """A function that parses many records of one sample each at once; None for formats where that is not faster.

    The function leaves out records that are something else, or gives None: `parser` reads these one by one.
    """
    if source.format == "raw" and not source.wrapped:
        return lambda records: raw_singles(records, dim)
    if (
        source.wrapped
        or source.format not in ("json", "msgpack")
        or source.sensors
        or mirror is not None
        or source.categories_of
        or source.time_format is not None
    ):
        return None
    paths = Paths.of(source, None)
    listed = source.fields is None
    refused = ["dtype"] if listed and source.format == "msgpack" else []
    names = Names.of(paths.x, paths.time, paths.label, listed=listed, refused=refused)
    if names is None:
        return None
    read_rows, text_of = _at_once(source.format)

    def parse(records: Sequence[Record]) -> Singles:
        values = list(map(record_value, records))
        joined = b"".join(values)
        X, times, spans, read = read_rows(values, joined, names, dim)
        labels: list[Any] = [None] * len(values)
        if paths.label is not None:
            texts = [joined[begin:end] for begin, end in spans.tolist()]
            known = {text: text_of(text) if text else None for text in set(texts)}
            if max(map(len, known)) > MAX_LABEL:  # with quotes, heads and escapes: perhaps
                short = np.array([len(known[text] or "") <= MAX_LABEL for text in texts], np.bool_)
                read = short if read is None else read & short
            labels = list(map(known.__getitem__, texts))
        if read is None:
            owner = np.arange(len(values))
        else:
            owner = np.flatnonzero(read)
            X, times, labels = X[owner], times[owner], list(compress(labels, read.tolist()))
        return Singles(owner, X, times if paths.time is not None else None, labels)

    return parse

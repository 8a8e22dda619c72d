"""Parsers of record values: JSON and MessagePack field by field in `by_path`, raw numbers in `raw`, others in `unwrap`.

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
import struct
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Annotated, Any

import msgspec
import numpy as np

from streamjobs.core.decoding import samples
from streamjobs.core.decoding.at_once.names import Names, Rows
from streamjobs.core.decoding.by_path import path_parser
from streamjobs.core.decoding.loading import Paths
from streamjobs.core.decoding.raw import raw_singles, read_raw
from streamjobs.core.decoding.sensors import sensor_parser
from streamjobs.core.decoding.unwrap import unwrapping
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Record, record_value
from streamjobs.settings.paths import NO_STRUCT
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection

ParseAll = Callable[[Sequence[Record]], samples.Singles | None]


def parser(
    source: SourceSection, dim: int, mirror: MirrorSection | None = None, late: bool = False, schemas: Schemas | None = None
) -> samples.Parse:
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
    parse = path_parser(source, dim, mirror, late)
    return parse if mirror is None else _mirrored(source, dim, mirror, parse)


def _mirrored(source: SourceSection, dim: int, mirror: MirrorSection, otherwise: samples.Parse) -> samples.Parse:
    """Parses a sample of plain fields in half of the time, and leaves all others to `otherwise`."""
    paths = Paths.of(source, mirror)
    special = source.may_miss or source.coded or source.time_format is not None or source.numbers == "lenient"
    if special or paths.side is None or not all(path.flat and not NO_STRUCT.search(path.top) for path in paths.all):
        return otherwise
    fields: list[tuple[Any, ...]] = [(f"f{i}", float | bool) for i in range(dim)]
    rename = {f"f{i}": path.top for i, path in enumerate(paths.x)} | {"side": paths.side.top}
    fields.append(("side", str | int | float | bool))
    if paths.time is not None:
        fields.append(("time", Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float))
        rename["time"] = paths.time.top
    if paths.label is not None:
        fields.append(("label", str | None, None))
        rename["label"] = paths.label.top
    module = msgspec.msgpack if source.format == "msgpack" else msgspec.json
    decode = module.Decoder(msgspec.defstruct("One", fields, rename=rename, gc=False)).decode
    values = operator.attrgetter(*(f"f{i}" for i in range(dim))) if dim > 1 else lambda message: (message.f0,)
    timed, labelled, pack = paths.time is not None, paths.label is not None, struct.Struct(f"{dim}d").pack
    signs = [-1.0 if field in mirror.columns else 1.0 for field in source.fields or ()]

    def parse(record: Record) -> samples.Sample | samples.Frame | samples.LabelsAlone:
        try:
            message = decode(record.value)
        except samples.UNDECODABLE:
            return otherwise(record)
        x = values(message)
        if samples.is_side(message.side, mirror.when):
            x = tuple(map(operator.mul, x, signs))
        return pack(*x), message.time if timed else None, message.label if labelled else None

    return parse


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
        or source.coded
        or source.time_format is not None
    ):
        return None
    paths = Paths.of(source, mirror)
    listed = source.fields is None
    refused = ["dtype"] if listed and source.format == "msgpack" else []
    names = Names.of(paths.x, paths.time, paths.label, listed=listed, refused=refused, side=paths.side)
    if names is None:
        return None
    read_rows, text_of = _at_once(source.format)
    side_of = (msgspec.json if source.format == "json" else msgspec.msgpack).Decoder(str | int | float | bool).decode
    signs = np.array([-1.0 if mirror is not None and field in mirror.columns else 1.0 for field in source.fields or ()])

    def parse(records: Sequence[Record]) -> samples.Singles | None:
        values = list(map(record_value, records))
        joined = b"".join(values)
        X, times, spans, read = read_rows(values, joined, names, dim)
        if read is not None and not np.count_nonzero(read):
            return None
        labels: list[Any] = [None] * len(values)
        if paths.label is not None:
            begins, ends = spans[:, :2].T.tolist()
            texts = dict(zip(begins, ends, strict=True))
            known = {begin: text_of(joined[begin:end]) if end else None for begin, end in texts.items()}
            labels = list(map(known.__getitem__, begins))
        if mirror is not None:
            begins, ends = spans[:, 2:].T.tolist()
            texts = dict(zip(begins, ends, strict=True))
            turned = {
                begin: end > 0 and samples.is_side(side_of(joined[begin:end]), mirror.when) for begin, end in texts.items()
            }
            if any(turned.values()):
                X[np.array(list(map(turned.__getitem__, begins)), np.bool_)] *= signs
        if read is None:
            owner = np.arange(len(values))
        else:
            owner = np.flatnonzero(read)
            X, times, labels = X[owner], times[owner], list(compress(labels, read.tolist()))
        return samples.Singles(owner, X, times if paths.time is not None else None, labels)

    return parse

"""Encodes rows of recordings as values in the job's own format."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from streamjobs.core.messages import Headers
from streamjobs.recordings.tables import Row
from streamjobs.settings.paths import ABSENT, FieldPath, path_of
from streamjobs.settings.source import SourceSection

UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)  # what an encoder raises


def encoder(source: SourceSection, side: str | None) -> Callable[[Row], tuple[bytes, Headers]]:
    """A function from a row to (value, headers) in the job's format, with the columns that the job reads.

    It raises one of UNENCODABLE for a row that no record can be made of.
    """
    others = filter(None, (source.key, source.time, source.label, side))
    paths = [path_of(name) for name in (*source.record_fields, *others)]
    if source.format == "raw":
        return lambda row: _raw(row, source, paths)
    as_json = source.format == "json"
    encode = msgspec.json.Encoder().encode if as_json else msgspec.msgpack.Encoder().encode

    names = list(dict.fromkeys(name for path in paths for name in (path.literal, path.top) if name is not None))

    def encoded(row: Row) -> tuple[bytes, Headers]:
        part = {name: row[name] for name in names if name in row}
        if not as_json:  # which has null for NaN
            for name, value in part.items():
                if isinstance(value, float) and math.isnan(value):  # a missing cell in a column of floats, such as no label
                    part[name] = None
        try:
            return encode(part), ()
        except OverflowError:
            return encode(_narrow(part)), ()

    return encoded


def _narrow(value: Any) -> Any:
    """The value with whole numbers beyond 64 bits as floats, which a record can have; as texts beyond those."""
    if isinstance(value, dict):
        return {name: _narrow(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_narrow, value))
    if not isinstance(value, int) or -(1 << 63) <= value < 1 << 64:
        return value
    try:
        return float(value)
    except OverflowError:
        return hex(value)  # no number for a decoder: a dead letter


def _raw(row: Row, source: SourceSection, paths: Sequence[FieldPath]) -> tuple[bytes, Headers]:
    import numpy as np

    found = [None if (value := path.find(row)) is ABSENT else value for path in paths]
    value = np.array(found if source.fields else found[0], "<f8")
    return value.tobytes(), (("streamjobs-shape", b"%d" % value.size), ("streamjobs-dtype", b"f8"))

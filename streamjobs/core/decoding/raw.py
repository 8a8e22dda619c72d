"""Parses raw values: little-endian numbers, described by headers.

`streamjobs-dtype` f4 or f8, `streamjobs-shape` "6" or "50,6", `streamjobs-time` (seconds since 1970 of the first
sample) and `streamjobs-rate` (Hz; a frame of more than one sample needs both), `streamjobs-label` (JSON, or plain text).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from streamjobs.core.decoding.samples import MAX_LABEL, Frame, Problem, Singles, check_count, doubles, labels_of
from streamjobs.core.messages import Record

TIME = "streamjobs-time"
_SHAPE = re.compile(rb"([0-9]{1,9})(?:,([0-9]{1,9}))?")


def read_raw(record: Record, max_samples: int, dim: int) -> Frame:
    """The samples of one record; raises Problem."""
    headers = dict(record.headers)
    shape = _SHAPE.fullmatch(_header(headers, "streamjobs-shape"))
    dtype = _header(headers, "streamjobs-dtype")
    if shape is None or dtype not in (b"f4", b"f8"):
        raise Problem("malformed", "expected headers streamjobs-shape such as '50,6' and streamjobs-dtype f4 or f8")
    n, width = (1, int(shape[1])) if shape[2] is None else (int(shape[1]), int(shape[2]))
    if width != dim:
        raise Problem("wrong_dimension", f"expected {dim} finite features, got {width} in streamjobs-shape")
    check_count(n, max_samples)
    value, item = record.value or b"", int(dtype[1:])
    if len(value) != n * dim * item:
        raise Problem("malformed", f"expected {n * dim * item} bytes for its shape, got {len(value)}")
    X = doubles(np.frombuffer(value, f"<f{item}").reshape(n, dim))
    times = None
    if n > 1 or TIME in headers:
        start = _number(headers, TIME)
        rate = _number(headers, "streamjobs-rate") if n > 1 else 1.0
        if not 0 < rate < np.inf:
            raise Problem("bad_time", "expected a streamjobs-rate above 0 Hz")
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite time is refused later, with other bad times
            times = start + np.arange(n) / rate
    label = headers.get("streamjobs-label")
    return Frame(X, times, labels_of(None if label is None else _label(label), n))


def begins_single(records: Sequence[Record], dim: int) -> bool:
    """Whether the first record has one sample: records of frames seldom come with single samples between them."""
    return bool(records) and _is_one(dim, dict(records[0].headers).get("streamjobs-shape"))


def raw_singles(records: Sequence[Record], dim: int) -> Singles | None:
    """One sample of each of many records with numbers of one type; all records with a time, or none.

    None if they are not that, or a label is not text.
    """
    of_records = [dict(record.headers) for record in records]
    kinds = {(headers.get("streamjobs-dtype"), headers.get("streamjobs-shape")) for headers in of_records}
    dtype = next(iter(kinds))[0]
    if dtype not in (b"f4", b"f8") or not all(kind == dtype and _is_one(dim, shape) for kind, shape in kinds):
        return None
    item, values = int(dtype[1:]), [record.value or b"" for record in records]
    labels = [_usual_label(headers.get("streamjobs-label")) for headers in of_records]
    times: list[Any] = [headers.get(TIME, ...) for headers in of_records]
    if set(map(len, values)) != {dim * item} or ... in labels or 0 < times.count(...) < len(times):
        return None
    X = doubles(np.frombuffer(b"".join(values), f"<f{item}").reshape(len(records), dim))
    try:
        stated = None if ... in times else np.array([float(time[:64]) for time in times])
    except (ValueError, TypeError):  # no number, or null
        return None
    return Singles(np.arange(len(X)), X, stated, labels)


def _is_one(dim: int, shape: bytes | None) -> bool:
    """Whether a shape is that of one sample."""
    found = _SHAPE.fullmatch(shape or b"")
    return found is not None and ((found[2] is None and int(found[1]) == dim) or (found[1], found[2]) == (b"1", b"%d" % dim))


@lru_cache(maxsize=4096)
def _usual_label(text: bytes | None) -> object:
    """A label that is a text or nothing; Ellipsis for all others."""
    try:
        label = None if text is None else _label(text)
    except Problem:
        return ...
    return label if label is None or (isinstance(label, str) and len(label) <= MAX_LABEL) else ...


def _header(headers: dict[str, bytes], name: str) -> bytes:
    value = headers.get(name)
    if value is None:
        raise Problem("missing_field", f"expected the header {name}, got none")
    return value


def _number(headers: dict[str, bytes], name: str) -> float:
    value = headers.get(name)
    if value is None:
        raise Problem("bad_time", f"expected the header {name}, got none")
    try:
        return float(value[:64])
    except ValueError:
        raise Problem("bad_time", f"expected a number in the header {name}") from None


def _label(label: bytes) -> object:
    try:
        return msgspec.json.decode(label)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise Problem("bad_label", "expected text in the header streamjobs-label") from None

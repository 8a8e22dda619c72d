"""How one record's value is read: JSON and MessagePack by typed structs, raw numbers by their headers.

A record holds one sample (numbers, a time, a label) or a frame of n samples: `x` as n lists or the named fields as n
numbers each, `time` as n numbers (in MessagePack also as little-endian f64 bytes), `label` as one value for all or as
a list of n values. A list is always read as one value per sample in a frame and as the numbers of one label otherwise.
MessagePack also takes numbers as little-endian bytes, f32 unless the message says `"dtype": "f8"`.

Raw values are little-endian numbers, described by headers: `streamjobs-dtype` f4 or f8, `streamjobs-shape` "6" or
"50,6", `streamjobs-time` (seconds since 1970 of the first sample) and `streamjobs-rate` (Hz; both needed by a frame of
more than one), `streamjobs-label` (JSON, or else plain text).
"""

import operator
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from streamjobs.config import SourceSection
from streamjobs.core.messages import Record
from streamjobs.errors import ConfigError

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of [source] time_unit, per second
MAX_LABEL = 256  # characters of a class name
MAX_TARGETS = 1024  # numbers of one label
_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
_WHERE = re.compile(r"at `\$\.?([^`]*)`$")
_SHAPE = re.compile(rb"([0-9]{1,9})(?:,([0-9]{1,9}))?")
_DTYPES = {"f4": "<f4", "f8": "<f8"}

_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Label = str | int | float | bool | list[Any] | None


class Problem(Exception):
    """Why a value cannot be used: a reason of `streamjobs.errors.REASONS` and the sentence's end."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason, self.text = reason, text
        super().__init__(text)


Sample = tuple[Any, float | None, object]  # as written: dim numbers, time in [source] time_unit (None: the record's), label


class Frame(NamedTuple):
    """n samples."""

    X: Array  # (n, dim)
    times: Array | None  # (n,) seconds; None: the record's own timestamp (n = 1)
    labels: list[object]  # n


Parse = Callable[[Record], Sample | Frame]


def parser(source: SourceSection, dim: int) -> Parse:
    """The function that reads one record's value; it raises Problem and nothing else."""
    if source.format == "raw":
        return lambda record: _raw(record, source.max_samples, dim)
    return _typed(source, dim)


def label_of(label: object) -> object:
    """A label as it may go on: None, text, a finite number, or finite numbers; raises Problem for anything else."""
    if label is None or isinstance(label, bool):
        return label
    if isinstance(label, str):
        if len(label) > MAX_LABEL:
            raise Problem("bad_label", f"expected a label of at most {MAX_LABEL} characters, got {len(label)}")
        return label
    if isinstance(label, list):
        if len(label) > MAX_TARGETS:
            raise Problem("bad_label", f"expected at most {MAX_TARGETS} numbers in a label, got {len(label)}")
        return [_number(value) for value in label]
    _number(label)
    return label


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise Problem("bad_label", "expected a label of text, a finite number or finite numbers")
    return float(value)


def _typed(source: SourceSection, dim: int) -> Parse:
    binary = source.format == "msgpack"
    one, many = _structs(source, binary)
    module = msgspec.msgpack if binary else msgspec.json
    decode_one, decode_many = module.Decoder(one).decode, module.Decoder(many).decode
    named, timed, labelled = source.fields is not None, source.time is not None, source.label is not None
    scale, max_samples = UNITS[source.time_unit], source.max_samples
    values = operator.attrgetter(*(f"f{i}" for i in range(dim))) if named and dim > 1 else None

    def parse(record: Record) -> Sample | Frame:
        try:
            message = decode_one(record.value)
        except msgspec.ValidationError as single:
            try:
                message = decode_many(record.value)
            except _UNDECODABLE as error:
                raise _problem(error if _is_frame(single) else single, source) from None
            return frame(message)
        except _UNDECODABLE as error:
            raise _problem(error, source) from None
        if named:
            x = values(message) if values is not None else (message.f0,)
        else:
            x = message.x
            if type(x) is bytes:
                return frame(message)
            if len(x) != dim:
                raise Problem("wrong_dimension", f"expected {dim} finite features, got {len(x)}")
        return x, message.time if timed else None, message.label if labelled else None

    def frame(message: Any) -> Frame:
        if named:
            X = _columns([getattr(message, f"f{i}") for i in range(dim)], source, max_samples)
        else:
            X = _rows(message.x, message.dtype if binary else "f4", dim, max_samples)
        times = _times(message.time, len(X), scale) if timed else _untimed(len(X))
        return Frame(X, times, _labels(message.label if labelled else None, len(X)))

    return parse


def _structs(source: SourceSection, binary: bool) -> tuple[Any, Any]:
    """The types of a message with one sample and of one with a frame; the fields' names are the job file's."""
    given = source.fields or [source.x]
    names = [*given, *([source.time] if source.time else []), *([source.label] if source.label else [])]
    if binary and source.fields is None:
        names.append("dtype")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"job file [source]: the field {twice[0]!r} is named twice; give every field one meaning.")
    one: list[Any] = []
    many: list[Any] = []
    rename: dict[str, str] = {}
    if source.fields is None:
        one.append(("x", list[float] | bytes if binary else list[float]))
        many.append(("x", list[list[float]] | bytes if binary else list[list[float]]))
        rename["x"] = source.x
    else:
        for i, name in enumerate(source.fields):
            one.append((f"f{i}", float))
            many.append((f"f{i}", list[float] | bytes if binary else list[float]))
            rename[f"f{i}"] = name
    if source.time is not None:
        one.append(("time", _Integer | float))
        lists = _Integer | float | list[_Integer | float]
        many.append(("time", lists | bytes if binary else lists))
        rename["time"] = source.time
    if source.label is not None:
        one.append(("label", _Label, None))
        many.append(("label", _Label, None))
        rename["label"] = source.label
    if binary and source.fields is None:
        one.append(("dtype", str, "f4"))
        many.append(("dtype", str, "f4"))
    return (
        msgspec.defstruct("One", one, rename=rename, gc=False),
        msgspec.defstruct("Many", many, rename=rename, gc=False),
    )


def _is_frame(error: Exception) -> bool:
    return "got `array` - at" in str(error)


def _problem(error: Exception, source: SourceSection) -> Problem:
    """msgspec's sentence names the field and the types, never the contents."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem("malformed", f"expected {source.format}, got bytes that are not")
    text = str(error)
    found = _WHERE.search(text)
    if "missing required field" in text:
        reason = "bad_time" if f"`{source.time}`" in text else "missing_field"
    elif found is None:
        reason = "malformed"
    elif source.time is not None and _begins(found[1], source.time):
        reason = "bad_time"
    elif source.label is not None and _begins(found[1], source.label):
        reason = "bad_label"
    else:
        reason = "missing_field"
    return Problem(reason, text[0].lower() + text[1:])


def _begins(path: str, field: str) -> bool:
    return path == field or path.startswith((field + "[", field + "."))


def _rows(x: Any, dtype: str, dim: int, max_samples: int) -> Array:
    if type(x) is bytes:
        numbers = _numbers(x, dtype)
        if numbers.size % dim:
            raise Problem("wrong_dimension", f"expected rows of {dim} features, got {numbers.size} numbers")
        _check_count(numbers.size // dim, max_samples)
        return numbers.reshape(-1, dim).astype(np.float64)
    _check_count(len(x), max_samples)
    for row in x:
        if len(row) != dim:
            raise Problem("wrong_dimension", f"expected {dim} finite features in each sample, got {len(row)}")
    return np.array(x, dtype=np.float64)


def _columns(columns: list[Any], source: SourceSection, max_samples: int) -> Array:
    lists = [_numbers(column, "f4") if type(column) is bytes else column for column in columns]
    n = len(lists[0])
    _check_count(n, max_samples)
    for name, column in zip(source.fields or (), lists, strict=True):
        if len(column) != n:
            raise Problem("wrong_dimension", f"expected {n} numbers in field '{name}' as in the first, got {len(column)}")
    return np.array(lists, dtype=np.float64).T.copy()


def _numbers(value: bytes, dtype: str) -> Array:
    kind = _DTYPES.get(dtype)
    if kind is None:
        raise Problem("malformed", "expected dtype f4 or f8, got another")
    if len(value) % int(dtype[1]):
        raise Problem("malformed", f"expected bytes of whole {dtype} numbers, got {len(value)}")
    return np.frombuffer(value, kind)


def _check_count(n: int, max_samples: int) -> None:
    if n == 0:
        raise Problem("malformed", "expected at least one sample, got an empty frame")
    if n > max_samples:
        raise Problem("too_large", f"expected at most {max_samples} samples, got {n}")


def _times(time: Any, n: int, scale: float) -> Array:
    if type(time) is bytes:
        if len(time) % 8:
            raise Problem("bad_time", f"expected times as f64 bytes, got {len(time)} bytes")
        times: Array = np.frombuffer(time, "<f8")
    else:
        times = np.array(time if isinstance(time, list) else [time], dtype=np.float64)
    if len(times) != n:
        raise Problem("bad_time", f"expected {n} times for a frame of {n} samples, got {len(times)}")
    return times / scale


def _untimed(n: int) -> Array | None:
    if n > 1:
        raise Problem("bad_time", f"expected {n} times for a frame of {n} samples; name their field in [source] time")
    return None


def _labels(label: object, n: int) -> list[object]:
    if not isinstance(label, list):
        return [label_of(label)] * n
    if len(label) != n:
        raise Problem("bad_label", f"expected one label or {n} for a frame of {n} samples, got {len(label)}")
    return [label_of(one) for one in label]


def _raw(record: Record, max_samples: int, dim: int) -> Frame:
    headers = dict(record.headers)
    found = _SHAPE.fullmatch(_header(headers, "streamjobs-shape"))
    dtype = _header(headers, "streamjobs-dtype")
    if found is None or dtype not in (b"f4", b"f8"):
        raise Problem("malformed", "expected headers streamjobs-shape such as '50,6' and streamjobs-dtype f4 or f8")
    n, width = (1, int(found[1])) if found[2] is None else (int(found[1]), int(found[2]))
    if width != dim:
        raise Problem("wrong_dimension", f"expected {dim} finite features, got {width} in streamjobs-shape")
    _check_count(n, max_samples)
    value, item = record.value or b"", int(dtype[1:])
    if len(value) != n * dim * item:
        raise Problem("malformed", f"expected {n * dim * item} bytes for its shape, got {len(value)}")
    X = np.frombuffer(value, f"<f{item}").reshape(n, dim).astype(np.float64)
    times = None
    if n > 1 or "streamjobs-time" in headers:
        start = _real(headers, "streamjobs-time")
        rate = _real(headers, "streamjobs-rate") if n > 1 else 1.0
        if not 0 < rate < np.inf:
            raise Problem("bad_time", "expected a streamjobs-rate above 0 Hz")
        times = start + np.arange(n) / rate
    label = headers.get("streamjobs-label")
    return Frame(X, times, _labels(None if label is None else _text_label(label), n))


def _header(headers: dict[str, bytes], name: str) -> bytes:
    value = headers.get(name)
    if value is None:
        raise Problem("missing_field", f"expected the header {name}, got none")
    return value


def _real(headers: dict[str, bytes], name: str) -> float:
    value = headers.get(name)
    if value is None:
        raise Problem("bad_time", f"expected the header {name}, got none")
    try:
        return float(value[:64])
    except ValueError:
        raise Problem("bad_time", f"expected a number in the header {name}") from None


def _text_label(label: bytes) -> object:
    try:
        return msgspec.json.decode(label)
    except _UNDECODABLE:
        pass
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise Problem("bad_label", "expected text in the header streamjobs-label") from None

"""What the parsers of all formats return: one sample, a frame of n, or late labels; and the Problem they raise."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from algorithms.common.compiled import compiled_in_place
from algorithms.common.protocol import Array
from streamjobs.core.messages import Record

DTYPES = {"f4": "<f4", "f8": "<f8"}
MAX_LABEL = 256  # characters of a class name
MAX_TARGETS = 1024  # numbers of one label
UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)


class Problem(Exception):
    """Why a value cannot be used: a reason of `streamjobs.errors.REASONS`, and the rest of the sentence after the place."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason, self.text = reason, text
        super().__init__(text)


Sample = tuple[bytes, float | None, object]  # dim float64 numbers; time in [source] time_unit (None: the record's); label


class Singles(NamedTuple):
    """One sample of each of n records."""

    owner: Array  # (n,) int64 index into the records; those left out are for the parser of single records
    X: Array  # (n, dim)
    times: Array | None  # (n,) in [source] time_unit; None: the records' own
    labels: list[object]  # n: text or None


class Frame(NamedTuple):
    """n samples."""

    X: Array  # (n, dim)
    times: Array | None  # (n,) seconds; None: the record's own timestamp (n = 1)
    labels: list[object]  # n
    skipped: Mapping[str, int] = MappingProxyType({})  # samples of the record that are left out, by reason


class LabelsAlone(NamedTuple):
    """n labels without samples, for rows that wait for them."""

    times: Array  # (n,) seconds
    labels: list[object]  # n


Parse = Callable[[Record], Sample | Frame | LabelsAlone]


class Bounds(NamedTuple):
    """Of the samples that [source] takes."""

    most: float  # of a feature's size
    first: float  # event time, seconds
    end: float  # event times are below it
    future: float  # seconds of an event time after its record's timestamp


@compiled_in_place
def all_good(X, times, stamps, bounds):
    """Whether all samples are within the bounds; NaN is not."""
    most, first, end, future = bounds
    good = True
    for n in range(times.size):
        good &= first <= times[n] < end and times[n] <= stamps[n] + future
        for j in range(X.shape[1]):
            good &= abs(X[n, j]) <= most
    return good


def label_of(label: object) -> object:
    """The label, if it is None, text, a finite number or finite numbers; raises Problem for anything else."""
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


def labels_of(label: object, n: int) -> list[object]:
    """The labels of a frame of n samples: one for all, or n; raises Problem."""
    if not isinstance(label, list):
        return [label_of(label)] * n
    if len(label) != n:
        raise Problem("bad_label", f"expected one label or {n} for a frame of {n} samples, got {len(label)}")
    return [label_of(value) for value in label]


def check_count(n: int, max_samples: int) -> None:
    """Raises Problem if a frame is empty or has too many samples."""
    if n == 0:
        raise Problem("malformed", "expected at least one sample, got an empty frame")
    if n > max_samples:
        raise Problem("too_large", f"expected at most {max_samples} samples, got {n}")


def doubles(numbers: object) -> Array:
    """A float64 copy. A signaling NaN becomes a quiet one without a warning, and is refused later like any NaN."""
    with np.errstate(invalid="ignore"):
        return np.array(numbers, dtype=np.float64)


def numbers_of(value: bytes, dtype: str) -> Array:
    """Little-endian numbers in their own dtype; raises Problem."""
    kind = DTYPES.get(dtype)
    if kind is None:
        raise Problem("malformed", "expected dtype f4 or f8, got another")
    if len(value) % int(dtype[1]):
        raise Problem("malformed", f"expected bytes of whole {dtype} numbers, got {len(value)}")
    return np.frombuffer(value, kind)


def late_labels(time: Any, label: Any, scale: float, max_samples: int) -> LabelsAlone:
    """Labels that come without samples: a time, or a label, for all others of the other. Raises Problem."""
    n = max(len(part) if isinstance(part, list) else 1 for part in (time, label))
    check_count(n, max_samples)
    times = np.array(time if isinstance(time, list) else [time] * n, dtype=np.float64) / scale
    if len(times) != n:
        raise Problem("bad_time", f"expected {n} times for {n} labels, got {len(times)}")
    return LabelsAlone(times, labels_of(label, n))


def rows_of(x: Any, dtype: str, dim: int, max_samples: int) -> Array:
    """A frame's samples (n, dim) from bytes, or from n lists of numbers. Raises Problem."""
    if type(x) is bytes:
        numbers = numbers_of(x, dtype)
        if numbers.size % dim:
            raise Problem("wrong_dimension", f"expected rows of {dim} features, got {numbers.size} numbers")
        check_count(numbers.size // dim, max_samples)
        return doubles(numbers.reshape(-1, dim))
    check_count(len(x), max_samples)
    for row in x:
        if len(row) != dim:
            raise Problem("wrong_dimension", f"expected {dim} finite features in each sample, got {len(row)}")
    return np.array(x, dtype=np.float64)


def columns_of(columns: list[Any], names: list[str], max_samples: int) -> Array:
    """A frame's samples (n, dim) from named columns of n numbers, or of their bytes. Raises Problem."""
    lists = [numbers_of(column, "f4") if type(column) is bytes else column for column in columns]
    n = len(lists[0])
    check_count(n, max_samples)
    for name, column in zip(names, lists, strict=True):
        if len(column) != n:
            raise Problem("wrong_dimension", f"expected {n} numbers in field '{name}' as in the first, got {len(column)}")
    return doubles(lists).T.copy()


def times_of(time: Any, n: int, scale: float) -> Array:
    """The times (n,) of a frame in seconds. Raises Problem."""
    if type(time) is bytes:
        if len(time) % 8:
            raise Problem("bad_time", f"expected times as f64 bytes, got {len(time)} bytes")
        times: Array = np.frombuffer(time, "<f8")
    else:
        times = np.array(time if isinstance(time, list) else [time], dtype=np.float64)
    if len(times) != n:
        raise Problem("bad_time", f"expected {n} times for a frame of {n} samples, got {len(times)}")
    return times / scale


def require_one(n: int) -> None:
    """Raises Problem where a frame of more than one sample has no times."""
    if n > 1:
        raise Problem("bad_time", f"expected {n} times for a frame of {n} samples; name their field in [source] time")


def is_side(value: object, when: object) -> bool:
    """Whether two values are equal; true is not 1."""
    return value == when and isinstance(value, bool) == isinstance(when, bool)

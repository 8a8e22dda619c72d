"""Records become samples: limits first, then decoding, then what a sample must be; whatever is wrong is a RecordError.

A batch is decoded record by record and checked as one array. A record that holds a frame is taken whole or not at all.
Messages name topic, partition and offset; never the key or the contents, which may be personal.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.config import SourceSection
from streamjobs.core.formats import UNITS, Frame, Problem, label_of, parser
from streamjobs.core.messages import Record
from streamjobs.errors import RecordError

MAX_HEADERS = 100  # of a record
MAX_HEADER_BYTES = 1 << 16  # of all its headers, names and values
END_OF_TIME = 253_402_300_800.0  # the year 10000, seconds since 1970: beyond it the unit is wrong


class Decoded(NamedTuple):
    """The samples of a batch of records, in record order."""

    owner: Array  # (n,) int64 index into the records
    times: Array  # (n,) float64 event time, seconds since 1970
    X: Array  # (n, dim) float64, finite, C order
    labels: list[object]  # n: None, text, int, float, bool, or a list of floats
    errors: list[tuple[int, RecordError]]  # index into the records and why it gives no samples


def decoder(source: SourceSection, dim: int) -> Callable[[Sequence[Record]], Decoded]:
    """A function that decodes a batch of records by `[source]`; it never raises for what a record holds."""
    parse = parser(source, dim)
    scale = UNITS[source.time_unit] if source.time is not None else 1000.0
    max_bytes, max_key_bytes = source.max_bytes, source.max_key_bytes

    def decode(records: Sequence[Record]) -> Decoded:
        samples = _Samples(dim, scale)
        errors: dict[int, RecordError] = {}
        for index, record in enumerate(records):
            key, value = record.key, record.value
            try:
                if not key or len(key) > max_key_bytes or not value or len(value) > max_bytes or record.headers:
                    _check_limits(record, max_bytes, max_key_bytes)
                parsed = parse(record)
                if isinstance(parsed, Frame):
                    samples.frame(index, record, parsed)
                else:
                    x, time, label = parsed
                    if label is not None:
                        label = label_of(label)
                    samples.one(index, record, x, time, label)
            except Problem as problem:
                errors[index] = _located(record, problem)
        return _checked(samples, records, errors, source)

    return decode


class _Samples:
    """Collects samples: single ones as lists that become one array, frames as arrays, in record order."""

    __slots__ = ("counts", "dim", "index", "labels", "open_times", "open_x", "pieces", "scale", "stamps", "times")

    def __init__(self, dim: int, scale: float) -> None:
        self.dim, self.scale = dim, scale
        self.pieces: list[Array] = []
        self.times: list[Array] = []
        self.open_x: list[Any] = []
        self.open_times: list[float] = []
        self.labels: list[object] = []
        self.index: list[int] = []  # a row per record
        self.counts: list[int] = []
        self.stamps: list[int] = []  # the record's timestamp where the event time is stated apart from it, else 0

    def one(self, index: int, record: Record, x: Any, time: float | None, label: object) -> None:
        self.open_x.append(x)
        if time is None:
            self.open_times.append(record.timestamp)
            self.stamps.append(0)
        else:
            self.open_times.append(time)
            self.stamps.append(record.timestamp)
        self.labels.append(label)
        self.index.append(index)
        self.counts.append(1)

    def frame(self, index: int, record: Record, frame: Frame) -> None:
        self.close()
        self.pieces.append(frame.X)
        self.times.append(np.array([record.timestamp / 1000.0]) if frame.times is None else frame.times)
        self.stamps.append(0 if frame.times is None else record.timestamp)
        self.labels.extend(frame.labels)
        self.index.append(index)
        self.counts.append(len(frame.X))

    def close(self) -> None:
        if self.open_x:
            self.pieces.append(np.array(self.open_x, dtype=np.float64))
            self.times.append(np.array(self.open_times, dtype=np.float64) / self.scale)
            self.open_x, self.open_times = [], []

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """owner, times, X, and the timestamp in seconds to hold each time against (0: none)."""
        self.close()
        X = np.concatenate(self.pieces) if self.pieces else np.empty((0, self.dim))
        times = np.concatenate(self.times) if self.times else np.empty(0)
        counts = np.array(self.counts, np.int64)
        owner = np.repeat(np.array(self.index, np.int64), counts)
        return owner, times, X, np.repeat(np.array(self.stamps, np.float64) / 1000.0, counts)


def _checked(samples: _Samples, records: Sequence[Record], errors: dict[int, RecordError], source: SourceSection) -> Decoded:
    owner, times, X, stamps = samples.arrays()
    labels = samples.labels
    in_range = np.asarray((np.abs(X) <= source.max_abs).all(axis=1))  # false for NaN as well
    in_time = (times >= 0.0) & (times < END_OF_TIME)
    early = (stamps <= 0.0) | (times <= stamps + source.future)
    good = in_range & in_time & early
    if not good.all():
        for row in np.flatnonzero(~good):
            index = int(owner[row])
            if index not in errors:
                if not in_range[row]:
                    problem = _bad_number(X[row], source.max_abs)
                elif not in_time[row]:
                    problem = _bad_time(float(times[row]), source)
                else:
                    problem = Problem(
                        "future",
                        f"expected an event time at most {source.future:g} s after the record's timestamp, "
                        f"got {times[row] - stamps[row]:.3f} s",
                    )
                errors[index] = _located(records[index], problem)
        keep = ~np.isin(owner, np.array(list(errors), np.int64))  # a frame goes whole
        labels = [label for label, kept in zip(labels, keep, strict=True) if kept]
        owner, times, X = owner[keep], times[keep], X[keep]
    return Decoded(owner, times, X, labels, sorted(errors.items()))


def _check_limits(record: Record, max_bytes: int, max_key_bytes: int) -> None:
    key, value = record.key, record.value
    if not key:
        raise Problem("no_key", "expected a key, got none")
    if len(key) > max_key_bytes:
        raise Problem("no_key", f"expected a key of at most {max_key_bytes} bytes, got {len(key)}")
    if not value:
        raise Problem("malformed", "expected a value, got none")
    if len(value) > max_bytes:
        raise Problem("too_large", f"expected a value of at most {max_bytes} bytes, got {len(value)}")
    headers = record.headers
    if len(headers) > MAX_HEADERS or sum(len(name) + len(text or b"") for name, text in headers) > MAX_HEADER_BYTES:
        raise Problem("too_large", f"expected at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all, got more")


def _bad_number(x: Array, max_abs: float) -> Problem:
    for i in range(x.size):
        if not np.isfinite(x[i]):
            got = "NaN" if np.isnan(x[i]) else "infinity"
            return Problem("not_finite", f"expected {x.size} finite features, got {got} at index {i}")
    largest = int(np.argmax(np.abs(x)))
    return Problem("out_of_range", f"expected features within +-{max_abs:g}, got a larger one at index {largest}")


def _bad_time(time: float, source: SourceSection) -> Problem:
    if source.time is None and source.format != "raw":
        return Problem("bad_time", "expected a record timestamp; set [source] time or let the producer set timestamps")
    got = f"{time:g} s" if np.isfinite(time) else "NaN or infinity"
    return Problem(
        "bad_time", f"expected a time from 1970 to 9999, got {got}; check [source] time_unit ({source.time_unit})"
    )


def _located(record: Record, problem: Problem) -> RecordError:
    where = f"topic {record.topic}[{record.partition}] offset {record.offset}"
    return RecordError(problem.reason, f"{where}: {problem.text}.")

"""Decodes batches of records to samples: limits, then parsing, then checks of the samples; each problem is a RecordError.

Records are parsed one by one (or all at once where they are simple) and checked as one array. A frame is used whole or
not at all. Messages name topic, partition and offset, never the key or the contents, which may be personal.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array, plain
from streamjobs.core.decoding import raw
from streamjobs.core.decoding.formats import ParseAll, batch_parser, parser
from streamjobs.core.decoding.raw import begins_single
from streamjobs.core.decoding.samples import MAX_LABEL, Bounds, Frame, LabelsAlone, Problem, Sample, all_good, label_of
from streamjobs.core.decoding.values import class_name
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Headers, Keyed, Record, Unread, record_key, record_value
from streamjobs.errors import RecordError
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import JUDGED, TIME_UNITS, UNIT_NAMES

FEW = 2  # records of JSON or MessagePack that are faster to parse one by one
_timestamp, _headers = operator.attrgetter("timestamp"), operator.attrgetter("headers")


class Decoded(NamedTuple):
    """The samples of a batch of records, in record order."""

    owner: Array  # (n,) int64 index into the records
    times: Array  # (n,) float64 event time, seconds since 1970
    X: Array  # (n, dim) float64, C order; finite, but for NaN where [source] missing lets a number be missing
    labels: list[object]  # n: None, text, int, float, bool, or a list of floats
    alone: Array | None  # (n,) bool, late labels without a sample (X is zero there); None if there are none
    errors: list[tuple[int, RecordError]]  # index into the records, and why that record gives no samples
    skipped: Mapping[str, int] = MappingProxyType({})  # samples left out, by reason
    single: bool = False  # each record has one sample; False where that is not known

    def without(self, dropped: Sequence[bool]) -> "Decoded":
        """The samples of all records but these. dropped: one for each record."""
        return self.only(~np.array(dropped)[self.owner])

    def only(self, keep: Array) -> "Decoded":
        """The samples with True in keep (n,)."""
        alone = None if self.alone is None else self.alone[keep]
        return self._replace(
            owner=self.owner[keep],
            times=self.times[keep],
            X=self.X[keep],
            labels=[label for label, kept in zip(self.labels, keep.tolist(), strict=True) if kept],
            alone=alone if alone is not None and alone.any() else None,
            single=False,
        )


def decoder(
    source: SourceSection, dim: int, mirror: MirrorSection | None = None, late: bool = False, schemas: Schemas | None = None
) -> Callable[[Sequence[Record]], Decoded]:
    """A function that decodes a batch of records as [source] describes them; no content of a record makes it raise.

    late: records may hold late labels, for rows that wait for them. schemas: see `parser`.
    """
    parse = parser(source, dim, mirror, late, schemas)
    scale = TIME_UNITS[source.time_unit] if source.time is not None else 1000.0
    bounds = Bounds(*map(float, (source.max_abs, *source.time_span, source.future)))
    max_bytes, max_key_bytes = source.max_bytes, source.max_key_bytes
    may_miss = np.array([policy != "dlq" for policy in source.policies(dim)]) if source.may_miss else None
    if source.sensors is not None:
        may_miss = np.ones(dim, np.bool_)  # a sample has the columns of its own sensor
    checked = _without_codes(partial(_checked, source=source, bounds=bounds, may_miss=may_miss), source.codes(dim))
    parse_all = batch_parser(source, dim, mirror)

    def decode(records: Sequence[Record]) -> Decoded:
        usual = None if parse_all is None else _at_once(records, parse_all, source, dim, scale)
        if usual is not None and len(usual.owner) == len(records):
            return checked(usual, records, {}, single=True)
        return one_by_one(records, usual)

    @np.errstate(invalid="ignore")  # arithmetic may complain of a signalling NaN, which is refused with the other numbers
    def one_by_one(records: Sequence[Record], usual: _Joined | None) -> Decoded:
        samples = _Samples(records, scale, source.time is not None)
        add, add_index = samples.single.append, samples.index.append
        errors: dict[int, RecordError] = {}
        read_already = set() if usual is None else set(usual.owner.tolist())
        for index, record in enumerate(records):
            if index in read_already:
                continue
            key, value = record.key, record.value
            try:
                within = key and len(key) <= max_key_bytes and value and len(value) <= max_bytes
                if not within or (record.headers and not _headers_fit(record.headers, source)):
                    _check_limits(record, source)
                parsed = parse(record)
                if isinstance(parsed, Frame):
                    samples.frame(index, parsed)
                    continue
                if isinstance(parsed, LabelsAlone):
                    samples.alone.append(index)
                    n = len(parsed.times)
                    samples.frame(index, Frame(np.zeros((n, dim)), parsed.times, parsed.labels))
                    continue
                label = parsed[2]
                if label is not None and (type(label) is not str or len(label) > MAX_LABEL):
                    parsed = parsed[0], parsed[1], label_of(label)
                add(parsed)
                add_index(index)
            except Problem as problem:
                errors[index] = _located(record, problem, source)
        joined = samples.joined(dim)
        decoded = checked(joined if usual is None else _merged(usual, joined), records, errors)
        if samples.skipped:
            letters, skipped = {index for index, _ in decoded.errors}, Counter[str]()
            for index, of_record in samples.skipped.items():
                if index not in letters:
                    skipped.update(of_record)
            decoded = decoded._replace(skipped=skipped)
        if not samples.alone:
            return decoded
        return decoded._replace(alone=np.isin(decoded.owner, np.array(samples.alone, np.int64)))

    return decode if source.no_label is None else _without_labels(decode, source.no_label)


def _without_labels(
    decode: Callable[[Sequence[Record]], Decoded], none: Iterable[str | int | bool]
) -> Callable[[Sequence[Record]], Decoded]:
    """`decode` with None for labels of these classes. Late ones are left out."""

    def name_of(label: object) -> str | None:
        try:
            return label if isinstance(label, str) else class_name(label)
        except RecordError:  # other numbers
            return None

    names = set(map(name_of, none))

    def decoded(records: Sequence[Record]) -> Decoded:
        made = decode(records)
        made = made._replace(labels=[None if label is None or name_of(label) in names else label for label in made.labels])
        if made.alone is None:
            return made
        return made.only(~made.alone | np.array([label is not None for label in made.labels], np.bool_))

    return decoded


def untimed(records: Sequence[Record], source: SourceSection) -> Array | None:
    """(records,) bool, whether a record names no time, so that its samples have its timestamp; None: each names one."""
    if source.format == "raw":
        return np.array([all(name != raw.TIME for name, _ in record.headers) for record in records], np.bool_)
    return np.ones(len(records), np.bool_) if source.time is None else None


class _Joined(NamedTuple):
    """All samples of a batch, not checked yet; arrays as compiled loops take them."""

    owner: Array
    times: Array
    X: Array
    labels: list[object]
    stamps: Array  # (n,) the record's timestamp in seconds if the record has an event time of its own, else inf


class _Samples:
    """Collects samples in record order: runs of single samples become one array, each frame is one."""

    __slots__ = ("alone", "index", "labels", "parts", "records", "scale", "single", "skipped", "timed")

    def __init__(self, records: Sequence[Record], scale: float, timed: bool) -> None:
        self.records, self.scale, self.timed = records, scale, timed
        self.single: list[Sample] = []
        self.alone: list[int] = []  # indices of records with late labels
        self.index: list[int] = []  # indices of the records of `single`
        self.parts: list[tuple[Array, Array, Array, Array]] = []  # owner, times, X, stamps
        self.labels: list[object] = []
        self.skipped: dict[int, Mapping[str, int]] = {}  # samples left out by reason, by index of their record

    def frame(self, index: int, frame: Frame) -> None:
        self.close()
        stamp = self.records[index].timestamp / 1000.0
        own = frame.times is None
        times = np.array([stamp]) if frame.times is None else plain(frame.times, np.float64)
        n = len(frame.X)
        self.parts.append(
            (np.full(n, index, np.int64), times, plain(frame.X, np.float64), np.full(n, np.inf if own else stamp))
        )
        self.labels.extend(frame.labels)
        if frame.skipped:
            self.skipped[index] = frame.skipped

    def close(self) -> None:
        """Turn the single samples so far into arrays."""
        if not self.single:
            return
        rows, times, labels = zip(*self.single, strict=True)
        X = np.frombuffer(bytearray().join(rows), np.float64).reshape(len(rows), -1)
        self.labels.extend(labels)
        stamps = np.array([self.records[i].timestamp for i in self.index], dtype=np.float64)
        if self.timed:
            stated = np.array(times, dtype=np.float64) / self.scale
            stamps /= 1000.0
        else:
            stated, stamps = stamps / self.scale, np.full(len(stamps), np.inf)
        self.parts.append((np.array(self.index, np.int64), stated, X, stamps))
        self.single.clear()
        self.index.clear()

    def joined(self, dim: int) -> _Joined:
        self.close()
        if not self.parts:
            return _Joined(np.empty(0, np.int64), np.empty(0), np.empty((0, dim)), [], np.empty(0))
        if len(self.parts) == 1:
            owner, times, X, stamps = self.parts[0]
        else:
            owner, times, X, stamps = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        return _Joined(owner, times, X, self.labels, stamps)


def _without_codes(
    check: Callable[..., Decoded], codes: Sequence[tuple[slice | int, list[float]]]
) -> Callable[..., Decoded]:
    """`check` of samples with NaN for each number that means a missing one. codes: as `SourceSection.codes`."""

    def checked(samples: _Joined, records: Sequence[Record], errors: dict[int, RecordError], **more: bool) -> Decoded:
        X = samples.X.copy()
        for columns, numbers in codes:
            X[:, columns][np.isin(samples.X[:, columns], numbers)] = np.nan
        return check(samples._replace(X=X), records, errors, **more)

    return checked if codes else check


def _checked(
    samples: _Joined,
    records: Sequence[Record],
    errors: dict[int, RecordError],
    *,
    source: SourceSection,
    bounds: Bounds,
    may_miss: Array | None,
    single: bool = False,
) -> Decoded:
    """may_miss: (dim,) bool, columns in which a number may be missing; None: in none."""
    owner, times, X, labels, stamps = samples
    if all_good(X, times, stamps, bounds):
        return Decoded(owner, times, X, labels, None, sorted(errors.items()) if errors else [], single=single)
    with np.errstate(invalid="ignore"):  # NaN is refused with the other numbers
        known = X if may_miss is None else np.where(np.isnan(X) & may_miss, 0.0, X)
        in_range = np.asarray((np.abs(known) <= bounds.most).all(axis=1))  # false for NaN as well
        in_time = (times >= bounds.first) & (times < bounds.end)
        early = times <= stamps + bounds.future
        good = in_range & in_time & early
        if not good.all():
            for row in np.flatnonzero(~good):
                index = int(owner[row])
                if index not in errors:
                    if not in_range[row]:
                        problem = _bad_number(known[row], source)
                    elif not in_time[row]:
                        problem = _bad_time(float(times[row]), source)
                    else:
                        problem = _future(float(times[row]), float(stamps[row]), source)
                    errors[index] = _located(records[index], problem, source)
            keep = ~np.isin(owner, np.array(list(errors), np.int64))  # one bad sample drops its whole frame
            labels = [label for label, kept in zip(labels, keep, strict=True) if kept]
            owner, times, X = owner[keep], times[keep], X[keep]
        return Decoded(owner, times, X, labels, None, sorted(errors.items()))


def _at_once(
    records: Sequence[Record], parse_all: ParseAll, source: SourceSection, dim: int, scale: float
) -> _Joined | None:
    """The samples of the records that are within the limits and can be parsed together; None if there are none."""
    raw_records = source.format == "raw"
    few = len(records) <= FEW and source.fields is not None  # numbers of a list are read together in any case
    if not records or (few and not raw_records) or (raw_records and not begins_single(records, dim)):
        return None
    if _within_limits(records, source):
        singles = parse_all(records)
    else:
        within = np.flatnonzero([_within_limits([record], source) for record in records])
        singles = parse_all([records[at] for at in within.tolist()]) if within.size else None
        singles = singles and singles._replace(owner=within[singles.owner])
    if singles is None or not singles.owner.size:
        return None
    owner, X, times, labels = singles
    stamps = np.array(list(map(_timestamp, records)), np.float64)
    if len(owner) < len(records):
        stamps = stamps[owner]
    if times is None:
        return _Joined(owner, stamps / (1000.0 if raw_records else scale), X, labels, np.full(len(owner), np.inf))
    if not raw_records and scale != 1.0:
        times = times / scale
    return _Joined(owner, times, X, labels, stamps / 1000.0)


def _merged(first: _Joined, second: _Joined) -> _Joined:
    """The samples of both in record order."""
    order = np.argsort(np.concatenate((first.owner, second.owner)), kind="stable")
    labels = [*first.labels, *second.labels]

    def merged(of_first: Array, of_second: Array) -> Array:
        return np.concatenate((of_first, of_second))[order]

    return _Joined(
        merged(first.owner, second.owner),
        merged(first.times, second.times),
        merged(first.X, second.X),
        [labels[at] for at in order.tolist()],
        merged(first.stamps, second.stamps),
    )


def _within_limits(records: Sequence[Record], source: SourceSection) -> bool:
    """Whether every record is within the limits of [source], in few passes."""
    keys, values = list(map(record_key, records)), list(map(record_value, records))
    return (
        bool(records)
        and all(keys)
        and all(values)
        and all([_headers_fit(headers, source) for headers in map(_headers, records) if headers])
        and max(map(len, keys)) <= source.max_key_bytes
        and max(map(len, values)) <= source.max_bytes
    )


def _check_limits(record: Record, source: SourceSection) -> None:
    """Raises Problem for a record beyond the limits of [source]; looks at sizes and counts only."""
    key, value = record.key, record.value
    if isinstance(record, Unread):
        raise Problem("batch", f"{record.problem}; the letter's value is the batch as it came")
    if isinstance(record, Keyed) and record.problem is not None:
        raise Problem(*record.problem)
    if not key:
        raise Problem("no_key", "expected a key, got none")
    if len(key) > source.max_key_bytes:
        raise Problem("long_key", f"expected a key of at most {source.max_key_bytes} bytes, got {len(key)}")
    if not value:
        raise Problem("malformed", "expected a value, got none")
    if len(value) > source.max_bytes:
        raise Problem("too_large", f"expected a value of at most {source.max_bytes} bytes, got {len(value)}")
    if not _headers_fit(record.headers, source):
        raise Problem(
            "headers", f"expected at most {source.max_headers} headers of {source.max_header_bytes} bytes in all, got more"
        )


def refusal(record: Record, source: SourceSection) -> RecordError | None:
    """Why a record is beyond the limits of [source], or has no key; None where it is within them."""
    try:
        _check_limits(record, source)
    except Problem as problem:
        return _located(record, problem, source)
    return None


def _headers_fit(headers: Headers, source: SourceSection) -> bool:
    if len(headers) > source.max_headers:
        return False
    size = 0
    for name, text in headers:
        size += len(name) + (len(text) if text else 0)
    return size <= source.max_header_bytes


def _bad_number(x: Array, source: SourceSection) -> Problem:
    named = [f" ({column})" for column, _ in source.columns] or [""] * x.size
    for i in range(x.size):
        if not np.isfinite(x[i]):
            got = "NaN" if np.isnan(x[i]) else "infinity"
            return Problem("not_finite", f"expected {x.size} finite features, got {got} at index {i}{named[i]}")
    i = int(np.argmax(np.abs(x)))
    what = f"expected features within +-{source.max_abs:g}, got a larger one at index {i}{named[i]}"
    return Problem("out_of_range", what)


def _future(time: float, stamp: float, source: SourceSection) -> Problem:
    """A record without a timestamp has -1 ms, so that one wrong event time cannot pass."""
    problem = f"expected an event time at most {source.future:g} s after the record's timestamp, "
    if stamp > 0.0:
        return Problem("future", f"{problem}got {time - stamp:.3f} s")
    return Problem("future", f"{problem}got no timestamp; let the producer set timestamps, or raise [source] future")


def _bad_time(time: float, source: SourceSection) -> Problem:
    if source.time is None and source.format != "raw":
        return Problem("bad_time", "expected a record timestamp; set [source] time or let the producer set timestamps")
    got = f"{time:g} s" if np.isfinite(time) else "NaN or infinity"
    if source.format == "raw":
        return Problem("bad_time", f"expected a time from 1970 to 9999 in the header {raw.TIME} or the timestamp, got {got}")
    if source.time_span == JUDGED:
        unit = UNIT_NAMES[source.time_unit]
        return Problem("bad_time", f"expected a time from 1973 to 5138 in {unit}, the unit of the first time, got {got}")
    return Problem(
        "bad_time", f"expected a time from 1970 to 9999, got {got}; check [source] time_unit ({source.time_unit})"
    )


def _located(record: Record, problem: Problem, source: SourceSection) -> RecordError:
    where = f"topic {record.topic}[{record.partition}] offset {record.offset}"
    field = {"bad_time": source.time, "future": source.time, "bad_label": source.label}.get(problem.reason)
    named = "" if field is None or re.search(rf"['`.]{re.escape(field)}['`\[]", problem.text) else f" (field {field!r})"
    return RecordError(problem.reason, f"{where}: {problem.text}{named}.")

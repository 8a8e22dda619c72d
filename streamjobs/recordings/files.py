"""Reads recordings as records in the job's own format, for `replay`, `check --sample`, `fit` and `init`.

A recording is a table with a row per sample: JSON lines, CSV, Parquet, or an npz archive (columns as arrays; `X`
with its `columns`). Rows keep the file's order.
"""

import csv
import itertools
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from streamjobs.core.decoding.keys import key_bytes
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.paths import ABSENT, FieldPath, column_path, path_of
from streamjobs.settings.source import SourceSection
from streamjobs.settings.time_units import AUTO, unit_of
from streamjobs.settings.times import seconds_since_1970, zone_of
from streamjobs.settings.types import TIME_UNITS, UNIT_NAMES

Row = dict[str, Any]
KINDS = {
    ".jsonl": "a JSON object a line",
    ".ndjson": "a JSON object a line",
    ".csv": "CSV in UTF-8",
    ".parquet": "Parquet",
    ".npz": "an npz archive of plain arrays",
}
SECONDS = {unit: 1 / per_second for unit, per_second in TIME_UNITS.items()}  # of each unit


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a recording; values are Python numbers, texts, lists or None.

    Raises ConfigError for a missing or damaged file, a folder, an unknown ending, or a CSV that would be read wrong.
    """
    if path.is_dir():
        raise ConfigError(f"{path}: expected a recording, got a folder; name one file of it.")
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ConfigError(f"{path}: expected a recording that ends in {', '.join(KINDS)}; got {kind or 'no ending'!r}.")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file.")
    if kind == ".csv":
        return _or_config_error(path, _csv(path))
    if kind == ".parquet":
        return _or_config_error(path, _parquet(path))
    if kind == ".npz":
        return _or_config_error(path, _npz(path))
    return (row for _, row in _lines(path))


def _or_config_error(path: Path, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows; raises ConfigError if the file is damaged, or is not what its ending says."""
    try:
        yield from rows
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected CSV in UTF-8, got bytes of another encoding; save it as UTF-8.") from None
    except (ValueError, csv.Error, zipfile.BadZipFile):  # the libraries' own words would not help
        raise ConfigError(f"{path}: expected {KINDS[path.suffix.lower()]}; it is damaged, or something else.") from None


def _lines(path: Path) -> Iterator[tuple[bytes, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text:
                continue
            try:
                row = msgspec.json.decode(text)
            except (msgspec.DecodeError, ValueError, RecursionError):  # also bytes that are not UTF-8
                row = None  # not skipped: a broken line is a broken record, and becomes a dead letter
            if row is not None and not isinstance(row, dict):
                raise ConfigError(f"{path} line {number}: expected a JSON object, got {type(row).__name__}.")
            yield text, row or {}


def _csv(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        names = next((cells for cells in rows if cells), [])
        _require_commas(path, names)
        twice = sorted(name for name, times in Counter(filter(None, names)).items() if times > 1)
        if twice:
            raise ConfigError(f"{path}: column {twice[0]!r} is there twice; give every column a name of its own.")
        for cells in rows:
            if any(cells[len(names) :]):  # such as a decimal comma that was taken for the end of a cell
                raise ConfigError(
                    f"{path} line {rows.line_num}: expected {len(names)} cells as in the first line, got {len(cells)}; "
                    "commas stand between cells, and a decimal comma must be a point."
                )
            if cells:
                yield dict(zip(names, map(_cell, cells), strict=False)) | dict.fromkeys(names[len(cells) :])


def _require_commas(path: Path, names: Sequence[str]) -> None:
    """Raises ConfigError where other characters stand between the names of the columns."""
    for separator, what in ((";", "semicolons"), ("\t", "tabs")):
        if sum(name.count(separator) for name in names) >= len(names) > 0:
            raise ConfigError(
                f"{path}: expected CSV with commas between cells, got {what} ({','.join(names)!r:.60}). Save it with commas "
                "between cells and points in decimal numbers."
            )


def _cell(text: str | None) -> Any:
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{path}: reading Parquet needs pyarrow: pip install 'streamjobs[files]'.") from None
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=10_000):
            for row in batch.to_pylist():
                yield {name: _told(value) for name, value in row.items()}


def _told(value: Any) -> Any:
    """A date with a time as ISO 8601, as records write it."""
    return value.isoformat(sep="T") if isinstance(value, datetime) else value


def _npz(path: Path) -> Iterator[Row]:
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    X = arrays.pop("X", None)
    names = arrays.pop("columns", None)
    if X is not None and names is not None and len(names) == X.shape[1]:
        arrays = {str(name): X[:, i] for i, name in enumerate(names)} | arrays
    elif X is not None:
        arrays["x"] = X
    lengths = [len(array) for array in arrays.values() if array.ndim]
    n = len(X) if X is not None else max(set(lengths), key=lengths.count, default=0)
    columns = {name: array for name, array in arrays.items() if array.ndim and len(array) == n}
    for begin in range(0, n, 10_000):
        lists = [array[begin : begin + 10_000].tolist() for array in columns.values()]
        for values in zip(*lists, strict=True):
            yield dict(zip(columns, values, strict=True))


def records_of(
    path: Path,
    source: SourceSection,
    key: str | None,
    time: str | None = None,
    side: str | None = None,
    recording: str | None = None,
) -> Generator[Stored, None, None]:
    """A recording as records of one partition, in file order; the offset is the row's number.

    key: column with the key, or a path to it, as others; None: [source] key. time: column with the record's timestamp, in
    the job's time unit or ISO 8601; ConfigError is raised at the first row where it holds none (None: the job's event time;
    without one 1 ms a row). side: column that says how the sensor is worn, if the job mirrors. recording: column whose value
    is appended to the key, after a NUL. For a JSON job, lines of JSON stay the bytes they are; all other rows are encoded in
    the job's format. The first row is read at once, so that a missing column raises ConfigError here.
    """
    stamped, time, key = time is not None, time or source.record_time, _key_column(path, source, key)
    lines = (
        _lines(path) if path.suffix.lower() in (".jsonl", ".ndjson") and source.format == "json" and path.is_file() else None
    )
    rows: Iterator[tuple[bytes | None, Row]] = lines or ((None, row) for row in rows_of(path))
    read_ahead = list(itertools.islice(rows, 1))
    for _, first in read_ahead:
        _require_columns(path, first, (("key", key), ("time", time), ("recording", recording)))
    key_of, time_of, recording_of = map(_getter, (key, time, recording))
    as_key, stamp_of = _key if source.key is None else key_bytes, _stamping(source)

    def stored() -> Generator[Stored, None, None]:
        encode = _encoder(source, side)
        for offset, (text, row) in enumerate(itertools.chain(read_ahead, rows)):
            value, headers = (text, ()) if text is not None else encode(row)
            moment = time_of(row)
            stamp = stamp_of(moment)
            if stamp is None and stamped and row:  # a broken line is told as one
                raise ConfigError(_no_time(path, offset, time, moment, source))
            record_key = as_key(key_of(row))
            if recording is not None and record_key is not None:
                record_key += b"\0" + (_key(recording_of(row)) or b"")
            yield Stored(source.topic, 0, offset, offset if stamp is None else stamp, record_key, value, headers)

    return stored()


def _key_column(path: Path, source: SourceSection, key: str | None) -> str:
    """Raises ConfigError where neither the job nor the command line names one, or both do and differ."""
    named = key or source.key
    if named is None:
        raise ConfigError(f"{path}: a file needs --key, the name of the column with the key.")
    if source.key not in (None, named):
        raise ConfigError(f"--key: the job's keys are in [source] key {source.key!r}; leave --key out, got {key!r}.")
    return named


def _require_columns(path: Path, first: Row, columns: Iterable[tuple[str, str | None]]) -> None:
    """Raises ConfigError if the first row lacks a column. columns: (what it is for, its name or None)."""
    if not first:
        raise ConfigError(f"{path}: the first line is not a JSON object, so the columns are unknown; correct or remove it.")
    for purpose, column in columns:
        if column is not None and column_path(column).find(first) is ABSENT:
            raise ConfigError(f"{path}: no column {column!r} for the {purpose}; the file has {', '.join(map(repr, first))}.")


def _getter(column: str | None) -> Callable[[Row], Any]:
    """What a row has in a column, None for nothing."""
    if column is None:
        return lambda row: None
    find = column_path(column).find

    def get(row: Row) -> Any:
        value = find(row)
        return None if value is ABSENT else value

    return get


def _key(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()


def _stamping(source: SourceSection) -> Callable[[Any], int | None]:
    """`_milliseconds`, with time_unit = "auto" in the unit of the first number that tells it."""
    decided = source

    def stamp_of(time: Any) -> int | None:
        nonlocal decided
        if decided.time_unit == AUTO:
            last = time[-1] if isinstance(time, list) and time else time
            unit = unit_of(last)
            if unit is None and not isinstance(last, str):
                return None
            decided = decided if unit is None else source.in_unit(unit)
        return _milliseconds(time, decided)

    return stamp_of


def _milliseconds(time: Any, source: SourceSection) -> int | None:
    """A time as a record's timestamp, of a frame its last one; None where it is no number."""
    if isinstance(time, list) and time:
        time = time[-1]
    if isinstance(time, str):
        try:
            zone = None if source.time_zone is None else zone_of(source.time_zone)
            return math.ceil(seconds_since_1970(time, zone) * 1000.0)
        except (ValueError, OverflowError):
            return None
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not math.isfinite(time):
        return None
    return math.ceil(time * SECONDS[source.time_unit] * 1000.0)


def _no_time(path: Path, offset: int, column: str | None, time: Any, source: SourceSection) -> str:
    got = "nothing" if time is None else f"{time!r:.60}"
    advice = " A time without a zone needs [source] time_zone." if isinstance(time, str) else ""
    unit = UNIT_NAMES.get(source.time_unit, "s, ms, us or ns")
    return (
        f"{path} row {offset + 1}: expected a number of {unit} since 1970 or ISO 8601 in the time "
        f"column {column!r}, got {got}.{advice}"
    )


def _encoder(source: SourceSection, side: str | None) -> Any:
    """A function from a row to (value, headers) in the job's format, with the columns that the job reads."""
    others = filter(None, (source.key, source.time, source.label, side))
    paths = [path_of(name) for name in (*source.record_fields, *others)]
    if source.format == "raw":
        return lambda row: _raw(row, source, paths)
    encode = msgspec.json.encode if source.format == "json" else msgspec.msgpack.encode

    def encoded(row: Row) -> tuple[bytes, tuple[()]]:
        names = dict.fromkeys(name for path in paths for name in (path.literal, path.top) if name in row)
        return encode({name: _or_none(row[name]) for name in names}), ()

    return encoded


def _or_none(value: Any) -> Any:
    """The value, None for NaN: a missing cell in a column of floats, such as no label."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _raw(row: Row, source: SourceSection, paths: Sequence[FieldPath]) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    import numpy as np

    found = [None if (value := path.find(row)) is ABSENT else value for path in paths]
    numbers = found if source.fields else found[0]
    try:
        value = np.array(numbers, "<f8")
    except (ValueError, TypeError):
        raise ConfigError(f"expected numbers only, for a raw record; got {numbers!r:.80}.") from None
    return value.tobytes(), (("streamjobs-shape", b"%d" % value.size), ("streamjobs-dtype", b"f8"))

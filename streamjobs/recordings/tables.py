"""The rows of one file: CSV, JSON lines, JSON, Parquet, npz or CBOR, plain or packed with gzip.

Read piece by piece, except for JSON and CBOR, which are one object.
"""

import csv
import functools
import gzip
import io
import itertools
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import IO, Any

import msgspec

from streamjobs import install_line
from streamjobs.core.decoding.loading import as_field, without_nan
from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import reads_as_number
from streamjobs.recordings.dialect import HEAD, NOTHING, SPACES, Dialect, dialect_of, plain_number, without_ending
from streamjobs.recordings.places import COLUMNS, KINDS, PIECE, TABLES, Place, require_few_values

Row = dict[str, Any]
Tell = Callable[[str, str], None]  # a file, and what should be known of how it is read
LINES = (".jsonl", ".ndjson")
VALUES = 100_000  # of arrays, that become Python's at once
REPEATED = 4096  # cells of CSV that are looked up
CELLS, LETTERS = 4096, 1 << 20  # of CSV, that become values at once
_NUMBERS, _GAPPY = msgspec.json.Decoder(list[int | float]), msgspec.json.Decoder(list[int | float | None])
_DAMAGED = (
    *(ValueError, OverflowError, RuntimeError, EOFError),  # of zip archives, times of Parquet, and deep nesting too
    *(csv.Error, zipfile.BadZipFile, zlib.error, msgspec.MsgspecError),
)


def untold(*what: Any) -> None:
    """Tells no one."""


@dataclass(frozen=True, slots=True)
class How:
    """How files are read, as the command line says; None: as the file shows."""

    separator: str | None = None  # between the cells of CSV
    decimal: str | None = None  # . or ,
    key_from: str | None = None  # file | folder: its name is the key
    key_is: str | None = None  # one key for all records
    rate: float | None = None  # Hz, to which sensors with a file each are merged
    preset: str | None = None  # the tool that wrote the files
    start: float | None = None  # seconds since 1970 at which times that count from 0 began
    tell: Tell = untold
    opened: Callable[[Any], None] = untold  # gets each text file that is read
    key: str | None = None  # column with the key
    time: str | None = None  # column with the records' timestamps
    unread: int | None = None  # timestamp of a row with a time that cannot be read; None: the row's number
    only: frozenset[str] | None = None  # columns of CSV that are needed; None: all


HOW: How = How()


def rows_of_file(place: Place, how: How = HOW) -> Iterator[Row]:
    """The rows of a file; values are Python numbers, texts, lists or None.

    Raises ConfigError where it is damaged, is not what its ending says, or could be read in two ways.
    """
    if place.kind in LINES:
        return (row for _, row in lines_of_file(place, how))
    return _or_config_error(place, lambda: _READERS[place.kind](place, how))


def lines_of_file(place: Place, how: How = HOW) -> Iterator[tuple[bytes, Row]]:
    """The lines of a file with a JSON object a line, as they are and as rows. A line of something else has an empty row."""
    return _or_config_error(place, lambda: _lines(place, how))


def dialect_of_file(place: Place, how: How = HOW) -> Dialect:
    with place.open() as file:
        head = file.read(HEAD)
    return dialect_of(head, str(place), how.separator, how.decimal)


def has_columns(place: Place, how: How = HOW) -> bool:
    """Whether a text file is a table: it has two columns or more, and one of them has numbers."""
    try:
        first = next(_csv(place, How(how.separator, how.decimal)), {})
        return len(first) > 1 and bool(dialect_of_file(place, how).numbers)
    except (ConfigError, *_DAMAGED, OSError):
        return False


def _or_config_error(place: Place, read: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The rows; raises ConfigError if the file is damaged, or is not what its ending says."""
    try:
        yield from read()
    except UnicodeDecodeError:
        raise ConfigError(
            f"{place}: expected CSV in the encoding of its first rows, got bytes of another encoding; save it as UTF-8."
        ) from None
    except (OSError, *_DAMAGED) as error:
        raise unreadable(place, error) from None


def unreadable(place: Place, error: Exception) -> ConfigError:
    """For a file that a library cannot read. The library's own words for damage would not help."""
    if isinstance(error, OSError) and (error.strerror is not None or isinstance(error, gzip.BadGzipFile)):  # else pyarrow's
        return ConfigError(f"{place}: cannot be read ({error.strerror or error}).")
    return ConfigError(f"{place}: expected {KINDS[place.kind]}; it is damaged, or something else.")


def _lines(place: Place, how: How) -> Iterator[tuple[bytes, Row]]:
    most, other = COLUMNS.value, ""
    whole: bool | None = None  # whether the first line is a number or a list, as a record may be
    with place.open() as file:
        how.opened(file)
        for number, line in enumerate(file):
            text = line.strip()
            if not text:
                continue
            if whole is None and (got := _other_encoding(text)):  # no worker reads it
                raise ConfigError(f"{place}: expected {KINDS[place.kind]} in UTF-8, got {got}; save it as UTF-8.")
            try:
                row = _object(text)
            except (msgspec.DecodeError, ValueError, RecursionError):  # also bytes that are not UTF-8
                row = None
                if not other and (other := _other_encoding(text)):
                    how.tell(str(place), f"line {number + 1}: expected UTF-8, got {other}; save the file as UTF-8")
                elif number and not line.endswith(b"\n") and not other:  # the file is still being written
                    how.tell(str(place), "its last line breaks off, and is left out")
                    return
            message = as_field(row)
            whole = message is not None if whole is None else whole
            if not isinstance(row, dict):  # not skipped: a broken line is a broken record, and becomes a dead letter
                row = (message if whole else None) or {}
            if len(row) > most:
                COLUMNS.require(place, len(row))
            yield text, row


def _other_encoding(line: bytes) -> str:
    """That of a line of JSON that is not in UTF-8; empty for UTF-8, and for what is not JSON."""
    if (coding := json.detect_encoding(line)) not in ("utf-8", "utf-8-sig"):
        return coding.upper()
    with suppress(UnicodeDecodeError):
        line.decode()
        return ""
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        return "bytes of another encoding" if isinstance(_object(line.decode("latin-1").encode()), dict) else ""
    return ""


def _object(text: bytes) -> Any:
    """A line's row, with None for NaN, which [source] missing may allow; the line itself stays as it is.

    Also of a line with Infinity: the record, a dead letter, keeps its key.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(without_nan(text))


class _Lines:
    """The lines of a text file, and whether the newest has no end, as in a file that is still being written."""

    def __init__(self, file: IO[str], dialect: Dialect) -> None:
        self._file, self._dialect, self._newest = file, dialect, "\n"
        self.read = 0  # letters

    def __iter__(self) -> Iterator[str]:
        return iter(without_ending(self._noted(), self._dialect.ending, self._dialect.separator))

    def _noted(self) -> Iterator[str]:
        for line in self._file:
            self._newest = line
            self.read += len(line)
            yield line

    @property
    def broke_off(self) -> bool:
        return not self._newest.endswith(("\n", "\r"))


def _csv(place: Place, how: How) -> Iterator[Row]:
    dialect = dialect_of_file(place, how)
    if dialect.said is not None:
        how.tell(str(place), dialect.said)
    with place.open() as binary, io.TextIOWrapper(binary, dialect.encoding, newline="") as file:
        how.opened(binary)
        for _ in range(dialect.first):
            file.readline()
        lines = _Lines(file, dialect)
        skips = dialect.padded or dialect.separator == SPACES  # also in front of quotes
        reader = csv.reader(lines, delimiter=dialect.separator, skipinitialspace=skips)
        rows = ([*map(str.strip, cells)] for cells in reader) if dialect.padded else reader
        above = [next((cells for cells in rows if cells), []) for _ in range(dialect.lines)]
        names = [*dialect.names] or above[0]
        COLUMNS.require(place, len(names))
        of_numbers = [at in dialect.numbers for at in range(len(names))]
        twice = sorted(name for name, times in Counter(filter(None, names)).items() if times > 1)
        if twice:
            below = next((cells for cells in rows if cells), [])
            hint = "" if any(cell[:1].isdigit() for cell in below) else "; of two lines of names, remove one"
            raise ConfigError(f"{place}: column {twice[0]!r} appears twice; give every column a name of its own{hint}.")
        if dialect.units is not None:
            next((cells for cells in rows if cells), None)
        few = [at for at, name in enumerate(names) if dialect.clock is None and name in (how.only or ())]
        for piece in _pieces(place, reader, rows, len(names), lines, dialect, how):
            texts = list(zip(*piece, strict=True))
            if few:
                needed = [_values(texts[at], dialect.decimal, of_numbers[at]) for at in few]
                yield from _rows([names[at] for at in few], needed)
                continue
            columns = list(map(_values, texts, itertools.repeat(dialect.decimal), of_numbers))
            if dialect.clock is None:
                yield from _rows(names, columns)
                continue
            days, hours = (map(str.strip, texts[place]) for place in dialect.clock)
            columns.append([f"{day} {hour}" if day and hour else None for day, hour in zip(days, hours, strict=True)])
            yield from _rows([*names, dialect.time], columns)


def _pieces(
    place: Place, reader: Any, rows: Iterable[list[str]], width: int, lines: _Lines, dialect: Dialect, how: How
) -> Iterator[list[list[str]]]:
    """The cells of some rows at a time, `width` in each; before damage, those of the rows before it."""
    piece, most, full = list[list[str]](), max(1, CELLS // max(1, width)), lines.read + LETTERS
    try:
        for cells in rows:
            if len(cells) != width:
                if any(cells[width:]):  # such as a decimal comma that was treated as the end of a cell
                    raise _too_many(place, dialect.first + reader.line_num, width, cells, dialect)
                if len(cells) < width and lines.broke_off:
                    broken = f"its last line breaks off after {len(cells)} of {width} cells, and is left out"
                    how.tell(str(place), broken)
                    break
                if not cells:
                    continue
                cells = [*cells[:width], *[""] * (width - len(cells))]
            piece.append(cells)
            if len(piece) == most or lines.read >= full:
                yield piece
                piece, full = [], lines.read + LETTERS
    except (ConfigError, OSError, *_DAMAGED):
        if piece:
            yield piece
        raise
    if piece:
        yield piece


def _rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[Row]:
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _too_many(place: Place, line: int, width: int, cells: Sequence[str], dialect: Dialect) -> ConfigError:
    what = f"{place} line {line}: expected {width} cells as in the first line, got {len(cells)}; "
    if dialect.separator == ",":
        return ConfigError(what + "commas separate cells, so a decimal comma must be a point.")
    return ConfigError(what + f"{dialect.separator!r} separates cells, so a text that contains it must be quoted.")


def _values(texts: Sequence[str], decimal: str, of_numbers: bool) -> list[Any]:
    """`cell_value` of each text of a column; at once where JSON would have the same numbers."""
    joined = "\n".join([text or "null" for text in texts] if of_numbers and "" in texts else texts)
    try:
        if decimal == ",":
            joined = "" if "." in joined else joined.replace(",", ".")  # points may stand between thousands
        numbers = "[" + joined.replace("\n", ",") + "]"
        found: list[Any] = (_GAPPY if of_numbers else _NUMBERS).decode(numbers)
        if len(found) == len(texts):  # no text has a separator
            return found
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    different = set(texts)
    if 2 * len(different) > len(texts):
        return list(map(cell_value, texts, itertools.repeat(decimal), itertools.repeat(of_numbers)))
    known = {text: cell_value(text, decimal, of_numbers) for text in different}  # keys and labels come row after row
    return list(map(known.__getitem__, texts))


def cell_value(text: str, decimal: str = ".", of_numbers: bool = False) -> Any:
    """of_numbers: the column has numbers, so that words such as n/a mean a missing one, and signs may separate thousands."""
    if "." not in text:
        return _without_point(text, decimal, of_numbers)
    try:
        if decimal == ".":
            return float(text)
    except ValueError:
        pass
    if of_numbers and text.strip().lower() in NOTHING:
        return None
    plain = plain_number(text.strip(), decimal) if of_numbers else text
    return float(plain) if plain != text and reads_as_number(plain) else text


@functools.lru_cache(REPEATED)
def _without_point(text: str, decimal: str, of_numbers: bool) -> Any:
    """Keys, labels and counts come row after row; an error is dear, and a text costs two."""
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text.replace(",", ".", 1) if decimal == "," else text)
    except ValueError:
        if not of_numbers or text.strip().lower() in NOTHING:
            return None if of_numbers else text
        plain = plain_number(text.strip(), decimal)
        return cell_value(plain) if plain != text and reads_as_number(plain) else text


def _parquet(place: Place, how: How) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{place}: reading Parquet needs pyarrow: {install_line('files')}.") from None
    streamed = {"pre_buffer": False, "buffer_size": PIECE}  # else all that was read stays in memory
    with place.seekable() as seekable, parquet.ParquetFile(seekable, **streamed) as file:
        COLUMNS.require(place, file.metadata.num_columns)
        for batch in file.iter_batches(batch_size=min(10_000, max(1, VALUES // max(1, file.metadata.num_columns)))):
            at_once = max(1, 16 * VALUES * batch.num_rows // max(1, batch.nbytes))  # fewer rows of lists or long texts
            for begin in range(0, batch.num_rows, at_once):
                columns = batch.slice(begin, at_once).columns
                yield from _rows(batch.schema.names, list(map(_plain_column, columns)))


def _plain_column(column: Any) -> list[Any]:
    """The values of a column of Parquet as Python's, with times as `plain_time` gives them."""
    from pyarrow import types

    of = column.type
    if not column.null_count and (types.is_integer(of) or types.is_float32(of) or types.is_float64(of)):
        values: list[Any] = column.to_numpy().tolist()  # a third of the time of to_pylist
        return values
    return list(map(plain_time, column.to_pylist()))


def plain_time(value: Any) -> Any:
    """A date as ISO 8601, and a decimal number as a float, as records write them; also in an object."""
    if isinstance(value, dict):
        return {name: plain_time(one) for name, one in value.items()}
    if isinstance(value, date):
        return value.isoformat(sep="T") if isinstance(value, datetime) else value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _npz(place: Place, how: How) -> Iterator[Row]:
    from streamjobs.recordings.arrays import arrays_of, columns_of_arrays

    with place.seekable() as seekable:
        arrays = arrays_of(seekable, place)
    columns = columns_of_arrays(arrays)
    COLUMNS.require(place, len(columns))
    n = len(next(iter(columns.values()), ()))
    for name, array in arrays.items():
        if name not in ("X", "columns") and name not in columns and array.ndim:
            how.tell(str(place), f"array {name!r} is left out: it has {len(array):,} rows, and others {n:,}")
    at_once = max(1, VALUES // max(1, sum(array[:1].size for array in columns.values())))
    for begin in range(0, n, at_once):
        lists = [array[begin : begin + at_once].tolist() for array in columns.values()]
        yield from _rows([*columns], lists)


def _json(place: Place, how: How) -> Iterator[Row]:
    with place.open() as file:
        data = file.read()
    require_few_values(place, data)
    try:
        return _objects(place, msgspec.json.decode(data), how)
    except msgspec.DecodeError:
        with suppress(msgspec.DecodeError):
            if isinstance(msgspec.json.decode(data.partition(b"\n")[0]), dict):
                raise ConfigError(f"{place}: expected {KINDS['.json']}; got an object a line: name it .jsonl.") from None
        raise


def _cbor(place: Place, how: How) -> Iterator[Row]:
    try:
        import cbor2
    except ImportError:
        raise ConfigError(f"{place}: reading CBOR needs cbor2: {install_line('files')}.") from None
    with place.open() as file:
        data = file.read()
    try:
        found = cbor2.loads(data)
    except cbor2.CBORError as error:
        raise ValueError(str(error)) from None
    return _objects(place, found, how)


def _objects(place: Place, found: Any, how: How) -> Iterator[Row]:
    """The rows of a file that was read whole."""
    if isinstance(found, dict) and isinstance(found.get("payload"), dict):
        yield from _edge_impulse(place, found, how)
        return
    if isinstance(found, list):
        COLUMNS.require(place, max((len(one) for one in found if isinstance(one, dict)), default=0))
    rows: list[Any] = found if isinstance(found, list) else [None]
    if not all(isinstance(row, dict) and all(isinstance(name, str) for name in row) for row in rows):
        raise ConfigError(
            f"{place}: expected a list of objects, as DataFrame.to_json(.., orient='records') writes it, or the Edge "
            "Impulse format with its payload; got neither."
        )
    yield from rows


def _edge_impulse(place: Place, found: Row, how: How) -> Iterator[Row]:
    """A payload with its sensors' names and a list of values every interval_ms; `time` in ms."""
    payload, protected = found["payload"], found.get("protected")
    interval, sensors, values = payload.get("interval_ms"), payload.get("sensors"), payload.get("values")
    names = [str(one.get("name")) for one in sensors if isinstance(one, dict)] if isinstance(sensors, list) else []
    if isinstance(interval, bool) or not isinstance(interval, (int, float)) or not interval > 0 or not names:
        raise ConfigError(f"{place}: expected payload.interval_ms above 0 and payload.sensors with names, got others.")
    if isinstance(values, list) and len(names) == 1:  # the inner lists may be left out
        values = [row if isinstance(row, list) else [row] for row in values]
    if not isinstance(values, list) or not all(isinstance(row, list) and len(row) == len(names) for row in values):
        raise ConfigError(
            f"{place}: expected payload.values with {len(names)} numbers each, as there are sensors; got others."
        )
    created = protected.get("iat") if isinstance(protected, dict) else None
    begin = 1000.0 * created if isinstance(created, (int, float)) and not isinstance(created, bool) and created > 0 else 0.0
    if begin:
        how.tell(
            str(place), "its times count from when the file was made (protected.iat), because the format has no other time"
        )
    device = payload.get("device_name")
    for number, row in enumerate(values):
        named = dict(zip(names, row, strict=True))
        yield {"time": begin + number * interval, **({"device_name": device} if device else {}), **named}


_READERS: dict[str, Callable[[Place, How], Iterator[Row]]] = {
    ".csv": _csv,
    ".tsv": _csv,
    **dict.fromkeys(TABLES, _csv),
    ".parquet": _parquet,
    ".npz": _npz,
    ".json": _json,
    ".cbor": _cbor,
}

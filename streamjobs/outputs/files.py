"""Records of an output topic as rows without repeats, and rows as Parquet, CSV or JSON lines, in pieces, of any number.

In Parquet and CSV a list of numbers of one length is a column for each (`z_0`, `z_1`, ...). Any other list or map is one in
Parquet and a text of JSON in CSV. JSON lines keep the records' own fields.
"""

import base64
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from streamjobs import install_line
from streamjobs.core.job import Job
from streamjobs.core.messages import LETTER_HEADERS, Output, Record
from streamjobs.core.output_records import ID, SCHEMA, schema_name
from streamjobs.errors import ConfigError, SetupError
from streamjobs.outputs.schema import JsonSchema, output_schemas
from streamjobs.settings.composition import not_sent

MOST_ROWS = 20_000  # of a group of Parquet, or a piece of text
MOST_CELLS = 1_000_000
Row = dict[str, Any]
Pieces = Callable[[Iterable[Row], dict[str, JsonSchema], dict[str, int]], Iterator[bytes]]

_encode = msgspec.json.Encoder().encode
MOST_RECENT = 200_000  # ids of a partition that are kept: more than a checkpoint repeats
ADDED = {  # columns before those of the record
    "output_id": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}
_LETTER = [name.removeprefix("streamjobs-error-") for name in LETTER_HEADERS[1:]]
_NUMBERS = ("partition", "offset", "timestamp", "attempt")  # of a letter

_decode = msgspec.json.Decoder().decode


def columns(fields: dict[str, JsonSchema], lengths: dict[str, int]) -> dict[str, JsonSchema]:
    """Columns of a table with these fields; lengths: of the lists of numbers that are a column for each number."""
    made: dict[str, JsonSchema] = dict(ADDED)
    for name, field in fields.items():
        if name in lengths:
            made |= {f"{name}_{n}": {"type": "number"} for n in range(lengths[name])}
        else:
            made[name] = field
    return made


def _cells(row: Row, lengths: dict[str, int]) -> Row:
    """A row with a cell for each number of its lists. Raises ConfigError for a list of another length."""
    made: Row = {}
    for name, value in row.items():
        if name not in lengths:
            made[name] = value
            continue
        numbers = [None] * lengths[name] if value is None else value
        if not isinstance(numbers, list) or len(numbers) != lengths[name]:
            raise ConfigError(
                f"export: the record {row['output_id']} has another number of values in {name} than the "
                f"{lengths[name]} of this job; was the topic written with other settings?"
            )
        made |= {f"{name}_{n}": number for n, number in enumerate(numbers)}
    return made


def jsonl(rows: Iterable[Row], fields: dict[str, JsonSchema], lengths: dict[str, int]) -> Iterator[bytes]:
    for some in _groups(rows, MOST_ROWS):
        yield b"".join(_encode(_plain(row)) + b"\n" for row in some)


def csv_text(rows: Iterable[Row], fields: dict[str, JsonSchema], lengths: dict[str, int]) -> Iterator[bytes]:
    """With a header; nothing for a missing value."""
    names = list(columns(fields, lengths))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for some in _groups(rows, MOST_ROWS):
        writer.writerows([_text(one) for one in _cells(_plain(row), lengths).values()] for row in some)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def parquet(rows: Iterable[Row], fields: dict[str, JsonSchema], lengths: dict[str, int]) -> Iterator[bytes]:
    """Compressed with zstd; times in UTC. Raises SetupError without pyarrow, ConfigError for a value of another type."""
    try:
        import pyarrow
        from pyarrow import parquet as files
    except ImportError:
        raise SetupError(f"export: Parquet needs the package pyarrow: {install_line('files')}.") from None
    kinds = columns(fields, lengths)
    schema = pyarrow.schema([(name, _arrow(pyarrow, kind)) for name, kind in kinds.items()])
    drain = _Drain()
    with files.ParquetWriter(pyarrow.PythonFile(drain, mode="w"), schema, compression="zstd") as writer:
        for some in _groups(rows, max(100, min(MOST_ROWS, MOST_CELLS // len(kinds)))):
            cells = [_cells(row, lengths) for row in some]
            arrays = []
            for name in kinds:
                values = [_of_kind(row[name], kinds[name]) for row in cells]
                try:
                    arrays.append(pyarrow.array(values, schema.field(name).type))
                except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, TypeError) as problem:
                    why = str(problem).splitlines()[0]
                    raise ConfigError(
                        f"export: {name} holds a value of another type than this job's ({why:.200}); was the topic written "
                        "with other settings?"
                    ) from None
            writer.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=schema))
            yield drain.taken()
    yield drain.taken()


FORMATS: dict[str, Pieces] = {".parquet": parquet, ".csv": csv_text, ".jsonl": jsonl}


class _Drain(io.RawIOBase):
    """A file that only grows; its new bytes are taken out after each write."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _groups(rows: Iterable[Row], most: int) -> Iterator[list[Row]]:
    left = iter(rows)
    while some := list(islice(left, most)):
        yield some


def _arrow(pyarrow: Any, schema: JsonSchema) -> Any:
    """The type of a field; of one with several types a text."""
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    if len(kinds) > 1:
        return pyarrow.string()
    kind = kinds[0]
    if kind.get("contentEncoding") == "bytes":
        return pyarrow.binary()
    if kind.get("format") == "date-time":
        return pyarrow.timestamp("ms", tz="UTC")
    if kind["type"] == "array":
        return pyarrow.list_(_arrow(pyarrow, kind["items"]))
    if kind["type"] == "object":
        if "properties" in kind:
            return pyarrow.struct([(name, _arrow(pyarrow, one)) for name, one in kind["properties"].items()])
        return pyarrow.map_(pyarrow.string(), _arrow(pyarrow, kind["additionalProperties"]))
    plain = {"string": pyarrow.string, "integer": pyarrow.int64, "number": pyarrow.float64, "boolean": pyarrow.bool_}
    return plain[kind["type"]]()


def _of_kind(value: Any, schema: JsonSchema) -> Any:
    """A value as Arrow takes it."""
    if isinstance(value, dict) and "properties" not in schema.get("anyOf", [schema])[0]:
        return list(value.items())  # a map
    several = len([one for one in schema.get("anyOf", ()) if one.get("type") != "null"]) > 1
    return str(value) if several and value is not None else value


def _plain(row: Row) -> Row:
    """With the time as text, and bytes as text where they are UTF-8, else in base64."""
    time = datetime.fromtimestamp(row["time"] / 1000.0, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    made = {**row, "time": time}
    for name, value in row.items():
        if isinstance(value, bytes):
            try:
                made[name] = value.decode()
            except UnicodeDecodeError:
                made[name] = "base64:" + base64.b64encode(value).decode()
    return made


def _text(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, (bool, list, dict)):
        return _encode(value).decode()
    return value


class Repeats:
    """Tells outputs that came before, by their ids. Bounded: it keeps the newest ids of each input partition and life.

    Outputs come in the order of their input's offsets, but for batches that a crash repeats. So an id with an offset below
    all that are kept is a repeat as well.
    """

    def __init__(self, source: str) -> None:
        self.count = 0
        self._place = re.compile(rf"{re.escape(source)}((?:~[0-9a-f]+)?-[0-9]+)-([0-9]+)(?:-.+)?")
        self._recent: dict[str, dict[str, int]] = {}  # by life and partition: id -> offset, oldest first
        self._floor: dict[str, int] = {}  # the largest offset of those dropped

    def seen(self, identity: str) -> bool:
        """Whether this id came before; now it has."""
        place = self._place.fullmatch(identity)
        partition, offset = (place[1], int(place[2])) if place else ("", -1)
        recent = self._recent.setdefault(partition, {})
        if identity in recent or (place and offset <= self._floor.get(partition, -1)):
            self.count += 1
            return True
        recent[identity] = offset
        if len(recent) > MOST_RECENT:
            oldest = next(iter(recent))
            self._floor[partition] = max(self._floor.get(partition, -1), recent.pop(oldest))
        return False


class Table:
    """What a sink's rows look like, and how a record becomes one."""

    def __init__(self, job: Job, sink: str) -> None:
        """Raises ConfigError where the job sends nothing there."""
        if sink not in job.sinks:
            raise ConfigError(not_sent(sink, job.sinks, "export"))
        self.sink = sink
        self.repeats = Repeats(job.settings.source.topic)
        self.count = 0
        self.others: set[str] = set()  # fields that no row has: another job's
        self.foreign = 0  # records that are not outputs
        if sink == "dlq":
            numbers = {name: {"type": "integer"} for name in _NUMBERS}
            text: JsonSchema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
            self.fields: dict[str, JsonSchema] = {
                "key": text,
                **{name: numbers.get(name, text) for name in _LETTER},
                "value": {"anyOf": [{"type": "string", "contentEncoding": "bytes"}, {"type": "null"}]},
            }
        else:
            self.fields = output_schemas(job)[sink]["properties"]

    def rows(self, records: Iterable[Output | Record]) -> Iterator[dict[str, Any]]:
        """A row for each record that did not come before. Raises ConfigError for one that this job does not send."""
        for record in records:
            headers = reversed(record.headers)  # a letter's own come before its record's
            named = {name: value or b"" for name, value in headers}
            if ID not in named:
                self.foreign += 1
                continue
            identity = named[ID].decode("utf-8", "backslashreplace")
            if self.repeats.seen(identity):
                continue
            row = (self._letter if self.sink == "dlq" else self._row)(identity, record, named)
            if row is not None:
                self.count += 1
                yield {"output_id": identity, "time": record.timestamp, **row}

    def _row(self, identity: str, record: Output | Record, named: dict[str, bytes]) -> dict[str, Any] | None:
        try:
            fields = _decode(record.value or b"")
        except msgspec.DecodeError:
            fields = None
        if not isinstance(fields, dict):
            self.foreign += 1
            return None
        stated = named.get(SCHEMA, b"").decode("utf-8", "backslashreplace")
        if stated != schema_name(self.sink):
            raise ConfigError(
                f"export: the record {identity} has the schema {stated or 'of an older release'}; this release reads "
                f"{schema_name(self.sink)}. Leave such records out with --from, or export them with their release."
            )
        if not fields.keys() <= self.fields.keys():
            self.others |= fields.keys() - self.fields.keys()
        return {name: fields.get(name) for name in self.fields}

    def _letter(self, identity: str, record: Output | Record, named: dict[str, bytes]) -> dict[str, Any] | None:
        if not named.keys() >= set(LETTER_HEADERS):
            self.foreign += 1
            return None
        row: dict[str, Any] = {"key": None if record.key is None else record.key.decode("utf-8", "backslashreplace")}
        for name in _LETTER:
            text = named[f"streamjobs-error-{name}"].decode("utf-8", "backslashreplace")
            row[name] = int(text) if name in _NUMBERS and text.lstrip("-").isdigit() else text
        return {**row, "value": record.value}

"""Tables of Python: rows of what people have (a DataFrame, columns as arrays, rows as dicts), and outputs as DataFrames.

Outputs are those of a replay in Python, of a folder that a replay wrote, or of a worker's topics.
"""

import gc
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec
import numpy as np

from streamjobs import install_line
from streamjobs.core.output_records import RECORDS
from streamjobs.errors import ConfigError, SetupError
from streamjobs.recordings.tables import Row, plain_time
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.composition import not_sent
from streamjobs.settings.times import in_format

if TYPE_CHECKING:
    import pandas

RowsOf = Callable[[str], list[Mapping[str, Any]]]  # sink -> its outputs, in order
AT_ONCE = 1000  # lines that are decoded together
LETTER = ("key", "row", "timestamp", "reason", "message", "value")
EXPECTED = "a DataFrame, a mapping of column names to arrays, or rows as dicts"


@contextmanager
def uncollected() -> Iterator[None]:
    """Make many rows without the garbage collector, which would look through all of them again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def rows_of_lines(sink: str, lines: Sequence[bytes], topic: str) -> Iterator[dict[str, Any]]:
    """Outputs as dicts: the fields of the record, and `row`, the number (from 0) of the input row that caused it."""
    for first in range(0, len(lines), AT_ONCE):
        for line in msgspec.json.decode(b"[" + b",".join(lines[first : first + AT_ONCE]) + b"]"):
            place = {"row": _row_of(line["id"], topic)}
            if sink == "dlq":
                yield {name: (line | place)[name] for name in LETTER}
            else:
                yield place | line["value"]


def _row_of(identity: str, topic: str) -> int:
    """The input's number in "imu-0-41" or "imu-0-41-1".

    >>> _row_of("imu-raw-0-41-1", "imu-raw")
    41
    """
    return int(identity[len(topic) :].split("-")[2])


def _numeric(sink: str) -> list[str]:
    """Fields that are a number or null: pandas would keep a column of nothing but nulls as objects."""
    if sink == "dlq":
        return ["row", "timestamp"]
    hints = get_type_hints(RECORDS[sink])
    kinds = {name: set(get_args(hint) or (hint,)) - {type(None), msgspec.UnsetType} for name, hint in hints.items()}
    return [name for name, options in kinds.items() if options and options <= {int, float}]


def _by_column(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row of forecasts as a row for each of them, with low_80 and high_80 of a coverage of 0.8."""
    place = {name: value for name, value in row.items() if name != "forecasts"}
    for one in row["forecasts"]:
        own = {name: value for name, value in one.items() if name not in ("intervals", "rows")}
        flat = {"due_ts" if name == "ts" else name: value for name, value in own.items()}
        for interval in one["intervals"]:
            flat |= {f"{end}_{100 * interval['coverage']:g}": interval[end] for end in ("low", "high")}
        yield place | {"ahead": one["rows"]} | flat


def _cells_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The columns of a table, NaN where a row lacks one.

    >>> _cells_of([{"a": 1}, {"a": 2, "b": "x"}, {"b": "y"}])
    {'a': [1, 2, nan], 'b': [nan, 'x', 'y']}
    """
    columns, count, left = dict[str, list[Any]](), 0, iter(rows)
    while some := list(itertools.islice(left, AT_ONCE)):
        for name in dict.fromkeys(itertools.chain.from_iterable(some)):
            columns.setdefault(name, [math.nan] * count)
        for name, column in columns.items():
            column += [row.get(name, math.nan) for row in some]
        count += len(some)
    return columns


def to_dataframe(sink: str, rows: Iterable[Mapping[str, Any]]) -> "pandas.DataFrame":
    """A DataFrame with a row per output. Raises SetupError without pandas.

    The list `z` of features becomes columns z_0, z_1, ..; `time` is `ts` as a
    date in UTC. A forecast becomes a row for each column and number of rows ahead.
    """
    try:
        import pandas
    except ImportError:
        raise SetupError(f"tables need pandas: {install_line('pandas')}, or use rows() instead") from None
    if sink == "forecasts":
        rows = (flat for row in rows for flat in _by_column(row))
    with uncollected():
        cells = _cells_of(rows)
        places = np.array(cells.pop("z", []), float)
    empty = LETTER if sink == "dlq" else ("row", *RECORDS[sink].__struct_fields__)
    table = pandas.DataFrame(cells) if cells else pandas.DataFrame(columns=[name for name in empty if name != "z"])
    for name in table.columns.intersection(_numeric(sink)):
        table[name] = pandas.to_numeric(table[name])
    if places.size:
        table = table.join(pandas.DataFrame(places, table.index).rename(columns=lambda place: f"z_{place}"))
    if "ts" in table:
        table.insert(list(table.columns).index("ts"), "time", pandas.to_datetime(table["ts"], unit="s", utc=True))
    return table


def of_folder(folder: Path, sinks: Mapping[str, str]) -> RowsOf:
    """Outputs of `<folder>/<sink>.jsonl`. Raises ConfigError for a file that is not there or is something else.

    sinks: those of the job, by name, which a replay writes.
    """

    def rows(sink: str) -> list[Mapping[str, Any]]:
        path = folder / f"{sink}.jsonl"
        if not path.is_file():
            if sink not in sinks:
                raise ConfigError(not_sent(sink, sinks, "plot"))
            raise ConfigError(f"{path}: no such file; 'streamjobs replay --output-dir {folder}' writes what the job gives.")
        try:
            return [msgspec.json.decode(line)["value"] for line in path.read_bytes().splitlines()]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise ConfigError(f'{path}: expected lines {{"key": .., "value": ..}} as replay writes them.') from None

    return rows


def of_topics(broker: BrokerSection, topics: Mapping[str, str]) -> RowsOf:
    """Outputs that a worker sent, without repeats after a crash. Raises SetupError where they cannot be read."""
    from streamjobs.kafka.reader import topic_records

    def rows(sink: str) -> list[Mapping[str, Any]]:
        if sink not in topics:
            raise ConfigError(not_sent(sink, topics, "plot"))
        found, seen = [], set()
        for record in topic_records(broker, topics[sink]):
            identity = dict(record.headers).get("streamjobs-id")  # None: not an output
            if identity is not None and identity not in seen and record.value is not None:
                seen.add(identity)
                found.append(msgspec.json.decode(record.value))
        return found

    return rows


def rows_of_table(data: Any) -> Iterator[Row]:
    """The rows as dicts of plain values: numbers, texts, lists, None; a date with a time is ISO 8601.

    data: a DataFrame (pandas, polars, or anything with `columns` and columns by name), a pyarrow table, a structured
    NumPy array, a mapping of column names to arrays (n,) or (n, k), or an iterable of dicts. NaN stays NaN: what a
    missing number means is the job's affair. Raises ConfigError for anything else, and for columns of different lengths.
    """
    columns = _columns(data)
    if columns is None:
        if isinstance(data, (str, bytes, np.ndarray)) or not isinstance(data, Iterable):
            raise ConfigError(f"expected {EXPECTED}; got {type(data).__name__}.")
        return _dicts(data)
    for name, column in columns.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise ConfigError(f"column {name!r}: expected an array with a cell for each row; got {type(column).__name__}.")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length:,}" for name, length in list(lengths.items())[:5])
        raise ConfigError(f"expected columns of one length; got {shown}.")
    lists = [_cells(column) for column in columns.values()]
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*lists, strict=True))


def with_index(data: Any, time: str) -> tuple[Any, str | None]:
    """A DataFrame of pandas with its index as columns, and the name of the column with the index's times, if it has some.

    A level with a name becomes a column of that name, times without a name become the column `time`. A Series becomes a
    DataFrame of one column. Names of columns in several levels are joined: ("oven 1", "top") is "oven 1 top".
    """
    if hasattr(data, "to_frame"):
        data = data.to_frame()
    index = getattr(data, "index", None)
    if index is None or not hasattr(data, "reset_index"):
        return data, None
    if hasattr(data.columns, "levels"):  # joined as names in two lines of CSV are; a level without a name is "" or NaN
        names = [" ".join(one for one in map(str, levels) if one not in ("", "nan")) for levels in data.columns]
        data = data.set_axis(names, axis=1)
    taken, times = dict[str, Any](), None
    for number, name in enumerate(index.names):
        level = index.get_level_values(number)
        dated = getattr(level.dtype, "kind", "") in ("M", "m") or _of_periods(level)
        column = str(name) if name is not None else time if dated else None
        if column is not None and column not in data.columns:
            taken[column] = level
            times = column if dated else times
    return (data.assign(**taken), times) if taken else (data, None)


def with_times(rows: Iterable[Row], name: str, zone: tzinfo | None, form: str) -> Iterator[Row]:
    """The rows with dates of this column in the format that the job reads."""
    for row in rows:
        value = row.get(name)
        yield {**row, name: in_format(value, zone, form)} if isinstance(value, str) else row


def _columns(data: Any) -> dict[str, Any] | None:
    """Columns by name; None for what has none."""
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    if hasattr(data, "collect") and not hasattr(data, "__len__"):  # of polars
        raise ConfigError(f"expected {EXPECTED}; got {type(data).__name__}, which has no rows yet: call its collect().")
    names = data if isinstance(data, Mapping) else getattr(data, "column_names", None)  # pyarrow: `columns` are arrays
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or not hasattr(data, "__getitem__"):
        return None
    twice = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if twice:
        raise ConfigError(f"column {twice[0]!r} appears twice; give every column a name of its own.")
    return {str(name): data[name] for name in names}


def _dicts(data: Iterable[Any]) -> Iterator[Row]:
    """Every row has the columns of the first one; what it lacks is None, as in a table."""
    rows = iter(data)
    first = next(rows, None)
    if first is None:
        return
    for number, row in enumerate(itertools.chain((first,), rows)):
        if not isinstance(row, Mapping):
            raise ConfigError(f"row {number}: expected {EXPECTED}; got {type(row).__name__}.")
        yield {str(name): plain_cell(value) for name, value in row.items()}


def _cells(column: Any) -> Sequence[Any]:
    """The cells of a column as plain values. Raises ConfigError for durations, which have no date."""
    if _of_periods(column):
        column = getattr(column, "dt", column).to_timestamp()
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", None)
    if kind == "m" or str(dtype or getattr(column, "type", "")).lower().startswith("duration"):  # polars, pyarrow
        name = getattr(column, "name", None) or "time"
        raise ConfigError(
            f"column {name!r} has durations; add the time of their start, such as pandas.Timestamp('2026-01-01')."
        )
    if kind == "M" and isinstance(dtype, np.dtype):  # to a microsecond, so that they become dates and not integers
        times = np.asarray(column).astype("datetime64[us]").tolist()
        return [None if time is None else plain_time(time) for time in times]
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(column, method):
            cells = getattr(column, method)()
            break
    else:
        cells = list(column)
    if kind in ("b", "i", "u", "f") and isinstance(dtype, np.dtype) and np.ndim(column) == 1:
        return cells  # type: ignore[no-any-return]
    return [plain_cell(cell) for cell in cells]


def _of_periods(column: Any) -> bool:
    """Whether it is of pandas' periods, which are read as their starts."""
    return type(getattr(column, "dtype", None)).__name__ == "PeriodDtype"


def plain_cell(value: Any) -> Any:
    """A value as records write it.

    >>> import numpy as np
    >>> plain_cell(np.float32(0.5)), plain_cell(np.array([1, 2])), plain_cell(np.datetime64("NaT"))
    (0.5, [1, 2], None)
    """
    if value is None or isinstance(value, (str, int, float)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        return _cells(value)
    if isinstance(value, np.datetime64):
        return _cells(value.reshape(1))[0]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain_cell(one) for one in value]
    return None if _is_missing(value) else plain_time(value)


def _is_missing(value: Any) -> bool:
    """Whether it is pandas' NA or NaT: NA has no truth value, NaT does not equal itself."""
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"

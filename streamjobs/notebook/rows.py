"""Rows of what people have in Python: a DataFrame, columns as arrays, or rows as dicts; cells become plain values."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

import numpy as np

from streamjobs.errors import ConfigError
from streamjobs.recordings.tables import Row, plain_time
from streamjobs.settings.times import in_format

EXPECTED = "a DataFrame, a mapping of column names to arrays, or rows as dicts"


def rows_of_table(data: Any) -> Iterator[Row]:
    """The rows as dicts of plain values: numbers, texts, lists, None; a date with a time is ISO 8601.

    data: a DataFrame (pandas, polars, or anything with `columns` and columns by name), a pyarrow table, a structured
    NumPy array, a mapping of column names to arrays (n,) or (n, k), or an iterable of dicts. NaN stays NaN: what a
    missing number means is the job's affair. Raises ConfigError for anything else, and for columns of different lengths.
    """
    columns = _columns(data)
    if columns is None:
        if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
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
    DataFrame of one column.
    """
    if hasattr(data, "to_frame"):
        data = data.to_frame()
    index = getattr(data, "index", None)
    if index is None or not hasattr(data, "reset_index"):
        return data, None
    names: list[str | None] = []
    times: str | None = None
    levels = [index.get_level_values(number) for number in range(index.nlevels)]
    for name, level in zip(index.names, levels, strict=True):
        dated = getattr(level.dtype, "kind", "") in ("M", "m") or _of_periods(level)
        column = str(name) if name is not None else time if dated else None
        if column is None or column in data.columns:
            names.append(None)
            continue
        names.append(column)
        times = column if dated else times
    taken = {name: level for name, level in zip(names, levels, strict=True) if name is not None}
    return (data.assign(**taken), times) if taken else (data, None)


def with_times(rows: Iterable[Row], name: str, zone: tzinfo | None, form: str) -> Iterator[Row]:
    """The rows with dates of this column in the format that the job reads."""
    for row in rows:
        value = row.get(name)
        yield {**row, name: in_format(value, zone, form)} if isinstance(value, str) else row


def _columns(data: Any) -> dict[str, Any] | None:
    """Columns by name; None for what has none."""
    if isinstance(data, Mapping):
        return {str(name): column for name, column in data.items()}
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    if hasattr(data, "collect") and not hasattr(data, "__len__"):  # of polars
        raise ConfigError(f"expected {EXPECTED}; got {type(data).__name__}, which has no rows yet: call its collect().")
    names = getattr(data, "column_names", None)  # pyarrow: its `columns` are the arrays
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or not hasattr(data, "__getitem__"):
        return None
    twice = [str(name) for name in names if sum(other == name for other in names) > 1]
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

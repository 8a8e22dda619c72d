"""Outputs as rows and as DataFrames: of a replay in Python, of a folder that a replay wrote, or of a worker's topics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from streamjobs import install_line
from streamjobs.core.output_records import RECORDS
from streamjobs.errors import ConfigError, SetupError
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.composition import not_sent

if TYPE_CHECKING:
    import pandas

RowsOf = Callable[[str], list[Mapping[str, Any]]]  # sink -> its outputs, in order
LETTER = ("key", "row", "timestamp", "reason", "message", "value")


def rows_of_lines(sink: str, lines: Sequence[bytes], topic: str) -> list[dict[str, Any]]:
    """Outputs as dicts: the fields of the record, and `row`, the number (from 0) of the input row that caused it."""
    rows = []
    for line in msgspec.json.decode(b"[" + b",".join(lines) + b"]"):
        place = {"row": _row_of(line["id"], topic)}
        if sink == "dlq":
            rows.append({name: (line | place)[name] for name in LETTER})
        else:
            rows.append(place | line["value"])
    return rows


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
        bounds = {
            f"{end}_{100 * interval['coverage']:g}": interval[end]
            for interval in one["intervals"]
            for end in ("low", "high")
        }
        more = {
            ("due_ts" if name == "ts" else name): value for name, value in one.items() if name not in ("intervals", "rows")
        }
        yield place | {"ahead": one["rows"]} | more | bounds


def to_dataframe(sink: str, rows: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    """A DataFrame with a row per output. Raises SetupError without pandas.

    The list `z` of features becomes columns z_0, z_1, ..; `time` is `ts` as a
    date in UTC. A forecast becomes a row for each column and number of rows ahead.
    """
    try:
        import pandas
    except ImportError:
        raise SetupError(f"tables need pandas: {install_line('pandas')}, or use rows() instead") from None
    if sink == "forecasts":
        rows = [flat for row in rows for flat in _by_column(row)]
    empty = list(LETTER) if sink == "dlq" else ["row", *RECORDS[sink].__struct_fields__]
    table = pandas.DataFrame(list(rows)) if rows else pandas.DataFrame(columns=empty)
    if sink == "features":
        places = pandas.DataFrame(table.pop("z").tolist(), index=table.index, dtype=float)
        table = table.join(places.rename(columns=lambda place: f"z_{place}"))
    for name in table.columns.intersection(_numeric(sink)):
        table[name] = pandas.to_numeric(table[name])
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

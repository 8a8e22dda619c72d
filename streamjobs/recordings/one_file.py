"""A recording of several sensors in one file, as Sensor Logger exports it besides a folder: JSON or SQLite.

Layout: github.com/tszheichoi/awesome-sensor-logger, README.md, "JSON" (a list of objects, each with `sensor` and its values
as texts, sensor by sensor) and "SQLite" (a table for each sensor). Texts are read as cells of CSV are.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from streamjobs.errors import ConfigError
from streamjobs.recordings.limits import require_few_values
from streamjobs.recordings.places import Place
from streamjobs.recordings.tables import Row, cell_value, unreadable

SENSOR = "sensor"  # field of an object with the name of its sensor
DATABASE = ".sqlite"
_HEAD = 4096  # bytes that tell what a JSON file is
_OBJECT = re.compile(rb'^\xef?\xbb?\xbf?\s*\[\s*\{\s*"sensor"\s*:\s*"')
_READ_ONLY = ("PRAGMA query_only = ON", "PRAGMA trusted_schema = OFF")


class Part(NamedTuple):
    """What one sensor measured."""

    name: str  # of the sensor, as the export calls it
    file: str  # below the export, in which a tool's export as a folder has it
    where: str  # for messages
    rows: Callable[[], Iterator[Row]]


def holds_sensors(place: Place) -> bool:
    """Whether a file is such a recording. Raises ConfigError for a database that cannot be read, or holds something else."""
    if place.kind == DATABASE:
        with closing(_connected(place)) as database:
            if not any("time" in _columns(database, table, place) for table in _tables(database, place)):
                raise ConfigError(f"{place}: expected a table with the column 'time' for each sensor; got none.")
        return True
    if place.kind != ".json":
        return False
    try:
        with place.open() as file:
            return _OBJECT.match(file.read(_HEAD)) is not None
    except (OSError, EOFError, ValueError, RuntimeError):
        return False  # who reads the file says what is wrong


def parts_of_file(place: Place) -> list[Part]:
    """The sensors of such a recording, in the order they stand in. Raises ConfigError where it is damaged."""
    if place.kind == DATABASE:
        with closing(_connected(place)) as database:
            return [
                Part(name, f"{name}.csv", f"{place}, table {name}", _reading(place, name))
                for name in _tables(database, place)
            ]
    return [
        Part(name, f"{name}.csv", f"{place}, sensor {name}", lambda rows=rows: iter(rows))  # type: ignore[misc]
        for name, rows in _by_sensor(place).items()
    ]


def _by_sensor(place: Place) -> Mapping[str, list[Row]]:
    try:
        with place.open() as file:
            data = file.read()
        require_few_values(place, data)
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=list[dict[str, Any]])
    except (OSError, msgspec.MsgspecError, ValueError, EOFError, RecursionError) as error:
        raise unreadable(place, error) from None
    sensors: dict[str, list[Row]] = {}
    for number, one in enumerate(found, 1):
        name = one.pop(SENSOR, None)
        if not isinstance(name, str):
            raise ConfigError(f"{place} object {number}: expected the name of its sensor in {SENSOR!r}, got {name!r:.40}.")
        sensors.setdefault(name, []).append({column: _plain(value) for column, value in one.items()})
    return sensors


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return cell_value(value)
    return value if value is None or isinstance(value, (int, float)) else str(value)


def _connected(place: Place) -> sqlite3.Connection:
    """The database, to be read alone. Raises ConfigError where it cannot be opened."""
    database = None
    try:
        if place.member is None and place.path.name == place.file and not place.file.lower().endswith(".gz"):
            database = sqlite3.connect(f"{place.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        else:
            with place.open() as file:
                data = file.read()
            database = sqlite3.connect(":memory:")
            database.deserialize(data)
        database.text_factory = lambda text: text.decode(errors="replace")
        for line in _READ_ONLY:
            database.execute(line)
    except (sqlite3.Error, OSError, EOFError, ValueError) as error:
        if database is not None:
            database.close()
        raise unreadable(place, error) from None
    return database


def _tables(database: sqlite3.Connection, place: Place) -> list[str]:
    asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    return [str(name) for (name,) in _asked(database, asked, place)]


def _columns(database: sqlite3.Connection, table: str, place: Place) -> list[str]:
    return [str(column[1]) for column in _asked(database, f"PRAGMA table_info({_quoted(table)})", place)]


def _reading(place: Place, table: str) -> Callable[[], Iterator[Row]]:
    def rows() -> Iterator[Row]:
        with closing(_connected(place)) as database:
            names = _columns(database, table, place)
            for values in _asked(database, f"SELECT * FROM {_quoted(table)}", place):
                yield dict(zip(names, map(_plain, values), strict=False))

    return rows


def _asked(database: sqlite3.Connection, words: str, place: Place) -> Iterator[Any]:
    try:
        yield from database.execute(words)
    except (sqlite3.Error, ValueError, OverflowError, MemoryError) as error:
        raise unreadable(place, error) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

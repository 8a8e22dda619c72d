"""A recording that a tool exported with several sensors, a file for each or all in one file: read as one table.

What the tools' exports look like is data: the presets. Sensor Logger also exports one file, JSON or SQLite. Layout:
github.com/tszheichoi/awesome-sensor-logger, README.md, "JSON" (a list of objects, each with `sensor` and its values as
texts, sensor by sensor) and "SQLite" (a table for each sensor). Texts are read as cells of CSV are.
"""

import bisect
import math
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import msgspec

from streamjobs.errors import ConfigError
from streamjobs.recordings.merging import SECOND, Merged, Sample, Track, merge
from streamjobs.recordings.places import Place, require_few_values
from streamjobs.recordings.tables import HOW, How, Row, cell_value, rows_of_file, unreadable
from streamjobs.settings.presets import NAMES, Export, Preset, preset_of
from streamjobs.settings.types import TIME_UNITS, many

LARGEST_TIME = 1e30  # beyond all times, in any unit
TIME = "time"  # column of the merged rows, in the unit of the preset
TABLES = (".csv", ".tsv")
TOGETHER = "sensorlogger"  # the tool with known exports in one file
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


class Sensor(NamedTuple):
    """What one sensor of an export measured."""

    name: str
    part: Part
    columns: dict[str, str]  # of the merged rows: column of the sensor


class Exported(NamedTuple):
    """One recording: each sensor has a file, or all are in one file."""

    preset: Preset
    folder: tuple[str, ...]
    files: tuple[Place, ...]
    together: bool = False  # in the only file

    @property
    def export(self) -> Export:
        assert self.preset.export is not None
        return self.preset.export

    def __str__(self) -> str:
        first = self.files[0]
        if self.together:
            return str(first)
        return str(first)[: -len("/".join(first.parts[len(self.folder) :])) - 1]


def exported(folder: tuple[str, ...], files: Sequence[Place]) -> Exported | None:
    """The export that a folder is, with what is below it; None where no tool's marks are there."""
    named = {"/".join(place.parts[len(folder) :]).lower() for place in files}
    for name in NAMES:
        preset = preset_of(name)
        if preset.export is not None and any(mark.lower() in named for mark in preset.export.marks):
            return Exported(preset, folder, tuple(files))
    return None


def exported_file(place: Place) -> Exported | None:
    """The export that a single file is; None where it is none. Raises ConfigError for a database of something else."""
    return Exported(preset_of(TOGETHER), place.folder, (place,), together=True) if holds_sensors(place) else None


def _parts(recording: Exported, how: How) -> list[Part]:
    if recording.together:
        return parts_of_file(recording.files[0])
    return [
        Part(place.stem, "/".join(place.parts[len(recording.folder) :]), str(place), partial(rows_of_file, place, how))
        for place in recording.files
        if place.kind in TABLES
    ]


def sensors_of(recording: Exported, how: How = HOW) -> list[Sensor]:
    """What has samples, in the order of the files, or as they stand in the file. Raises ConfigError where there is none."""
    export, sensors, names = recording.export, list[Sensor](), set[str]()
    beside = {name.lower() for name in (*export.aside, *([export.events["file"]] if export.events else ()))}
    for part in _parts(recording, how):
        if part.file.lower() in beside:
            continue
        first = next(part.rows(), None)
        if first is None or export.time not in first:
            continue
        own = [name for name in first if name and name != export.time and name not in export.drop]
        prefix = part.name.lower() + "_" if export.prefix else ""
        columns = {prefix + name if prefix + name not in names else f"{part.name} {name}": name for name in own}
        names |= columns.keys()
        sensors.append(Sensor(part.name, part, columns))
    if not sensors:
        each = "samples" if recording.together else "a file"
        raise ConfigError(
            f"{recording}: expected {each} with the column {export.time!r} for each sensor, as {recording.preset.tool} "
            "exports."
        )
    return sensors


def columns_of_export(recording: Exported, how: How = HOW) -> list[str]:
    """All columns that its merged rows can have."""
    events = [recording.export.events["name"]] if recording.export.events else []
    return [TIME, *(name for sensor in sensors_of(recording, how) for name in sensor.columns), *events]


def rows_of_export(recording: Exported, how: How = HOW, wanted: Sequence[str] | None = None) -> Iterator[Row]:
    """Its sensors merged by time to `how.rate`, absent: the rate of the fastest of them.

    wanted: columns; sensors that have none of them are not read (None: all sensors that are at least half as fast).
    """
    tracks = tracks_of(recording, how, wanted)
    where, fastest = str(recording), max((track.rate or 0.0 for track in tracks), default=0.0)
    if wanted is None:
        slow = [track.name for track in tracks if (track.rate or 0.0) < fastest / 2]
        tracks = [track for track in tracks if track.name not in slow]
        if slow:
            how.tell(where, f"left out, because they are slower than half of the fastest: {', '.join(slow)}")
    if not tracks:
        return
    rate = how.rate or (float(f"{fastest:.2g}") if fastest else 1.0)
    listed = ", ".join(f"{track.name} {track.rate:.3g} Hz" if track.rate else track.name for track in tracks)
    first, *others = tracks
    read = f"{listed}, merged by time to {rate:g} Hz" if others else f"{first.name} alone, at its own times"
    how.tell(where, f"read as an export of {recording.preset.tool}: {read}")
    text_at, seams, unit = _events(recording, how), Merged(), TIME_UNITS[recording.preset.source.get("time_unit", "s")]
    for time, row in merge(tracks, rate, seams) if others else first.alone():
        yield {TIME: time if unit == SECOND else time / SECOND * unit, **row, **text_at(time)}
    if seams.late > 2 / rate:
        how.tell(where, f"the last sensor begins {seams.late:.3g} s after the first; rows begin with it")
    for track in tracks:
        if track.empty:
            how.tell(where, f"{track.name} pauses: {track.empty:,} of {seams.rows:,} rows have no values of it")
        if track.back:
            how.tell(where, f"{track.name}: {many(track.back, 'sample')} not later than the one before, left out")
    if seams.gaps:
        how.tell(where, f"all sensors pause together for {seams.gaps / rate:.3g} s, without rows in between")


def tracks_of(recording: Exported, how: How = HOW, wanted: Sequence[str] | None = None) -> list[Track]:
    """The sensors that have a wanted column (None: all) and samples."""
    since, tracks = _clock(recording, how), []
    for sensor in sensors_of(recording, how):
        columns = {name: own for name, own in sensor.columns.items() if wanted is None or name in wanted}
        if not columns:
            continue
        track = Track(sensor.name, list(columns), _samples(recording, sensor, list(columns.values()), since))
        if track.begin():
            tracks.append(track)
    return tracks


def _samples(recording: Exported, sensor: Sensor, own: Sequence[str], since: Callable[[float], float]) -> Iterator[Sample]:
    export, scale = recording.export, SECOND // int(TIME_UNITS[recording.export.time_unit])
    for number, row in enumerate(sensor.part.rows(), 1):
        time = row.get(export.time)
        if isinstance(time, bool) or not isinstance(time, (int, float)) or not abs(time) < LARGEST_TIME:  # NaN is not
            raise ConfigError(
                f"{sensor.part.where} row {number}: expected a number in the column {export.time!r}, got "
                f"{'nothing' if time is None else repr(time)[:40]}."
            )
        moment = time * scale if isinstance(time, int) and export.clock is None else round(since(time) * scale)
        yield Sample(moment, [_number(row.get(name)) for name in own])


def _number(value: Any) -> Any:
    """The value, None for NaN: phyphox writes it where it has none."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _clock(recording: Exported, how: How) -> Callable[[float], float]:
    """Times of a recording that count from its start as times since 1970; as they are where no file says when it began."""
    name = recording.export.clock
    if name is None:
        return lambda time: time
    place = next((p for p in recording.files if "/".join(p.parts[len(recording.folder) :]).lower() == name), None)
    events = [row for row in rows_of_file(place, how) if row.get("event") == "START"] if place is not None else []
    starts: list[tuple[Any, Any]] = [(row.get("experiment time"), row.get("system time")) for row in events]
    known = [one for one in starts if all(isinstance(time, (int, float)) and abs(time) < LARGEST_TIME for time in one)]
    if not known:
        how.tell(str(recording), f"its times count from 0, because it has no {name} with its start")
        return lambda time: time
    begins, offsets = [begin for begin, _ in known], [system - begin for begin, system in known]
    return lambda time: time + offsets[max(0, bisect.bisect_right(begins, time) - 1)]


def _events(recording: Exported, how: How) -> Callable[[int], Mapping[str, Any]]:
    """The newest text at a time in ns, as a column; nothing where the export has none."""
    events = recording.export.events
    file = "" if events is None else events["file"].lower()
    part = next((part for part in _parts(recording, how) if part.file.lower().rpartition("/")[2] == file), None)
    if events is None or part is None:
        return lambda time: {}
    scale = SECOND // int(TIME_UNITS[recording.export.time_unit])
    annotations = sorted(
        (row[recording.export.time] * scale, str(row[events["column"]]))
        for row in part.rows()
        if isinstance(row.get(recording.export.time), (int, float)) and row.get(events["column"]) is not None
    )
    if not annotations:
        return lambda time: {}
    times, texts, name = [time for time, _ in annotations], [text for _, text in annotations], events["name"]
    how.tell(str(recording), f"{len(annotations)} annotations of {part.file}: each is valid from its time on, as {name!r}")

    def newest(time: int) -> Mapping[str, Any]:
        number = bisect.bisect_right(times, time)
        return {name: texts[number - 1] if number else None}

    return newest

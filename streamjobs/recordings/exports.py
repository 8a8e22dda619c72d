"""A recording that a tool exported with several sensors, a file for each or all in one file: read as one table.

What the tools' exports look like is data: the presets.
"""

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.recordings.merging import SECOND, Merged, Sample, Track, merge
from streamjobs.recordings.one_file import Part, holds_sensors, parts_of_file
from streamjobs.recordings.places import Place
from streamjobs.recordings.tables import HOW, How, Row, rows_of_file
from streamjobs.settings.presets import NAMES, Export, Preset, preset_of
from streamjobs.settings.types import TIME_UNITS, many

LARGEST_TIME = 1e30  # beyond all times, in any unit
TIME = "time"  # column of the merged rows, in the unit of the preset
TABLES = (".csv", ".tsv")
TOGETHER = "sensorlogger"  # the tool with known exports in one file


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
    starts = [] if place is None else [row for row in rows_of_file(place, how) if _is_start(row)]
    if not starts:
        how.tell(str(recording), f"its times count from 0, because it has no {name} with its start")
        return lambda time: time
    begins = [row["experiment time"] for row in starts]
    offsets = [row["system time"] - row["experiment time"] for row in starts]
    return lambda time: time + offsets[max(0, bisect.bisect_right(begins, time) - 1)]


def _is_start(row: Row) -> bool:
    numbers = (row.get("experiment time"), row.get("system time"))
    return row.get("event") == "START" and all(
        isinstance(number, (int, float)) and abs(number) < LARGEST_TIME for number in numbers
    )


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

"""Reads recordings as records in the job's own format, for `replay`, `produce`, `check --sample`, `fit` and `init`.

A recording is a table with a row per sample: a file, or the files that a tool wrote for its sensors, merged by time. A
folder or a zip archive holds many. Rows keep the file's order.
"""

import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from streamjobs.core.decoding.keys import key_bytes
from streamjobs.core.messages import Headers, PlainRow, Stored
from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import absent
from streamjobs.recordings.encoding import UNENCODABLE, LocalTimes, encoder, no_time, stamping
from streamjobs.recordings.exports import Exported, columns_of_export, exported, exported_file, rows_of_export
from streamjobs.recordings.places import KINDS, TABLES, Place, places
from streamjobs.recordings.tables import HOW, LINES, How, Row, has_columns, lines_of_file, rows_of_file
from streamjobs.settings.paths import ABSENT, column_path
from streamjobs.settings.presets import preset_of
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import AUTO, TIME_UNITS

SECONDS = {unit: 1 / per_second for unit, per_second in TIME_UNITS.items()}  # of each unit
MOST_AHEAD = 1000  # lines before the first JSON object
TABLE = "the table"  # how messages name rows at hand
MOST_APART = 200  # recordings that are read at once
BETWEEN = 3_600_000  # ms between recordings without times
MOST_NAMED = 5  # files that are named as left out


class Recording(NamedTuple):
    """One table: a file, an export of several sensors, or rows at hand, such as those of a DataFrame."""

    parts: tuple[str, ...]  # folders and name, below what the user named
    of: Place | Exported | None
    given: Iterable[Row] = ()  # where `of` is None

    def __str__(self) -> str:
        return TABLE if self.of is None else str(self.of)

    @property
    def name(self) -> str:
        """Of the file, without endings; of an export its folder."""
        return self.of.stem if isinstance(self.of, Place) else self.parts[-1]

    @property
    def folder(self) -> str:
        return self.parts[-2] if len(self.parts) > 1 else ""

    @property
    def named(self) -> Row:
        """The columns that folders stand for, with their values: activity=walk."""
        folders = self.parts if isinstance(self.of, Exported) else self.of.folder if self.of is not None else ()
        pairs = ((unquote(name), value) for name, equals, value in (part.partition("=") for part in folders) if equals)
        return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for name, value in pairs}

    def rows(self, how: How = HOW, wanted: Sequence[str] | None = None) -> Iterator[Row]:
        """wanted: columns; of an export, sensors without one of them are not read."""
        if self.of is None:
            return iter(self.given)
        strip = () if how.preset is None or isinstance(self.of, Exported) else preset_of(how.preset).strip
        if strip or isinstance(self.of, Exported):
            how = dataclasses.replace(how, only=None)  # in its files columns have other names
        rows = rows_of_export(self.of, how, wanted) if isinstance(self.of, Exported) else rows_of_file(self.of, how)
        if named := self.named:
            rows = ({**row, **named} for row in rows)
        return rows if not strip else map(lambda row: _stripped(row, strip), rows)


def named(recording: Recording, key_from: str | None) -> str:
    """What has the name of the recording's key. key_from: file or folder."""
    return recording.folder if key_from == "folder" else recording.name


def _stripped(row: Row, strip: Sequence[str]) -> Row:
    """The row with columns that lack what a tool puts before their names."""
    return {next((name[len(one) :] for one in strip if name.startswith(one)), name): value for name, value in row.items()}


def recordings_of(path: Path, how: How = HOW) -> list[Recording]:
    """The recordings of a file, a folder or a zip archive, in the natural order of their names.

    Raises ConfigError where there is none.
    """
    files = places(path)
    if len(files) == 1 and not path.is_dir() and files[0].path == path and files[0].member is None:
        return [_of_file(files[0], (path.absolute().parent.name, files[0].file))]
    exports = _exports(files)
    recordings: list[Recording] = []
    aside: list[Place] = []
    for place in files:
        folder = next((place.folder[:n] for n in range(len(place.folder), -1, -1) if place.folder[:n] in exports), None)
        if folder is not None:
            if (export := exports[folder]) is not None and not any(one.of is export for one in recordings):
                recordings.append(Recording(folder, export))
        elif place.kind in KINDS and place.kind not in TABLES:
            recordings.append(_of_file(place, place.parts))
        else:
            aside.append(place)
    if not recordings:
        recordings = [Recording(one.parts, one) for one in aside if one.kind in TABLES and has_columns(one, how)]
        aside = [one for one in aside if all(one is not table.of for table in recordings)]
    if not recordings:
        what = "folder" if path.is_dir() else "archive"
        raise ConfigError(f"{path}: expected recordings in this {what}, files that end in {', '.join(KINDS)}; got none.")
    if aside:
        named = ", ".join("/".join(place.parts[1:]) for place in aside[:MOST_NAMED])
        how.tell(str(path), f"no recordings, left out: {named}" + (" ..." if len(aside) > MOST_NAMED else ""))
    return recordings


def _of_file(place: Place, parts: tuple[str, ...]) -> Recording:
    """A file, which a tool may have exported with several sensors in it."""
    export = exported_file(place)
    return Recording(parts, place) if export is None else Recording((*parts[:-1], place.stem), export)


def _exports(files: Sequence[Place]) -> dict[tuple[str, ...], Exported | None]:
    """The folders that a tool exported, from the outermost; each with all that is below it."""
    folders: dict[tuple[str, ...], list[Place]] = {}
    for place in files:
        for n in range(len(place.folder) + 1):
            folders.setdefault(place.folder[:n], []).append(place)
    exports: dict[tuple[str, ...], Exported | None] = {}
    for folder in sorted(folders, key=len):
        if not any(folder[:n] in exports for n in range(len(folder))) and (export := exported(folder, folders[folder])):
            exports[folder] = export
    return exports


def rows_of(path: Path, how: How = HOW, wanted: Sequence[str] | None = None) -> Iterator[Row]:
    """The rows of all recordings of a file, folder or archive; values are Python numbers, texts, lists or None.

    wanted: columns that are needed, None for all. Raises ConfigError for what is missing or damaged, no recording, or could
    be read in two ways.
    """
    return itertools.chain.from_iterable(one.rows(how, wanted) for one in recordings_of(path, how))


def records_of(
    path: Path,
    source: SourceSection,
    key: str | None,
    time: str | None = None,
    side: str | None = None,
    recording: str | None = None,
    how: How = HOW,
    by_file: bool = False,
) -> Generator[Stored, None, None]:
    """The rows of a file, a folder or an archive as records of one partition, in order; the offset is the row's number.

    key: column with the key, or a path to it, as others; None: as `how` says, or [source] key. time: column with the
    record's timestamp, in the job's time unit or ISO 8601; ConfigError is raised at the first row where it holds none (None:
    the job's event time; without one the rows of a recording come at [window] rate, or 1 ms apart). side: column that says
    how the sensor is worn, if the job mirrors. recording: column with the value that is appended to the key, after a NUL;
    by_file: the recording's own name is. For a JSON job, lines of JSON stay as they are; all others are encoded in the job's
    format, or in JSON where that has schemas, without envelope and compression. The first row is read at once, so
    that a missing column raises ConfigError here.
    """
    how = dataclasses.replace(how, preset=how.preset or source.preset)
    tables = recordings_of(path, how)
    each = (_Records(table, source, key, time, side, how, recording, by_file) for table in tables)
    first = next(each)
    if how.start is not None and len(tables) > 1 and how.key_from is None and recording is None and not by_file:
        how.tell(
            str(path),
            f"--start: all {len(tables):,} recordings begin then, so samples of one key have the same times; "
            "--key-from file gives each recording a key of its own",
        )

    if first.timeless:
        how.tell(str(path), f"no times: its rows come {how.rate:g} times a second, as [window] rate says")

    def stored() -> Generator[Stored, None, None]:
        offset, last = 0, -BETWEEN
        for records in itertools.chain((first,), each):
            for record in records.stored(offset, last + BETWEEN):
                yield record
                offset, last = record.offset + 1, record.timestamp

    return stored()


def records_apart(
    path: Path, source: SourceSection, key: str | None, time: str | None, side: str | None, how: How
) -> list[Iterator[Stored]]:
    """As `records_of`, each recording by itself. Raises ConfigError for more than MOST_APART, which are open at once."""
    how = dataclasses.replace(how, preset=how.preset or source.preset)
    tables = recordings_of(path, how)
    if len(tables) > MOST_APART:
        raise ConfigError(
            f"{path}: at most {MOST_APART} recordings can be sent at once; got {len(tables):,}. Leave out --speed."
        )
    return [_Records(table, source, key, time, side, how).stored(0) for table in tables]


def records_of_rows(
    rows: Iterable[Row],
    source: SourceSection,
    key: str | None,
    time: str | None = None,
    side: str | None = None,
    how: How = HOW,
) -> Iterator[Stored]:
    """As `records_of`, of rows at hand. The first one is read at once."""
    return _Records(Recording(("table",), None, rows), source, key, time, side, how).stored(0)


class _Records:
    """One recording as records; its first row, and damaged lines before it, are read when it is made."""

    def __init__(
        self,
        recording: Recording,
        source: SourceSection,
        key: str | None,
        time: str | None,
        side: str | None,
        how: How,
        apart: str | None = None,
        by_file: bool = False,
    ) -> None:
        """apart: as `recording` of `records_of`."""
        self.as_record: Callable[[Any], Stored] = partial(tuple.__new__, PlainRow if source.wrapped else Stored)
        source = source.unwrapped if source.wrapped else source
        self.recording, self.source, self.side = recording, source, side
        key, time = key or how.key, time or how.time
        self.stamped, self.time = time is not None, time or source.record_time
        self.apart = apart
        key = _key_column(str(recording), source, key, how)
        of, wanted = recording.of, None
        if how.start is not None and source.time_unit == AUTO:
            raise ConfigError("--start needs [source] time_unit, because times that count from 0 do not show their unit.")
        if isinstance(of, Exported):
            if source.sensors is not None:
                raise ConfigError(
                    f"{of}: its sensors are merged to rows, but a job with [source.sensors] reads a record for each sensor. "
                    f"Use a job with preset = {of.preset.name!r} and without [source.sensors]."
                )
            wanted = [*source.record_fields, *filter(None, (source.label, side, key, apart, self.time))]
            _require_sensors(of, source.record_fields, how)
        lines = isinstance(of, Place) and of.kind in LINES and source.format == "json" and how.start is None
        lines = lines and not recording.named
        if lines and isinstance(of, Place):
            self.rows: Iterator[tuple[bytes | None, Row]] = lines_of_file(of, how)
        else:
            rows = recording.rows(how, wanted)
            if (start := how.start) is not None:
                rows = (self._from_start(row, start) for row in rows)
            self.rows = zip(itertools.repeat(None), rows)
        self.ahead = list[tuple[bytes | None, Row]]()
        for one in itertools.islice(self.rows, MOST_AHEAD):
            self.ahead.append(one)
            if one[1]:
                break
        if self.ahead:
            columns = (("key", key), ("time", self.time), ("recording", apart))
            _require_columns(str(recording), self.ahead[-1][1], columns)
        self.key_of, self.time_of, self.apart_of = map(_getter, (key, self.time, apart))
        self.unread, self.tell, self.local = how.unread, how.tell, LocalTimes(source)
        self.timeless, self.rate = how.rate is not None and self.time is None, how.rate or 1000.0
        self.as_key, self.stamp_of = _key if source.key is None else key_bytes, stamping(source)
        if how.key_is is not None or how.key_from is not None:
            text = how.key_is if how.key_is is not None else named(recording, how.key_from)
            self.key_of = lambda row: text
        first = self.key_of(self.ahead[-1][1]) if self.ahead and source.key is None else None
        if isinstance(first, float) and first.is_integer():  # as pandas has integers where one is missing
            why = f"a producer of integers sends {first:.0f}; use a column of integers or texts for the same keys"
            how.tell(str(recording), f"{key!r} has whole numbers as floats, so keys are such as {first!r}: {why}")
        if by_file:
            self.apart, self.apart_of = "", lambda row: recording.name

    def _from_start(self, row: Row, start: float) -> Row:
        """The row with its time counted from 1970, where it counts from a start."""
        if self.time is None or not isinstance(time := row.get(self.time), (int, float)):
            return row
        try:
            return row | {self.time: time + start * TIME_UNITS[self.source.time_unit]}
        except OverflowError:  # an integer of hundreds of digits: reported as any other time that cannot be
            return row

    def stored(self, begin: int, since: int = 0) -> Iterator[Stored]:
        """begin: offset of the first record; since: its timestamp, if rows without times come at [window] rate."""
        try:
            yield from self._stored(begin, since)
        finally:  # also where not all rows are read
            for sentence in self.local.sentences():
                self.tell(str(self.recording), sentence)

    def _stored(self, begin: int, since: int) -> Iterator[Stored]:
        source, unread, encode = self.source, self.unread, encoder(self.source, self.side)
        for number, (text, row) in enumerate(itertools.chain(self.ahead, self.rows)):
            value, headers = (text, ()) if text is not None else self._encoded(encode, number, self._label_alone(row))
            moment, offset = self.time_of(row), begin + number
            stamp = self.stamp_of(moment) if not self.timeless else since + round(1000.0 * number / self.rate)
            if stamp is not None and self.local.zone is not None:
                self.local.add(moment, stamp)
            if stamp is None and self.stamped and row:  # a broken line is reported as broken
                raise ConfigError(no_time(str(self.recording), number, self.time, moment, source))
            record_key = self.as_key(self.key_of(row))
            if self.apart is not None and record_key is not None:
                record_key += b"\0" + (_key(self.apart_of(row)) or b"")
            if stamp is None:
                stamp = offset if unread is None else unread
            elif stamp == 0 and not self.timeless:
                stamp = 1  # ms: to a broker's client 0 is the present
            yield self.as_record((source.topic, 0, offset, stamp, record_key, value, headers))

    def _label_alone(self, row: Row) -> Row:
        """The row; one of a table with a label and no numbers loses their columns, as the record of a late label."""
        fields, label = self.source.fields, self.source.label
        if not fields or self.source.missing != "dlq" or label is None or absent(row.get(label)):
            return row
        if not all(absent(row.get(name)) for name in fields):
            return row
        return {name: value for name, value in row.items() if name not in fields}

    def _encoded(self, encode: Any, number: int, row: Row) -> tuple[bytes, Headers]:
        try:
            encoded: tuple[bytes, Headers] = encode(row)
        except UNENCODABLE as error:
            what = "numbers only, for a raw record" if self.source.format == "raw" else "numbers, texts, lists and objects"
            raise ConfigError(f"{self.recording} row {number + 1}: expected {what}; {error!s:.200}.") from None
        return encoded


def _require_sensors(one: Exported, fields: Sequence[str], how: How) -> None:
    """Raises ConfigError where an export lacks one of the fields."""
    there = columns_of_export(one, how)
    missing = [name for name in fields if name not in there]
    if missing:
        raise ConfigError(
            f"{one}: no sensor has the column {', '.join(map(repr, missing))} of [source] fields; there are "
            f"{', '.join(map(repr, there[1:]))}."
        )


def _key_column(where: str, source: SourceSection, key: str | None, how: How) -> str | None:
    """The column with the key, None where `how` says the key.

    Raises ConfigError where nothing says it, or the job and the command line differ.
    """
    if how.key_from is not None or how.key_is is not None:
        option = "--key-is" if how.key_from is None else "--key-from"
        if key is not None:
            raise ConfigError(f"--key and {option} both set the key; give one of them.")
        if source.key is not None:
            raise ConfigError(f"{option}: the job's keys are in [source] key {source.key!r}; leave it out.")
        return None
    named = key or source.key
    if named is None:
        raise ConfigError(f"{where}: a file needs --key, the name of the column with the key (or --key-from, --key-is).")
    if source.key not in (None, named):
        raise ConfigError(f"--key: the job's keys are in [source] key {source.key!r}; leave --key out, got {key!r}.")
    return named


def _require_columns(path: str, first: Row, columns: Iterable[tuple[str, str | None]]) -> None:
    """Raises ConfigError if the first row lacks a column. columns: (what it is for, its name or None)."""
    if not first:
        raise ConfigError(f"{path}: none of its first lines is a JSON object, so the columns are unknown.")
    for purpose, column in columns:
        if column is not None and column_path(column).find(first) is ABSENT:
            what, there = TABLE if path == TABLE else "the file", ", ".join(map(repr, first))
            raise ConfigError(f"{path}: no column {column!r} for the {purpose}; {what} has {there}.")


def _getter(column: str | None) -> Callable[[Row], Any]:
    """What a row has in a column, None for nothing."""
    if column is None:
        return lambda row: None
    path = column_path(column)
    if path.flat:
        return lambda row: row.get(path.top)
    find = path.find

    def get(row: Row) -> Any:
        value = find(row)
        return None if value is ABSENT else value

    return get


def _key(value: Any) -> bytes | None:
    """None for what is not a key: nothing, NaN as tables write a missing one, or a text with half of a surrogate pair."""
    if isinstance(value, bytes):
        return value
    if value is None or value != value:  # noqa: PLR0124
        return None
    try:
        return str(value).encode()
    except ValueError:
        return None

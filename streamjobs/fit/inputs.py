"""Opens the inputs of a fit: files and topics, as records whose keys are people."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streamjobs.core.decoding.keys import each_keyed
from streamjobs.core.messages import Record
from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import KEYS
from streamjobs.recordings.files import records_of, rows_of
from streamjobs.settings.paths import ABSENT, column_path
from streamjobs.settings.sections import Settings

RECORDINGS = ("recording", "recording_id", "session", "session_id", "segment", "seg")
LOOK_AT = 100  # rows; a column may be missing in some of them


class Columns(NamedTuple):
    """The columns of files that a job does not name; None: find one with a usual name."""

    key: str | None
    time: str | None
    recording: str | None
    by_pauses: bool  # no column tells recordings apart


class Inputs(NamedTuple):
    sources: list[Iterator[Record]]  # each with a topic or partition of its own
    said: list[str]  # which columns are read as what, for people
    recording: str | None  # column whose value follows the person in the key


def inputs_of(settings: Settings, names: Sequence[str], columns: Columns) -> Inputs:
    """The inputs by their names. Raises ConfigError for a missing column, SetupError if a topic cannot be read."""
    topics = [name for name in names if name == "topic" or name.startswith("topic:")]
    paths = [Path(name) for name in names if name not in topics]
    if topics and paths:
        raise ConfigError("--input must be files or topics, not both.")
    if topics:
        if columns.recording or columns.key or columns.time:
            raise ConfigError("--key, --time and --recording name columns of a file; remove them for a topic.")
        return Inputs([_topic(settings, name) for name in topics], [], None)
    if settings.source.format == "raw":
        raise ConfigError(
            "--input of a file needs columns, and [source] format = 'raw' names none; fit from the topic, "
            "or with a copy of the job that has format = 'json', fields, time and label."
        )
    if settings.source.time is None and columns.time is None:
        raise ConfigError("windows need times; name the file's column with --time, or in the job file as [source] time.")
    chosen = [_chosen(path, settings, columns) for path in paths]
    recording = chosen[0].recording
    if any((one.recording is None) != (recording is None) for one in chosen):
        raise ConfigError("--input: only some files have a column that tells recordings apart; give --pause to ignore it.")
    said = dict.fromkeys(
        f"people by column {one.key!r}" + (f", recordings by column {one.recording!r}" if one.recording else "")
        for one in chosen
    )
    sources = [_file(path, settings, one) for path, one in zip(paths, chosen, strict=True)]
    return Inputs(sources, list(said), recording)


def _topic(settings: Settings, name: str) -> Iterator[Record]:
    from streamjobs.kafka.reader import topic_records

    topic, most = name.partition(":")[2] or settings.source.topic, settings.source.max_bytes
    with contextlib.closing(topic_records(settings.broker, topic, max_bytes=most)) as records:
        yield from each_keyed(settings.source, records)


def _file(path: Path, settings: Settings, columns: Columns) -> Iterator[Record]:
    assert columns.key is not None
    records = records_of(path, settings.source, columns.key, columns.time, settings.side, columns.recording)
    for record in records:
        yield record._replace(topic=str(path))


def _chosen(path: Path, settings: Settings, columns: Columns) -> Columns:
    """The columns of a file; raises ConfigError if one that the job or the command line names is missing."""
    rows = list(itertools.islice(rows_of(path), LOOK_AT))
    present = list(dict.fromkeys(name for row in rows for name in row))
    if not present:
        raise ConfigError(f"{path}: expected recordings of two people or more; got no rows.")
    source, lower = settings.source, {name.lower(): name for name in reversed(present)}
    key = columns.key or source.key or next((lower[name] for name in KEYS if name in lower), None)
    if key is None:
        raise ConfigError(f"{path}: name the column that tells people apart with --key; the file has {_listed(present)}.")
    recording = columns.recording or next((lower[name] for name in RECORDINGS if name in lower), None)
    fields = source.record_fields if source.sensors is None else source.record_fields[:1]  # others: of some sensors' records
    needed = [
        *((name, "for [source] fields" if source.fields else "for [source] x") for name in fields),
        (columns.time or source.record_time, "for the time"),
        (source.label if source.sensors is None else None, "for the label"),
        (settings.side, "for the side that [window] mirror looks at"),
        (columns.key, "for --key"),
        (columns.recording, "for --recording"),
    ]
    for name, what in needed:
        if name is not None and all(column_path(name).find(row) is ABSENT for row in rows):
            raise ConfigError(f"{path}: no column {name!r} {what}; the file has {_listed(present)}.")
    return Columns(key, columns.time, None if columns.by_pauses else recording, columns.by_pauses)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (" ..." if len(names) > 20 else "")

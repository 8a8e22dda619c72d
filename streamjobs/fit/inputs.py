"""Opens the inputs of a fit: files and topics, as records with people as keys."""

import contextlib
import dataclasses
import itertools
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streamjobs.core.decoding.keys import each_keyed
from streamjobs.core.messages import Record, Stored
from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import KEYS
from streamjobs.recordings.files import recordings_of, records_of, rows_of
from streamjobs.recordings.merging import are_labels, with_labels
from streamjobs.recordings.tables import HOW, How, untold
from streamjobs.settings.paths import ABSENT, column_path
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import listed

RECORDINGS = ("recording", "recording_id", "session", "session_id", "segment", "seg", "trial")
LOOK_AT = 100  # rows; a column may be missing in some of them


class Columns(NamedTuple):
    """The columns of files that a job does not name; None: find one with a usual name."""

    key: str | None
    time: str | None
    recording: str | None
    by_pauses: bool  # no column tells recordings apart
    how: How = HOW
    by_file: bool = False  # each file is a recording
    labels: bool = False  # labels in records of their own, no samples

    @property
    def said(self) -> str:
        """Which columns are read as what, for people."""
        whose = f"people by the name of the {self.how.key_from}" if self.how.key_from else f"people by column {self.key!r}"
        if self.by_file:
            return whose + ", recordings by file"
        return whose + (f", recordings by column {self.recording!r}" if self.recording else "")

    @property
    def option(self) -> str:
        """With which other commands read the same people."""
        return shlex.join(["--key-from", self.how.key_from] if self.how.key_from else ["--key", str(self.key)])


class Inputs(NamedTuple):
    sources: list[Iterator[Record]]  # each with a topic or partition of its own
    said: list[str]  # which columns are read as what, for people
    recording: str | None  # column with the value that follows the person in the key
    by_file: bool = False  # the name of the file does
    key: str = ""  # option with which other commands read these people; empty if they need none


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
    chosen = [_chosen(path, settings, columns) for path in paths]
    if all(one.labels for one in chosen):
        raise ConfigError(f"{paths[0]}: labels only; name the file of their samples too, with another --input.")
    recording, by_file = chosen[0].recording, all(one.by_file for one in chosen)
    if any((one.recording is None) != (recording is None) or one.by_file != by_file for one in chosen):
        raise ConfigError(
            "--input: only some inputs separate recordings, by a column or by file; give --pause to ignore that."
        )
    said = dict.fromkeys(one.said for one in chosen)
    files = [_file(path, settings, one) for path, one in zip(paths, chosen, strict=True)]
    later = [file for file, one in zip(files, chosen, strict=True) if one.labels]
    if later:
        samples = [file for file, one in zip(files, chosen, strict=True) if not one.labels]
        mixed, when = with_labels(settings, samples, later)
        said[f"labels of files without samples: {when}"] = None
        files = [mixed]
    return Inputs([*files], list(said), recording, by_file, chosen[0].option if settings.source.key is None else "")


def _topic(settings: Settings, name: str) -> Iterator[Record]:
    from streamjobs.kafka.reader import topic_records

    topic, most = name.partition(":")[2] or settings.source.topic, settings.source.max_bytes
    with contextlib.closing(topic_records(settings.broker, topic, max_bytes=most)) as records:
        yield from each_keyed(settings.source, records)


def _file(path: Path, settings: Settings, columns: Columns) -> Iterator[Stored]:
    source = settings.source.model_copy(update={"topic": str(path)})  # no input hides another's records
    yield from records_of(
        path, source, columns.key, columns.time, settings.side, columns.recording, columns.how, columns.by_file
    )


def _chosen(path: Path, settings: Settings, columns: Columns) -> Columns:
    """The columns of a file; raises ConfigError if one that the job or the command line names is missing."""
    how = dataclasses.replace(columns.how, preset=settings.source.preset)
    if settings.window is not None:
        how = dataclasses.replace(how, rate=settings.window.rate)
    quiet = dataclasses.replace(how, tell=untold)
    rows = list(itertools.islice(rows_of(path, quiet, _wanted(settings, columns)), LOOK_AT))
    present = list(dict.fromkeys(name for row in rows for name in row))
    if not present:
        raise ConfigError(f"{path}: expected recordings of two people or more; got no rows.")
    source, lower = settings.source, {name.lower(): name for name in reversed(present)}
    usual = None if how.key_from else next((lower[name] for name in KEYS if name in lower), None)
    key = columns.key or source.key or usual
    if key is None and how.key_from is None:
        raise ConfigError(f"{path}: expected the person's column as --key, got none; the file has {_listed(present)}.")
    recording = columns.recording or next((lower[name] for name in RECORDINGS if name in lower), None)
    fields = source.record_fields if source.sensors is None else source.record_fields[:1]  # others: of some sensors' records

    def has_no(name: str | None) -> bool:
        return name is not None and all(column_path(name).find(row) is ABSENT for row in rows)

    has_labels_only = are_labels(source, present)
    alone = has_labels_only and settings.labels.wait > 0
    fields = [] if alone else fields
    needed = [
        *((name, "for [source] fields" if source.fields else "for [source] x") for name in fields),
        (columns.time or source.record_time, "for the time"),
        (source.label if source.sensors is None and not settings.labels.wait else None, "for the label"),
        (None if alone else settings.side, "for the side that [window] mirror looks at"),
        (columns.key, "for --key"),
        (columns.recording, "for --recording"),
    ]
    lasting = has_labels_only and has_no(columns.time or source.record_time)
    for name, what in needed:
        if has_no(name):
            why = ""
            if lasting:
                why = " If its labels have a start and an end, write each label into the samples between them."
            elif what == "for the label":
                why = " If a second file has the labels, set [labels] wait and name both files with --input."
            elif has_labels_only and not alone:
                why = " If it has labels in records of their own, set [labels] wait."
            raise ConfigError(f"{path}: no column {name!r} {what}; the file has {_listed(present)}.{why}")
    by_file = recording is None and not columns.by_pauses and len(recordings_of(path, quiet)) > 1
    return Columns(key, columns.time, None if columns.by_pauses else recording, columns.by_pauses, how, by_file, alone)


def _wanted(settings: Settings, columns: Columns) -> list[str]:
    source = settings.source
    named = [*source.record_fields, source.label, source.record_time, source.key, settings.side, *columns[:3]]
    return [name for name in named if isinstance(name, str)]


def _listed(names: Sequence[str]) -> str:
    return listed(list(map(repr, names)), 20)

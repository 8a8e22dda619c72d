"""`produce`: sends recordings to the job's input topic."""

import heapq
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamjobs.commands.console import PROGRESS_EVERY, AsJson, JobFile, Pace, note, say, show
from streamjobs.commands.recordings import options
from streamjobs.errors import ConfigError, SetupError
from streamjobs.settings.types import Partitioner, many

if TYPE_CHECKING:
    from streamjobs.core.messages import Stored
    from streamjobs.kafka.send import Sender
    from streamjobs.settings.composition import Composition

LONG = 5.0  # seconds of waiting that are printed
LOOKED_AT = 100  # records of each recording, before the first is sent


def produce(
    job_file: JobFile,
    files: Annotated[list[Path], typer.Argument(help=f"{options.FILES}; several are sent one after the other.")],
    key: Annotated[str | None, typer.Option(help="Column with the key.")] = None,
    time_column: options.TimeColumn = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    key_from: options.KeyFrom = None,
    key_is: options.KeyIs = None,
    start: options.Start = None,
    timestamps: Annotated[
        Literal["event", "now"],
        typer.Option(help="'event': records get their event times as timestamps; 'now': the time at which they are sent."),
    ] = "event",
    speed: Annotated[
        str,
        typer.Option(
            help="'max': as fast as the broker accepts records; a number such as 10: that many times real time, with all "
            "recordings at once."
        ),
    ] = "max",
    partitioner: Annotated[
        Partitioner, typer.Option(help="How keys choose partitions: as in your other producers.")
    ] = "murmur2",
    as_json: AsJson = False,
) -> None:
    """Send recordings to the job's input topic, in the job's format.

    Each record is acknowledged by all replicas, in the order of its key's rows. Ends with code 1 if a record was not
    acknowledged. If you send the file again, samples that a key has applied are late, and [source] late decides what
    happens to them ('drop' skips them).
    """
    from streamjobs.job_files import read_job
    from streamjobs.kafka.send import UNREAD, Sender
    from streamjobs.recordings.files import records_apart

    composition = read_job(job_file)
    settings, source = composition.settings, composition.settings.source
    if key is None and source.key is None and key_from is None and key_is is None:
        raise ConfigError("produce needs the key: --key COLUMN, --key-from file (or folder), or --key-is NAME.")
    times = _speed(speed)
    timed = time_column is not None or source.record_time is not None
    if times is not None and not timed:
        raise ConfigError("--speed needs times; name the column with --time, or in the job file as [source] time.")
    if settings.window is not None and not timed:
        note("warning: no times: the windows of these records depend on when each record is sent")
    how = options.with_rate(options.how_of(separator, decimal, key_from, key_is, start, key, time_column), settings)
    how = replace(how, unread=UNREAD if timed else None)
    if times is None:
        readers: list[Iterator[Stored]] = [options.recorded(path, settings, how) for path in files]
    else:
        readers = [one for path in files for one in records_apart(path, source, None, None, settings.side, how)]
    sender, began, pace = Sender(settings.broker, source.topic, partitioner), time.monotonic(), Pace(PROGRESS_EVERY)

    def progress(sent: int, acknowledged: int) -> None:
        pace.note(f"{many(sent, 'record')} sent, {acknowledged:,} acknowledged ...")

    looked_at = (_looked_at(composition, records) for records in readers)
    for records in looked_at if times is None else [_paced(list(looked_at), times, sender)]:
        sender.send(records, stamped=timed and timestamps == "event", progress=progress)
    seconds = time.monotonic() - began
    if as_json:
        done = {"topic": source.topic, "records": sender.sent, "acknowledged": sender.acknowledged}
        return show({**done, "seconds": round(seconds, 3)})
    say(f"{many(sender.acknowledged, 'record')} in {source.topic}, all acknowledged, in {seconds:.1f} s")
    if not sender.sent:
        note("no records: the files are empty")


def _looked_at(composition: "Composition", records: "Iterator[Stored]") -> "Iterator[Stored]":
    """The records, after a warning if the job cannot use the first of them."""
    first = list(itertools.islice(records, LOOKED_AT))
    if (reason := _unusable(composition, first)) is not None:
        note(f"warning: the job would make the first {many(len(first), 'record')} dead letters: {reason}")
    return itertools.chain(first, records)


def _paced(recordings: "list[Iterator[Stored]]", speed: float, sender: "Sender") -> "Iterator[Stored]":
    """The records of all recordings, each at its time; long waits are printed."""
    played, count, keys = together(recordings)
    if count > 1:
        note(f"{many(count, 'recording')} of {many(keys, 'key')} play at once, each key from its first record on")
    began = time.monotonic()
    for seconds, record in played:
        moment = began + seconds / speed
        if (left := moment - time.monotonic()) > LONG:
            note(f"waiting {left:,.0f} s for the next record: it is {seconds:,.0f} s after the first, at --speed {speed:g}")
        sender.wait_until(moment)
        yield record


def together(recordings: "Iterable[Iterator[Stored]]") -> "tuple[Iterator[tuple[float, Stored]], int, int]":
    """People at once, each from the first record of its own recording: records by the second in which they play.

    Also how many recordings and keys there are. Recordings of one key follow each other; a first record has the key.
    """
    by_key: dict[bytes | None, list[Iterator[Stored]]] = {}
    for records in recordings:
        for first in itertools.islice(records, 1):
            by_key.setdefault(first.key, []).append(itertools.chain([first], records))
    tracks = [_in_turn(records) for records in by_key.values()]
    return heapq.merge(*tracks, key=lambda played: played[0]), sum(map(len, by_key.values())), len(by_key)


def _in_turn(recordings: "Iterable[Iterator[Stored]]") -> "Iterator[tuple[float, Stored]]":
    from streamjobs.kafka.send import UNREAD

    seconds = 0.0
    for records in recordings:
        begin, first = seconds, None
        for record in records:
            if record.timestamp != UNREAD:
                first = record.timestamp if first is None else first
                seconds = max(seconds, begin + (record.timestamp - first) / 1000)
            yield seconds, record


def _unusable(composition: "Composition", records: "Sequence[Stored]") -> str | None:
    """Why the job can use none of them; None if it can use some, or if that is unknown here."""
    from streamjobs.core.decoding.time_units import job_decoder

    source = composition.settings.source
    if not records or source.has_schema:
        return None
    try:
        decoded = job_decoder(composition, source, None)(records)
    except SetupError:  # of keys on several partitions: what a worker finds in the topic
        return None
    if len(decoded.errors) < len(records):
        return None
    first, error = decoded.errors[0]
    return f"record {first + 1}: {str(error).partition(': ')[2]}"  # without the place, which only the broker knows


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        times = float(text.removesuffix("x"))
    except ValueError:
        times = 0.0
    if not 0 < times < float("inf"):
        raise ConfigError(f"--speed must be 'max' or a number above 0, such as 1 for real time; got {text!r}.")
    return times

"""`replay`: the worker's core without Kafka."""

import contextlib
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, compiled, note, say, show

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.core.messages import Output, Stored
    from streamjobs.replay.engine import Replay, Tally


MANY_LATE = 0.01  # of all samples; more of them are hardly meant


def add_to(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    job: JobFile,
    source: Annotated[
        str,
        typer.Option(
            "--input", help="A .jsonl, .csv, .parquet or .npz file; 'topic' for the job's input topic, or topic:NAME."
        ),
    ],
    key: Annotated[str | None, typer.Option(help="The file's column with the key.")] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="The file's column with the records' timestamps; absent: the event time.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="A topic's records from this time on: 2026-11-21T12:00 (UTC) or seconds since 1970."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="A topic's records before this time.")] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Folder for the outputs, a .jsonl per sink.")] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            help="Recorded outputs: a folder, one .jsonl, or 'topics' for what the worker sent. Any other number: code 4."
        ),
    ] = None,
    pool: Annotated[bool, typer.Option("--pool", help="One model for all keys; each keeps its own signal.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="With --pool: file for the model, as [state] start_from reads it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run recorded samples through the job without Kafka: the numbers are the worker's, bit for bit.

    Progress: LS error and error rate are means since the line before.
    """
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.replay.engine import Replay
    from streamjobs.replay.expect import from_files, from_topics
    from streamjobs.replay.progress import Progress
    from streamjobs.replay.writing import Writer

    if export is not None and not pool:
        raise ConfigError("--export needs --pool: without it there is one model per key.")
    made = job_of(job)
    if pool and made.population is not None:
        raise ConfigError(
            f"{job}: --pool learns a start for new keys, this job has one in [population]; use 'streamjobs fit'."
        )
    records = _records(made, source, key, time_column, begin, end)
    expected = None
    if expect is not None:
        is_topics = expect == "topics"
        expected = from_topics(made.settings.broker, made.sinks) if is_topics else from_files(Path(expect), list(made.sinks))
    compiled(made)
    run, progress = Replay(made, pooled=pool), Progress(made.task)
    refusals: list[str] = []  # what the first dead letter says
    begun = time.monotonic()
    with Writer(output_dir, list(made.sinks)) as writer, contextlib.closing(records):

        def take(output: "Output") -> None:
            writer.take(output)
            if output.sink == "dlq" and not refusals:
                refusals.append(dict(output.headers)["streamjobs-error-message"].decode())
            if expected is not None:
                expected.take(output)

        tally = run.run(records, take, progress)
    if not as_json:
        progress.line(tally)
    found = _summary(made.task, tally, time.monotonic() - begun)
    found["first_error"] = refusals[0] if refusals else None
    if expected is not None:
        found["compared"] = expected.finish()
    if export is not None:
        found["exported"] = _export(run, export)
    if as_json:
        show(found)
    else:
        _tell(found, output_dir, export)


def _records(
    job: "Job", source: str, key: str | None, time_column: str | None, begin: str | None, end: str | None
) -> "Generator[Stored, None, None]":
    from streamjobs.errors import ConfigError
    from streamjobs.kafka.reader import topic_records
    from streamjobs.recordings.files import records_of

    settings = job.settings
    if source == "topic" or source.startswith("topic:"):
        name = source.partition(":")[2] or settings.source.topic
        times = _milliseconds("--from", begin), _milliseconds("--to", end)
        return topic_records(settings.broker, name, *times, max_bytes=settings.source.max_bytes)
    if begin is not None or end is not None:
        raise ConfigError("--from and --to choose records of a topic; cut a file before replaying it.")
    if key is None:
        raise ConfigError("--input of a file needs --key, the column with the key.")
    if settings.window is not None and time_column is None and settings.source.time is None:
        raise ConfigError("windows need times: name the file's column with --time, or in the job as [source] time.")
    return records_of(Path(source), settings.source, key, time_column, settings.side)


def _milliseconds(option: str, text: str | None) -> int | None:
    from streamjobs.errors import ConfigError

    if text is None:
        return None
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} must be a time such as 2026-11-21T12:00 or seconds since 1970; got {text!r}.") from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _export(run: "Replay", path: Path) -> int:
    from streamjobs.errors import ConfigError

    data = run.export()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"--export {path}: cannot be written ({error.strerror}).") from None
    return len(data)


def _summary(task: str, tally: "Tally", seconds: float) -> dict[str, Any]:
    """`rmse` is a regression's, `wrong` a classification's; the other one is null."""
    from streamjobs.replay.progress import rmse

    regression = task == "regression"
    return {
        "records": tally.records,
        "samples": tally.samples,
        "rows": tally.rows,
        "keys": tally.keys,
        "ls_error": tally.ls_error_sum / tally.ls_errors if tally.ls_errors else None,
        "labels": tally.labels,
        "wrong": None if regression else tally.wrong,
        "rmse": rmse(tally.squared, tally.measured) if regression and tally.measured else None,
        "drift_events": tally.drift_events,
        "dead_lettered": dict(tally.dead_lettered),
        "skipped": dict(tally.skipped),
        "seconds": round(seconds, 3),
        "samples_per_second": round(tally.samples / max(seconds, 1e-9)),
    }


def _tell(found: dict[str, Any], output_dir: Path | None, export: Path | None) -> None:
    say(
        f"{found['records']:,} records of {found['keys']:,} keys, {found['samples']:,} samples, {found['rows']:,} rows "
        f"in {found['seconds']:.1f} s ({found['samples_per_second']:,} samples/s)"
    )
    if not found["records"]:
        note("no records came: the input is empty, or has none between --from and --to")
    if found["labels"]:
        error = f"{found['wrong']:,} wrong" if found["wrong"] is not None else "nothing was said of them in time"
        if found["rmse"] is not None:
            error = f"root mean square error {found['rmse']:.6g}"
        say(f"{found['labels']:,} labels, each predicted before it was learned: {error}")
    for what in ("dead_lettered", "skipped"):
        if found[what]:
            counts = ", ".join(f"{reason} {count:,}" for reason, count in found[what].items())
            note(f"{what.replace('_', ' ')}: {counts}")
    if found["first_error"]:
        note(f"the first dead letter: {found['first_error']}")
    late = found["skipped"].get("late", 0)
    if late > MANY_LATE * found["samples"]:
        note(
            f"{100 * late / found['samples']:.0f} % of the samples came after newer ones of their key and could enter no "
            "window any more: sort the input by time, or let samples wait with [source] lateness."
        )
    if output_dir is not None:
        say(f"outputs in {output_dir}")
    if "compared" in found:
        say(f"{found['compared']:,} outputs are the expected ones, number by number")
    if export is not None:
        say(f"model of all keys in {export} ({found['exported']:,} bytes); use it as [state] start_from")

"""`export`, `plot`: the records of output topics, or of a replay, as one file, and pictures of them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamjobs.commands.console import JobFile, compile_loops, counted, job_of, note, say, write_private
from streamjobs.commands.recordings.options import FILES, TimeColumn, how_of, milliseconds
from streamjobs.errors import ConfigError
from streamjobs.settings.types import many

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.core.messages import Output, Stored
    from streamjobs.recordings.tables import How

AT_ONCE = 1_000  # records that a replay applies before their outputs are written


def export(
    job_file: JobFile,
    sink: Annotated[
        str,
        typer.Argument(help="Which outputs: features, predictions, drift, alarms, bouts, forecasts or dlq.", metavar="SINK"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file: NAME.parquet, NAME.csv or NAME.jsonl.")],
    replay: Annotated[
        str | None,
        typer.Option(
            help=f"Replay this input, instead of reading the topic. {FILES}; 'topic' for the input topic, or topic:NAME."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Column of the recordings with the key.")] = None,
    time_column: TimeColumn = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Only records from this time: 2026-11-21T12:00 (UTC), or seconds since 1970."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Only records up to this time.")] = None,
) -> None:
    """Write an output topic to a Parquet, CSV or JSON lines file, from its beginning to its present end.

    Repeats after a crash are dropped by their ids, and records of aborted transactions are not read. Columns are those of
    'schema --outputs'. The file appears when it is complete.
    """
    from streamjobs.outputs.files import FORMATS, Table
    from streamjobs.outputs.schema import lengths
    from streamjobs.settings.sections import SINKS

    form = FORMATS.get(output.suffix)
    if form is None:
        raise ConfigError(f"--output {output}: expected a name that ends in {', '.join(FORMATS)}.")
    if replay is None and (key or time_column):
        raise ConfigError("--key and --time are columns of recordings; they need --replay.")
    if sink not in SINKS:
        raise ConfigError(f"export: expected one of the outputs {', '.join(SINKS)}; got {sink!r}.")
    job = job_of(job_file)
    table = Table(job, sink)
    records: Iterator[Output | Stored]
    if replay is None:
        from streamjobs.kafka.reader import topic_records

        times = milliseconds("--from", begin), milliseconds("--to", end)
        records = topic_records(job.settings.broker, job.sinks[sink], *times)
    else:
        records = _of_replay(job, sink, replay, how_of(key=key, time=time_column), begin, end)
    rows = counted(table.rows(records), "rows")
    size = write_private(output, form(rows, table.fields, lengths(table.fields)), "--output")
    say(f"{output}: {many(table.count, 'row')}, {size:,} bytes")
    if table.repeats.count:
        note(f"{table.repeats.count:,} repeats were dropped")
    if table.foreign:
        note(f"warning: {table.foreign:,} records of the topic are not outputs of streamjobs and were left out")
    if table.others:
        note(f"warning: fields that this job does not send were left out: {', '.join(sorted(table.others)[:20])}")


def _of_replay(job: "Job", sink: str, source: str, how: "How", begin: str | None, end: str | None) -> "Iterator[Output]":
    from streamjobs.commands.replay import as_workers_have_it, records_to_replay
    from streamjobs.replay.engine import Replay

    job = as_workers_have_it(job, source)
    records = records_to_replay(job, source, how, begin, end)
    compile_loops(job)
    run = Replay(job)
    while some := list(islice(records, AT_ONCE)):
        made: list[Output] = []
        run.run(some, made.append, lambda tally: None)
        yield from (one for one in made if one.sink == sink)


def plot(
    what: Annotated[str, typer.Argument(metavar="PICTURE", help="features, ls_error, drift, confusion or forecast.")],
    job_file: JobFile,
    source: Annotated[
        str, typer.Option("--from", help="'topics' for the worker's outputs, or the folder of replay's --output-dir.")
    ] = "topics",
    key: Annotated[str | None, typer.Option(help="Only this key; absent: the first keys.")] = None,
    column: Annotated[str | None, typer.Option(help="With forecast: only this column; absent: the first columns.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .svg or .png.")] = Path("plot.svg"),
) -> None:
    """Draw the outputs of a job: features, LS error or drift over time, true and predicted classes, or forecasts."""
    from streamjobs.job_files import read_job
    from streamjobs.notebook.pictures import check_name, save
    from streamjobs.notebook.plots import KINDS, Plot
    from streamjobs.notebook.tables import of_folder, of_topics

    if what not in KINDS:
        raise ConfigError(f"expected one of {', '.join(KINDS)}; got {what!r}.")
    if column is not None and what != "forecast":
        raise ConfigError(f"--column is for 'plot forecast'; got {what!r}.")
    check_name("--output", output)
    composition = read_job(job_file)
    if source == "topics":
        rows = of_topics(composition.settings.broker, composition.sinks)
    else:
        rows = of_folder(Path(source), composition.sinks)
    plot = Plot(rows if key is None else lambda sink: [row for row in rows(sink) if row["key"] == key])
    save(getattr(plot, what)(**({} if column is None else {"column": column})), output, "--output")
    note(f"drawn: {output}")

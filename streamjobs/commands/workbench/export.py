"""`export`, `plot`: the records of an output topic as one file, and pictures of outputs."""

from pathlib import Path
from typing import Annotated

import typer

from streamjobs.commands.console import JobFile, counted, job_of, note, say, write_private
from streamjobs.commands.recordings.options import milliseconds
from streamjobs.errors import ConfigError
from streamjobs.settings.types import many


def export(
    job_file: JobFile,
    sink: Annotated[
        str,
        typer.Argument(help="Which outputs: features, predictions, drift, alarms, bouts, forecasts or dlq.", metavar="SINK"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file: NAME.parquet, NAME.csv or NAME.jsonl.")],
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
    from streamjobs.kafka.reader import topic_records
    from streamjobs.outputs.files import FORMATS, Table
    from streamjobs.outputs.schema import lengths
    from streamjobs.settings.sections import SINKS

    form = FORMATS.get(output.suffix)
    if form is None:
        raise ConfigError(f"--output {output}: expected a name that ends in {', '.join(FORMATS)}.")
    if sink not in SINKS:
        raise ConfigError(f"export: expected one of the outputs {', '.join(SINKS)}; got {sink!r}.")
    job = job_of(job_file)
    table = Table(job, sink)
    times = milliseconds("--from", begin), milliseconds("--to", end)
    rows = counted(table.rows(topic_records(job.settings.broker, job.sinks[sink], *times)), "rows")
    size = write_private(output, form(rows, table.fields, lengths(table.fields)), "--output")
    say(f"{output}: {many(table.count, 'row')}, {size:,} bytes")
    if table.repeats.count:
        note(f"{table.repeats.count:,} repeats were dropped")
    if table.foreign:
        note(f"warning: {table.foreign:,} records of the topic are not outputs of streamjobs and were left out")
    if table.others:
        note(f"warning: fields that this job does not send were left out: {', '.join(sorted(table.others)[:20])}")


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

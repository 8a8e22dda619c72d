"""`plot`: pictures of outputs, from a folder that `replay` wrote or from a worker's topics."""

from pathlib import Path
from typing import Annotated

import typer

from streamjobs.commands.console import JobFile, note
from streamjobs.errors import ConfigError


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

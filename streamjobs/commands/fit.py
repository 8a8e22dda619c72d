"""`fit`: a population learned from recordings of many people."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, note, say, show
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.fit.fitting import Fitted


def add_to(app: typer.Typer) -> None:
    app.command("fit")(fit)


def fit(
    job: JobFile,
    sources: Annotated[
        list[str],
        typer.Option(
            "--input",
            help="A .jsonl, .csv, .parquet or .npz file, may be repeated; 'topic' for the job's input topic, or topic:NAME.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="File for the population; absent: the one that [population] file names.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="A file's column with the person; absent: one with a usual name, such as person.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="A file's column with the times; absent: [source] time.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(
            help="A file's column that tells a person's recordings apart; absent: one named recording, session or segment."
        ),
    ] = None,
    pause: Annotated[
        str | None,
        typer.Option(help="Without such a column a recording ends at a longer pause (10s), and where the label changes."),
    ] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Leave out only so many people in turn; absent: each.")] = None,
    shuffles: Annotated[int, typer.Option(min=1, help="Orders of a person's recordings that are tried.")] = 3,
    label_delay: Annotated[str, typer.Option(help="How late labels come in the report.")] = "20s",
    no_report: Annotated[bool, typer.Option("--no-report", help="Only learn; say nothing of what it is worth.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="File for the report's picture; absent: the population's with .svg behind it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn scale, map and head of a population from recordings of many people, for [population] of a job.

    The report leaves each person out in turn: everybody else teaches, labels come 20 s late, controls stand beside.
    """
    from streamjobs.fit.fitting import Asked, fit_job

    asked = Asked(
        job=job,
        sources=sources,
        output=output,
        picture=picture,
        key=key,
        time=time_column,
        recording=recording,
        pause=pause,
        folds=folds,
        shuffles=shuffles,
        label_delay=label_delay,
        report=not no_report,
        force=force,
    )
    begun = time.monotonic()
    fitted = fit_job(asked, note if as_json else say, lambda doubt: note(f"note: {doubt}"))
    if as_json:
        show(_table(fitted, time.monotonic() - begun))
    else:
        _tell(fitted, job, time.monotonic() - begun)


def _tell(fitted: "Fitted", job: Path, seconds: float) -> None:
    population = fitted.population
    say(
        f"{fitted.output}: {population.people} people, {len(population.names)} activities, {readable(fitted.nbytes)}, "
        f"in {seconds:.0f} s"
    )
    if fitted.picture is not None:
        say(f"{fitted.picture}: confusion matrix and accuracy over time")
    if not fitted.stated:
        say(f'{job} does not use it yet; add to it:\n\n[population]\nfile = "{fitted.output}"')


def _table(fitted: "Fitted", seconds: float) -> dict[str, Any]:
    from streamjobs.fit import report

    read, evaluated, population = fitted.read, fitted.evaluated, fitted.population
    return {
        "output": str(fitted.output),
        "bytes": fitted.nbytes,
        "fingerprint": population.fingerprint.hex(),
        "picture": None if fitted.picture is None else str(fitted.picture),
        "people": population.people,
        "activities": dict(zip(population.names, population.labels.tolist(), strict=True)),
        "recordings": len(set(read.data.recording.tolist())),
        "recordings_told_apart": read.apart,
        "samples": read.samples,
        "windows": len(read.data.X),
        "windows_without_label": read.unlabelled,
        "windows_not_finite": read.unusable,
        "skipped": read.skipped,
        "refused": read.refused,
        "seconds": round(seconds, 3),
        "report": None if evaluated is None else report.as_table(read.data, *evaluated),
    }

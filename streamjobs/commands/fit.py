"""`fit`: learns a population from recordings of many people."""

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, job_of, note, say, show, write_private
from streamjobs.commands.recordings.options import FILES, Decimal, KeyFrom, Separator, how_of
from streamjobs.errors import ConfigError
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.fit.fitting import Asked, Fitted
    from streamjobs.fit.proposing import Proposed

Sources = Annotated[
    list[str], typer.Option("--input", help=f"{FILES}; 'topic' for the job's input topic, or topic:NAME; may be repeated.")
]
Key = Annotated[str | None, typer.Option(help="Column with the person; absent: a column with a usual name, such as person.")]
Recording = Annotated[
    str | None,
    typer.Option(
        help="Column that identifies a person's recordings; absent: recording, session, segment or trial, or else each file."
    ),
]
Pause = Annotated[
    str | None,
    typer.Option(help="Without a column for recordings: a pause longer than this (10s), or a new label, ends a recording."),
]
Test = Annotated[
    list[str] | None, typer.Option("--test", help="Recordings of other people to evaluate on; may be repeated.")
]
LabelDelay = Annotated[
    str | None, typer.Option(help="How late labels arrive in the report (duration); absent: [labels] delay, or 20s.")
]
Better = Annotated[
    Path | None,
    typer.Option(
        "--choose", help="First choose statistics, map and filter on people left out; write the chosen job to this file."
    ),
]


def fit(
    job_file: JobFile,
    sources: Sources,
    output: Annotated[
        Path | None, typer.Option(help="File to write the population to; absent: [population] file of the job.")
    ] = None,
    key: Key = None,
    time_column: Annotated[str | None, typer.Option("--time", help="Column with the times; absent: [source] time.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    key_from: KeyFrom = None,
    recording: Recording = None,
    pause: Pause = None,
    folds: Annotated[
        int | None, typer.Option(min=1, help="Number of people to leave out in turn; absent: all, at most 50.")
    ] = None,
    shuffles: Annotated[
        int, typer.Option(min=0, help="Random orders of each person's recordings in the report; 0: their own order.")
    ] = 0,
    label_delay: LabelDelay = None,
    test: Test = None,
    better: Better = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Only learn; write no report.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn a population (scale, map and starting head) from recordings of many people.

    The report estimates how well it works for new people. It leaves each person out in turn, learns from all others, lets
    labels arrive late, and compares with simpler methods.
    """
    from streamjobs.fit.fitting import Asked, fit_job, ready

    asked = Asked(
        job=job_file,
        sources=sources,
        output=output,
        key=key,
        time=time_column,
        recording=recording,
        pause=pause,
        folds=folds,
        shuffles=shuffles,
        label_delay=label_delay,
        test=tuple(test or ()),
        report=not no_report,
        force=force,
        how=how_of(separator, decimal, key_from),
    )
    started, windows, chosen = time.monotonic(), None, dict[str, Any]()
    if better is not None:
        ready(asked)  # before the choice takes its time
        proposed, printed = choose(asked, better, as_json)
        asked, windows, chosen = replace(asked, job=better), proposed.windows, {"chosen": printed}
    fitted = fit_job(asked, note if as_json else say, _doubt, windows)
    if fitted.page is not None:
        _write_page(fitted, fitted.page)
    if as_json:
        show(_table(fitted, time.monotonic() - started) | chosen)
    else:
        _print_result(fitted, asked, time.monotonic() - started)


def choose(asked: "Asked", path: Path | None, as_json: bool) -> tuple["Proposed", dict[str, Any]]:
    """Compare settings on people left out, print the table, and write the job with the best; gives it as JSON too."""
    from streamjobs.fit.choosing import as_text
    from streamjobs.fit.proposing import propose

    if path is not None and path.exists() and not asked.force:
        raise ConfigError(f"{path}: the file for the chosen job already exists; name a new file.")
    proposed = propose(asked, note if as_json else say, _doubt)
    choice = proposed.choice
    if path is not None:
        write_private(path, [proposed.text.encode()], "the chosen job")
    if not as_json:
        say("\n" + as_text(choice) + f"\n\nBest: {choice.best.candidate.name}\n\n{proposed.best}")
        if proposed.cheapest is not None:
            say(f"\nThe smallest within .01 of it: {choice.cheapest.candidate.name}\n\n{proposed.cheapest}")
        if path is not None:
            say(f"\nwrote {path}, the job with the best.")
    figures = [
        {**one.candidate._asdict(), "all": float(one.every.mean()), "fresh": float(one.fresh.mean())}
        | {"worst": float(one.every.min()), "numbers": one.width, "state_bytes": one.state_bytes}
        for one in choice.judged
    ]
    best = {"best": choice.best.candidate._asdict(), "cheapest": choice.cheapest.candidate._asdict()}
    file = None if path is None else str(path)
    return proposed, {"file": file, "candidates": figures, **best, "estimate": float(choice.estimate.mean())}


def _doubt(doubt: str) -> None:
    note(f"note: {doubt}")


def _write_page(fitted: "Fitted", path: Path) -> None:
    """Write the report's page: of people who do not teach if there are some."""
    from streamjobs.fit.reports.report import as_page

    shown = fitted.tested or fitted.evaluated
    assert shown is not None
    before = fitted.evaluated if fitted.tested is not None else None
    write_private(path, [as_page(shown, before).encode()], "the report")


def _print_result(fitted: "Fitted", asked: "Asked", seconds: float) -> None:
    population, job_file = fitted.population, asked.job
    say(
        f"{fitted.output}: {population.people} people, {len(population.names)} activities, {readable(fitted.nbytes)}, "
        f"in {seconds:.0f} s"
    )
    if fitted.page is not None:
        say(f"{fitted.page}: the report")
    if fitted.stated:
        if asked.output is None:
            say(f"A person's state has at most {readable(job_of(job_file).state_bytes)}.")
        say(f"Next, with recordings of other people: {_next(fitted, asked)}")
        if not fitted.read.in_order:
            say(
                "A person's recordings are not in order of time here: 'replay' and workers need this, 'fit --test' does not."
            )
        say(f"To recognise the activities of new people: streamjobs topics create {job_file}; streamjobs run {job_file}")
    else:
        say(f'{job_file} does not use it yet; add to it:\n\n[population]\nfile = "{fitted.output}"')


def _next(fitted: "Fitted", asked: "Asked") -> str:
    """The command that scores other people as the report does."""
    from streamjobs.fit.fitting import usual_delay
    from streamjobs.job_files import load_job

    how = " ".join(filter(None, (fitted.read.key, f"--time {shlex.quote(asked.time)}" if asked.time else "")))
    settings = load_job(asked.job)
    timeless = settings.source.time is None and settings.source.format != "raw"  # so that no label can be late
    if not fitted.read.in_order or timeless:
        given = " ".join(f"--input {one}" for one in asked.sources)
        return " ".join(filter(None, (f"streamjobs fit {asked.job} {given} --test RECORDINGS", how, "--force")))
    words = " ".join(filter(None, (f"streamjobs replay {asked.job} --input RECORDINGS", how, "--score")))
    stated = settings.labels.delay or settings.labels.wait
    late = asked.label_delay or ("" if stated else f"{usual_delay(settings, fitted.read):g}s")
    return (f"STREAMJOBS_LABELS__DELAY={late} " if late else "") + words


def _table(fitted: "Fitted", seconds: float) -> dict[str, Any]:
    from streamjobs.fit import alarms, rejection
    from streamjobs.fit.reports import report

    read, evaluated, population = fitted.read, fitted.evaluated, fitted.population
    return {
        "output": str(fitted.output),
        "bytes": fitted.nbytes,
        "fingerprint": population.fingerprint.hex(),
        "page": None if fitted.page is None else str(fitted.page),
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
        "reject": None if fitted.judged is None else rejection.as_table(fitted.judged),
        "alarms": None if fitted.alarms is None else alarms.as_table(fitted.alarms),
        "report": None if evaluated is None else report.as_table(evaluated),
        "test": None if fitted.tested is None else report.as_table(fitted.tested),
    }

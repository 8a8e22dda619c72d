"""`compare`: several learners side by side on recordings."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, draw, fixed, note, say, show, table
from streamjobs.commands.recordings.options import FILES, KeyFrom, TimeColumn, how_of, recorded
from streamjobs.settings.types import many

if TYPE_CHECKING:
    from streamjobs.core.messages import Stored
    from streamjobs.recordings.tables import How
    from streamjobs.replay.comparing import Compared, Comparison
    from streamjobs.settings.sections import Settings

Delay = Annotated[
    str | None, typer.Option(help="Time until a label is known, such as 20s, in place of [labels] delay of the job file.")
]
MostRecords = Annotated[int, typer.Option(min=1, help="Most records to read; later records of the file are left out.")]


def delayed(contents: dict[str, Any], delay: str | None) -> dict[str, Any]:
    """A job file's contents with this delay of labels."""
    return contents if delay is None else {**contents, "labels": {**contents.get("labels", {}), "delay": delay}}


def first_records(source: Path, settings: "Settings", how: "How", most: int) -> "list[Stored]":
    """At most so many records of recordings; prints a note where there are more."""
    records = list(itertools.islice(recorded(source, settings, how), most + 1))
    if len(records) > most:
        note(f"warning: only the first {most:,} records are used; raise --records to use more.")
    return records[:most]


def compare(
    job_file: JobFile,
    learners: Annotated[str, typer.Option(help="Learners, such as job,rls,krls: 'job' is the job file's own.")],
    source: Annotated[Path, typer.Option("--input", help=f"Recordings with labels. {FILES}.")],
    key: Annotated[str | None, typer.Option(help="Column with the key; absent: the name of each file is the key.")] = None,
    key_from: KeyFrom = None,
    time_column: TimeColumn = None,
    delay: Delay = None,
    records: MostRecords = 200_000,
    drawn: Annotated[
        Path | None, typer.Option("--picture", help="File to draw the errors over time to, .svg or .png; needs matplotlib.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare learners on recordings: errors, controls without a model, processor time and size of the state.

    Every row is predicted before its label is learned. The other learners have their default settings: an extractor has
    the job's [head], and a learner that would keep every sample has the job's budget, or 100. Only 'job' has the job's
    [population]. No setting is chosen on the recordings. To choose settings, use 'tune'.
    """
    from streamjobs.core.job import Job
    from streamjobs.job_files import composing, job_from, read_job, read_table
    from streamjobs.notebook import pictures
    from streamjobs.replay import comparing

    if drawn is not None:
        pictures.check_name("--picture", drawn)
    settings = read_job(job_file).settings
    key_from = key_from or ("file" if key is None and settings.source.key is None else None)
    if shared := settings.population is not None:
        note("warning: of people who taught the population, the error of 'job' is too small; 'fit' leaves them out.")
    done = comparing.compare(
        delayed(read_table(job_file), delay),
        composing(job_file),
        first_records(source, settings, how_of(key_from=key_from, key=key, time=time_column), records),
        list(dict.fromkeys(name.strip() for name in learners.split(",") if name.strip())),
        lambda name: note(f"{name} ..."),
        (lambda one: job_from(one, str(job_file))) if shared else Job.from_composition,
    )
    if drawn is not None:
        curves = {one.name: one.curve for one in [*done.learners, *done.controls] if one.curve}
        draw(lambda: pictures.error_curves(curves, _measure(done)), drawn, "--picture")
    if as_json:
        compared, controls = ([one._asdict() for one in each] for each in (done.learners, done.controls))
        measured = {"measure": _measure(done), "delay": done.delay, "labels": done.labels}
        show({**measured, "learners": compared, "controls": controls})
    else:
        _print(done)


def _measure(done: "Comparison") -> str:
    return "root mean square error" if done.task == "regression" else "error rate"


def _print(done: "Comparison") -> None:
    ran = sorted((one for one in done.learners if not one.refused), key=lambda one: one.half or 0.0)
    rows = [_row(one, one.model) for one in ran] + [_row(one, "no model") for one in done.controls]
    table(("learner", "model", "error", "second half", "us a row", "KB a key"), rows, left=("learner", "model"))
    late = f", {done.delay:g} s before its label is known" if done.delay else ""
    say(f"{_measure(done)} of {done.labels:,} labels, each row predicted before it was learned{late}")
    for one in done.learners:
        if one.refused:
            note(f"{one.name} was not run: {one.refused}")
        if one.dead:
            note(f"{one.name}: {many(one.dead, 'record')} became dead letters; 'streamjobs replay' prints why")
    best = min((one for one in done.controls if one.half is not None), key=lambda one: one.half or 0.0, default=None)
    if best is not None and ran and (ran[0].half or 0.0) >= (best.half or 0.0):
        note(f"no learner is better than the {best.name} in the second half")


def _row(one: "Compared", model: str) -> tuple[Any, ...]:
    size = None if one.bytes is None else one.bytes / 1024
    return one.name, model, fixed(one.error), fixed(one.half), fixed(one.micros, 1), fixed(size, 1)

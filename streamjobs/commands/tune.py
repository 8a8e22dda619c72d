"""`compare`, `tune` and `drift tune`: learners, their settings and detectors side by side on recordings."""

import itertools
import json
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, Pace, fixed, note, say, show, table, write_private
from streamjobs.commands.recordings.options import FILES, KeyFrom, KeyIs, TimeColumn, how_of, milliseconds, recorded
from streamjobs.errors import ConfigError
from streamjobs.settings.types import many, toml

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.core.messages import Stored
    from streamjobs.recordings.tables import How
    from streamjobs.replay.alarm_rates import Judged
    from streamjobs.replay.comparing import Compared, Comparison
    from streamjobs.replay.tuning import Trial, Tuned
    from streamjobs.settings.sections import Settings

PROGRESS_EVERY = 2.0  # seconds between two lines
WRONG = 0.1  # of [forecast] every, that the recording's pause is off
NAMES = {"own": "job", "linear": "linear head"}
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
    learners: Annotated[str, typer.Option(help="Learners, such as job,rls,krls; 'job' is the job file's.")],
    source: Annotated[Path, typer.Option("--input", help=f"Recordings with labels. {FILES}.")],
    key: Annotated[str | None, typer.Option(help="Column with the key; absent: the name of each file is the key.")] = None,
    key_from: KeyFrom = None,
    time_column: TimeColumn = None,
    delay: Delay = None,
    records: MostRecords = 200_000,
    as_json: AsJson = False,
) -> None:
    """Compare learners on recordings: errors, controls without a model, processor time and size of the state.

    Every row is predicted before its label is learned. The other learners have their default settings, with two
    exceptions: an extractor gets the job's [head], and a learner that would keep every sample gets the job's budget, or
    100. Only 'job' has the job's [population]. No setting is chosen on the recordings. To choose settings, use 'tune'.
    """
    from streamjobs.core.job import Job
    from streamjobs.job_files import composing, job_from, read_job, read_table
    from streamjobs.replay import comparing

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
    if as_json:
        compared, controls = ([one._asdict() for one in each] for each in (done.learners, done.controls))
        measured = {"measure": _measure(done), "delay": done.delay, "labels": done.labels}
        show({**measured, "learners": compared, "controls": controls})
    else:
        _print_compared(done)


def _measure(done: "Comparison") -> str:
    return "root mean square error" if done.task == "regression" else "error rate"


def _print_compared(done: "Comparison") -> None:
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


def tune(
    job_file: JobFile,
    source: Annotated[Path, typer.Option("--input", help=f"{FILES}; with labels if the job has them.")],
    key: Annotated[str | None, typer.Option(help="Column of the file with the key.")] = None,
    key_from: KeyFrom = None,
    key_is: KeyIs = None,
    time_column: TimeColumn = None,
    share: Annotated[
        float,
        typer.Option(min=0.1, max=0.9, help="Fraction of each key's labelled rows that choose settings: its first rows."),
    ] = 0.5,
    candidates: Annotated[int, typer.Option(min=1, help="Most trials for the job; a linear head gets as many.")] = 30,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit in seconds. Running trials are stopped.")] = 300.0,
    records: MostRecords = 200_000,
    delay: Delay = None,
    write: Annotated[
        Path | None, typer.Option(help="New file for the job file with the chosen [learner] and [head].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try settings of a job's learner and head on recordings, and print the best.

    The first part of each key's rows chooses the settings, and the errors on the rest show how good the choice is. Every
    row is predicted before it is learned, from the file's first record to its last. For comparison, a linear head is
    tuned in the same way, and controls without a model are scored: the last label and the most frequent one.

    With [forecast] it first compares the forecasts with the last value, averages and an autoregression. With [population]
    it compares the settings of 'fit --choose' on people left out, and ignores --share, --candidates, --seconds and
    --records.
    """
    from streamjobs.job_files import composing, job_from, read_job, read_table
    from streamjobs.replay import tuning

    if write is not None and write.exists():
        raise ConfigError(f"--write {write}: already exists; name a new file.")
    composition, contents = read_job(job_file), read_table(job_file)
    settings, how = composition.settings, how_of(key_from=key_from, key_is=key_is, key=key, time=time_column)
    if settings.population is not None:
        from streamjobs.commands.fit import choose
        from streamjobs.fit.fitting import Asked

        asked = Asked(job=job_file, sources=[str(source)], key=key, time=time_column, label_delay=delay, how=how)
        _, chosen_of_people = choose(asked, write, as_json)
        if as_json:
            show(chosen_of_people)
        return
    recorded = first_records(source, settings, how, records)
    if composition.forecasts is not None and _forecasts(job_from(composition, str(job_file)), recorded, as_json):
        return
    pace = Pace(PROGRESS_EVERY, at_once=True)
    tuned = tuning.tune(
        delayed(contents, delay),
        composing(job_file),
        recorded,
        share=share,
        most=candidates,
        seconds=seconds,
        tell=lambda number, what: pace.note(f"trial {number}: {what} ..."),
    )
    chosen = _show(tuned, candidates, as_json)
    if write is not None:
        _write(write, job_file, contents, chosen)


def _show(tuned: "Tuned", candidates: int, as_json: bool) -> dict[str, Any]:
    """Print what was tried; gives the sections of the best."""
    from streamjobs.replay import tuning

    best = tuned.best(tuning.OWN)
    assert best is not None
    chosen: dict[str, Any] = {name: best.table[name] for name in tuning.TUNED if name in best.table}
    if as_json:
        show(_json(tuned, best, chosen))
    else:
        _print(tuned, best, toml(chosen), candidates)
    return chosen


def _write(write: Path, job_file: Path, contents: dict[str, Any], chosen: dict[str, Any]) -> None:
    from streamjobs.replay import tuning

    text = tuning.rewritten(job_file.read_text(encoding="utf-8"), chosen)
    if tomllib.loads(text) != {**contents, **chosen}:
        raise ConfigError(f"{job_file}: its [learner] cannot be replaced on its own; copy the printed sections.")
    write_private(write, [text.encode()], "--write")
    note(f"the job file with these settings is {write}")


def _forecasts(job: "Job", records: "Sequence[Stored]", as_json: bool) -> bool:
    """Print what forecasts of these records are worth; True if the job predicts no labels: nothing else is tuned."""
    from streamjobs.recordings.guess.courses import never_negative
    from streamjobs.replay.forecast_table import worth

    done = not job.composition.predicts
    if as_json and not done:
        return done
    result = worth(job, records, never_negative)
    if as_json:
        covered = [{"ahead": ahead, "stated": stated, "covered": share} for (ahead, stated), share in result.covered.items()]
        lines = [line._asdict() for line in result.lines]
        figures = {"measure": "error over the last value's", "rows": result.rows, "forecasts": lines, "covered": covered}
        show({**figures, "not_negative": result.counts})
        return done
    rows = [(line.what, line.ahead, fixed(line.error, 3), fixed(line.within, 3)) for line in result.lines]
    table(("forecast", "rows ahead", "error", "within"), rows, left=("forecast",))
    say("error: mean |error| over the last value's on the same rows, all keys and fields alike; 'replay' sums their errors")
    say("within: two standard errors of it")
    for (ahead, stated), share in result.covered.items():
        say(f"{ahead} ahead: intervals of {stated:.0%} contained {share:.1%}")
    own = {line.ahead: line.error for line in reversed(result.lines)}  # the job's own are first
    for ahead, needed in result.needed.items():
        say(f"{ahead} ahead: {_sure(own[ahead], result.judged[ahead], needed)}")
    if result.pause is not None and (sentence := _rhythm(job, result.pause)):
        say(sentence)
    if result.counts:
        say(f"never below 0, and often there: not_negative = {json.dumps(result.counts)} in [forecast] ends intervals at 0")
    return done


def _sure(error: float | None, judged: int, needed: int | None) -> str:
    """Whether the job's forecasts differ from the last value by more than chance."""
    if error is None or needed is None:
        return f"{judged:,} judged: too few to compare, or the last value has no error"
    if needed > judged:
        return f"the difference from the last value may be chance: {judged:,} judged, about {needed:,} would show it"
    return f"{'better' if error < 1.0 else 'worse'} than the last value by more than chance: {judged:,} judged"


def _rhythm(job: "Job", pause: float) -> str | None:
    """Which interval of rows the job should name, or that it names another than the recording has."""
    from streamjobs.settings.rules.forecast import season_of

    settings = job.settings
    if settings.forecast is None or settings.window is not None or settings.source.sensors is not None:
        return None
    every, season = settings.forecast.every, settings.forecast.season
    if every is not None and abs(pause / every - 1.0) < WRONG:
        return None
    day = ", and a day is the season" if season is None and season_of(None, pause) else ""
    stated = "" if every is None else f", not {every:g} s as in the job"
    return f'rows come every {pause:g} s{stated}: with every = "{pause:g}s" in [forecast], missing rows count{day}'


def drift_tune(
    job_file: JobFile,
    source: Annotated[str, typer.Option("--input", help="As for 'replay': recordings, 'topic', or topic:NAME.")],
    quiet_until: Annotated[
        str, typer.Option(help="Until then nothing changed: 2026-11-21T12:00 (UTC), or seconds since 1970.")
    ],
    key: Annotated[str | None, typer.Option(help="Column of the file with the key.")] = None,
    key_is: KeyIs = None,
    time_column: TimeColumn = None,
    as_json: AsJson = False,
) -> None:
    """Count the alarms of each detector and watched value: false alarms while nothing changed, and changes found afterwards.

    Alarms before --quiet-until are false, and are compared with the number in [drift] false_alarms. A key counts as found
    if it raises an alarm afterwards.
    """
    from streamjobs.commands.replay import records_to_replay
    from streamjobs.job_files import job_from, job_of
    from streamjobs.replay import alarm_rates
    from streamjobs.replay.engine import Replay
    from streamjobs.settings.composition import composition_of

    own, until = job_of(job_file), milliseconds("--quiet-until", quiet_until)
    assert until is not None
    records = list(records_to_replay(own, source, how_of(key_is=key_is, key=key, time=time_column)))
    found = []
    for way in alarm_rates.ways(own.settings, own.composition.predicts):
        note(f"{way.name} ...")
        try:
            job = job_from(composition_of(alarm_rates.watching(own.settings, way)), str(job_file))
        except ConfigError as error:
            note(f"not tried: {error}")
            continue
        judge = alarm_rates.Judge(until / 1000.0)
        run = Replay(job)
        run.run(records, judge.take, lambda tally: None)
        run.check_learned()
        found.append(judge.judged(way, alarm_rates.stated_by(job.composition) if way.stated else None))
    if not found:
        raise ConfigError(f"{job_file}: nothing can be tried on this job; the notes name the reason of each watch.")
    if as_json:
        ways = [{"watch": one.way.name, "drift": one.way.drift.model_dump(exclude_defaults=True)} for one in found]
        figures = [{name: value for name, value in one._asdict().items() if name != "way"} for one in found]
        return show({"quiet_until": until / 1000.0, "ways": [way | one for way, one in zip(ways, figures, strict=True)]})
    heads = ("watch", "false alarms", "promised", "a key and hour", "promised", "keys found", "delay, s")
    table(heads, [_row_of(one) for one in found], left=("watch",))
    quiet = datetime.fromtimestamp(until / 1000.0, UTC)
    found_by = "found: keys with an alarm after it, and the median time until the first"
    say(f"false alarms: before {quiet:%Y-%m-%d %H:%M:%S} UTC; {found_by}")


def _row_of(result: "Judged") -> tuple[Any, ...]:
    numbers = result.at_most, result.per_key_hour, result.promise, result.delay
    most, rate, promise, delay = ("-" if number is None else f"{number:.3g}" for number in numbers)
    return result.way.name, result.false_alarms, most, rate, promise, f"{result.found} of {result.keys}", delay


def _print(tuned: "Tuned", best: "Trial", snippet: str, candidates: int) -> None:
    from streamjobs.replay.tuning import LINEAR, settings_text

    linear, own = tuned.best(LINEAR), tuned.trials[0]
    measure = "root mean square error" if tuned.task == "regression" else "error rate"
    trials = sorted(tuned.trials, key=lambda trial: trial.errors.first or 0.0)
    rows: list[tuple[Any, ...]] = []
    for trial in trials:
        mark = "chosen" if trial is best else "best of its kind" if trial is linear else ""
        rows.append((NAMES[trial.whose], settings_text(trial.changed), *trial.errors, mark))
    rows += [("baseline", name, *errors, "") for name, errors in tuned.baselines.items()]
    table(("what", "settings", "first part", "rest", ""), rows, left=("what", "settings", ""))
    say(f"{measure}, each row predicted before it was learned: {tuned.labels[0]:,} labels chose, {tuned.labels[1]:,} score")
    if not tuned.finished:
        note(
            f"not all settings were tried: the time limit was reached, or {candidates} trials were made; --seconds "
            "and --candidates"
        )
    say()
    say(f"# on the rest {fixed(best.errors.rest)}; with the job file's settings {fixed(own.errors.rest)}")
    say(snippet)
    if linear is not None:
        say()
        better = "less than the job's" if (linear.errors.first or 0.0) < (best.errors.first or 0.0) else "not less"
        compared = f"on the first part {fixed(linear.errors.first)}, {better}; on the rest {fixed(linear.errors.rest)}"
        say(f"# a linear head, {settings_text(linear.changed)}: {compared}")


def _json(tuned: "Tuned", best: "Trial", chosen: dict[str, Any]) -> dict[str, Any]:
    from streamjobs.replay.tuning import LINEAR

    def table_of(trial: "Trial | None") -> dict[str, Any] | None:
        return None if trial is None else {"what": trial.whose, "changed": trial.changed, **trial.errors._asdict()}

    return {
        "measure": "rmse" if tuned.task == "regression" else "error rate",
        "labels": {"first": tuned.labels[0], "rest": tuned.labels[1]},
        "finished": tuned.finished,
        "trials": [table_of(trial) for trial in tuned.trials],
        "baselines": {name: errors._asdict() for name, errors in tuned.baselines.items()},
        "chosen": table_of(best),
        "linear": table_of(tuned.best(LINEAR)),
        "settings": chosen,
    }

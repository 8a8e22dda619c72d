"""`replay`: runs the worker's core without Kafka."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, compile_loops, job_of, note, say, show, write_private
from streamjobs.commands.recordings import options
from streamjobs.errors import ConfigError, NothingLearned
from streamjobs.settings.types import AUTO, many

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.core.messages import Output, Stored
    from streamjobs.fit.scored import Scores
    from streamjobs.recordings.tables import How
    from streamjobs.replay.engine import Tally
    from streamjobs.replay.progress import Progress


SOON = 10_000  # records after which a note reports that all are dead letters
MOST_ALARMED = 5  # keys with alarms that are printed
MOST_DAYS = 10  # of keys, with minutes that are printed
SHORTEST = 0.05  # shortest hours of alarms that are printed as hours


Score = Annotated[
    bool,
    typer.Option("--score", help="Report how well classes are predicted, by key; --output-dir gets the page score.html."),
]


def replay(
    job_file: JobFile,
    sources: Annotated[
        list[str],
        typer.Option(
            "--input",
            help=f"{options.FILES}; 'topic' for the job's input topic, or topic:NAME. A second --input has later labels.",
        ),
    ],
    key: Annotated[str | None, typer.Option(help="Column of the file with the key; absent: [source] key.")] = None,
    key_from: options.KeyFrom = None,
    key_is: options.KeyIs = None,
    time_column: options.TimeColumn = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    start: options.Start = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Replay a topic from this time: 2026-11-21T12:00 (UTC), or seconds since 1970."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Replay a topic up to this time.")] = None,
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder to write the outputs to, a .jsonl file for each output topic.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            help="Compare with earlier outputs: a folder, a .jsonl file, or 'topics' for the worker's. Ends with code "
            "4 if any number differs."
        ),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Learn one model from all keys. Each key has its own windows.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="With --pool: file to write the model to, for [state] start_from.")
    ] = None,
    score: Score = False,
    as_json: AsJson = False,
) -> None:
    """Run recorded samples through a job without Kafka; outputs equal a worker's bit for bit.

    States beyond [state] cache are in a temporary file (TMPDIR). In the progress lines, LS error and error rate are means
    since the previous line. Ends with code 1 if there were records, but nothing was learned.
    """
    from streamjobs.replay.engine import Replay
    from streamjobs.replay.lines import Writer, from_files, from_topics
    from streamjobs.replay.progress import Progress
    from streamjobs.replay.scoring import Scored
    from streamjobs.replay.summary import Figures

    if export is not None:
        _refuse_export(export, pool)
    source, *labels = sources
    job = as_workers_have_it(job_of(job_file), source)
    if pool and job.population is not None:
        raise ConfigError(
            f"{job_file}: --pool learns a model for new keys, but these start from [population]; use 'streamjobs fit'."
        )
    how = options.how_of(separator, decimal, key_from, key_is, start, key, time_column)
    progress = Progress(job.task)
    records = records_to_replay(job, source, _telling(job, source, how, progress), begin, end)
    if labels:
        records = _with_labels(job, records, labels, how)
    expected = None
    if expect is not None:
        is_topics = expect == "topics"
        broker, topic = job.settings.broker, job.settings.source.topic
        expected = from_topics(broker, job.sinks, topic) if is_topics else from_files(Path(expect), list(job.sinks))
    scores = scores_of(job) if score else None
    compile_loops(job)
    run = Replay(job, pooled=pool)
    scored_late, figures = Scored(run), Figures(run)
    late, noted = scored_late if scored_late.is_late and not pool else None, list[str]()
    with Writer(output_dir, list(job.sinks)) as writer, contextlib.closing(records):
        takers = [one.take for one in (writer, figures, scores, expected, late) if one is not None]

        def take(output: "Output") -> None:
            for one in takers:
                one(output)

        def report(tally: "Tally") -> None:
            progress(tally)
            if not noted and SOON <= tally.records == tally.dead_lettered.total():
                noted.append(f"so far {figures.nothing_learned()}")
                note(noted[0])

        tally = run.run(records, take, report)
    if not as_json:
        progress.line(tally)
    summary, nothing = figures.summary(), figures.nothing_learned()
    if late is not None:
        summary |= late.figures()
    if scores is not None and nothing is None:
        scores.late, scores.samples = tally.skipped["late"], tally.samples
        scores.classless = tally.dead_lettered["bad_label" if scores.declared else "too_many_classes"]
        scores.add_late(run.late)
        summary["scored"] = scored(scores, output_dir, as_json)
    if expected is not None:
        summary["compared"] = expected.finish()
    if export is not None and nothing is None:
        summary["exported"] = write_private(export, [run.export()], "--export")
    if as_json:
        show(summary)
    else:
        _print_summary(summary, output_dir, export if nothing is None else None)
        for text in figures.cautions(summary):
            note(f"warning: {text}")
    if nothing is not None and expected is None:  # recorded outputs say what is right
        raise NothingLearned(nothing)


def scores_of(job: "Job") -> "Scores":
    """What collects rows to score; raises ConfigError for a job without classes."""
    from streamjobs.fit.scored import Scores

    if job.task != "classification":
        raise ConfigError("--score needs a job that predicts classes.")
    window, labels = job.settings.window, job.settings.labels
    length = None if window is None else window.length
    return Scores(labels.delay, length, labels.wait, job.population is not None, bool(job.composition.classes))


def scored(scores: "Scores", output_dir: Path | None, as_json: bool) -> dict[str, Any]:
    """Print the report, or only return it; its page goes to the folder of outputs."""
    from streamjobs.fit.reports.report import as_page, as_table, as_text

    evaluated = scores.evaluated()
    if not as_json:
        say("\n" + as_text(evaluated) + "\n")
    if output_dir is not None:
        write_private(output_dir / "score.html", [as_page(evaluated).encode()], "--output-dir")
    return as_table(evaluated) | {"alarms": scores.alarmed()._asdict() if scores.alarms else None}


def as_workers_have_it(job: "Job", source: str) -> "Job":
    """With the input topic's life and partitions, and the unit of times that workers have decided; else the first record
    decides that."""
    from streamjobs.kafka.preflight import kept_life, kept_time_unit
    from streamjobs.kafka.topics import connect

    if (topic := topic_of(job, source)) is None:
        return job
    if job.settings.alarms is not None and job.settings.alarms.expected:  # a key is missing on its own partition only
        job = job.on_partitions(connect(job.settings.broker, [topic])[1].get(topic, 1))
    if source not in ("topic", f"topic:{job.settings.source.topic}"):
        return job
    unit = kept_time_unit(job.settings) if job.settings.source.time_unit == AUTO else ""
    job = job.in_life(kept_life(job.settings, hidden={}))
    return job.in_time_unit(unit) if unit else job


def _telling(job: "Job", source: str, how: "How", progress: "Progress") -> "How":
    """The same way to read, which tells `progress` of a file that is the only one."""
    path = Path(source)
    if topic_of(job, source) is not None or path.suffix.lower() == ".zip" or not path.is_file():
        return how
    return dataclasses.replace(how, opened=lambda file: progress.opened(file, path.stat().st_size))


def topic_of(job: "Job", source: str) -> str | None:
    """The topic that --input names, None for a file."""
    if source == "topic" or source.startswith("topic:"):
        return source.partition(":")[2] or job.settings.source.topic
    return None


def records_to_replay(
    job: "Job", source: str, how: "How", begin: str | None = None, end: str | None = None
) -> "Generator[Stored, None, None]":
    from streamjobs.kafka.reader import topic_records

    settings = job.settings
    if (name := topic_of(job, source)) is not None:
        times = options.milliseconds("--from", begin), options.milliseconds("--to", end)
        return topic_records(settings.broker, name, *times, max_bytes=settings.source.max_bytes)
    if begin is not None or end is not None:
        raise ConfigError("--from and --to work for topics only; cut the file before you replay it.")
    return options.recorded(Path(source), settings, how)


def _with_labels(
    job: "Job", records: "Generator[Stored, None, None]", labels: list[str], how: "How"
) -> "Generator[Stored, None, None]":
    """The records with the labels of files of their own. Raises ConfigError for other files."""
    from streamjobs.recordings.files import rows_of
    from streamjobs.recordings.merging import are_labels, with_labels

    later = []
    for name in labels:
        columns = {} if topic_of(job, name) else next(rows_of(Path(name), how), {})
        if not (job.settings.labels.wait and are_labels(job.settings.source, columns)):
            raise ConfigError(
                f"--input {name}: expected a file of labels alone, and a job with [labels] wait. A folder of recordings is "
                "one input."
            )
        later.append(records_to_replay(job, name, how))
    mixed, when = with_labels(job.settings, [records], later)
    note(f"{', '.join(labels)}: {when}")
    return mixed


def _refuse_export(export: Path, pool: bool) -> None:
    if not pool:
        raise ConfigError("--export needs --pool: without it, every key has its own model.")
    if export.is_dir() or not export.absolute().parent.is_dir():
        raise ConfigError(f"--export {export}: cannot be written there; name a file in a folder that exists.")


def _print_summary(summary: dict[str, Any], output_dir: Path | None, export: Path | None) -> None:
    from streamjobs.core.unlearned import of_each
    from streamjobs.replay.warm_up import cannot_alarm_yet

    keys, rows_of_all = many(summary["keys"], "key"), many(summary["rows"], "row")
    say(
        f"{many(summary['records'], 'record')} of {keys}, {many(summary['samples'], 'sample')}, "
        f"{rows_of_all} in {summary['seconds']:.1f} s ({summary['samples_per_second']:,} samples/s)"
    )
    if not summary["records"]:
        note("no records: the input is empty, or has none between --from and --to")
    if summary["labels"]:
        say(f"{many(summary['labels'], 'label')}, each predicted before it was learned: {_error(summary)}")
        if controls := summary["controls"]:
            say(f"without a model, on {controls['judged']:,} of them: {_errors_of_controls(controls)}")
    if summary["unknown"]:
        say(f"{summary['unknown']:,} rows are unknown by [head] reject; their labels count as neither right nor wrong")
    if summary["numbers_filled"]:
        which = of_each(Counter(summary["lacking"]))
        note(f"{summary['numbers_filled']:,} missing numbers were filled in by [source] missing ({which})")
    if summary["targets_clipped"]:
        note(f"{summary['targets_clipped']:,} labels were clipped by [head] clip_target before they were learned")
    for what in ("dead_lettered", "skipped"):
        if summary[what]:
            counts = ", ".join(f"{reason} {count:,}" for reason, count in summary[what].items())
            note(f"{what.replace('_', ' ')}: {counts}")
    if summary["first_error"]:
        note(f"the first dead letter: {summary['first_error']}")
    if alarms := summary.get("alarms"):
        rate = "" if alarms["per_key_hour"] is None else f", {alarms['per_key_hour']:.3g} a key and hour"
        most = ", ".join(f"{key} {count:,}" for key, count in list(alarms["by_key"].items())[:MOST_ALARMED])
        span = f"{alarms['key_hours']:,.1f} hours"
        if alarms["key_hours"] < SHORTEST:  # such as of a file without times
            span, rate = rows_of_all, ""
        allowed = "" if alarms["allowed"] is None else f"; false_alarms allows {alarms['allowed']:.2g}"
        say(f"{many(alarms['total'], 'alarm')} in {span} of {keys}{rate}{allowed}")
        for watch in ("stuck", "silent", "missing"):
            if count := alarms["by_watch"].get(watch):
                say(f"{count:,} of the alarms: sensors that are {watch}")
        if sentence := cannot_alarm_yet(summary):
            note(sentence)
        if most:
            say(f"most alarms: {most}")
    days = [(key, day, of) for key, days in summary.get("minutes", {}).items() for day, of in days.items()]
    for key, day, of_day in days[:MOST_DAYS]:
        spent = ", ".join(f"{name} {minutes:.1f}" for name, minutes in sorted(of_day.items(), key=lambda one: -one[1]))
        say(f"minutes of {key} on {day}: {spent}")
    if len(days) > MOST_DAYS:
        note(f"{len(days) - MOST_DAYS:,} more days of keys: --json prints all of them")
    if judged := summary.get("forecasts"):
        from streamjobs.replay.forecast_table import sentences

        say("\n".join(sentences(judged)))
    if output_dir is not None:
        say(f"outputs in {output_dir}")
    if "compared" in summary:
        say(f"{summary['compared']:,} outputs equal the expected outputs, number by number")
    if export is not None:
        say(f"model of all keys in {export} ({summary['exported']:,} bytes); use it as [state] start_from")


def _error(summary: dict[str, Any]) -> str:
    none = f", {summary['unpredicted']:,} had no prediction" if summary["unpredicted"] else ""
    if summary["rmse"] is not None:
        after = f", after the first known label of a key ({summary['measured']:,} of them)" if "measured" in summary else ""
        return f"root mean square error {summary['rmse']:.6g}{after}{none}"
    if summary["wrong"] is None:
        return "none had a prediction in time"
    return f"{summary['wrong']:,} wrong{none}"


def _errors_of_controls(controls: dict[str, Any]) -> str:
    if "rmse_last_label" in controls:
        return f"root mean square error {controls['rmse_last_label']:.6g} by repeating the key's last label"
    return (
        f"{controls['wrong_last_label']:,} wrong by repeating the key's last label, {controls['wrong_majority']:,} by "
        "its most frequent one"
    )

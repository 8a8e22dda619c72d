"""`init`: writes a commented job file to start from."""

import dataclasses
import itertools
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamjobs.commands.console import ReadShare, counted, note_all, say, write_file
from streamjobs.commands.recordings.options import FILES, Decimal, Separator, how_of
from streamjobs.errors import ConfigError
from streamjobs.settings.paths import column_path
from streamjobs.settings.times import example_of, zone_of
from streamjobs.settings.types import UNIT_NAMES, many

if TYPE_CHECKING:
    from streamjobs.commands.recordings.job_template import Written
    from streamjobs.commands.recordings.trial import Sample
    from streamjobs.recordings.guess.result import Chosen, Guess
    from streamjobs.recordings.tables import How

SHORT, USUAL = 300, 1000  # rows of a key from which a detector can learn from few, and as usual
MOST_NAMED = 20  # fields in the line about the guess
LONG = 2000  # rows of a key that follows others: with as many, a detector without a reference judges most
BROKER = "kafka://localhost:9092"
MIXED = (
    "records of a key are up to {seconds} s out of order, because they are in several partitions; [source] lateness = "
    '"{seconds}s" puts them in order, and every row waits that long'
)
TimeFormat = Annotated[
    str | None, typer.Option("--time-format", help="Format of times, such as '%d.%m.%Y %H:%M', or excel.")
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="Zone of times without a zone, such as UTC or Europe/Berlin.")
]
TimeUnit = Annotated[str | None, typer.Option(help="Unit of a time that does not count from 1970: s, ms, us or ns.")]
Topic = Annotated[
    str | None, typer.Option(help="The input topic; absent: the topic of --from-topic, or the name of --sample.")
]
Missing = Annotated[
    str | None, typer.Option(help="What to do if a number is missing: dlq, skip, hold or mean; absent: skip.")
]
Records = Annotated[
    int | None,
    typer.Option(min=1, help="With --from-topic: most records to read; absent: 2,000, or 50,000 if the topic has them."),
]


def init(
    file: Annotated[Path, typer.Argument(help="The job file to write.")] = Path("job.toml"),
    sample: Annotated[Path | None, typer.Option(help=f"Data to guess fields, times and labels from. {FILES}.")] = None,
    from_topic: Annotated[str | None, typer.Option(help="Guess from the newest records of this topic instead.")] = None,
    broker: Annotated[str | None, typer.Option(help="The broker, such as kafka://localhost:9092.")] = None,
    records: Records = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="With --from-topic: longest time to read records, in seconds.")
    ] = 5.0,
    preset: Annotated[
        str | None, typer.Option(help="Without data: the tool that will write the records, such as sensorlogger_live.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="A population to start with: phone (in a pocket) or watch (shoulder exercises).")
    ] = None,
    topic: Topic = None,
    key: Annotated[str | None, typer.Option(help="Column with the key (a person, a device).")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the label; '' for none.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with the event time.")] = None,
    time_format: TimeFormat = None,
    time_zone: TimeZone = None,
    time_unit: TimeUnit = None,
    missing: Missing = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; use the proposals.")] = False,
    separator: Separator = None,
    decimal: Decimal = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented job file for your own data, with a reason for each guess.

    At a terminal it asks when it is unsure. Lines that it cannot guess are marked 'choose', with the candidates. It
    tries drift detection, learners that predict the label, and alarms of sensors, on the sample or the topic's records.
    """
    from streamjobs.commands.recordings import job_template, questions, tries
    from streamjobs.commands.recordings.trial import Sample
    from streamjobs.recordings.guess import guess
    from streamjobs.recordings.guess.preset import guess_of_preset
    from streamjobs.recordings.guess.result import EXAMPLE, Chosen

    _refuse_file(file, force)
    _refuse_options(missing, sample, from_topic, preset)
    _refuse_twice({"--key": key, "--label": label, "--time": time})
    _refuse_times(time_format, time_zone, time_unit)
    asks = not yes and questions.at_a_terminal()
    written = _begun(topic or from_topic, sample, broker)._replace(time_zone=time_zone, missing=missing)
    chosen = Chosen(key, time, label, None, time_format, time_unit, missing in questions.FILL)
    guessed, data = EXAMPLE, Sample(sample, how_of(separator, decimal))
    guess_with: Callable[[Chosen], Guess] | None = None
    if from_topic is not None:
        data, written, guess_with = _topic(from_topic, broker, records, seconds, data, written)
    elif sample is not None:
        guess_with = lambda chosen: guess(sample, data.how, chosen)  # noqa: E731
    elif preset is not None:
        guess_with = lambda chosen: guess_of_preset(preset)  # noqa: E731
    if guess_with is not None:
        guessed = questions.asked(guess_with, chosen) if asks else guess_with(chosen)
        if population is None:  # which needs all columns, also of a phone that lies still
            guessed, most_rows, written = _surveyed(data, guessed, written)
            guessed = _with_people(data, guessed, lambda key: guess_with(chosen._replace(key=key)))
    if population is not None:
        return _start(population, file, None if guess_with is None else guessed, written, data, force)
    if guess_with is not None:
        guessed, written = _completed(written, guessed, asks)
    write_file(file, job_template.job_file_text(guessed, file, written))
    if guess_with is not None:
        note_all(_said(guessed, written.missing))
    if sample is not None or data.topic is not None:
        guessed = tries.tried(file, data, guessed, written, most_rows)
    copied = written.partitions > 1 and guessed.key is not None
    say(questions.what_next(guessed, file, sample, from_topic is not None, copied=copied))


def _refuse_file(file: Path, force: bool) -> None:
    from streamjobs.recordings.places import is_recording

    if is_recording(file):
        raise ConfigError(f"{file}: this is the name of recordings, not of a job file; write: init --sample {file}.")
    if file.exists() and not force:
        raise ConfigError(f"{file}: already exists; --force overwrites it.")


def _refuse_options(missing: str | None, sample: Path | None, from_topic: str | None, preset: str | None) -> None:
    from streamjobs.commands.recordings import questions

    if missing is not None and missing not in questions.POLICIES:
        raise ConfigError(f"--missing must be {', '.join(questions.POLICIES)}; got {missing!r}.")
    if sample is not None and from_topic is not None:
        raise ConfigError("--sample and --from-topic both name the data; give one of them.")
    if preset is not None and (sample is not None or from_topic is not None):
        raise ConfigError("--preset is for a job without data: with --sample or --from-topic, init recognises the tool.")


def _refuse_twice(columns: dict[str, str | None]) -> None:
    for (one, name), (other, also) in itertools.combinations(columns.items(), 2):
        if name and name == also:
            raise ConfigError(f"{one} and {other} must be different columns; both are {name!r}.")


def _refuse_times(form: str | None, zone: str | None, unit: str | None) -> None:
    if unit is not None and unit not in UNIT_NAMES:
        raise ConfigError(f"--time-unit must be {', '.join(UNIT_NAMES)}; got {unit!r}.")
    for option, text, read in (("--time-format", form, example_of), ("--time-zone", zone, zone_of)):
        try:
            if text is not None:
                read(text)
        except ValueError as error:
            expected = error if error.args[0].startswith("a ") else "a format such as '%d.%m.%Y %H:%M'"
            raise ConfigError(f"{option} must be {expected}; got {text!r}.") from None


def _start(name: str, file: Path, guessed: "Guess | None", written: "Written", data: "Sample", force: bool) -> None:
    """A job with a population of the package."""
    from streamjobs.commands.recordings import job_template, questions, starting
    from streamjobs.fit.starters import starter
    from streamjobs.recordings.files import rows_of

    of, sample = starter(name), data.path
    topic_rows = data.topic.rows if data.topic is not None else None
    rows = topic_rows or (rows_of(sample, data.how) if sample is not None else ())
    fitting = starting.begun(of, guessed, rows)
    fitting, written = _completed(written, fitting, False)
    population = starting.write_population(of, fitting, file, force)
    write_file(file, job_template.job_file_text(fitting, file, written, starter=of))
    note_all((*(_said(fitting, written.missing) if guessed is not None else ()), *of.described()))
    if sample is None and topic_rows is None:
        steps = "; ".join(f"streamjobs {step} {file}" for step in ("check", "topics create", "run"))
        said = f"wrote {file}. Next: {steps}"
    else:
        copied = written.partitions > 1
        said = questions.what_next(fitting, file, sample, topic_rows is not None, copied=copied, starter=True)
    say(said.replace(f"wrote {file}", f"wrote {file} and {population}", 1))


def _begun(topic: str | None, sample: Path | None, broker: str | None) -> "Written":
    """What the job file has before anything is guessed."""
    from streamjobs.commands.recordings.job_template import USUAL_NAME, Written, name_of
    from streamjobs.recordings.places import stem_of

    name = topic or (USUAL_NAME if sample is None else stem_of(sample))
    topic = topic or ("imu" if sample is None else name_of(name))
    return Written(topic, broker or BROKER, "json", None, None, name=name)


def _surveyed(sample: "Sample", guessed: "Guess", written: "Written") -> "tuple[Guess, int, Written]":
    """With the classes and people of the whole file, and without fields that drift detection cannot watch.

    Also the most rows of a key, and what is written with whether these are few.
    """
    from streamjobs.commands.recordings.drift_trial import FEW, LEAST
    from streamjobs.recordings.clocks import LATENESS, behind
    from streamjobs.recordings.profile import moments_of, profiled, profiled_rows
    from streamjobs.recordings.survey import of_labels

    whole = True
    if sample.path is not None:
        how = _untold(sample, guessed)
        surveyed = _counted(sample.path, guessed, how)
        guessed, found = profiled(sample.path, surveyed, how, lambda rows: counted(rows, "rows of the sample read"))
    elif sample.topic is not None:
        guessed, found = profiled_rows(sample.topic.rows, of_labels(sample.topic.rows, guessed), sample.topic.owners)
        whole = sample.topic.whole
        if sample.topic.mixed and guessed.key is not None and guessed.time is not None:
            keys, times = map(column_path(guessed.key).find, sample.topic.rows), map(moments_of(guessed), sample.topic.rows)
            if seconds := math.ceil(max(behind(map(repr, keys), times), default=0.0)):
                remarks = [one for one in guessed.remarks if LATENESS not in one]
                guessed = guessed._replace(remarks=[*remarks, MIXED.format(seconds=seconds)])
    else:
        return guessed, 0, written
    short = found.most_rows if whole and found.keys > 1 and SHORT <= found.most_rows < USUAL else 0
    few = LEAST <= found.most_rows < FEW
    runs = found.runs if SHORT <= found.runs < LONG else 0
    written = written._replace(rows=short, few=few, daily=bool(found.daily), week=found.week, keys=found.keys, runs=runs)
    return guessed, found.most_rows, written


def _with_people(sample: "Sample", guessed: "Guess", guess_with_key: "Callable[[str], Guess]") -> "Guess":
    """With a remark if the column that is tried as the key may have the people of a population."""
    from streamjobs.recordings.guess.result import key_to_try, windowed
    from streamjobs.recordings.survey import teaches

    key = key_to_try(guessed)
    if key is None or sample.path is None or "key" not in guessed.choose or not guessed.label or not windowed(guessed.rate):
        return guessed
    of_people = _counted(sample.path, guess_with_key(key), _untold(sample, guessed))
    if not teaches(of_people):
        return guessed
    remark = (
        f"if {key!r} names people, {of_people.people:,} have labels: 'streamjobs init' with the same options and "
        f"{shlex.join(['--key', key, '--force'])} writes a job that recognises new people"
    )
    return guessed._replace(remarks=[*guessed.remarks, remark])


def _untold(sample: "Sample", guessed: "Guess") -> "How":
    """How the sample is read again, without repeating remarks."""
    from streamjobs.recordings.tables import untold

    return dataclasses.replace(sample.how, preset=guessed.preset and guessed.preset.name, tell=untold)


def _counted(path: Path, guessed: "Guess", how: "How") -> "Guess":
    """With the classes and people of the whole file; prints its progress."""
    from streamjobs.recordings.survey import survey

    share = ReadShare(path)
    how = dataclasses.replace(how, opened=share.opened)
    return survey(path, guessed, how, lambda rows: counted(rows, "rows of the sample counted", share))


def _topic(
    topic: str, url: str | None, records: int | None, seconds: float, data: "Sample", written: "Written"
) -> "tuple[Sample, Written, Callable[[Chosen], Guess]]":
    """Guesses from the newest records of a topic. Raises SetupError where it cannot be read."""
    from streamjobs.commands.recordings.topic_sample import sample_of, shares
    from streamjobs.job_files import broker_of
    from streamjobs.recordings.guess import guess_rows
    from streamjobs.recordings.guess.preset import guess_of_preset, live_preset

    sample = sample_of(broker_of(url), topic, records, seconds)
    note_all(f"topic {topic}: {line}" for line in shares(sample))
    written = written._replace(format=sample.format)
    live = live_preset(sample.rows)
    if live is not None:
        return data, written, lambda chosen: guess_of_preset(live.name, sample.rows)
    guess = lambda chosen: guess_rows(sample.rows, f"topic {topic}", chosen, owners=sample.owners)  # noqa: E731
    keyless = 0 if sample.owners is not None else sample.partitions
    written = written._replace(registry=sample.registry, partitions=keyless, after_schema_id=sample.after_schema_id)
    return data._replace(topic=sample), written, guess


def _completed(written: "Written", guessed: "Guess", asks: bool) -> "tuple[Guess, Written]":
    """With what is asked, or proposed, next to the columns. A known zone is not asked for again."""
    from streamjobs.commands.recordings import questions
    from streamjobs.recordings.profile import without_gaps

    zone, missing = written.time_zone, written.missing
    if zone is None and asks and "time_zone" in guessed.choose:
        zone = questions.zone_asked(guessed.choose["time_zone"])
    if missing is None and not asks:
        guessed = without_gaps(guessed)
    if missing is None and guessed.gaps.lacking:
        missing = questions.missing_asked(guessed) if asks else questions.proposed(guessed)
    if zone is not None:
        guessed = guessed._replace(choose={what: why for what, why in guessed.choose.items() if what != "time_zone"})
    return guessed, written._replace(time_zone=zone, missing=missing)


def _listed(names: Sequence[str]) -> str:
    """The names; of many the first and the last ones."""
    more = len(names) - MOST_NAMED
    return ", ".join(names if more <= 0 else (*names[: MOST_NAMED - 1], f".. {more} more ..", names[-1]))


def _said(guessed: "Guess", missing: str | None) -> Iterator[str]:
    """The guess for people, a line for each thing they should look at. missing: the proposed [source] missing."""
    from streamjobs.commands.recordings.source_template import one_line
    from streamjobs.recordings.guess.result import NONE_CHOSEN, by_kind, key_to_try
    from streamjobs.recordings.survey import with_counts

    parts = []
    if "fields" not in guessed.choose:
        parts.append(f"x = {guessed.x} (list of {guessed.dim})" if guessed.x else f"fields {_listed(guessed.fields)}")
    parts += [f"categories {', '.join(guessed.categories)}"] if guessed.categories else []
    parts += [f"key {guessed.key}"] if guessed.key else []
    parts += [f"key the name of each of {many(guessed.files, guessed.key_from)}"] if guessed.key_from else []
    unit = guessed.time_format or "ISO 8601" if guessed.written else f"{UNIT_NAMES[guessed.time_unit]} since 1970"
    parts += [f"time {guessed.time} ({unit})"] if guessed.time else []
    counted = f", {guessed.classes} classes" if guessed.people else ""
    parts += [f"label {guessed.label} ({guessed.task}{counted})"] if guessed.label else []
    parts += [f"{guessed.people:,} {'person' if guessed.people == 1 else 'people'} with labels"] if guessed.people else []
    parts += [f"{guessed.rate:g} Hz"] if guessed.rate else []
    if parts and guessed.rows:
        yield one_line(f"guessed from {many(guessed.rows, 'row')}: {'; '.join(parts)}. Check it in the file.")
    if guessed.labels:
        yield one_line(f"rows of each label: {with_counts(guessed.labels)}")
    if guessed.preset is not None:
        of = "the sample is" if guessed.rows else "records will be"
        yield f"{of} of {guessed.preset.tool}: preset {guessed.preset.name!r}"
        yield from guessed.preset.notes
    for what, why in guessed.choose.items():
        if (what, why) != ("label", NONE_CHOSEN):
            yield one_line(f"not guessed, choose: {what}: {why}")
        if what == "key" and (name := key_to_try(guessed)) is not None:
            yield f"until you choose, {name!r} is tried as the key"
    for remark in guessed.remarks:
        yield one_line(remark)
    if guessed.gaps.lacking and missing is not None:
        yield f"proposed: missing = {missing!r}"
    named = {name or repr(name): why for name, why in guessed.left_out.items()}
    yield from (one_line(f"left out of x: {line}") for line in by_kind(named, "{}: {}", ". The job file lists more"))

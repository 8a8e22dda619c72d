"""`check`, `size`: a job file before it runs, and what its keys will need."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, compile_loops, job_of, moment, note, say, show, table
from streamjobs.commands.recordings import options
from streamjobs.errors import ConfigError, NothingLearned, RecordError, SetupError
from streamjobs.settings.types import UNIT_NAMES, many, readable

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.recordings.tables import How
    from streamjobs.settings.sections import Settings

MOST_STATES, MOST_STATE_BYTES = 100_000, 256 << 20  # of the changelog that `--online` reads
MOST_REQUEST_BYTES = 100 << 20  # default of socket.request.max.bytes of Kafka's brokers
REPLAY = 10.0  # seconds of [state] replay that `size` compares a shorter time with
SAMPLED = 10_000  # most records of a sample that are decoded
LOOKED_AT = 200  # rows of a sample, for columns of times
SHOWN, MOST_COLUMNS = 3, 24  # of the rows that a sample gives


def check(
    job_file: JobFile,
    online: Annotated[
        bool,
        typer.Option(
            "--online", help="Also check the broker: topics, partition counts, rights, and the newest 100 records."
        ),
    ] = False,
    sample: Annotated[Path | None, typer.Option(help=f"Decode the first rows as a worker would. {options.FILES}.")] = None,
    key: Annotated[str | None, typer.Option(help="Column of --sample with the key.")] = None,
    key_from: options.KeyFrom = None,
    key_is: options.KeyIs = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    start: options.Start = None,
    time_column: options.TimeColumn = None,
    keys: Annotated[int, typer.Option(min=1, help="Number of keys to predict sizes for.")] = 1000,
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the job's loops into the cache, so that its workers start at once.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a job file, list all mistakes at once, and predict the size of its states.

    Ends with code 1 if none of the records that it reads (--sample, --online) can be used.
    """
    from algorithms.common.cache_folder import cache_root
    from streamjobs.kafka.certificates import check_authority
    from streamjobs.kafka.secrets import exposed, unreadable
    from streamjobs.settings.notes import notes

    job = job_of(job_file)
    check_authority(job.settings.broker)
    broker, metrics = job.settings.broker, job.settings.metrics
    registry = job.settings.registry
    secrets = [*unreadable(broker), *(unreadable(registry) if registry is not None else ())]
    advice = [*notes(job.settings), *secrets, *exposed(broker, metrics, registry), *_large(job.state_bytes)]
    result: dict[str, Any] = {"job": str(job_file), "advice": advice, **_predicted(job, keys)}
    if sample is not None:
        from streamjobs.recordings.survey import doubtful

        how = options.how_of(separator, decimal, key_from, key_is, start, key, time_column)
        result["sample"] = _sampled(job, sample, how)
        advice += result["sample"].pop("unlike")
        advice += doubtful(result["sample"]["labels"])
        advice += _unread_times(job, sample, time_column, result["sample"])
    if online:
        result |= _online(job, advice)
    if compile_now:
        compile_loops(job)
        result["compiled"] = str(cache_root())
    if as_json:
        show(result)
    else:
        _print_result(job, result, keys)
    for where, found in ((str(sample), result.get("sample")), ("the input topic", result.get("newest"))):
        if found and found["records"] and found["records"] == sum(found["dead_letters"].values()):
            raise NothingLearned(
                f"{where}: all {found['records']:,} records would be dead letters. The first: {found['first_error']}"
            )


def _large(state_bytes: int) -> list[str]:
    """A sentence if a key's largest state does not fit into a request to a broker: it is written without compression."""
    if state_bytes <= MOST_REQUEST_BYTES:
        return []
    return [
        f"the state of a key may have {readable(state_bytes)}, and Kafka's brokers refuse requests of more than "
        f"{readable(MOST_REQUEST_BYTES)} unless socket.request.max.bytes is raised; a lower budget or rank makes it smaller"
    ]


def _online(job: "Job", advice: list[str]) -> dict[str, Any]:
    """What the broker says. Raises SetupError with a sentence for each obstacle, ForeignStateError for another job's states.

    Reads the oldest records of the changelog: the state of a key that is set aside stays where it is, others are renewed.
    """
    from streamjobs.core.state.held_stages import starting_over
    from streamjobs.kafka.preflight import doubtful_topics, expiring_certificates, leaderless, obstacles
    from streamjobs.maintenance.changelog_edit import deleted_states
    from streamjobs.maintenance.scan import changelog_records, require_present_input
    from streamjobs.maintenance.verify import first_records, sentence, unreadable
    from streamjobs.replay.first_rows import newest_records

    if problems := leaderless(job.settings, job) or obstacles(job.settings, job):
        raise SetupError("\n".join(problems))
    require_present_input(job.settings)
    records = first_records(changelog_records(job.settings), MOST_STATES, MOST_STATE_BYTES)
    found, read, state = unreadable(job, records)
    advice += deleted_states(job.settings)
    advice += [*expiring_certificates(job.settings.broker), *doubtful_topics(job.settings, job)]
    advice += [sentence(found)] if found else []
    advice += [text] if state and (text := starting_over(job.stages, job.described, state)) else []
    online = "the broker answers; every topic exists and fits; every right is granted"
    return {"online": online, "newest": newest_records(job), "states_read": read, "keys_unreadable": len(found)}


def _predicted(job: "Job", keys: int) -> dict[str, Any]:
    from streamjobs.stages.names import DRIFT_REFERENCE, REFERENCE

    state, checkpoint = job.settings.state, job.settings.checkpoint
    seconds = max(checkpoint, state.replay)
    stages = {name: text for name, text in job.described.items() if name not in ("dim", "labels", "fields", "classes")}
    if DRIFT_REFERENCE in stages:
        stages[REFERENCE] = stages.pop(DRIFT_REFERENCE)
    return {
        "model": job.model,
        "dim": job.dim,
        "learner_dim": job.width,
        "stages": stages,
        "reference": _reference(job),
        "topics": {"input": job.settings.source.topic, **job.sinks},
        "state_bytes_per_key": job.state_bytes,
        "keys": keys,
        "state_bytes": job.state_bytes * keys,
        "changelog_bytes_per_second": job.state_bytes * keys / seconds,
        "checkpoint_seconds": checkpoint,
        "replay_seconds": state.replay,
    }


def _reference(job: "Job") -> str | None:
    """What [drift] says of a key's reference; None without one."""
    drift, start = job.settings.drift, job.settings.state.start_from
    if drift is None or drift.reference is None:
        return None
    if job.population_reference is not None:
        assert job.settings.population is not None
        return f"rows like the rows just before them, as learned in {job.settings.population.file}"
    of_whom = (
        f"new keys have the reference of {start}"
        if drift.reference_from == "start_from"
        else f"{drift.reference} of each key"
    )
    return of_whom + (f"; restarts when an alarm has lasted {drift.relearn_after}" if drift.relearn_after else "")


def _sampled(job: "Job", path: Path, how: "How") -> dict[str, Any]:
    from streamjobs.replay.first_rows import decoded_with_labels, first_rows
    from streamjobs.replay.warm_up import days_to_alarm, rows_to_alarm

    records = list(islice(options.recorded(path, job.settings, how), SAMPLED))
    if not records:
        raise ConfigError(f"{path}: expected records to decode; got none.")
    decoded = decoded_with_labels(job, records)
    refused = {index for index, _ in decoded.errors}
    usable = [record for index, record in enumerate(records) if index not in refused]
    first = first_rows(job, usable, SHOWN) if len(decoded.owner) else None
    needed, keys = rows_to_alarm(job), len({record.key for record in records})
    ready = sum(rows >= needed for rows in first.watched) if first is not None and needed else 0
    return {
        "records": len(records),
        "samples": len(decoded.owner),
        "keys": keys,
        "labelled": sum(label is not None for label in decoded.labels),
        "labels": _names(decoded.labels) if job.most_names is not None else {},
        "time_unit": getattr(job.decode, "unit", None),  # that time_unit = "auto" is decided for
        "dead_letters": Counter(error.reason for _, error in decoded.errors),
        "first_error": str(decoded.errors[0][1]) if decoded.errors else None,
        "rows": first.rows if first is not None else 0,
        "rows_to_alarm": needed,
        "days_to_alarm": days_to_alarm(job),
        "keys_warming_up": keys - ready if needed else None,
        "skipped": dict(first.skipped) if first is not None else {},
        "unlike": first.unlike if first is not None else [],
        "first_rows": first
        and {
            "columns": list(first.columns),
            "rows": [row._asdict() for row in first.unscaled],
            "scaled": [row.numbers for row in first.scaled],
        },
    }


def _names(labels: Sequence[object]) -> dict[str, int]:
    """The classes of labels that may be classes, with their counts."""
    from streamjobs.core.decoding.values import class_name

    names = Counter[str]()
    for label in labels:
        with suppress(RecordError):  # of no label too
            names[class_name(label)] += 1
    return names


def _unread_times(job: "Job", path: Path, time: str | None, sample: dict[str, Any]) -> Iterator[str]:
    """Advice for a sample with times that the job does not read; they are added to the sample's result."""
    from streamjobs.recordings.columns import columns_of_times
    from streamjobs.recordings.files import rows_of

    sample["unread_times"] = []
    if job.settings.source.time is not None or time is not None or job.settings.source.format == "raw":
        return
    sample["unread_times"] = found = columns_of_times(list(islice(rows_of(path), LOOKED_AT)))
    if found:
        yield (
            f"{path}: the times in {', '.join(map(repr, found))} are not read, because [source] time is not set: a worker "
            "uses the records' timestamps. Set time, with time_unit or time_format."
        )
    if job.settings.window is not None:
        yield (
            f"{path}: [source] time is not set, so its rows are read as 1 ms apart, and windows of them have "
            "no meaning; name the column with their times with --time."
        )


def _verdict(sample: dict[str, Any] | None, newest: dict[str, Any] | None) -> str:
    """Of the first line: nothing is called free of mistakes if records cannot be used."""
    found = []
    for where, looked in (("the sample", sample), ("the input topic", newest)):
        if looked is not None and (lost := sum(looked["dead_letters"].values())):
            found.append(f"{lost:,} of {looked['records']:,} records of {where} are dead letters")
    found += ["the times of the sample are not read"] if sample is not None and sample["unread_times"] else []
    return f"its settings fit together, but {' and '.join(found)}" if found else "no mistakes"


def _changelog(size: float, keys: int, settings: "Settings") -> str:
    every, replay = settings.checkpoint, settings.state.replay
    if not replay:
        return f"at most {readable(size)}/s with {keys:,} active keys (a write per changed key every {every:g} s)"
    return (
        f"about {readable(size)}/s with {keys:,} active keys that keep a worker busy (a write per changed key every "
        f"{max(every, replay):g} s); 'streamjobs size' says how much less with your rate"
    )


def _print_rows(first: dict[str, Any]) -> None:
    rows, scaled = first["rows"], first["scaled"]
    say("\nthe first rows, in the units of the records" + (", and scaled as the learner gets them:" if scaled else ":"))
    names = [f"{row['key']} {moment(1000 * row['time'])[11:]}" for row in rows]
    lines = []
    for number, name in enumerate(first["columns"][:MOST_COLUMNS]):
        cells = [row["numbers"][number] for row in rows] + [numbers[number] for numbers in scaled]
        lines.append((name, *cells))
    table(("column", *names, *(f"scaled {n + 1}" for n in range(len(scaled)))), lines, left=("column",))
    if len(first["columns"]) > MOST_COLUMNS:
        say(f"and {many(len(first['columns']) - MOST_COLUMNS, 'more column')} (--json has them all)")


def _print_result(job: "Job", result: dict[str, Any], keys: int) -> None:
    from algorithms import LEARNERS
    from streamjobs.commands.describe import stage_in_words

    for sentence in result["advice"]:
        note(f"note: {sentence}")
    topics = "  ".join(f"{role} {topic}" for role, topic in result["topics"].items())
    say(f"{result['job']}: {_verdict(result.get('sample'), result.get('newest'))}")
    width = max(10, *map(len, result["stages"]))

    def line(word: str, text: str) -> None:
        say(f"  {word:<{width}} {text}")

    line("model", f"{result['model']} on {result['learner_dim']} numbers a row ({result['dim']} a sample)")
    plain = []  # stages without a setting to print
    for name, text in result["stages"].items():
        words = result["reference"] if name == "reference" else stage_in_words(name, text)
        if text.endswith("()") and (words == name or words not in LEARNERS):
            plain.append(name)
        elif name == "idle":
            line(name, f"{words} repeats of a sample, more repeats are not watched")
        else:
            line(name, words)
    if plain:
        line("also", f"{', '.join(plain)} (with default settings)")
    line("topics", topics)
    line(
        "state",
        f"at most {readable(result['state_bytes_per_key'])} a key; {many(keys, 'key')}: {readable(result['state_bytes'])}",
    )
    line("changelog", _changelog(result["changelog_bytes_per_second"], keys, job.settings))
    for word, text in _of_sample(result["sample"]) if "sample" in result else ():
        line(word, text)
    if "online" in result:
        line("online", result["online"])
        from streamjobs.commands.recordings.topic_sample import lines_of_newest

        for word, text in lines_of_newest(job, result["newest"]):
            line(word, text)
        what = f"{many(result['keys_unreadable'], 'key')} cannot be read" if result["keys_unreadable"] else "all can be read"
        line("states", f"the oldest {result['states_read']:,} records of the changelog, 256 MB at most: {what}")
    if "compiled" in result:
        line("compiled", f"the job's loops are in {result['compiled']}")
    if "sample" in result and result["sample"]["first_rows"] is not None and result["sample"]["first_rows"]["rows"]:
        _print_rows(result["sample"]["first_rows"])


def _of_sample(sample: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A word, or none below the one before, and a sentence each."""
    yield (
        "sample",
        f"{'the first ' * (sample['records'] == SAMPLED)}{many(sample['records'], 'record')} "
        f"of {many(sample['keys'], 'key')}: "
        f"{many(sample['samples'], 'sample')}, "
        f"{sample['labelled']:,} labelled, {many(sum(sample['dead_letters'].values()), 'dead letter')}",
    )
    if sample["labels"]:
        from streamjobs.recordings.survey import with_counts

        yield "", f"labels: {with_counts(sample['labels'])}"
    if sample["time_unit"]:
        yield "", f"times are in {UNIT_NAMES[sample['time_unit']]}, as the first time shows"
    if sample["first_error"]:
        counts = ", ".join(f"{reason} {count}" for reason, count in sample["dead_letters"].items())
        yield "", f"{counts}; the first: {sample['first_error']}"
    if sample["skipped"]:
        counts = ", ".join(f"{reason} {count:,}" for reason, count in sample["skipped"].items())
        yield "", f"skipped: {counts}"
    yield "", f"rows for the learner: {sample['rows']:,}"
    if sample["rows_to_alarm"]:
        from streamjobs.replay.warm_up import in_words

        needed = in_words(sample["rows_to_alarm"], sample["days_to_alarm"])
        have = f"{sample['rows'] / sample['keys']:,.0f} on average here"
        have_fewer = "has fewer" if sample["keys"] == 1 else "have fewer"
        fewer = f"{sample['keys_warming_up']:,} of {many(sample['keys'], 'key')} of the sample {have_fewer}"
        yield "", f"a key can alarm after {needed} at least, and has {have}; {fewer}"


def size(
    job_file: JobFile,
    keys: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Number of keys that send records.")] = 10_000,
    rate: Annotated[str, typer.Option(help="Records of each key: a number per s, min, h or day.")] = "1/s",
    as_json: AsJson = False,
) -> None:
    """Predict cores, memory, disk, changelog, partitions and workers for a number of keys.

    Measures the job's learner on this machine for a few seconds. Other costs of a worker were measured on another machine,
    and are scaled to this one.
    """
    from streamjobs.sizing.measure import cost, slopes
    from streamjobs.sizing.slopes import BUSY, Load, need, rate_of, too_many_workers

    job, each = job_of(job_file), rate_of(rate)
    compile_loops(job)
    note("measuring the job's learner on this machine, a few seconds ...")
    measured, known, state, every = cost(job, each), slopes(), job.settings.state, job.settings.checkpoint
    counts = sorted({keys, 10_000, 100_000, 1_000_000})
    needs = [need(known, measured, Load(count, each, state.cache, every, state.replay)) for count in counts]
    if as_json:
        asked = needs[counts.index(keys)]._asdict()
        return show({"job": str(job_file), **asked, "table": [one._asdict() for one in needs], "cost": measured._asdict()})
    say(
        f"{job_file}: {job.model}, {rate} of each key; a state has at most {readable(job.state_bytes)}, "
        f"{readable(measured.slot_bytes)} in memory"
    )
    if job.untaught is not None:
        least = readable(job.state_bytes - job.untaught.nbytes)
        say(f"of a key without a label: at most {least}, {readable(measured.untaught_bytes)} in memory")
    if measured.known_bytes:
        say(f"[alarms] silent: {readable(measured.known_bytes)} more in memory of each key, live or not")
    rows = [
        (
            f"{one.keys:,}" + (" <" if one.keys == keys and len(needs) > 3 else ""),
            f"{one.records_per_second:,.0f}",
            f"{one.cpu_us:.0f} us",
            f"{one.cores:.2f}",
            one.workers,
            one.partitions,
            readable(one.memory),
            readable(one.disk),
            f"{100 * one.live:.0f} %",
            readable(one.changelog),
            f"{one.recovery:.0f} s",
        )
        for one in needs
    ]
    columns = ("keys", "records/s", "a record", "cores", "workers", "partitions", "memory", "disk", "live", "changelog")
    table((*columns, "recovery"), rows)
    say("memory and disk: of each worker; changelog: written a day; recovery: of a worker that lost its disk")
    room = readable(state.cache)
    say(f"workers: at {100 * BUSY:.0f} % of a core each; live: keys with a state in [state] cache, {room}")
    say(
        f"measured here: {measured.live:.1f} us a record of a live key, {measured.miss:.1f} us more where its state is read "
        f"and written, fixed loop {measured.fixed_loop:.2f} s"
    )
    say(f"scaled from: {known.data['command']} (fixed loop {known.data['fixed_loop_seconds']} s)")
    if sentence := too_many_workers(needs):
        note(sentence)
    rarely = need(known, measured, Load(keys, each, state.cache, every, REPLAY))
    as_set = needs[counts.index(keys)]
    if 2 * rarely.changelog < as_set.changelog:
        note(
            f'note: [state] replay = "{REPLAY:.0f}s" writes {readable(rarely.changelog)} a day to the changelog of {keys:,} '
            f"keys instead of {readable(as_set.changelog)}; a worker that takes over then applies up to {REPLAY:.0f} s of "
            "records again, without their outputs."
        )

"""`dlq list|show|redrive`: lists dead letters, and sends them back to the input."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, job_of, moment, note, say, show, table
from streamjobs.errors import REASONS, ConfigError
from streamjobs.settings.types import many, shortened

if TYPE_CHECKING:
    from streamjobs.maintenance.redrive import Letter
    from streamjobs.settings.sections import Settings

MOST_VALUE = 2_000  # bytes of a value that are shown
MOST_GROUPS = 5  # groups that are named
MOST_LISTED = 20  # dead letters that are printed, unless the user asks for more
MOST_MESSAGE = 80  # characters of a message in a list
WHOLE_BATCH = "batch"  # reason of a letter that is a whole batch of records

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only dead letters with this reason; may be repeated.")]


def list_command(
    job_file: JobFile,
    reason: Reasons = None,
    limit: Annotated[int, typer.Option(min=0, help="Number of dead letters to list, newest last; 0: all.")] = MOST_LISTED,
    as_json: AsJson = False,
) -> None:
    """Count dead letters by reason, and list the newest with offset, key, attempt and message."""
    from streamjobs.maintenance.redrive import read_letters

    job = job_of(job_file)
    letters, others = read_letters(job.settings, job.sinks["dlq"])
    _require_known(letters, reason)
    chosen = [letter for letter in letters if not reason or letter.reason in reason]
    ordered = sorted(chosen, key=lambda letter: (letter.timestamp, letter.place))
    listed = ordered[-limit:] if limit else ordered
    reasons = Counter(letter.reason for letter in chosen)
    if as_json:
        show({"letters": len(chosen), "reasons": dict(reasons), "others": others, "listed": [_about(one) for one in listed]})
        return
    if listed:
        _print_table(listed)
    counts = ", ".join(f"{name} {count:,}" for name, count in reasons.most_common())
    say(f"{many(len(chosen), 'dead letter')} in {job.sinks['dlq']}{': ' if counts else ''}{counts}")
    if listed:
        note("those that were sent back stay in the topic: 'streamjobs dlq redrive JOB --all --dry-run' lists the others")
    if others:
        note(f"{others:,} other records in the topic are not dead letters of streamjobs")


def _require_known(letters: "list[Letter]", reasons: list[str] | None) -> None:
    known = {*REASONS, *(letter.reason for letter in letters)}
    unknown = [name for name in reasons or () if name not in known]
    if unknown:
        raise ConfigError(f"--reason must be one of {', '.join(sorted(known))}; got {unknown[0]!r}.")


def _print_table(letters: "list[Letter]") -> None:
    from streamjobs.maintenance.copies import printable

    rows = []
    for one in letters:
        short = one.message if len(one.message) <= MOST_MESSAGE else one.message[: MOST_MESSAGE - 3] + "..."
        source, key = "{}[{}] {}".format(*one.source), "-" if one.key is None else printable(one.key)
        rows.append((one.name, one.reason, one.attempt, source, moment(one.timestamp), key, printable(short.encode())))
    columns = ("offset", "reason", "attempt", "record", "time", "key", "message")
    table(columns, rows, left=("offset", "reason", "record", "time", "key", "message"))


def _about(letter: "Letter") -> dict[str, Any]:
    from streamjobs.maintenance.copies import printable

    return {
        "offset": letter.name,
        "reason": letter.reason,
        "stage": letter.stage,
        "attempt": letter.attempt,
        "message": letter.message,
        "key": None if letter.key is None else printable(letter.key),
        "timestamp": letter.timestamp,
        "topic": letter.source[0],
        "topic_partition": letter.source[1],
        "topic_offset": letter.source[2],
        "version": letter.version,
    }


def show_command(
    job_file: JobFile,
    offset: Annotated[str, typer.Argument(metavar="OFFSET", help="PARTITION:OFFSET, as 'dlq list' shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show a dead letter: its reason, and the record's headers and the start of its value."""
    from streamjobs.maintenance.copies import printable, short_key
    from streamjobs.maintenance.redrive import original_headers, read_letters

    job = job_of(job_file)
    (letter,) = _at(read_letters(job.settings, job.sinks["dlq"])[0], [offset], job.sinks["dlq"])
    value = letter.record.value
    headers = [(name, printable(text)) for name, text in original_headers(letter)]
    about = {
        **_about(letter),
        "headers": headers,
        "value_bytes": None if value is None else len(value),
        "value": None if value is None else printable(value[:MOST_VALUE]),
    }
    if as_json:
        return show(about)
    source = letter.source
    say(
        f"{letter.name}: {letter.reason} at stage {letter.stage}, attempt {letter.attempt}, detected by streamjobs "
        f"{letter.version}"
    )
    say(f"  why      {shortened(printable(letter.message.encode()), MOST_VALUE)}")
    say(f"  record   {source[0]}[{source[1]}] offset {source[2]}, {moment(letter.timestamp)}")
    say(f"  key      {'none' if letter.key is None else short_key(letter.key)}")
    for name, text in headers:
        say(f"  header   {short_key(name.encode())}: {shortened(text, MOST_VALUE)}")
    cut = f", its first {MOST_VALUE:,}" if value is not None and len(value) > MOST_VALUE else ""
    say("  value    none" if value is None else f"  value    {len(value):,} bytes{cut}\n{about['value']}")


def _at(letters: "list[Letter]", offsets: list[str], topic: str) -> "list[Letter]":
    """The dead letters at these places; raises ConfigError for a place without one."""
    places = {letter.name: letter for letter in letters}
    for offset in offsets:
        if offset not in places:
            raise ConfigError(
                f"{topic}: no dead letter at {offset!r}; expected PARTITION:OFFSET as 'streamjobs dlq list' shows."
            )
    return [places[offset] for offset in dict.fromkeys(offsets)]


def _require_own(settings: "Settings", topic: str, letters: "list[Letter]") -> None:
    """Raises ConfigError if one of these letters is of another input."""
    source = settings.source
    if foreign := [one for one in letters if one.source[0] not in (source.topic, source.base_topic)]:
        raise ConfigError(
            f"{topic} {foreign[0].name}: expected a record of this job's input {source.topic}, got one of "
            f"{foreign[0].source[0]}; choose others with --offset, or use that topic's job file."
        )


def _require_alone(settings: "Settings", sources: list[str]) -> None:
    """Raises ConfigError if other groups read the input, or another of the topics that letters go back to."""
    from streamjobs.maintenance.redrive import other_readers

    source = settings.source
    for topic in sorted({*sources, source.topic}):  # `rekey` copies what goes to another topic to the input
        if others := other_readers(settings, topic):
            more = f" and {len(others) - MOST_GROUPS} more" if len(others) > MOST_GROUPS else ""
            named = ", ".join(others[:MOST_GROUPS]) + more
            records = many(len(sources) if topic == source.topic else sources.count(topic), "record")
            own = "" if source.rekeyed else " A job with [source] key and rekeyed = true has an input of its own."
            raise ConfigError(
                f"dlq redrive: topic {topic} is also read by {named}, which would get {records} again. Add --shared if that "
                f"does no harm.{own}"
            )


def redrive(
    job_file: JobFile,
    reason: Reasons = None,
    offset: Annotated[
        list[str] | None, typer.Option("--offset", help="Send the dead letter at PARTITION:OFFSET; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Send all dead letters.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also send dead letters that are skipped otherwise.")] = False,
    shared: Annotated[
        bool,
        typer.Option("--shared", help="Also send if other consumer groups read the input and would get the records again."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent; send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the input topic, with their original key, value, time and headers.

    Choose them with one of --reason, --offset and --all. The header streamjobs-attempt counts the attempts. Letters that
    were sent back before are skipped. If the input cannot show whether a letter was sent back, the letter is skipped too:
    this concerns letters older than the input's first record, and all letters if the input is compacted. --again sends
    all skipped letters.

    A key that has newer samples skips or refuses older ones, as [window] and [source] late decide.

    Workers may run. If other groups read the input, they get the records again: this needs --shared.
    """
    from streamjobs.maintenance import redrive as dead_letters

    if sum((bool(reason), bool(offset), every)) != 1:
        raise ConfigError("dlq redrive: give exactly one of --reason, --offset and --all.")
    job = job_of(job_file)
    topic, source = job.sinks["dlq"], job.settings.source.topic
    letters, _ = dead_letters.read_letters(job.settings, topic)
    _require_known(letters, reason)
    chosen = _at(letters, offset, topic) if offset else [one for one in letters if every or one.reason in (reason or ())]
    _require_own(job.settings, topic, chosen)
    batches = [one for one in chosen if one.reason == WHOLE_BATCH]
    if batches and not every:
        raise ConfigError(
            f"{topic} {batches[0].name}: this dead letter is a whole batch that cannot be unpacked, not a record to send "
            "back; have its producer send the records again."
        )
    chosen = dead_letters.with_present_partitions(job.settings, [one for one in chosen if one.reason != WHOLE_BATCH])
    offsets = {} if again or not chosen else dead_letters.offsets_after(job.settings, chosen)
    before = dead_letters.sent_before(job.settings, chosen, offsets) if offsets else set()
    sending = [one for one in chosen if dead_letters.letter_id(topic, one.place) not in before]
    older = dead_letters.older_than_input(job.settings, sending, offsets) if offsets and sending else set()
    sending = [one for one in sending if one.place not in older]
    if sending and not dry_run:
        if not shared:
            _require_alone(job.settings, [one.source[0] for one in sending])
        dead_letters.send_back(job.settings, [dead_letters.redriven(one, topic) for one in sending])
    skipped = len(chosen) - len(sending) - len(older)
    if as_json:
        listed = [_about(one) for one in sending]
        counts = {"sent": 0 if dry_run else len(sending), "would_send": len(sending), "sent_before": skipped}
        return show({**counts, "older": len(older), "letters": listed})
    if dry_run and sending:
        _print_table(sending[:MOST_LISTED])
        if len(sending) > MOST_LISTED:
            say(f"... and {len(sending) - MOST_LISTED:,} more")
    rest = f"; {skipped:,} were sent back before" if skipped else ""
    rest += f"; {len(older):,} stay, because the input may have deleted what was sent back: see --again" if older else ""
    rest += f"; {len(batches):,} are whole batches that cannot be read, and stay" if batches else ""
    where = " and ".join(sorted({one.source[0] for one in sending})) or source
    say(f"{len(sending):,} of {len(letters):,} dead letters {'would go' if dry_run else 'went'} back to {where}{rest}")
    if sending and (late := dead_letters.when_late(job.settings)):
        note(late)

"""`dlq list|show|redrive`: the dead letters, and sending them back to the input."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, moment, note, say, show, table

if TYPE_CHECKING:
    from streamjobs.maintenance.letters import Letter

SHOWN = 2_000  # characters of a value
SHORT = 80  # of a message in a list
WHOLE = "batch"  # the reason of letters that are no record

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only letters of this reason; may be repeated.")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="The dead letters: records that could not be used.", no_args_is_help=True)
    group.command("list")(list_command)
    group.command("show")(show_command)
    group.command("redrive")(redrive)
    app.add_typer(group, name="dlq")


def list_command(
    job: JobFile,
    reason: Reasons = None,
    limit: Annotated[int, typer.Option(min=0, help="Most letters, the newest ones; 0: all.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Count the dead letters by reason, and list the newest with offset, key, attempts and message."""
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.redrive import letters

    made = job_of(job)
    found, others = letters(made.settings, made.sinks["dlq"])
    _known(found, reason)
    chosen = [one for one in found if not reason or one.reason in reason]
    newest = sorted(chosen, key=lambda one: (one.record.timestamp, one.place))
    taken = newest[-limit:] if limit else newest
    reasons = Counter(one.reason for one in chosen)
    if as_json:
        show({"letters": len(chosen), "reasons": dict(reasons), "others": others, "listed": [_about(one) for one in taken]})
        return
    if taken:
        columns = ("offset", "reason", "attempt", "record", "time", "key", "message")
        table(columns, [_row(one) for one in taken], left=("offset", "reason", "record", "time", "key", "message"))
    counts = ", ".join(f"{name} {count:,}" for name, count in reasons.most_common())
    say(f"{len(chosen):,} dead letters in {made.sinks['dlq']}{': ' if counts else ''}{counts}")
    if others:
        note(f"{others:,} records of the topic are none of this program's letters")


def _known(found: "list[Letter]", reasons: list[str] | None) -> None:
    """Raises ConfigError for a reason there is not."""
    from streamjobs.errors import REASONS, ConfigError

    there = {*REASONS, *(one.reason for one in found)}
    unknown = [name for name in reasons or () if name not in there]
    if unknown:
        raise ConfigError(f"--reason: expected one of {', '.join(sorted(there))}; got {unknown[0]!r}.")


def _row(one: "Letter") -> tuple[Any, ...]:
    from streamjobs.maintenance.copies import shown

    short = one.message if len(one.message) <= SHORT else one.message[: SHORT - 3] + "..."
    source = f"{one.source[0]}[{one.source[1]}] {one.source[2]}"
    key = "-" if one.record.key is None else shown(one.record.key)
    return one.name, one.reason, one.attempt, source, moment(one.record.timestamp), key, shown(short.encode())


def _about(one: "Letter") -> dict[str, Any]:
    from streamjobs.maintenance.copies import shown

    return {
        "offset": one.name,
        "reason": one.reason,
        "stage": one.stage,
        "attempt": one.attempt,
        "message": one.message,
        "key": None if one.record.key is None else shown(one.record.key),
        "timestamp": one.record.timestamp,
        "topic": one.source[0],
        "topic_partition": one.source[1],
        "topic_offset": one.source[2],
        "version": one.version,
    }


def show_command(
    job: JobFile,
    offset: Annotated[str, typer.Argument(metavar="OFFSET", help="As 'dlq list' shows it: PARTITION:OFFSET.")],
    as_json: AsJson = False,
) -> None:
    """Show a dead letter: why, the record's headers and the beginning of its value."""
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.copies import shown
    from streamjobs.maintenance.letters import original
    from streamjobs.maintenance.redrive import letters

    made = job_of(job)
    (one,) = _at(letters(made.settings, made.sinks["dlq"])[0], [offset], made.sinks["dlq"])
    value = one.record.value
    headers = [(name, shown(text)) for name, text in original(one)]
    found = {
        **_about(one),
        "headers": headers,
        "value_bytes": None if value is None else len(value),
        "value": None if value is None else shown(value[:SHOWN]),
    }
    if as_json:
        show(found)
        return
    say(f"{one.name}: {one.reason} at stage {one.stage}, attempt {one.attempt}, found by streamjobs {one.version}")
    say(f"  why      {shown(one.message.encode())}")
    say(f"  record   {one.source[0]}[{one.source[1]}] offset {one.source[2]}, {moment(one.record.timestamp)}")
    say(f"  key      {found['key'] if one.record.key is not None else 'none'}")
    for name, text in headers:
        say(f"  header   {shown(name.encode())}: {text}")
    cut = f", its first {SHOWN:,}" if value is not None and len(value) > SHOWN else ""
    say("  value    none" if value is None else f"  value    {len(value):,} bytes{cut}\n{found['value']}")


def _at(found: "list[Letter]", offsets: list[str], topic: str) -> "list[Letter]":
    """The letters at these places; raises ConfigError for one that is not there."""
    from streamjobs.errors import ConfigError

    places = {one.name: one for one in found}
    for offset in offsets:
        if offset not in places:
            raise ConfigError(
                f"{topic}: no dead letter at {offset!r}; expected PARTITION:OFFSET as 'streamjobs dlq list' shows."
            )
    return [places[offset] for offset in dict.fromkeys(offsets)]


def redrive(
    job: JobFile,
    reason: Reasons = None,
    offset: Annotated[
        list[str] | None, typer.Option("--offset", help="The letter at PARTITION:OFFSET; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All letters.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also what was sent back before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent; send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the input they came from: key, value, time and headers as they were.

    The header streamjobs-attempt counts the attempts: a record that fails again comes back with one more. What was sent
    back before is left out. Workers may run.
    """
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.letters import identity, redriven
    from streamjobs.maintenance.redrive import letters, send_back, sent_back

    if sum((bool(reason), bool(offset), every)) != 1:
        raise ConfigError("dlq redrive: say which: one of --reason, --offset and --all.")
    made = job_of(job)
    topic, source = made.sinks["dlq"], made.settings.source.topic
    found, _ = letters(made.settings, topic)
    _known(found, reason)
    chosen = _at(found, offset, topic) if offset else [one for one in found if every or one.reason in (reason or ())]
    foreign = [one for one in chosen if one.source[0] != source]
    if foreign:
        raise ConfigError(
            f"{topic} {foreign[0].name}: a record of {foreign[0].source[0]}, this job's input is {source}; choose others by "
            "--offset, or use the job file that reads it."
        )
    whole = [one for one in chosen if one.reason == WHOLE]
    if whole and not every:
        raise ConfigError(
            f"{topic} {whole[0].name}: such letters are whole batches that cannot be read, no records to send back; have "
            "whoever sent them send their records again."
        )
    chosen = [one for one in chosen if one.reason != WHOLE]
    before = set() if again or not chosen else sent_back(made.settings, chosen)
    sending = [one for one in chosen if identity(topic, one.place) not in before]
    if sending and not dry_run:
        send_back(made.settings, [redriven(one, topic) for one in sending])
    skipped = len(chosen) - len(sending)
    if as_json:
        listed = [_about(one) for one in sending]
        show({"sent": 0 if dry_run else len(sending), "would_send": len(sending), "sent_before": skipped, "letters": listed})
        return
    if dry_run and sending:
        columns = ("offset", "reason", "attempt", "record", "time", "key", "message")
        table(columns, [_row(one) for one in sending], left=("offset", "reason", "record", "time", "key", "message"))
    told = f"; {skipped:,} were sent back before" if skipped else ""
    told += f"; {len(whole):,} are whole batches that cannot be read, and stay" if whole else ""
    say(f"{len(sending):,} of {len(found):,} dead letters {'would go' if dry_run else 'went'} back to {source}{told}")

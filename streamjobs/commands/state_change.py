"""`state export|import|reset|forget`: models taken out of the changelog, and states changed while no worker runs."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, moment, note, say, show, table
from streamjobs.commands.state_read import CopyFile, Key, bytes_of, copy_of, entries_of, held_in
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.maintenance.copies import Copy, Entry
    from streamjobs.maintenance.retention import Holding

Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


def add_to(group: typer.Typer) -> None:
    group.command("reset")(reset)
    group.command("forget")(forget)
    group.command("export")(export)
    group.command("import")(import_command)
    group.command("forget-offsets")(forget_offsets)


def export(
    job: JobFile,
    output: Output,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="This key's model.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="One model of all keys, learned from the input topic.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every key's state to the last bit: a copy to look at later.")
    ] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Of the key, where several partitions hold it.")] = None,
    copy: CopyFile = None,
) -> None:
    """Write a key's or the pooled model as [state] start_from reads it, or with --all a copy of all states."""
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.copies import encode
    from streamjobs.maintenance.renew import exported

    if sum((key is not None, pool, every)) != 1:
        raise ConfigError("state export: say one of KEY, --pool and --all.")
    made = job_of(job)
    if every:
        held = held_in(made, copy)
        size = _write(output, encode(held))
        say(f"{len(held.entries):,} states in {output} ({readable(size)}); --copy and 'state diff' read it")
        return
    if pool:
        size = _write(output, [_pooled(made)])
        say(f"model of all keys in {output} ({readable(size)}); use it as [state] start_from")
        return
    assert key is not None
    entry = _one(entries_of(held_in(made, copy, key), key), key, partition)
    size = _write(output, [exported(made, entry)])
    say(f"model of key {key} in {output} ({readable(size)}); use it as [state] start_from, or 'state import' it")


def _one(found: "list[Entry]", key: str, partition: int | None) -> "Entry":
    from streamjobs.errors import ConfigError

    chosen = [entry for entry in found if partition in (None, entry.partition)]
    if len(chosen) != 1:
        there = ", ".join(str(entry.partition) for entry in found)
        raise ConfigError(f"key {key!r}: expected one state, it has some in partitions {there}; choose with --partition.")
    return chosen[0]


def _pooled(job: "Job") -> bytes:
    from streamjobs.commands.console import compiled
    from streamjobs.errors import ConfigError
    from streamjobs.kafka.reader import topic_records
    from streamjobs.replay.engine import Replay
    from streamjobs.replay.progress import Progress

    if job.population is not None:
        raise ConfigError("--pool learns a start for new keys, this job has one in [population]; use 'streamjobs fit'.")
    compiled(job)
    run = Replay(job, pooled=True)
    source = job.settings.source
    records = topic_records(job.settings.broker, source.topic, max_bytes=source.max_bytes)
    run.run(records, lambda output: None, Progress(job.task))
    return run.export()


def _write(path: Path, pieces: Iterable[bytes]) -> int:
    """Whole or not at all."""
    from streamjobs.errors import ConfigError

    beside, size = path.with_name(path.name + ".part"), 0
    try:
        with beside.open("wb") as file:
            for piece in pieces:
                size += file.write(piece)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"--output {path}: cannot be written ({error.strerror}).") from None
    return size


def reset(
    job: JobFile,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="As 'state list' shows it.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every key, as after a change of the job's settings.")] = False,
) -> None:
    """Let a key begin anew. Its last applied offset stays: what it has learned from is not learned again.

    No worker may run. A state of other settings may be reset too; of a damaged one the offset is not known.
    """
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.kafka import topics
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import emptied

    if (key is not None) == every:
        raise ConfigError("state reset: say either KEY or --all.")
    made = job_of(job)
    changelog_edit.refuse_running(made.settings)
    read_at = changelog_edit.ends(made.settings, topics.changelog(made.settings), committed_only=False)
    held = held_in(made, None, key)
    found = entries_of(held, key) if key is not None else list(held.entries.values())
    changes: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for entry in found:
        changes.setdefault(entry.partition, []).append((entry.key, emptied(made, entry)))
    changelog_edit.write(made.settings, changes, read_at)
    lost = sum(data is None for changed in changes.values() for _, data in changed)
    who = f"key {key}" if key is not None else f"{len(found):,} keys"
    say(
        f"{who} reset in {_partitions(changes)}: the model begins anew with the next record, no earlier one is learned again"
    )
    if lost:
        note(f"{lost:,} of them were damaged: their last applied offset is not known, input not committed yet is learned")


def _partitions(changes: Any) -> str:
    return f"partition{'' if len(changes) == 1 else 's'} {', '.join(map(str, sorted(changes)))}"


def forget(
    job: JobFile,
    key: Key,
    count: Annotated[
        bool, typer.Option("--count/--no-count", help="Count the key's records in every topic; reads its partitions.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Remove a person: a tombstone ends the key's state; then say which topics still hold its records, and until when.

    No worker may run. Run it again to see what is left.
    """
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.kafka import topics
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.retention import held

    made = job_of(job)
    changelog_edit.refuse_running(made.settings)
    changelog = topics.changelog(made.settings)
    read_at = changelog_edit.ends(made.settings, changelog, committed_only=False)
    found = held_in(made, None, key).of(key)
    exact = found[0].key if found else key.encode("utf-8", "surrogateescape")
    partitions = sorted({entry.partition for entry in found}) or sorted(read_at)
    if found:
        changelog_edit.write(made.settings, {entry.partition: [(entry.key, None)] for entry in found}, read_at)
    left = held(made.settings, made.sinks, exact, partitions, count=count)
    if not found and not sum(one.records or 0 for one in left):
        raise ConfigError(f"key {key!r}: no state and no record in any topic of this job; 'state list' shows the keys.")
    waiting = _waiting(made, exact, partitions) if count else None
    days = changelog_edit.describe_topic(changelog_edit.admin_of(made.settings), changelog).get(
        "delete.retention.ms", "86400000"
    )
    if as_json:
        show({"forgotten": partitions if found else [], "waiting": waiting, "held": [one._asdict() for one in left]})
        return
    say(
        f"key {key}: state ended by a tombstone in {_partitions(partitions)}"
        if found
        else f"key {key}: had no state any more"
    )
    _tell_held(left, waiting, int(days) / 86_400_000)


def _waiting(job: "Job", key: bytes, partitions: list[int]) -> int:
    """Records of the key in the input that are not applied yet: they would begin a new state."""
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.scan import records_of

    start = changelog_edit.committed(job.settings, partitions)
    records = records_of(job.settings.broker, job.settings.source.topic, "[source] topic", start)
    return sum(record.key == key for record in records)


def _tell_held(left: "list[Holding]", waiting: int | None, days: float) -> None:
    rows = [
        (one.topic, one.role, one.records, one.policy, moment(one.until) if one.until else "no bound", one.why)
        for one in left
    ]
    say("what Kafka still holds, and until when (UTC) at the latest:")
    table(
        ("topic", "role", "records", "policy", "until", "because"),
        rows,
        left=("topic", "role", "policy", "until", "because"),
    )
    if waiting:
        note(f"{waiting:,} of its records in the input are not applied yet and will begin a new state: stop what sends them")
    note(
        f"workers drop it from their local stores when they next take the partition; a [state] directory that is not used "
        f"within {days:g} days (delete.retention.ms) must be removed by hand"
    )


def import_command(
    job: JobFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of 'state export' or 'replay --export'.")],
    key: Annotated[str, typer.Option("--key", help="The key that gets it.")],
    saved: Annotated[str | None, typer.Option("--from", help="Of a copy of all states: this key's; absent: KEY's.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Of a key without a state: where its records come.")] = None,
) -> None:
    """Give a key an exported model to go on from, or its own state out of a copy of all.

    No worker may run. The last applied offset never goes back, so nothing is learned twice.
    """
    from streamjobs.errors import SnapshotError
    from streamjobs.job_files import job_of
    from streamjobs.kafka import topics
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import begun, put_back

    made, held = job_of(job), _given(file, saved or key)
    changelog_edit.refuse_running(made.settings)
    read_at = changelog_edit.ends(made.settings, topics.changelog(made.settings), committed_only=False)
    place, name, present = _place(made, key, partition, read_at)
    try:
        data = begun(made, held, name, present) if isinstance(held, bytes) else put_back(made, held, name, present)
    except SnapshotError as error:
        raise SnapshotError(
            f"{file}: {error} Import what 'streamjobs state export' wrote for a job of the same settings."
        ) from None
    changelog_edit.write(made.settings, {place: [(name, data)]}, read_at)
    what = "begins from the model" if isinstance(held, bytes) else "has the state"
    say(f"key {key} in partition {place} {what} in {file} ({readable(len(data))})")


def _given(file: Path, key: str) -> "bytes | Entry":
    """An exported model, or a key's entry of a copy."""
    from streamjobs.maintenance.copies import is_copy

    data = bytes_of(file)
    return _one(entries_of(copy_of(file), key), key, None) if is_copy(data) else data


def _place(job: "Job", key: str, partition: int | None, there: Any) -> "tuple[int, bytes, Entry | None]":
    """Partition, bytes and present state of the key that is to be changed."""
    from streamjobs.errors import ConfigError

    held: Copy = held_in(job, None, key)
    found = held.of(key)
    if found:
        present = _one(found, key, partition)
        return present.partition, present.key, present
    if partition is None or partition not in there:
        raise ConfigError(
            f"key {key!r} has no state yet: say with --partition (0 to {max(there, default=0)}) where its records come; "
            "which one, its producer decides."
        )
    return partition, key.encode("utf-8", "surrogateescape"), None


def forget_offsets(job: JobFile) -> None:
    """Let all states go on with an input that was deleted and made anew: from its beginning, models as they are.

    No worker may run. While the input is the same topic it is refused: every record would be learned twice.
    """
    from streamjobs.errors import ConfigError, SetupError
    from streamjobs.job_files import job_of
    from streamjobs.kafka import topic_id, topics
    from streamjobs.maintenance import changelog_edit, scan
    from streamjobs.maintenance.renew import unplaced

    made = job_of(job)
    settings = made.settings
    changelog_edit.refuse_running(settings)
    changelog, source = topics.changelog(settings), settings.source.topic
    read_at = changelog_edit.ends(settings, changelog, committed_only=False)
    present = topic_id.topic_id(changelog_edit.admin_of(settings), source)
    if not present:
        raise SetupError(f"topic {source}: not there, or the broker does not tell its id; nothing was changed.")
    known = scan.sources(settings)
    if not known:
        raise ConfigError(
            f"topic {changelog}: does not tell which topic these states have learned from (an older release wrote them); "
            "nothing was changed. Give the job a new [job] name where the input was made anew."
        )
    if set(known.values()) == {present}:
        raise ConfigError(f"topic {source}: it is the one these states have learned from; nothing was changed.")
    changes: dict[int, list[tuple[bytes, bytes | None]]]
    changes = {number: [] for number in read_at if known.get(number) != present}  # some go on with it: it was interrupted
    held = [entry for entry in held_in(made, None).entries.values() if entry.partition in changes]
    for entry in held:
        changes[entry.partition].append((entry.key, unplaced(entry)))
    for changed in changes.values():
        if not changed:
            changed.append((b"", None))  # no key's: the partition's local store hears of the new topic by it
    changelog_edit.write(settings, changes, read_at, anew=present)
    say(f"{len(held):,} states go on with topic {source} as it is now, from its beginning")

"""`state export|import|reset|forget|forget-offsets`: exports models, and changes states while no worker runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, counted, job_of, moment, note, say, show, table, write_private
from streamjobs.commands.state_read import Changes, CopyFile, Key, entries_of, load_copy, read_copy, read_file
from streamjobs.errors import ConfigError, SetupError, SnapshotError
from streamjobs.settings.types import many, readable

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.kafka.topic_id import Origin
    from streamjobs.maintenance.copies import Entry
    from streamjobs.maintenance.retention import Holding
    from streamjobs.settings.sections import Settings

EXAMPLES = 3  # keys that a note names
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


def export(
    job_file: JobFile,
    output: Output,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Export the model of this key.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Export a copy of all states, to the last bit.")] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition of the key's state, if it has several.")] = None,
    copy: CopyFile = None,
) -> None:
    """Export a key's model for [state] start_from, or a copy of all states (--all)."""
    from streamjobs.maintenance.copies import encode
    from streamjobs.maintenance.renew import exported_model

    if (key is not None) == every:
        raise ConfigError("state export: give either KEY or --all.")
    job = job_of(job_file)
    if every:
        states = read_copy(job, copy)
        size = write_private(output, encode(states), "--output")
        return say(f"{many(len(states.entries), 'state')} in {output} ({readable(size)}); --copy reads it")
    assert key is not None
    entry = _one(entries_of(read_copy(job, copy, key), key), key, partition)
    size = write_private(output, [exported_model(job, entry)], "--output")
    say(f"model of key {key} in {output} ({readable(size)}); use it as [state] start_from, or 'state import' it")


def _one(entries: "list[Entry]", key: str, partition: int | None) -> "Entry":
    """The key's only entry, or that of the partition; raises ConfigError if it is not clear which."""
    chosen = [entry for entry in entries if partition in (None, entry.partition)]
    if len(chosen) != 1:
        partitions = ", ".join(str(entry.partition) for entry in entries)
        raise ConfigError(f"key {key!r}: expected one state, got some in partitions {partitions}; choose with --partition.")
    return chosen[0]


def reset(
    job_file: JobFile,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="The key, as 'state list' shows it.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Reset every key, such as after changing settings.")] = False,
) -> None:
    """Let a key start over. Its last applied offset stays, so that no record is learned twice.

    No worker may run. --all resets states written with other settings too. A damaged state loses its offset.
    """
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import reset_snapshot
    from streamjobs.maintenance.verify import require_own_states

    if (key is not None) == every:
        raise ConfigError("state reset: give either KEY or --all.")
    job = job_of(job_file)
    read_at = changelog_edit.begin(job.settings)
    if key is not None:
        require_own_states(job, key)
    states = read_copy(job, None, key)
    entries = entries_of(states, key) if key is not None else list(states.entries.values())
    changes: Changes = {}
    for entry in entries:
        changes.setdefault(entry.partition, []).append((entry.key, reset_snapshot(job, entry)))
    if not entries:
        return say("0 keys reset: no state is written yet")
    changelog_edit.write(job.settings, changes, read_at)
    lost = sum(data is None for changed in changes.values() for _, data in changed)
    who = f"key {key}" if key is not None else many(len(entries), "key")
    again = "" if lost else ", no earlier one is learned again"
    say(f"{who} reset in {_partitions(changes)}: the model starts over with the next record{again}")
    if lost:
        note(f"{many(lost, 'state')} could not be read, nor the last offset in it: uncommitted input may be learned again")


def _partitions(changes: Any) -> str:
    return f"partition{'' if len(changes) == 1 else 's'} {', '.join(map(str, sorted(changes)))}"


def forget(
    job_file: JobFile,
    key: Key,
    count: Annotated[
        bool, typer.Option("--count/--no-count", help="Count the key's records in every topic; reads whole partitions.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Remove the state of a key, such as a person. List the topics that still have its records, and until when.

    No worker may run. Run it again to see what is left.
    """
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.retention import holdings, require_passed

    job = job_of(job_file)
    read_at = changelog_edit.begin(job.settings)
    entries = read_copy(job, None, key).of(key)
    require_passed(job.settings, entries)
    exact = entries[0].key if entries else key.encode("utf-8", "surrogateescape")
    partitions = sorted({entry.partition for entry in entries}) or sorted(read_at)
    if entries:
        changelog_edit.write(job.settings, {entry.partition: [(entry.key, None)] for entry in entries}, read_at)
    left = holdings(job.settings, job.sinks, exact, partitions, count=count)
    if not entries and all(one.records == 0 for one in left):
        raise ConfigError(f"key {key!r}: no state and no record in any topic of this job; 'state list' shows the keys.")
    waiting = _waiting(job, exact, partitions) if count else None
    if as_json:
        show({"forgotten": partitions if entries else [], "waiting": waiting, "held": [one._asdict() for one in left]})
        return
    ended = f"state ended by a tombstone in {_partitions(partitions)}" if entries else "had no state any more"
    say(f"key {key}: {ended}")
    _print_holdings(left, waiting)


def _waiting(job: "Job", key: bytes, partitions: list[int]) -> int:
    """The number of the key's records in the input that are not applied yet; they would start a new state."""
    from streamjobs.core.decoding.keys import each_keyed
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.scan import records_of

    start = changelog_edit.committed_offsets(job.settings, partitions)
    records = records_of(job.settings.broker, job.settings.source.topic, "[source] topic", start)
    return sum(record.key == key for record in each_keyed(job.settings.source, records))


def _print_holdings(left: "list[Holding]", waiting: int | None) -> None:
    rows = []
    for one in left:
        until = moment(one.until) if one.until else "no bound" if one.policy else "not known"
        rows.append((one.topic, one.role, "-" if one.records is None else one.records, one.policy or "-", until, one.why))
    say("what Kafka still holds, and until when (UTC) at the latest:")
    table(
        ("topic", "role", "records", "policy", "until", "because"),
        rows,
        left=("topic", "role", "policy", "until", "because"),
    )
    if waiting:
        note(f"{waiting:,} of its records in the input are not applied yet and will start a new state; stop their producer")
    note(
        "workers remove it from their local stores when they next take the partition; remove by hand any [state] directory "
        "that no worker will use again"
    )


def import_command(
    job_file: JobFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of 'state export' or 'replay --export'.")],
    key: Annotated[str | None, typer.Option("--key", help="The key that gets the state.")] = None,
    saved: Annotated[str | None, typer.Option("--from", help="The key in the copy; absent: the same as --key.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="The partition of a key without a state.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Restore all states of a copy; other keys stay.")] = False,
    partitioner: Annotated[
        str | None,
        typer.Option(
            help="With --all, if the copy has another number of partitions: how producers choose partitions: murmur2, crc32 "
            "or fnv1a; or keep, if each key's records still come in its old partition."
        ),
    ] = None,
) -> None:
    """Start a key from an exported model, or restore its state from a copy of all states; with --all every state.

    No worker may run. The last applied offset never goes back, so no record is learned twice. If the key has another
    partition than in the copy, its state has no applied offset there, and learns all records of the key in this partition.
    """
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import restored_snapshot, snapshot_from_model
    from streamjobs.maintenance.verify import require_own_states

    if every == (key is not None):
        raise ConfigError("state import: give either --key or --all.")
    if key is None:
        if saved is not None or partition is not None:
            raise ConfigError("state import: --from and --partition belong to --key.")
        _import_all(job_file, file, partitioner)
        return
    if partitioner is not None:
        raise ConfigError("state import: --partitioner belongs to --all; --partition names the partition of one key.")
    job, (given, inputs) = job_of(job_file), _given(file, saved or key)
    read_at = changelog_edit.begin(job.settings)
    require_own_states(job, key)
    place, name, present = _place(job, key, partition, read_at)
    try:
        if isinstance(given, bytes):
            data = snapshot_from_model(job, given, name, present)
        else:
            foreign = changelog_edit.foreign_offsets(job.settings, inputs)
            data = restored_snapshot(job, given, name, present, foreign=foreign)
    except SnapshotError as error:
        raise SnapshotError(
            f"{file}: {error} Import a file that 'streamjobs state export' wrote for a job with the same settings."
        ) from None
    changelog_edit.write(job.settings, {place: [(name, data)]}, read_at)
    what = "starts from the model" if isinstance(given, bytes) else "has the state"
    say(f"key {key} in partition {place} {what} in {file} ({readable(len(data))})")


def restore_key(job_file: Path, key: str, copy: Path | None, directories: list[Path] | None) -> None:
    """Write a key's state of a copy, or of the local stores below these [state] directories (None: of the job file's).

    Raises ConfigError where none of them has it, SnapshotError where it cannot be read there either.
    """
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import restored_snapshot
    from streamjobs.maintenance.restore import of_local_stores

    job = job_of(job_file)
    read_at = changelog_edit.begin(job.settings)
    folders = directories or [Path(job.settings.state.directory)]
    held = load_copy(copy) if copy is not None else of_local_stores(job.settings, folders, key)
    present, saved = read_copy(job, None, key).entries, entries_of(held, key)
    foreign = changelog_edit.foreign_offsets(job.settings, held.inputs)
    changes: Changes = {}
    try:
        for one in saved:
            now = present.get((one.partition, one.key))
            changes[one.partition] = [(one.key, restored_snapshot(job, one, one.key, now, foreign=foreign))]
    except SnapshotError as error:
        raise SnapshotError(f"{copy or held.topic}: {error}") from None
    changelog_edit.write(job.settings, changes, read_at)
    say(f"key {key} in {_partitions(changes)} has the state of {copy or held.topic} again")


def _import_all(job_file: Path, file: Path, partitioner: str | None) -> None:
    from streamjobs.kafka import preflight
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import place_all

    job, copy = job_of(job_file), load_copy(file)
    read_at = changelog_edit.begin(job.settings)
    foreign, present = changelog_edit.foreign_offsets(job.settings, copy.inputs), read_copy(job, None)
    try:
        placed = place_all(job, copy, present, len(read_at), partitioner, counted, foreign)
    except SnapshotError as error:
        raise SnapshotError(f"{file}: {error} Nothing was written.") from None
    changes: Changes = placed.changes
    origins = {}
    if placed.foreign and not present.inputs:  # the job begins here: ids must not repeat those of outputs elsewhere
        here = preflight.origin_of(job.settings, changelog_edit.admin_of(job.settings))
        origins = dict.fromkeys(read_at, here.with_new_life())
        changes = {number: changes.get(number) or [changelog_edit.OF_NO_KEY] for number in read_at}
    changelog_edit.write(job.settings, changes, read_at, origins=origins)
    say(f"{placed.states:,} states of {file} are in {_partitions(placed.changes)} now")
    if placed.beginning:
        note(
            f"{placed.beginning:,} of them learned from another partition or topic: all records of their keys in "
            "their present partitions are learned, including records learned before"
        )
    if placed.older:
        names = ", ".join(map(repr, placed.older[:EXAMPLES]))
        note(f"{len(placed.older):,} older states of keys with several were left out ({names})")
    if placed.elsewhere:
        note(f"{placed.elsewhere:,} keys also have a state in another partition, which stays; 'state list' shows them")


def _given(file: Path, key: str) -> "tuple[bytes | Entry, Mapping[int, Origin]]":
    """A model, or the state of a key in a copy; and the inputs of the copy."""
    from streamjobs.maintenance.copies import is_copy

    data = read_file(file)
    if not is_copy(data):
        return data, {}
    copy = load_copy(file)
    return _one(entries_of(copy, key), key, None), copy.inputs


def _place(job: "Job", key: str, partition: int | None, partitions: Any) -> "tuple[int, bytes, Entry | None]":
    entries = read_copy(job, None, key).of(key)
    if entries:
        present = _one(entries, key, partition)
        return present.partition, present.key, present
    if partition is None or partition not in partitions:
        raise ConfigError(
            f"key {key!r}: no state yet; give the partition that its producer sends it to with --partition "
            f"(0 to {max(partitions, default=0)})."
        )
    return partition, key.encode("utf-8", "surrogateescape"), None


def forget_offsets(job_file: JobFile) -> None:
    """Let all states continue after the input topic was recreated or has lost records.

    A recreated topic is read from its beginning. Models stay unchanged. No worker may run. The command refuses an input that
    was not recreated and has lost no record, because each record would be learned twice. It refuses a topic of another
    name, because states must not mix two topics.
    """
    from streamjobs.kafka import preflight, topics
    from streamjobs.kafka.topic_id import another_input
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.renew import offsets_of, without_offsets

    job = job_of(job_file)
    settings = job.settings
    changelog, source = topics.changelog(settings), settings.source.topic
    read_at = changelog_edit.begin(settings)
    present = preflight.origin_of(settings, changelog_edit.admin_of(settings))
    if not present.input_id:
        raise SetupError(f"topic {source}: missing, or the broker does not report its id; nothing was changed.")
    copy = read_copy(job, None)
    known, states = copy.inputs, copy.entries.values()
    names = {topic for entry in states for topic, _ in offsets_of(entry) or ()} | {one.topic for one in known.values()}
    if others := names - {source, ""}:  # snapshots of older releases have the name too
        raise ConfigError(another_input(settings.job.name, min(others), source))
    if not known:
        unknown = "does not record which topic these states have learned from (an older release wrote them)"
        advice = "give the job a new [job] name" if states else "start a worker: without states it needs no command"
        raise ConfigError(
            f"topic {changelog}: {unknown if states else 'it has no states'}; nothing was changed. If the input was "
            f"recreated, {advice}."
        )
    if {one.input_id for one in known.values()} == {present.input_id}:
        _forget_lost(settings, list(states), read_at, present)
        return
    todo = [number for number in read_at if number not in known or known[number].input_id != present.input_id]
    changes: Changes = {number: [] for number in todo}  # an interrupted run may have done some
    entries = [entry for entry in states if entry.partition in changes]
    for entry in entries:
        changes[entry.partition].append((entry.key, without_offsets(entry.data)))
    commits = changelog_edit.commits(settings, changes)
    changelog_edit.write_life(settings, changes, read_at, present.with_new_life(), commits)
    say(f"{len(entries):,} states go on with topic {source} as it is now, from its beginning")


def _forget_lost(settings: "Settings", states: "list[Entry]", read_at: "Mapping[int, int]", present: "Origin") -> None:
    """Continue behind the records that the input still has, where the broker has lost later ones that were read."""
    from streamjobs.maintenance import changelog_edit, renew

    source, commits = settings.source.topic, changelog_edit.commits(settings, read_at)
    first = renew.first_lost(settings, commits)
    if not first:
        raise ConfigError(
            f"topic {source}: is the topic that these states have learned from, and has the records that they have read; "
            "nothing was changed."
        )
    changes: Changes = {number: [] for number in commits}
    for entry in states:
        if entry.partition in first and (data := renew.without_lost(entry, first[entry.partition])) is not None:
            changes[entry.partition].append((entry.key, data))
    changed = sum(map(len, changes.values()))
    origin = present.with_new_life(f" {sorted(first.items())}")
    former = commits | {number: renew.commit_before(end, commits[number]) for number, end in first.items()}
    changelog_edit.write_life(settings, changes, read_at, origin, commits, former)
    where = ", ".join(f"{source}[{number}] from offset {end}" for number, end in sorted(first.items()))
    say(f"the job goes on with {where}; {changed:,} states had learned lost records, and keep what these taught")

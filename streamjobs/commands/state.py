"""`state ...`: the states of a job's keys, from the changelog or a copy of it.

This file has `state migrate`, `state repartition` and `state restore`, and `drift relearn`, which gives keys a new
reference; the others are in `state_read` and `state_change`. Only `state restore` reads local stores.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands import state_change
from streamjobs.commands.console import AsJson, JobFile, Pace, counted, job_of, note, say, show
from streamjobs.commands.state_change import EXAMPLES
from streamjobs.commands.state_read import Changes, entries_of, read_copy
from streamjobs.errors import ConfigError, SetupError, SnapshotError
from streamjobs.settings.types import Partitioner, many

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.maintenance.copies import Entry
    from streamjobs.maintenance.repartition import Plan
    from streamjobs.maintenance.restore import Restored

PROGRESS_EVERY = 10.0  # seconds between two lines


def migrate(
    job_file: JobFile,
    population: Annotated[
        bool, typer.Option("--population", help="List keys to move to the job's present [population].")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which keys use an earlier population, and the setting that lets workers move them.

    Reads the changelog and writes nothing. A worker moves a key with its next record, in one transaction, so nothing has
    to be stopped or copied. The key keeps offsets, windows and waiting rows; its head starts over from the new population.
    """
    from streamjobs.maintenance.scan import changelog_records, newest_by_key

    if not population:
        raise ConfigError("state migrate: expected --population, the only migration there is.")
    job = job_of(job_file)
    if job.population is None:
        raise ConfigError(f"{job_file}: no [population] to migrate to.")
    newest = newest_by_key(changelog_records(job.settings), lambda record: _population_of(job, record.value or b""))
    result = _counts(job, newest.values())
    if as_json:
        show(result)
    else:
        _print_result(result)


def _population_of(job: "Job", data: bytes) -> str:
    """The population that a snapshot uses: "here" (the job's), a fingerprint that can be replaced, or "other"."""
    from streamjobs.core.state.held_stages import of_same_job
    from streamjobs.core.state.migration import survives
    from streamjobs.core.state.snapshot import described_by

    written = described_by(data)
    if of_same_job(written, job.described):
        return "here"
    old, new = written.get("population"), job.described["population"]
    return str(old) if old not in (None, new) and survives(written, job.described, [old]) else "other"


def _counts(job: "Job", populations: Iterable[str]) -> dict[str, Any]:
    """The result, ready for JSON. populations: one for each key, as `_population_of` gives them."""
    keys = Counter(populations)
    here, other = keys.pop("here", 0), keys.pop("other", 0)
    replaced = job.settings.population.replaces or [] if job.settings.population else []
    return {
        "population": job.described["population"],
        "keys_here": here,
        "keys_to_move": dict(sorted(keys.items())),
        "keys_of_another_job": other,
        "replaces": sorted({*replaced, *keys}),
        "set": bool(set(keys) <= set(replaced)),
    }


def _print_result(result: dict[str, Any]) -> None:
    say(f"population {result['population']}: {result['keys_here']:,} keys use it")
    for name, count in result["keys_to_move"].items():
        keys = many(count, "key")
        say(f"population {name}: {keys}; moved, they keep offsets, windows and waiting rows, and start a new head")
    if result["keys_of_another_job"]:
        say(f"{result['keys_of_another_job']:,} keys were written with other settings too and cannot be moved")
    if result["keys_to_move"] and result["set"]:
        say("[population] replaces already names them; each moves with its next record")
    elif result["keys_to_move"]:
        names = ", ".join(f'"{name}"' for name in result["replaces"])
        say("to move them, each with its next record, set in the job file and restart the workers:")
        say(f"\n[population]\nreplaces = [{names}]")


def repartition(
    job_file: JobFile,
    partitioner: Annotated[
        Partitioner | None, typer.Option(help="The producers' partitioner; absent: as the partitions of the keys show.")
    ] = None,
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Move nothing: keys that move start over in their new partitions.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and print what would move; write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move the states of keys to the partitions that producers use after partitions were added to the input.

    No worker may run, and 'run --drain' must have applied the records in the old partitions. To finish an interrupted run,
    repeat it. Partitioners: murmur2 is the default of Java, kafka-python and aiokafka, crc32 of librdkafka
    (consistent_random), fnv1a of sarama.
    """
    from streamjobs.maintenance import repartition as moving

    job = job_of(job_file)
    plan = moving.repartition(job.settings, partitioner=partitioner, start_over=start_over, dry_run=dry_run)
    if as_json:
        moves = [{"from": old, "to": new, "keys": keys} for (old, new), keys in plan.moves.items()] if plan else []
        show(None if plan is None else {**plan._asdict(), "moves": moves, "moving": plan.moving})
    elif plan is None:
        say("the states are laid out for all partitions of the input; nothing to do")
    elif start_over:
        _print_start_over(plan, "would start" if dry_run else "start")
    else:
        _print_moves(plan, "would move" if dry_run else "moved")


def _print_moves(plan: "Plan", moved: str) -> None:
    by = f" by {plan.partitioner}" if plan.partitioner else ""
    say(f"{plan.before} -> {plan.partitions} partitions{by}: {plan.moving:,} of {plan.keys:,} states {moved}")
    for (old, new), keys in plan.moves.items():
        say(f"  partition {old} -> {new}: {keys:,}")
    if plan.elsewhere:
        say(f"{plan.elsewhere:,} keys were not where {plan.partitioner} puts them; their states stay where they are")
    note(
        "a producer that still sends such a key to its old partition starts a second state there: producers notice new "
        "partitions within their metadata.max.age.ms (5 minutes by default), or at a restart"
    )


def _print_start_over(plan: "Plan", start: str) -> None:
    if plan.partitioner:
        say(
            f"{plan.before} -> {plan.partitions} partitions by {plan.partitioner}: {plan.moving:,} of {plan.keys:,} keys "
            f"{start} over in other partitions; their old states stay in the changelog until they expire"
        )
        return
    say(
        f"{plan.before} -> {plan.partitions} partitions: those of {plan.keys:,} keys that move {start} over (their "
        "number is unknown, because no partitioner explains where they are); their old states stay in the changelog "
        "until they expire"
    )


def restore(
    job_file: JobFile,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Restore the state of this key, as 'state list' shows it.")
    ] = None,
    copy: Annotated[
        Path | None,
        typer.Option(
            "--copy", help="With KEY: read the state from this file of 'state export --all'; absent: from a local store."
        ),
    ] = None,
    from_local: Annotated[
        bool, typer.Option("--from-local", help="Write the states of the workers' local stores into the changelog.")
    ] = False,
    directory: Annotated[
        list[Path] | None,
        typer.Option(help="A [state] directory to read, may be repeated; absent: the [state] directory of the job file."),
    ] = None,
    reread: Annotated[
        bool,
        typer.Option(
            "--reread", help="If a local store is behind the committed offset, read the input again from the store's end."
        ),
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Continue with the states in the changelog; keys without a state in it start over."),
    ] = False,
) -> None:
    """Restore states from local stores, after the changelog topic was deleted and recreated; or with KEY the state of a key.

    No worker may run. Run it on each machine with workers that had partitions: each partition is restored from the store
    with the newest state. Local stores are only read. With --reread, the outputs of records that are read again are not
    sent again. With --reread and --accept, records that the input has deleted are not learned. With KEY: a key that
    workers have set aside gets its state from a copy, or from a local store that still has it.
    """
    from streamjobs.maintenance import restore as restoring

    if key is not None:
        if from_local or accept or reread or (copy is not None and directory):
            raise ConfigError("state restore: KEY can only be combined with --copy or --directory.")
        state_change.restore_key(job_file, key, copy, directory)
        return
    if copy is not None:
        raise ConfigError("state restore: --copy belongs to KEY; 'state import --all' restores all states of a copy.")
    if from_local == (accept and not reread):
        raise ConfigError("state restore: give either --from-local or --accept; both only together with --reread.")
    if not from_local and (directory or reread):
        raise ConfigError("state restore: --directory and --reread belong to --from-local, which reads local stores.")
    job = job_of(job_file)
    if not from_local:
        result = restoring.accept(job)
    else:
        folders, pace = directory or [Path(job.settings.state.directory)], Pace(PROGRESS_EVERY)

        def progress(done: str, partition: int, states: int) -> None:
            pace.note(f"partition {partition}: {states:,} states {done} ...")

        result = restoring.from_local(job, folders, reread=reread, accept=accept, on_state=progress)
    _print_restored(result, "states written back" if from_local else "states in it stay")
    if result.problems:
        raise SetupError("\n".join(result.problems))


def _print_restored(result: "Restored", what: str) -> None:
    from streamjobs.maintenance.copies import short_key

    if not result.done and not result.problems:
        say("nothing to restore: the changelog is the one that the states were written to")
    for number, done in sorted(result.done.items()):
        again = f", {many(done.reread, 'record')} again" if done.reread else ""
        say(f"partition {number}: {done.keys:,} {what}; the input goes on at offset {done.next_offset}{again}")
        if done.damaged:
            names = ", ".join(repr(short_key(key)) for key in done.damaged[:EXAMPLES])
            note(
                f"partition {number}: {len(done.damaged):,} of them cannot be read ({names}): their keys are set "
                "aside until 'streamjobs state reset JOB KEY' or 'streamjobs state restore JOB KEY' brings them back"
            )


def relearn(
    job_file: JobFile,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys, as 'state list' shows them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All keys of the job.")] = False,
) -> None:
    """Treat the next rows as normal: drift detection of these keys starts again, such as after maintenance.

    No worker may run. Models, offsets and everything else stay, even if [drift] was changed. An open alarm ends with
    the key's next row, with the outcome 'learned anew'. Repeating the command before a worker has run changes nothing
    more.
    """
    from streamjobs.maintenance import changelog_edit
    from streamjobs.settings.types import POPULATION

    if bool(keys) == every:
        raise ConfigError("drift relearn: give either KEY, one or more, or --all.")
    job = job_of(job_file)
    if not job.watches and not every:
        raise ConfigError(
            f"{job_file}: the job has no [drift], so a key has no reference to reset; --all removes drift detection from "
            "the states of a job that had a [drift]."
        )
    read_at = changelog_edit.begin(job.settings)
    chosen = _chosen(job, keys, every)
    changes, unread = _changes(job, chosen, every)
    changelog_edit.write(job.settings, changes, read_at)
    done = sum(map(len, changes.values()))
    who = f"key {keys[0]}" if keys and len(keys) == 1 else many(done, "key")
    reference = job.settings.drift.reference if job.settings.drift else None
    normal = f"the {reference}" if reference not in (None, POPULATION) else "the rows"
    if job.watches:
        say(f"{who}: drift detection begins again; {normal} to come are normal, an open alarm ends with the first of them")
    else:
        say(f"{who}: drift detection is removed; models, offsets and everything else stay")
    if unread:
        names = ", ".join(unread[:EXAMPLES])
        note(f"{len(unread):,} states cannot be read by this job and stay as they are ({names})")


def _chosen(job: "Job", keys: list[str] | None, every: bool) -> "list[Entry]":
    """Raises ConfigError for a key without a state."""
    if keys and len(keys) == 1:
        return entries_of(read_copy(job, None, keys[0]), keys[0])
    copy = read_copy(job, None)
    if every:
        return list(copy.entries.values())
    return [entry for key in dict.fromkeys(keys or ()) for entry in entries_of(copy, key)]


def _changes(job: "Job", entries: "list[Entry]", every: bool) -> tuple[Changes, list[str]]:
    """New snapshots by partition; and the keys with unreadable states. Raises SnapshotError for a key that was named."""
    from streamjobs.maintenance.copies import short_key
    from streamjobs.maintenance.renew import relearned_snapshot

    changes, unread = Changes(), list[str]()
    for entry in counted(entries, "states"):
        try:
            changed = relearned_snapshot(job, entry)
        except SnapshotError:
            if not every:
                raise
            unread.append(repr(short_key(entry.key)))
            continue
        changes.setdefault(entry.partition, []).append((entry.key, changed))
    return changes, unread

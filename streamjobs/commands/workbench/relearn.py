"""`drift relearn`, which gives keys of a job a new reference; `drift tune` is in `commands.tune`."""

from typing import TYPE_CHECKING, Annotated

import typer

from streamjobs.commands.console import JobFile, counted, job_of, note, say
from streamjobs.commands.state_change import EXAMPLES
from streamjobs.commands.state_read import Changes, entries_of, read_copy
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.types import many

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.maintenance.copies import Entry


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

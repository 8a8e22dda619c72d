"""`state ...`: the states of a job's keys, out of the changelog or a copy of it; never out of a worker's local store.

Here: which population they stand on. The others are in `state_read` and `state_change`.
"""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands import state_change, state_read
from streamjobs.commands.console import AsJson, JobFile, say, show

if TYPE_CHECKING:
    from streamjobs.core.job import Job


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The states of a job's keys: read from the changelog or a copy of it, changed while no worker runs.",
        no_args_is_help=True,
    )
    state_read.add_to(group)
    state_change.add_to(group)
    group.command("migrate")(migrate)
    app.add_typer(group, name="state")


def migrate(
    job: JobFile,
    population: Annotated[bool, typer.Option("--population", help="Move keys to the job's present [population].")] = False,
    as_json: AsJson = False,
) -> None:
    """Say which keys stand on another population than the job's, and the setting that lets the worker move them.

    Reads the changelog and writes nothing: a key moves in the worker with its next record, in the transaction that stores
    it, so nothing has to be stopped or copied, and a crash leaves either state. It keeps offsets, signal and waiting rows;
    its head begins anew from the new population.
    """
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of
    from streamjobs.kafka.reader import readable, topic_records
    from streamjobs.kafka.topics import changelog

    if not population:
        raise ConfigError("state migrate: say what to migrate; --population is all there is.")
    made = job_of(job)
    if made.population is None:
        raise ConfigError(f"{job}: there is no [population] to migrate to.")
    newest: dict[tuple[int, bytes | None], str | None] = {}
    for record in map(readable, topic_records(made.settings.broker, changelog(made.settings))):
        newest[record.partition, record.key] = _stands_on(made, record.value)
    found = _found(made, [one for one in newest.values() if one is not None])
    if as_json:
        show(found)
    else:
        _tell(found)


def _stands_on(job: "Job", data: bytes | None) -> str | None:
    """What a snapshot has to do with the job's population: "here", a fingerprint that can be replaced, or "other"."""
    from streamjobs.core.state.migration import survives
    from streamjobs.core.state.snapshot import described_by

    if not data:
        return None
    written = described_by(data)
    if written == job.described:
        return "here"
    old = written.get("population")
    return str(old) if old is not None and survives(written, job.described, [old]) else "other"


def _found(job: "Job", all_keys: list[str]) -> dict[str, Any]:
    keys = Counter(all_keys)
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


def _tell(found: dict[str, Any]) -> None:
    say(f"population {found['population']}: {found['keys_here']:,} keys stand on it")
    for name, count in found["keys_to_move"].items():
        say(f"population {name}: {count:,} keys; moved, they keep offsets, signal and waiting rows, and begin a new head")
    if found["keys_of_another_job"]:
        say(f"{found['keys_of_another_job']:,} keys were written with other settings too and cannot be moved")
    if found["keys_to_move"] and found["set"]:
        say("[population] replaces names them already: each moves with its next record")
    elif found["keys_to_move"]:
        names = ", ".join(f'"{name}"' for name in found["replaces"])
        say("to move them, each with its next record, set in the job file and restart the workers:")
        say(f"\n[population]\nreplaces = [{names}]")

"""`topics plan|create|grow`: the topics a job needs, and the rights of its workers; `rekey`: a copy keyed by its values."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, job_of, note, say, show
from streamjobs.errors import ConfigError
from streamjobs.settings.types import many

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.kafka.acls import Right
    from streamjobs.maintenance.rekey import Progress

Partitions = Annotated[
    int | None, typer.Option(min=1, help="Partitions of a new input topic; absent: 4. An existing one must have this many.")
]

Acl = Annotated[
    bool, typer.Option("--acl", help="Also print the least rights a worker needs, as commands for kafka-acls.sh.")
]
Principal = Annotated[
    str | None,
    typer.Option(help="User that gets the rights, such as User:wrist; absent: the principal of the job's credentials."),
]


def plan(
    job_file: JobFile,
    partitions: Partitions = None,
    acl: Acl = False,
    principal: Principal = None,
    strimzi: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Print KafkaTopic and KafkaUser resources for this Strimzi cluster, as JSON for kubectl; the "
            "user is that of --principal.",
        ),
    ] = None,
    replication: Annotated[int, typer.Option(min=1, help="Replication factor of --strimzi's topics.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Print the topics that a job needs, with their settings; connects to no broker."""
    from streamjobs.kafka.topics import plan as planned

    job = job_of(job_file)
    rights = _rights(job, principal) if acl or strimzi is not None else None
    if strimzi is not None and rights is not None:
        from streamjobs.kafka.acls import resources

        show(resources(strimzi, planned(job.settings, job.sinks, partitions or 4, job.state_bytes), rights, replication))
        return
    _show(planned(job.settings, job.sinks, partitions or 4, job.state_bytes), rights, job, as_json)


def create(
    job_file: JobFile,
    partitions: Partitions = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Replication factor; absent: the broker's default.")] = None,
    acl: Acl = False,
    principal: Principal = None,
    grant: Annotated[
        bool, typer.Option("--grant", help="Grant the rights of --acl; needs an administrator's credentials.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the topics of a job that are missing, and grant rights if asked to."""
    from streamjobs.kafka.topics import create as created

    job = job_of(job_file)
    rights = _rights(job, principal) if acl or grant else None
    new = created(
        job.settings, partitions=partitions, replication=replication, job_sinks=job.sinks, state_bytes=job.state_bytes
    )
    of_rekey = {job.sinks["dlq"]} if job.settings.source.rekeyed else set[str]()  # which 'rekey' has created
    before = {*job.sinks.values()} - {one.name for one in new} - of_rekey
    if before and any(one.role == "state" for one in new):
        note(
            f"{', '.join(sorted(before))} existed before: if another job writes there, outputs of both have the same ids "
            "and readers drop some; name topics of this job in [sinks]"
        )
    parts = max((one.partitions for one in new if one.role == "input"), default=1)
    if parts > 1 and job.settings.alarms is not None and job.settings.alarms.silent:
        note(
            f"[alarms] silent: keys of a partition watch one another, so a key alone in its partition is never silent; with "
            f"fewer than some {10 * parts} keys use a topic with --partitions 1"
        )
    if grant and rights is not None:
        from streamjobs.kafka.acls import grant as granted

        granted(job.settings, rights)
    if not new and not as_json:
        say("every topic exists already")
    _show(new, rights, job, as_json)
    if grant and not as_json:
        note("granted these rights")


def grow(
    job_file: JobFile,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would grow; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a job's outputs and changelog, after partitions were added to its input.

    No worker may run. Then move the states with 'state repartition'; until then workers do not process the new partitions.
    """
    from streamjobs.maintenance import grow as growing

    job = job_of(job_file)
    todo = growing.plan(job.settings, job.sinks)
    if not as_json:
        for one in todo.topics:
            say(f"{one.name}  {one.role}  {one.before} -> {one.partitions} partitions")
    if not dry_run and (todo.topics or todo.before is not None):
        growing.grow(job.settings, todo)
    if as_json:
        listed = [one._asdict() for one in todo.topics]
        return show({"grown": [] if dry_run else listed, "would_grow": listed, "states_laid_out_for": todo.before})
    if not todo.topics:
        say(f"every topic has the input's {todo.partitions} partitions")
    elif not dry_run:
        say(f"{len(todo.topics)} topics have {todo.partitions} partitions now")
    if todo.before is not None:
        note(
            f"states are laid out for {todo.before} partitions: run 'streamjobs run {job_file} --drain', then 'streamjobs "
            f"state repartition {job_file}'"
        )
        if todo.partitions % todo.before:
            note(
                f"{todo.partitions} is not a multiple of {todo.before}: keys also move between old partitions, and 'state "
                "repartition' can only let them start over"
            )


def rekey(
    job_file: JobFile,
    once: Annotated[bool, typer.Option("--once", help="Stop after all records that are in the input now.")] = False,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the new topic; absent: as many as the input has.")
    ] = None,
) -> None:
    """Copy the input TOPIC to TOPIC.by-key until SIGTERM or Ctrl-C. Each copy has the key that is inside its value.

    For jobs with [source] key and rekeyed = true. Each record is copied exactly once, also after a crash; records
    without a key become dead letters. Run one process: a second process takes over, and the first ends.
    """
    from streamjobs.process import exit_at_once_on_signals

    exit_at_once_on_signals()  # until the copying begins
    import asyncio

    from streamjobs.maintenance import rekey as rekeying
    from streamjobs.process import stop_signals

    job = job_of(job_file)
    known = rekeying.prepare(job.settings, job.sinks["dlq"], job.sinks, partitions)
    for name in known.created:
        note(f"created topic {name}")
    note(f"rekey: {known.source} ({known.source_partitions} partitions) to {known.target} ({known.target_partitions})")
    started = time.monotonic()

    def tell(progress: rekeying.Progress) -> None:
        rate = (progress.copied + progress.letters) / (time.monotonic() - started)
        note(f"{_counts(progress)}, {progress.left:,} to go, {rate:,.0f} a second")

    async def work() -> rekeying.Progress:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, stop.set)
        return await rekeying.copy(job.settings, known, stop, tell, note, schemas=job.schemas, once=once)

    done = asyncio.run(work())
    say(f"{_counts(done)}; {known.target} is committed")


def _counts(progress: "Progress") -> str:
    return f"{many(progress.copied, 'record')} rekeyed, {many(progress.letters, 'dead letter')}"


def _rights(job: "Job", principal: str | None) -> "list[Right]":
    from streamjobs.kafka.acls import rights
    from streamjobs.kafka.client import principal as known

    who = principal if principal is not None else known(job.settings.broker)
    kind, _, name = who.partition(":")
    if not kind or name in ("", "?", "ANONYMOUS") or any(letter in who for letter in "\n\r*"):
        raise ConfigError(f"--principal must name the user that runs the worker, such as User:wrist; got {who!r}.")
    return rights(job.settings, job.sinks, who)


def _show(plans: "list[Any]", rights: "list[Right] | None", job: "Job", as_json: bool) -> None:
    if as_json:
        topics: Any = [one._asdict() for one in plans]
        return show(topics if rights is None else {"topics": topics, "rights": [one._asdict() for one in rights]})
    width = max((len(one.name) for one in plans), default=0)
    for one in plans:
        settings = "  ".join(f"{name}={value}" for name, value in one.config.items())
        say(f"{one.name:<{width}}  {one.role:<12} {one.partitions:>3} partitions  {settings}".rstrip())
    if rights is not None:
        from streamjobs.kafka.acls import line
        from streamjobs.kafka.client import servers

        bootstrap = ",".join(servers(job.settings.broker))
        for one in rights:
            say(line(one, bootstrap))

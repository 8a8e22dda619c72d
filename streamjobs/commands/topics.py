"""`topics plan|create`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjobs.commands.console import AsJson, JobFile, note, say, show

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.kafka.acls import Right

Partitions = Annotated[int | None, typer.Option(min=1, help="Partitions of a new input topic; an existing one decides.")]

Acl = Annotated[bool, typer.Option("--acl", help="Also the least rights a worker needs, as lines for kafka-acls.sh.")]
Principal = Annotated[
    str | None, typer.Option(help="Who the rights are for, such as User:wrist; absent: whom the broker takes this job for.")
]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="The topics a job needs.", no_args_is_help=True)
    group.command("plan")(plan)
    group.command("create")(create)
    app.add_typer(group, name="topics")


def plan(
    job: JobFile,
    partitions: Partitions = None,
    acl: Acl = False,
    principal: Principal = None,
    as_json: AsJson = False,
) -> None:
    """Print the topics a job needs, with their settings, and its rights; asks no broker."""
    from streamjobs.job_files import job_of
    from streamjobs.kafka.topics import plan as planned

    made = job_of(job)
    rights = _rights(made, principal) if acl else None
    _show(planned(made.settings, made.sinks, partitions or 4, made.state_bytes), rights, made, as_json)


def create(
    job: JobFile,
    partitions: Partitions = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Copies of each; absent: the broker's default.")] = None,
    acl: Acl = False,
    principal: Principal = None,
    grant: Annotated[
        bool, typer.Option("--grant", help="Grant these rights; takes an administrator's credentials.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create those that are missing; grant rights where asked to."""
    from streamjobs.job_files import job_of
    from streamjobs.kafka.topics import create as created

    made = job_of(job)
    rights = _rights(made, principal) if acl or grant else None
    new = created(
        made.settings,
        partitions=partitions,
        replication=replication,
        job_sinks=made.sinks,
        state_bytes=made.state_bytes,
    )
    if grant and rights is not None:
        from streamjobs.kafka.acls import grant as granted

        granted(made.settings, rights)
    if not new and not as_json:
        say("every topic is there already")
    _show(new, rights, made, as_json)
    if grant and not as_json:
        note("these rights are granted")


def _rights(made: "Job", principal: str | None) -> "list[Right]":
    from streamjobs.errors import ConfigError
    from streamjobs.kafka.acls import rights
    from streamjobs.kafka.client import principal as known

    who = principal if principal is not None else known(made.settings.broker)
    kind, _, name = who.partition(":")
    if not kind or name in ("", "?", "ANONYMOUS") or any(letter in who for letter in "\n\r*"):
        raise ConfigError(f"--principal must name who runs the worker, such as User:wrist; got {who!r}.")
    return rights(made.settings, made.sinks, who)


def _show(plans: "list[Any]", rights: "list[Right] | None", made: "Job", as_json: bool) -> None:
    if as_json:
        found: Any = [one._asdict() for one in plans]
        show(found if rights is None else {"topics": found, "rights": [one._asdict() for one in rights]})
        return
    width = max((len(one.name) for one in plans), default=0)
    for one in plans:
        settings = "  ".join(f"{name}={value}" for name, value in one.config.items())
        say(f"{one.name:<{width}}  {one.role:<12} {one.partitions:>3} partitions  {settings}".rstrip())
    if rights is not None:
        from streamjobs.kafka.acls import line
        from streamjobs.kafka.client import servers

        bootstrap = ",".join(servers(made.settings.broker))
        for one in rights:
            say(line(one, bootstrap))

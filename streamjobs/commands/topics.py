"""`topics plan|create`."""

from typing import Annotated

import typer

from streamjobs.commands.common import AsJson, JobFile, say, show

Partitions = Annotated[int | None, typer.Option(min=1, help="Partitions of a new input topic; an existing one decides.")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="The topics a job needs.", no_args_is_help=True)
    group.command("plan")(plan)
    group.command("create")(create)
    app.add_typer(group, name="topics")


def plan(job: JobFile, partitions: Partitions = None, as_json: AsJson = False) -> None:
    """Print the topics a job needs, with their settings; asks no broker."""
    from streamjobs.commands.loading import job_of
    from streamjobs.shell.topics import plan as planned

    made = job_of(job)
    _show(planned(made.settings, made.sinks, partitions or 4, made.state_bytes), as_json)


def create(
    job: JobFile,
    partitions: Partitions = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Copies of each; absent: the broker's default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create those that are missing."""
    from streamjobs.commands.loading import job_of
    from streamjobs.shell.topics import create as created

    made = job_of(job)
    new = created(
        made.settings,
        partitions=partitions,
        replication=replication,
        job_sinks=made.sinks,
        state_bytes=made.state_bytes,
    )
    if not new and not as_json:
        say("every topic is there already")
        return
    _show(new, as_json)


def _show(plans: list, as_json: bool) -> None:  # type: ignore[type-arg]
    if as_json:
        show([one._asdict() for one in plans])
        return
    width = max(len(one.name) for one in plans)
    for one in plans:
        settings = "  ".join(f"{name}={value}" for name, value in one.config.items())
        say(f"{one.name:<{width}}  {one.role:<12} {one.partitions:>3} partitions  {settings}".rstrip())

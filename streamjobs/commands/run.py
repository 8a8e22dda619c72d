"""`run`: the worker."""

import gc
from typing import Annotated

import typer

from streamjobs.commands.console import JobFile


def add_to(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    context: typer.Context,
    job: JobFile,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything the input holds now is done.")] = False,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C: it stops fetching, makes everything applied safe and ends with code 0.

    Start as many as the input has partitions; they share the work.
    """
    from streamjobs.process import exit_at_once_on_signals

    exit_at_once_on_signals()  # before the imports below, which take a second or two
    gc.disable()  # nothing they make is rubbish: looking for it takes a tenth of the start; the worker enables it again
    try:
        from streamjobs.job_files import core_from, read_job
        from streamjobs.worker.run import run as work

        composition = read_job(job)
        code = work(composition.settings, lambda: core_from(composition), once=once, debug=context.obj["debug"])
    finally:
        gc.enable()
    if code:
        raise typer.Exit(code)

"""`run`: the worker."""

import gc
from typing import Annotated

import typer

from streamjobs.commands.console import JobFile


def run(
    context: typer.Context,
    job_file: JobFile,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Stop after all records that are in the input now; code 1 if no record could be learned."
        ),
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="Like --once, for the partitions that existed before the input grew; the new partitions wait."
        ),
    ] = False,
) -> None:
    """Run a worker until SIGTERM, SIGHUP or Ctrl-C.

    It then stops fetching, makes a last checkpoint and exits with code 0. Start at most one worker for each
    partition of the input: workers share the partitions.
    """
    from streamjobs.process import exit_at_once_on_signals, lean_imports

    exit_at_once_on_signals()  # before the imports below, which take a second or two
    gc.disable()  # imports leave no garbage, and looking for it takes a tenth of the start; the worker enables it again
    try:
        with lean_imports():
            from streamjobs.job_files import core_from, read_job
            from streamjobs.maintenance.summary import States
            from streamjobs.worker.run import run as work

        composition = read_job(job_file)
        code = work(
            composition.settings,
            lambda: core_from(composition),
            make_states=States,
            once=once,
            drain=drain,
            debug=context.obj["debug"],
        )
    finally:
        gc.enable()
    if code:
        raise typer.Exit(code)

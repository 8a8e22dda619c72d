"""What commands share: their usual arguments, and how they speak."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="The job file, such as job.toml.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


def say(text: str = "") -> None:
    """The command's result, on standard output."""
    print(text, flush=True)


def note(text: str) -> None:
    """What happens meanwhile, on standard error."""
    print(text, file=sys.stderr, flush=True)


def show(value: Any) -> None:
    """A result as JSON."""
    say(json.dumps(value, indent=2, default=str))


def compiled(job: Any) -> None:
    """Compile a job's loops, and say so when that takes a while (the first run on a machine)."""
    import threading

    said = threading.Timer(1.0, note, ["compiling the learner's loops; later starts find them in the cache ..."])
    said.daemon = True
    said.start()
    try:
        job.compile()
    finally:
        said.cancel()

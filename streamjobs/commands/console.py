"""What commands share: their usual arguments, and how they speak."""

import json
import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
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


ELSEWHERE = 10_000  # columns


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, left: Sequence[str] = ()) -> None:
    """Print rows under their columns, numbers to the right; `left` names the columns of texts."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="left" if name in left else "right", no_wrap=name not in left)
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row))  # Text: what stands in a key is no markup
    console = Console()
    if not console.is_terminal:
        console = Console(width=ELSEWHERE)
    console.print(made)


def cell(value: Any) -> str:
    """A value as people read it.

    >>> cell(12345), cell(0.123456), cell(None), cell(1e-9), cell("p7")
    ('12,345', '0.1235', '-', '1.000e-09', 'p7')
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.3e}"


def moment(milliseconds: float | None) -> str:
    """A time in UTC.

    >>> moment(1_700_000_000_000), moment(None)
    ('2023-11-14 22:13:20', '-')
    """
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds / 1000:.0f} s since 1970"

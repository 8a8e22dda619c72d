"""What commands share: their usual arguments, and how they print."""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streamjobs.errors import unwritable
from streamjobs.settings.types import shortened

if TYPE_CHECKING:
    from streamjobs.core.job import Job

WIDTH_ELSEWHERE = 10_000  # columns, if standard output is not a terminal: rows stay whole
MOST_CELL = 200  # characters of a text in a table
PROGRESS_EVERY = 5.0  # seconds between two lines

T = TypeVar("T")
JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="The job file, such as job.toml.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def job_of(job_file: Path) -> "Job":
    """The job of a job file. What it takes is imported here, so that commands without a job start at once."""
    from streamjobs import job_files

    return job_files.job_of(job_file)


def say(text: str = "") -> None:
    """Print a command's result, on standard output."""
    print(text, flush=True)


def note(text: str) -> None:
    """Print progress or a warning, on standard error."""
    print(text, file=sys.stderr, flush=True)


def note_all(lines: Iterable[str]) -> None:
    """`note` of each line."""
    for line in lines:
        note(line)


class Pace:
    """Tells when the next line of progress is due: not more often than every few seconds."""

    def __init__(self, seconds: float, *, at_once: bool = False) -> None:
        """at_once: the first call of `due` gives True."""
        self.seconds, self.last = seconds, -math.inf if at_once else time.monotonic()

    def due(self) -> bool:
        """Whether a line is due; the caller that gets True prints it."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True

    def note(self, text: str) -> None:
        """Print a line of progress if one is due."""
        if self.due():
            note(text)


def counted(items: Iterable[T], what: str, share: Callable[[], str] = str) -> Iterator[T]:
    """The items, with a line of progress every few seconds: "120,000 records read ...". share: what stands behind it."""
    pace = Pace(PROGRESS_EVERY)
    for number, item in enumerate(items, 1):
        yield item
        if pace.due():
            note(f"{number:,} {what}{share()} ...")


class ReadShare:
    """How much of a text file is read, in brackets; nothing of other files. Its `opened` is for `recordings.tables.How`."""

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size if path.is_file() and path.suffix.lower() != ".zip" else 0
        self._file: Any = None

    def opened(self, file: Any) -> None:
        self._file = file.raw

    def __call__(self) -> str:
        known = self._size and self._file is not None and not self._file.closed
        return f" ({self._file.position / self._size:.0%} of the file)" if known else ""


def show(value: Any) -> None:
    """Print a result as JSON."""
    say(json.dumps(value, indent=2, default=str))


def write_file(path: Path, content: str | bytes) -> None:
    """Raises ConfigError if it cannot be written."""
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise unwritable(str(path), error) from None


def write_private(path: Path, pieces: Iterable[bytes], option: str) -> int:
    """Write the whole file or nothing, readable by this user alone; returns its size in bytes.

    option: the one that named the file. Raises ConfigError if it cannot be written.
    """
    beside, size = path.with_name(path.name + ".part"), 0
    try:
        beside.unlink(missing_ok=True)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for piece in pieces:
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())  # before it replaces the former file: after a loss of power that may be the only copy
        os.replace(beside, path)
    except OSError as error:
        raise unwritable(f"{option} {path}", error) from None
    finally:  # also where the pieces cannot be made, or Ctrl-C ends it
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return size


def compile_loops(job: Any) -> None:
    """Compile a job's loops, with a note if that takes a while (on the first run on a machine)."""
    slow = threading.Timer(1.0, note, ["compiling the learner's loops, once; later runs use the cache ..."])
    slow.daemon = True
    slow.start()
    try:
        job.compile()
    finally:
        slow.cancel()


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, left: Sequence[str] = ()) -> None:
    """Print rows under their columns, aligned to the right except for the columns in `left`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name, justify="left" if name in left else "right", no_wrap=name not in left)
    for row in rows:
        grid.add_row(*(Text(cell(value)) for value in row))  # Text: a key may look like markup
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_ELSEWHERE)
    console.print(grid)


def cell(value: Any) -> str:
    """A value as text for people.

    >>> cell(12345), cell(0.123456), cell(None), cell(1e-9), cell("p7")
    ('12,345', '0.1235', '-', '1.000e-09', 'p7')
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return shortened(str(value), MOST_CELL)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.3e}"


def fixed(number: float | None, decimals: int = 4) -> str:
    """A number with so many decimals, for a table.

    >>> fixed(0.123456), fixed(12, 1), fixed(None)
    ('0.1235', '12.0', '-')
    """
    return "-" if number is None else f"{number:.{decimals}f}"


def moment(milliseconds: float | None) -> str:
    """A time as text, in UTC.

    >>> moment(1_700_000_000_000), moment(None)
    ('2023-11-14 22:13:20', '-')
    """
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds / 1000:.0f} s since 1970"

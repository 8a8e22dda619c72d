"""Shows the progress of a fit: bars on a terminal, a line every 10 seconds elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, TextIO

EVERY = 10.0  # seconds between two lines, without a terminal


class Progress:
    """`with Progress() as progress: progress.stage("reading"); progress.at(500)`."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.bars: Any = None
        self.task: Any = None
        self.name, self.total, self.done = "", 0, 0
        self.printed = time.monotonic()

    def __enter__(self) -> "Progress":
        if self.out.isatty():
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[text]}"),
                progress.TimeElapsedColumn(),
            )
            self.bars = progress.Progress(*columns, console=Console(file=self.out), transient=True)
            self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bars is not None:
            self.bars.stop()

    def stage(self, name: str, total: int = 0) -> None:
        """Start a stage of `total` steps; 0: their number is unknown."""
        self.name, self.total, self.done = name, total, 0
        if self.bars is not None:
            if self.task is not None:
                self.bars.update(self.task, total=1, completed=1)
            self.task = self.bars.add_task(name, total=total or None, text="")

    def step(self) -> None:
        """One more step of the stage is done."""
        self.at(self.done + 1)

    def at(self, done: int) -> None:
        self.done = done
        text = f"{done:,} of {self.total:,}" if self.total else f"{done:,}"
        if self.bars is not None:
            self.bars.update(self.task, completed=done, text=text)
        elif time.monotonic() - self.printed >= EVERY:
            self.printed = time.monotonic()
            print(f"{self.name}: {text}", file=self.out, flush=True)

"""Prints lines of figures: every second on a terminal, every 10 seconds elsewhere."""

import copy
import math
import sys
import time
from datetime import timedelta
from typing import Any, TextIO

from streamjobs.replay.engine import Tally

COLUMNS = ("samples", "rows", "LS error", "{error}", "overall", "drift", "dead", "samples/s")
ERRORS = {"regression": "RMSE"}  # task -> measure of the error; others: the error rate
WIDTHS = (12, 12, 10, 12, 9, 8, 8, 11)


class Progress:
    """Prints what changed in the tally since the last line; LS error and error are means over that change."""

    def __init__(self, task: str, out: TextIO | None = None) -> None:
        self.regression = task == "regression"
        self.columns = [name.format(error=ERRORS.get(task, "error rate")) for name in COLUMNS]
        self.out = out or sys.stderr
        self.tty = self.out.isatty()
        self.every = 1.0 if self.tty else 10.0  # seconds
        self.last = self.began = time.monotonic()
        self.shown: Tally | None = None
        self.file: Any = None
        self.size = 0

    def opened(self, file: Any, size: int) -> None:
        """From here on the lines end with the share of this file that is read, and the time left at the speed so far."""
        self.file, self.size, self.began = file.raw, size, time.monotonic()

    def __call__(self, tally: Tally) -> None:
        if time.monotonic() - self.last >= self.every:
            self.line(tally)

    def line(self, tally: Tally) -> None:
        """Print a line; the first one comes with the names of the columns."""
        now = time.monotonic()
        if self.shown is None:
            head = "".join(name.rjust(width) for name, width in zip(self.columns, WIDTHS, strict=True))
            print(f"\033[1m{head}\033[0m" if self.tty else head, file=self.out)
        before = self.shown or Tally()
        rate = (tally.samples - before.samples) / max(now - self.last, 1e-9)
        figures = (
            f"{tally.samples:,}",
            f"{tally.rows:,}",
            _ratio(tally.ls_error_sum - before.ls_error_sum, tally.ls_errors - before.ls_errors),
            self._error(tally, before),
            self._error(tally, Tally()),
            f"{tally.drift_events:,}",
            f"{tally.dead_lettered.total():,}",
            f"{rate:,.0f}",
        )
        text = "".join(text.rjust(width) for text, width in zip(figures, WIDTHS, strict=True)) + self._left(now)
        print(text, file=self.out, flush=True)
        self.shown, self.last = copy.deepcopy(tally), now

    def _left(self, now: float) -> str:
        if self.file is None or self.file.closed or not (at := self.file.position) or at >= self.size:
            return ""
        seconds = round((now - self.began) * (self.size - at) / at)
        return f"  {at / self.size:.0%} read, {timedelta(seconds=seconds)} left"

    def _error(self, now: Tally, before: Tally) -> str:
        if self.regression:
            return _number(rmse(now.squared - before.squared, now.measured - before.measured))
        return _ratio(now.wrong - before.wrong, now.labels - before.labels)


def rmse(squared: float, count: int) -> float:
    """Root mean square error of `count` numbers with the sum `squared` of squared errors; NaN for 0 numbers."""
    return math.sqrt(max(squared, 0.0) / count) if count else math.nan


def _ratio(total: float, count: int) -> str:
    return _number(total / count if count else math.nan)


def _number(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.4f}"

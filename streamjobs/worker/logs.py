"""Logging of a worker: one line per event on stderr.

An event is a fixed lower-case phrase that people can search for; what varies goes into fields. A key or a value of a
record is never logged.
"""

import logging
import sys
import time
from collections.abc import Callable

import structlog

from streamjobs.core.messages import Report

SELDOM = 60.0  # seconds between two lines about records of a partition
log = structlog.get_logger("streamjobs")


def configure(*, debug: bool = False) -> None:
    """Readable lines on a terminal, JSON otherwise.

    Libraries log with --debug only: the worker meets their problems as well, and reports each once, in one line.
    """
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if debug else logging.CRITICAL + 1,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )


class Notices:
    """Lines about a partition's records that people should look into: of each kind at most one a minute, with the count."""

    def __init__(self, partition: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.partition, self.clock = partition, clock
        self._told: dict[str, tuple[int, float]] = {}  # kind -> records since its last line, and when that was

    def take(self, report: Report) -> None:
        """Of one call of `advance`."""
        if report.failures and (records := self._due("failed", len(report.failures))):
            log.error("learner failed", partition=self.partition, records=records, **report.failures[-1]._asdict())

        if report.targets_clipped and (records := self._due("clipped", report.targets_clipped)):
            log.warning("targets clipped", partition=self.partition, records=records)

    def _due(self, kind: str, records: int) -> int:
        """How many records the line tells of that is due now; 0: none is."""
        waiting, told = self._told.get(kind, (0, float("-inf")))
        waiting, now = waiting + records, self.clock()
        due = now - told >= SELDOM
        self._told[kind] = (0, now) if due else (waiting, told)
        return waiting if due else 0

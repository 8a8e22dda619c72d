"""Logging of a worker: one line per event on stderr.

An event is a fixed lower-case phrase that people can search for; what varies goes into fields. A key or a value of a
record is never logged.
"""

import copy
import logging
import sys
from typing import Any

import structlog

from streamjobs.core.unlearned import Taken

log = structlog.get_logger("streamjobs")

SKIPPED_EVERY = 60.0  # seconds


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


class Unlearned:
    """Warns, at most once a minute for each reason, of what was taken in that minute and not learned.

    taken: counts since the worker's start, which others raise.
    """

    def __init__(self, taken: Taken, now: float) -> None:
        self._taken, self._before, self._since = taken, copy.deepcopy(taken), now

    def check(self, now: float, *, last: bool = False) -> None:
        """Warn where a minute is over; with `last`, of the minute begun, because the worker stops."""
        if now - self._since < SKIPPED_EVERY and not last:
            return
        minute = self._taken.since(self._before)
        seconds, self._since, self._before = round(now - self._since), now, copy.deepcopy(self._taken)
        for one in minute.much_skipped():
            log.warning(
                "samples skipped",
                reason=one.reason,
                skipped=one.number,
                of=one.of,
                unit=one.unit,
                percent=one.percent,
                seconds=seconds,
                meaning=one.advice,
            )
        if minute.mostly_dead:
            log.warning(
                "most records became dead letters",
                dead_lettered=minute.dead_lettered.total(),
                of=minute.records - minute.redelivered,
                reasons=dict(minute.dead_lettered),
                example=minute.latest_letter,
                seconds=seconds,
            )


def totals(taken: Taken) -> dict[str, Any]:
    """What became of the records, as fields of the event `stopped`."""
    return {
        "records": taken.records,
        "redelivered": taken.redelivered,
        "samples": taken.samples,
        "rows": taken.rows,
        "dead_lettered": taken.dead_lettered.total(),
        "dead_letter_reasons": dict(taken.dead_lettered),
        "skipped": {reason: count for reason, count in taken.skipped.items() if count},
    }

"""Logging of a worker: one line per event on stderr.

An event is a fixed lower-case phrase that people can search for; what varies goes into fields. A key or a value of a
record is never logged.
"""

import logging
import sys

import structlog


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

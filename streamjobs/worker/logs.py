"""Logging of a worker: one line an event on stderr, never a key or a value of a record."""

import logging
import sys

import structlog


def configure(*, debug: bool = False) -> None:
    """Lines for people on a terminal, JSON otherwise.

    The libraries stay silent unless debugging: what they meet is met by the shell as well and said once, in one line.
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

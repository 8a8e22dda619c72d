"""The same broker and jobs as in tests/brokers."""

from tests.brokers.fixtures import broker, make_job

__all__ = ["broker", "make_job"]

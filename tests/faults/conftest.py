"""The same broker and jobs as in tests/brokers."""

from tests.brokers.fixtures import broker, fork_server, make_job

__all__ = ["broker", "fork_server", "make_job"]

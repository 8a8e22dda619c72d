"""Fixtures of the Kafka tests."""

from tests.brokers.fixtures import broker, fork_server, make_job

__all__ = ["broker", "fork_server", "make_job"]

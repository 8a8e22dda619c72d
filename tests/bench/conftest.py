"""The broker of the Kafka tests."""

from tests.brokers.fixtures import broker

__all__ = ["broker"]

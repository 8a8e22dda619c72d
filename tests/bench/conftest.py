"""The broker of the Kafka tests."""

from tests.kafka.fixtures import broker

__all__ = ["broker"]

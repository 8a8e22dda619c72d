"""Fixtures of the Kafka tests."""

from tests.brokers.fixtures import broker, make_bed, nursery

__all__ = ["broker", "make_bed", "nursery"]

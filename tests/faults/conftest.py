"""The same broker and beds as the Kafka tests."""

from tests.brokers.fixtures import broker, make_bed

__all__ = ["broker", "make_bed"]

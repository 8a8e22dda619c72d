"""A Kafka topic as a recording: each partition from its beginning (or a time) to the end it has now (or a time)."""

from collections.abc import Generator
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamjobs.access import BrokerSection
from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.shell import client, reading

ANSWER_WITHIN = 10.0  # seconds


def topic_records(
    broker: BrokerSection, topic: str, begin_ms: int | None = None, end_ms: int | None = None, *, max_bytes: int = 0
) -> Generator[Stored, None, None]:
    """Records with begin_ms <= timestamp < end_ms, partition by partition; which those are is asked at once.

    max_bytes: most of a value, as [source] has it, for what a batch may unpack to.
    Raises SetupError where the broker does not answer or the topic is missing.
    """
    consumer = Consumer({**client.for_confluent(broker), "group.id": "streamjobs-replay"})  # never a member
    try:
        ranges = _ranges(consumer, topic, begin_ms, end_ms)
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()
    return reading.read(broker, topic, ranges, in_turn=True, max_bytes=max_bytes)


def _ranges(consumer: Any, topic: str, begin_ms: int | None, end_ms: int | None) -> dict[int, reading.Range]:
    known = consumer.list_topics(topic, timeout=ANSWER_WITHIN).topics.get(topic)
    if known is None or known.error is not None or not known.partitions:
        raise SetupError(f"topic {topic}: not there; correct [source] topic, or 'streamjobs topics create'.")
    ranges: dict[int, reading.Range] = {}
    for partition in sorted(known.partitions):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_WITHIN)
        if begin_ms is not None:
            first = max(first, _offset_at(consumer, topic, partition, begin_ms, end))
        if end_ms is not None:
            end = min(end, _offset_at(consumer, topic, partition, end_ms, end))
        ranges[partition] = first, end
    return ranges


def _offset_at(consumer: Any, topic: str, partition: int, time_ms: int, end: int) -> int:
    """The first offset whose record is not older than the time; `end` where there is none."""
    (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, time_ms)], timeout=ANSWER_WITHIN)
    return end if found.offset < 0 else int(found.offset)

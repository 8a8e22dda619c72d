"""A Kafka topic as a recording: each partition from its beginning (or a time) to the end it has now (or a time)."""

from collections.abc import Generator, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamjobs.access import BrokerSection
from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.shell import client

ANSWER_WITHIN = 10.0  # seconds


def topic_records(
    broker: BrokerSection, topic: str, begin_ms: int | None = None, end_ms: int | None = None
) -> Generator[Stored, None, None]:
    """Records with begin_ms <= timestamp < end_ms, partition by partition.

    Raises SetupError where the broker does not answer or the topic is missing.
    """
    settings = client.for_confluent(broker)
    consumer = Consumer(
        {
            **settings,
            "group.id": "streamjobs-replay",  # never committed to
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        for partition, first, end in _ranges(consumer, topic, begin_ms, end_ms):
            yield from _partition(consumer, topic, partition, first, end)
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()


def _ranges(consumer: Any, topic: str, begin_ms: int | None, end_ms: int | None) -> list[tuple[int, int, int]]:
    known = consumer.list_topics(topic, timeout=ANSWER_WITHIN).topics.get(topic)
    if known is None or known.error is not None or not known.partitions:
        raise SetupError(f"topic {topic}: not there; correct [source] topic, or 'streamjobs topics create'.")
    ranges = []
    for partition in sorted(known.partitions):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_WITHIN)
        if begin_ms is not None:
            first = max(first, _offset_at(consumer, topic, partition, begin_ms, end))
        if end_ms is not None:
            end = min(end, _offset_at(consumer, topic, partition, end_ms, end))
        ranges.append((partition, first, end))
    return ranges


def _offset_at(consumer: Any, topic: str, partition: int, time_ms: int, end: int) -> int:
    """The first offset whose record is not older than the time; `end` where there is none."""
    (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, time_ms)], timeout=ANSWER_WITHIN)
    return end if found.offset < 0 else int(found.offset)


def _partition(consumer: Any, topic: str, partition: int, first: int, end: int) -> Iterator[Stored]:
    if first >= end:
        return
    consumer.assign([TopicPartition(topic, partition, first)])
    at = first  # consume() waits for as many as asked for: never ask for more than there are
    while True:
        for message in consumer.consume(min(5000, end - at), timeout=0.2):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise KafkaException(error)
            at = message.offset() + 1
            if at > end:
                return
            yield Stored(
                topic,
                partition,
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple((name, value or b"") for name, value in message.headers() or ()),
            )
        if at >= end:
            return

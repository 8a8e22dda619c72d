"""Records of a topic for commands, read as a worker reads them: within the same bounds, names and batches told alike.

librdkafka, which commands ask about topics and offsets, unpacks a batch to any size, and its Python side raises on a
header name that is not UTF-8.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Generator, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Partition

from streamjobs.core.messages import Stored, Unread
from streamjobs.errors import SetupError, SnapshotError
from streamjobs.kafka import client
from streamjobs.kafka.patches import connections, unpacking
from streamjobs.settings.broker import BrokerSection

AT_ONCE = 5_000  # records
TURN = 50  # milliseconds one call waits for records
STALLED = 30.0  # seconds without any progress before the broker counts as gone
FETCH_BYTES = 16 << 20  # most of one fetch
ANSWER_WITHIN = 10.0  # seconds

Range = tuple[int, int | None]  # first offset and end (None: the one it has now)


def read(
    broker: BrokerSection, topic: str, ranges: Mapping[int, Range], *, in_turn: bool = False, max_bytes: int = 0
) -> Generator[Stored, None, None]:
    """Records that count of these partitions, each in order: of all mixed, or one partition after the other.

    max_bytes: most of a value, for what a batch may unpack to; it holds for the process from when the reading begins.
    Raises SetupError with one sentence where the broker does not answer; never call it in an event loop.
    """
    connections.apply()
    unpacking.bound(max_bytes)
    if broker.reached != "plaintext":
        client.greet(broker)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)  # what it meets is said here, once
    parts = [{number: ranges[number]} for number in sorted(ranges)] if in_turn else [dict(ranges)]
    with asyncio.Runner() as runner:
        reader = _Reader(broker, topic)
        try:
            runner.run(reader.open())
            for part in parts:
                found = reader.read(part)
                while (records := runner.run(anext(found, None))) is not None:
                    yield from records
        except KafkaError as error:
            raise client.unanswered(broker, error) from None
        finally:
            runner.run(reader.close())


class _Reader:
    """A consumer without a group."""

    def __init__(self, broker: BrokerSection, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.consumer: Any = None

    async def open(self) -> None:
        self.consumer = AIOKafkaConsumer(
            **client.for_aiokafka(self.broker),
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # where retention has passed a wanted offset
            isolation_level="read_committed",
            fetch_max_wait_ms=TURN,
            fetch_max_bytes=FETCH_BYTES,
            check_crcs=False,  # as librdkafka has it; its mock broker changes batches after their sum was made
        )
        await self.consumer.start()

    async def close(self) -> None:
        if self.consumer is not None:
            await self.consumer.stop()

    async def read(self, ranges: Mapping[int, Range]) -> AsyncIterator[list[Stored]]:
        consumer = self.consumer
        wanted = [TopicPartition(self.topic, number) for number in ranges]
        consumer.assign(wanted)
        first = await consumer.beginning_offsets(wanted) if wanted else {}
        ends = await consumer.end_offsets(wanted) if wanted else {}
        waiting: dict[TopicPartition, int] = {}
        for tp in wanted:
            begin, end = ranges[tp.partition]
            begin, end = max(begin, first[tp]), ends[tp] if end is None else min(end, ends[tp])
            if begin < end:
                consumer.seek(tp, begin)
                waiting[tp] = end
            else:
                consumer.pause(tp)
        moved, places = time.monotonic(), list[int]()
        while waiting:
            for tp, records in (await consumer.getmany(*waiting, timeout_ms=TURN, max_records=AT_ONCE)).items():
                yield [_told(record) for record in records if record.offset < waiting[tp]]
            now = [position_of(consumer, tp) for tp in waiting]
            if now != places:
                moved, places = time.monotonic(), now
            elif time.monotonic() - moved > STALLED:
                raise client.unanswered(self.broker, TimeoutError(), within=STALLED)
            for tp in [tp for tp, end in waiting.items() if position_of(consumer, tp) >= end]:
                del waiting[tp]
                consumer.pause(tp)


def position_of(consumer: Any, tp: TopicPartition) -> int:
    """The offset fetched next; past markers and compacted records as well, which no record shows."""
    position = consumer._subscription.subscription.assignment.state_value(tp)._position
    return -1 if position is None else int(position)


def _told(record: Any) -> Stored:
    """With a text for each header."""
    found: Stored = record
    if not found.headers or isinstance(found, Unread):
        return found
    return found._replace(headers=tuple((name, text or b"") for name, text in found.headers))


def readable(record: Any) -> Any:
    """A record of the changelog. Raises SnapshotError for one that nobody can read."""
    if isinstance(record, Unread):
        raise SnapshotError(
            f"topic {record.topic}[{record.partition}]: {record.problem}. Some keys' states cannot be read: restore "
            "the topic as it was, or its keys from a copy with 'streamjobs state import'."
        )
    return record


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
    return read(broker, topic, ranges, in_turn=True, max_bytes=max_bytes)


def _ranges(consumer: Any, topic: str, begin_ms: int | None, end_ms: int | None) -> dict[int, Range]:
    known = consumer.list_topics(topic, timeout=ANSWER_WITHIN).topics.get(topic)
    if known is None or known.error is not None or not known.partitions:
        raise SetupError(f"topic {topic}: not there; correct [source] topic, or 'streamjobs topics create'.")
    ranges: dict[int, Range] = {}
    for partition in sorted(known.partitions):
        first, end = consumer.get_watermark_offsets(Partition(topic, partition), timeout=ANSWER_WITHIN)
        if begin_ms is not None:
            first = max(first, _offset_at(consumer, topic, partition, begin_ms, end))
        if end_ms is not None:
            end = min(end, _offset_at(consumer, topic, partition, end_ms, end))
        ranges[partition] = first, end
    return ranges


def _offset_at(consumer: Any, topic: str, partition: int, time_ms: int, end: int) -> int:
    """The first offset whose record is not older than the time; `end` where there is none."""
    (found,) = consumer.offsets_for_times([Partition(topic, partition, time_ms)], timeout=ANSWER_WITHIN)
    return end if found.offset < 0 else int(found.offset)

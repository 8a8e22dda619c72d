"""Records of a topic for commands, read by aiokafka as a worker reads them: same limits, header names and bad batches.

librdkafka, which commands use for topics and offsets, decompresses a batch to any size, and its Python side raises on a
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
from streamjobs.errors import SnapshotError
from streamjobs.kafka import client, patches, timeouts
from streamjobs.kafka.patches import decompression
from streamjobs.settings.broker import BrokerSection

MAX_AT_ONCE = 5_000  # records of one poll
POLL_MS = 50  # one poll waits this long for records
STALLED = 30.0  # seconds without any progress before the broker counts as gone
LOOK_EVERY = 0.5  # seconds, for records that come while a live topic is read
FETCH_BYTES = 16 << 20  # at most, of one fetch

Range = tuple[int, int | None]  # first offset, and end (None: the end at the start of the reading)


def topic_records(
    broker: BrokerSection, topic: str, begin_ms: int | None = None, end_ms: int | None = None, *, max_bytes: int = 0
) -> Generator[Stored, None, None]:
    """Records with begin_ms <= timestamp < end_ms, partition by partition; their offsets are looked up at once.

    max_bytes: as for `read`. Raises SetupError where the broker does not answer or the topic is missing.
    """
    return read(broker, topic, _ranges_of(broker, topic, begin_ms, end_ms), in_turn=True, max_bytes=max_bytes)


def _ranges_of(
    broker: BrokerSection, topic: str, begin_ms: int | None, end_ms: int | None, missing: str = client.NO_INPUT
) -> dict[int, Range]:
    """Raises SetupError where the broker does not answer, and with `missing` where the topic does not exist."""
    consumer = Consumer({**client.for_confluent(broker), "group.id": "streamjobs-replay"})  # never becomes a member
    try:
        return _ranges(consumer, topic, begin_ms, end_ms, missing)
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()


def newest(
    broker: BrokerSection, topic: str, count: int, until: float, *, max_bytes: int = 0, missing: str = client.NO_INPUT
) -> Generator[Stored, None, None]:
    """About so many of the newest records; with fewer, those that come until time.monotonic() says `until`, or none comes.

    As many of each partition. The first record is waited for until `until`. It uses no group and commits nothing.
    max_bytes: as for `topic_records`. Raises SetupError as it does, with `missing` where the topic does not exist.
    """
    read_to: dict[int, int] = {}
    found = 0
    while found < count:
        ends = _ranges_of(broker, topic, None, None, missing)
        known = {partition: (first, end) for partition, (first, end) in ends.items() if end is not None}
        ranges: dict[int, Range] = {}
        left = count
        for n, (partition, (first, end)) in enumerate(sorted(known.items(), key=lambda one: one[1][1] - one[1][0])):
            take = min(end - first, -(-left // (len(known) - n)))  # what small partitions lack, larger ones give
            left -= take
            ranges[partition] = read_to.get(partition, end - take), end
            read_to[partition] = end
        before = found
        for record in read(broker, topic, ranges, max_bytes=max_bytes):
            found += 1
            yield record
        if time.monotonic() >= until or found == before > 0:
            return
        if found < count:
            time.sleep(min(LOOK_EVERY, max(0.0, until - time.monotonic())))


def _ranges(consumer: Any, topic: str, begin_ms: int | None, end_ms: int | None, missing: str) -> dict[int, Range]:
    ranges: dict[int, Range] = {}
    for partition in client.partitions_of(consumer, topic, missing):
        first, end = consumer.get_watermark_offsets(Partition(topic, partition), timeout=timeouts.LOOKUP)
        if begin_ms is not None:
            first = max(first, _offset_at(consumer, topic, partition, begin_ms, end))
        if end_ms is not None:
            end = min(end, _offset_at(consumer, topic, partition, end_ms, end))
        ranges[partition] = first, end
    return ranges


def _offset_at(consumer: Any, topic: str, partition: int, time_ms: int, end: int) -> int:
    """Offset of the first record that is not older than the time; `end` without such a record."""
    (answer,) = consumer.offsets_for_times([Partition(topic, partition, time_ms)], timeout=timeouts.LOOKUP)
    return end if answer.offset < 0 else int(answer.offset)


def read(
    broker: BrokerSection, topic: str, ranges: Mapping[int, Range], *, in_turn: bool = False, max_bytes: int = 0
) -> Generator[Stored, None, None]:
    """Committed records of these partitions, in order within each: mixed, or one partition after the other (`in_turn`).

    max_bytes: most of a value, as [source] has it, for what a batch may decompress to. It holds for the process once the
    reading begins; with 0 the limit stays as it is, such as that of the worker which reads its changelog.
    Raises SetupError with one sentence where the broker does not answer. Never call it in an event loop.
    """
    patches.apply()
    if max_bytes:
        decompression.set_limit(max_bytes)
    if broker.reached != "plaintext":
        client.verify(broker)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)  # problems are raised here, in one sentence
    parts = [{number: ranges[number]} for number in sorted(ranges)] if in_turn else [dict(ranges)]
    with asyncio.Runner() as runner:
        reader = _Reader(broker, topic)
        try:
            runner.run(reader.open())
            for part in parts:
                polls = reader.read(part)
                while (records := runner.run(anext(polls, None))) is not None:
                    yield from records
        except KafkaError as error:
            raise client.unanswered(broker, error) from None
        finally:
            runner.run(reader.close())


def consumer_of(broker: BrokerSection, **settings: Any) -> Any:
    """A consumer without a group, of committed records; not started. Call it in the event loop."""
    return AIOKafkaConsumer(
        **client.for_aiokafka(broker),
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # where retention has deleted a wanted offset
        isolation_level="read_committed",
        fetch_max_wait_ms=POLL_MS,
        fetch_max_bytes=FETCH_BYTES,
        check_crcs=False,  # as in librdkafka: its mock broker changes batches after computing their checksum
        **settings,
    )


class _Reader:
    """A consumer without a group."""

    def __init__(self, broker: BrokerSection, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.consumer: Any = None

    async def open(self) -> None:
        self.consumer = consumer_of(self.broker)
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
        unread: dict[TopicPartition, int] = {}  # the end of each partition that is not read completely
        for tp in wanted:
            begin, end = ranges[tp.partition]
            begin, end = max(begin, first[tp]), ends[tp] if end is None else min(end, ends[tp])
            if begin < end:
                consumer.seek(tp, begin)
                unread[tp] = end
            else:
                consumer.pause(tp)
        progress_at, positions = time.monotonic(), list[int]()
        while unread:
            for tp, records in (await consumer.getmany(*unread, timeout_ms=POLL_MS, max_records=MAX_AT_ONCE)).items():
                yield [_with_header_values(record) for record in records if record.offset < unread[tp]]
            now = [position_of(consumer, tp) for tp in unread]
            if now != positions:
                progress_at, positions = time.monotonic(), now
            elif time.monotonic() - progress_at > STALLED:
                raise client.unanswered(self.broker, TimeoutError(), within=STALLED)
            for tp in [tp for tp, end in unread.items() if position_of(consumer, tp) >= end]:
                del unread[tp]
                consumer.pause(tp)


def position_of(consumer: Any, tp: TopicPartition) -> int:
    """The offset fetched next, -1 while unknown; it also moves past markers and compacted records, not delivered."""
    position = consumer._subscription.subscription.assignment.state_value(tp)._position
    return -1 if position is None else int(position)


def _with_header_values(record: Any) -> Stored:
    """The record with b"" for header values that are null."""
    stored: Stored = record
    if not stored.headers or isinstance(stored, Unread):
        return stored
    return stored._replace(headers=tuple((name, value or b"") for name, value in stored.headers))


def readable(record: Any) -> Any:
    """The record of the changelog; raises SnapshotError for one that stands for an unreadable batch."""
    if isinstance(record, Unread):
        raise SnapshotError(
            f"topic {record.topic}[{record.partition}]: {record.problem}. Some keys' states cannot be read: restore "
            "the topic as it was, or its keys from a copy with 'streamjobs state import'."
        )
    return record

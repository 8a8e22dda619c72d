"""Outputs of a partition on their way to Kafka, in batches that are tracked until the broker has acknowledged them.

Records are packed with aiokafka's batch API, which costs 1 us a record; sending one by one costs 60 to 100.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from aiokafka.errors import KafkaTimeoutError, ProducerClosed, UnknownTopicOrPartitionError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from faust.transport.drivers import aiokafka as driver

from streamjobs.core.messages import Output
from streamjobs.kafka import timeouts
from streamjobs.kafka.topics import BATCH_BYTES, Span
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.failures import EXPIRED, FENCED, DeliveryError, FencedError, has_expired, reason

BATCH_TTL = 120.0  # seconds a batch waits for its partition to have a leader, before it counts as refused
ZSTD = 4  # Kafka's number of the codec
NO_TIMESTAMP = -1  # of a record, in Kafka: every topic takes it
NO_SPANS: Mapping[str, Span] = {}

_sink = itemgetter(0)  # of an `Output`

# Sink (ignored), key, value, timestamp in milliseconds, headers: an `Output` is one.
Fields = tuple[str, bytes | None, bytes | None, int | None, list[tuple[str, bytes]]]


class SentBatch(NamedTuple):
    """A batch handed to the producer; `acknowledged` gives its first record's metadata."""

    acknowledged: "asyncio.Future[Any]"
    records: int
    bytes: int


class Producer(driver.Producer):  # type: ignore[misc]
    """Faust's producer, acknowledged by all replicas and idempotent (its retries repeat nothing).

    Faust's request timeout is 20 minutes: outputs would wait that long on a connection that died silently.
    """

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True, "request_timeout_ms": timeouts.REQUEST_MS}

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        return extend_batch_ttl(super()._new_producer(transactional_id))

    async def flush(self) -> None:
        """When the worker stops on a failure, drop what no broker has taken: its input is read again."""
        if self._producer is not None and self.app.delivery.failed is not None:
            self._producer._message_accumulator.fail_all(ProducerClosed())
        await super().flush()


def extend_batch_ttl(producer: Any) -> Any:
    """Let requests time out early and the batches they carry late; aiokafka has one setting for both."""
    producer._message_accumulator._batch_ttl = BATCH_TTL
    return producer


async def send_records(producer: Any, topic: str, partition: int, records: Iterable[Fields]) -> list[SentBatch]:
    """Hand records to the producer in as few batches as fit; waits only until the previous batch has left.

    A batch takes its first record whatever its size: the broker refuses one that is larger than the topic allows.
    """
    sent: list[SentBatch] = []
    batch, count = producer.create_batch(), 0
    append = batch._builder.append  # the public one costs 1 us more a record
    for _, key, value, timestamp, headers in records:
        if append(count, timestamp, key=key, value=value, headers=headers) is None:
            sent.append(await _send_batch(producer, topic, partition, batch, count))
            batch, count = producer.create_batch(), 0
            append = batch._builder.append
            append(count, timestamp, key=key, value=value, headers=headers)
        count += 1
    if count:
        sent.append(await _send_batch(producer, topic, partition, batch, count))
    return sent


async def send_dead_letters(producer: Any, topic: str, partition: int, records: Sequence[Fields]) -> list[SentBatch]:
    """Like `send_records`, but a value larger than a batch is compressed: its input must have been, to pass the broker.

    Records without a timestamp have batches of their own: aiokafka gives them the timestamp of the next record in a batch.
    """
    sent: list[SentBatch] = []
    if any([record[3] == NO_TIMESTAMP for record in records]):
        parts = [list(run) for _, run in groupby(records, lambda record: record[3] == NO_TIMESTAMP)]
        if len(parts) > 1:
            for part in parts:
                sent += await send_dead_letters(producer, topic, partition, part)
            return sent
    begin = 0
    for at, (_, key, value, timestamp, headers) in enumerate(records):
        if value is not None and len(value) > BATCH_BYTES:
            sent += await send_records(producer, topic, partition, records[begin:at])
            batch = producer.create_batch()
            manager = producer._txn_manager
            transactional = manager is not None and manager.transactional_id is not None
            batch._builder = DefaultRecordBatchBuilder(2, ZSTD, transactional, -1, -1, 0, BATCH_BYTES)
            batch._builder.append(0, timestamp, key=key, value=value, headers=headers)
            sent.append(await _send_batch(producer, topic, partition, batch, 1))
            begin = at + 1
    return sent + await send_records(producer, topic, partition, records[begin:])


async def _send_batch(producer: Any, topic: str, partition: int, batch: Any, count: int) -> SentBatch:
    batch._relative_offset = count  # what the public append counts
    batch.close()
    size, deadline = batch.size(), time.monotonic() + BATCH_TTL
    while True:
        try:
            return SentBatch(await producer.send_batch(batch, topic, partition=partition), count, size)
        # Either the previous batch has not left (no leader, too few replicas), or no node has announced the topic yet, as
        # on dead connections. The producer has not taken this batch in either case.
        except (KafkaTimeoutError, UnknownTopicOrPartitionError):
            if time.monotonic() > deadline:
                raise


def accepted(records: Sequence[Fields], span: Span) -> list[Fields]:
    """The records, without timestamps that their topic would refuse: it would end the worker at every start.

    >>> [one[3] for one in accepted([("drift", b"k", b"v", at, []) for at in (0, 2**62)], Span(2**62, 1000))]
    [0, -1]
    """
    now = int(1000 * time.time())
    return [
        (sink, key, value, at if at is None or span.accepts(at, now) else NO_TIMESTAMP, headers)
        for sink, key, value, at, headers in records
    ]


class Outbox:
    """Sends the outputs of one partition to the sinks' topics, to the partition of the same number.

    spans: of topics that may refuse timestamps.
    """

    def __init__(
        self,
        partition: int,
        topics: Mapping[str, str],
        producer: Callable[[], Any],
        backpressure: Backpressure,
        *,
        on_sent: Callable[[str, int], None] = lambda topic, records: None,
        spans: Mapping[str, Span] = NO_SPANS,
    ) -> None:
        self.spans = spans
        self.partition, self.topics, self.producer, self.backpressure = partition, topics, producer, backpressure
        self._on_sent = on_sent
        self.on_refused: Callable[[], None] = lambda: None  # called for a refused batch
        self.unacknowledged: dict[asyncio.Future[Any], str] = {}  # or refused; with the topic
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Send nothing until `release`: the transaction that outputs would join is being committed."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def send(self, outputs: Sequence[Output]) -> None:
        """Hand outputs to the producer, in order within each sink. Raises what the producer raises."""
        await self._open.wait()
        by_sink: dict[str, list[Fields]] = {}
        for sink, run in groupby(outputs, _sink):  # a call of `advance` gives them sink by sink
            by_sink.setdefault(sink, []).extend(run)
        for sink, records in by_sink.items():
            topic = self.topics[sink]
            if topic in self.spans:
                records = accepted(records, self.spans[topic])
            send, producer = send_dead_letters if sink == "dlq" or topic in self.spans else send_records, self.producer()
            try:
                sent = await send(producer, topic, self.partition, records)
            except FENCED as error:
                if has_expired(error, producer):
                    raise DeliveryError(f"topic {topic}[{self.partition}]: {EXPIRED}") from error
                raise self._taken_over(topic, error) from error
            except KafkaTimeoutError as error:
                raise DeliveryError(
                    f"topic {topic}[{self.partition}]: the brokers took no outputs for {BATCH_TTL:.0f} s: it has no leader, "
                    "too few are in sync for min.insync.replicas, or they are too slow. Nothing is lost: when they are "
                    "back, a start continues from the last checkpoint."
                ) from error
            for batch in sent:
                self.backpressure.add_unacknowledged(batch.records, batch.bytes)
                self.unacknowledged[batch.acknowledged] = topic
                batch.acknowledged.add_done_callback(functools.partial(self._on_answer, batch))
            self._on_sent(topic, len(records))

    def _on_answer(self, batch: SentBatch, future: "asyncio.Future[Any]") -> None:
        """Forget an acknowledged batch; keep a refused one, so that the next checkpoint meets it."""
        self.backpressure.add_unacknowledged(-batch.records, -batch.bytes)
        if future.cancelled() or future.exception() is not None:
            self.on_refused()
        else:
            del self.unacknowledged[future]

    async def wait_acknowledged(self, futures: Iterable["asyncio.Future[Any]"]) -> None:
        """Wait for these batches. Raises DeliveryError when one was refused, FencedError after a takeover."""
        for future in futures:
            topic = self.unacknowledged.get(future, "")
            try:
                await future
            except Exception as error:
                if has_expired(error, self.producer()):
                    raise DeliveryError(f"topic {topic}[{self.partition}]: {EXPIRED}") from error
                if isinstance(error, FENCED):
                    raise self._taken_over(topic, error) from error
                raise DeliveryError(
                    f"topic {topic}[{self.partition}]: the broker refused outputs ({reason(error)}). "
                    "Their input is not acknowledged and is read again at the next start; check that the topic exists, that "
                    "this worker may write to it and that its max.message.bytes suffices (for an invalid timestamp: its "
                    "message.timestamp.after.max.ms), then start again."
                ) from error

    def _taken_over(self, topic: str, error: Exception) -> FencedError:
        return FencedError(
            f"topic {topic}[{self.partition}]: another worker has taken this partition over ({type(error).__name__}), or "
            "this worker was frozen for too long. Uncommitted outputs do not count; the new owner reads their input again."
        )

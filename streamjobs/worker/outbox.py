"""Records out by aiokafka's batch API (1 us a record instead of 60-100), every batch kept until it is acknowledged."""

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from faust.transport.drivers import aiokafka as driver

from streamjobs.core.messages import Output
from streamjobs.kafka.client import REQUEST_TIMEOUT_MS
from streamjobs.worker.backpressure import Room
from streamjobs.worker.failures import FENCED, DeliveryError, FencedError, reason

LEADERLESS = 120.0  # seconds a batch waits for its partition to have a leader, before it counts as refused
ZSTD = 4  # Kafka's number of it
BATCH_BYTES = 1_000_000  # below the usual max.message.bytes of a topic, 1,048,588

# What for (ignored), key, value, timestamp in milliseconds, headers: an `Output` is one.
Packed = tuple[str, bytes | None, bytes | None, int | None, list[tuple[str, bytes]]]


class Sent(NamedTuple):
    """A batch on its way; `acknowledged` gives its first record's metadata."""

    acknowledged: "asyncio.Future[Any]"
    records: int
    bytes: int


class Producer(driver.Producer):  # type: ignore[misc]
    """Faust's producer with acknowledgement by all replicas, and no repeats by retries (idempotence).

    Faust gives a request 20 minutes: on a connection that died without a word outputs would wait for so long.
    """

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True, "request_timeout_ms": REQUEST_TIMEOUT_MS}

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        return patient(super()._new_producer(transactional_id))


def patient(producer: Any) -> Any:
    """A request times out soon, what it carried does not: aiokafka has one setting for both."""
    producer._message_accumulator._batch_ttl = LEADERLESS
    return producer


async def send_records(producer: Any, topic: str, partition: int, records: Iterable[Packed]) -> list[Sent]:
    """Hand records to the producer in as few batches as fit; waits only until the batch before has left.

    A batch takes its first record whatever its size: one larger than the topic allows is refused by the broker.
    """
    sent: list[Sent] = []
    batch, count = producer.create_batch(), 0
    append = batch._builder.append  # the public one costs 1 us more a record
    for _, key, value, timestamp, headers in records:
        if append(count, timestamp, key=key, value=value, headers=headers) is None:
            sent.append(await _hand_over(producer, topic, partition, batch, count))
            batch, count = producer.create_batch(), 0
            append = batch._builder.append
            append(count, timestamp, key=key, value=value, headers=headers)
        count += 1
    if count:
        sent.append(await _hand_over(producer, topic, partition, batch, count))
    return sent


async def send_letters(producer: Any, topic: str, partition: int, records: Sequence[Packed]) -> list[Sent]:
    """As `send_records`; a value larger than a batch goes compressed, as it must have come to be taken by the broker."""
    sent: list[Sent] = []
    begin = 0
    for at, (_, key, value, timestamp, headers) in enumerate(records):
        if value is not None and len(value) > BATCH_BYTES:
            sent += await send_records(producer, topic, partition, records[begin:at])
            batch = producer.create_batch()
            batch._builder = DefaultRecordBatchBuilder(2, ZSTD, _transactional(producer), -1, -1, 0, BATCH_BYTES)
            batch._builder.append(0, timestamp, key=key, value=value, headers=headers)
            sent.append(await _hand_over(producer, topic, partition, batch, 1))
            begin = at + 1
    return sent + await send_records(producer, topic, partition, records[begin:])


def _transactional(producer: Any) -> bool:
    manager = producer._txn_manager
    return manager is not None and manager.transactional_id is not None


async def _hand_over(producer: Any, topic: str, partition: int, batch: Any, count: int) -> Sent:
    batch._relative_offset = count  # what the public append counts
    batch.close()
    size, giving_up = batch.size(), time.monotonic() + LEADERLESS
    while True:
        try:
            return Sent(await producer.send_batch(batch, topic, partition=partition), count, size)
        # The batch before has not left: no leader, or too few replicas. Or no node has told of the topic yet, as on dead
        # connections. It was not taken in either case.
        except (KafkaTimeoutError, UnknownTopicOrPartitionError):
            if time.monotonic() > giving_up:
                raise


class Outbox:
    """The outputs of one partition on their way to the sinks' topics, to the partition of the same number."""

    def __init__(
        self,
        partition: int,
        topics: Mapping[str, str],
        producer: Callable[[], Any],
        room: Room,
        *,
        sent: Callable[[str, int], None] = lambda topic, records: None,
    ) -> None:
        self.partition, self.topics, self.producer, self.room = partition, topics, producer, room
        self._sent = sent
        self.refused: Callable[[], None] = lambda: None  # called for a refused batch
        self.waiting: dict[asyncio.Future[Any], str] = {}  # not acknowledged, or refused; with the topic
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Nothing more is handed over until `release`: the transaction it would join is being committed."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def send(self, outputs: Sequence[Output]) -> None:
        """Hand outputs over in their order per sink. May raise what the producer raises."""
        await self._open.wait()
        by_sink: dict[str, list[Packed]] = {}
        for output in outputs:
            by_sink.setdefault(output.sink, []).append(output)
        for sink, records in by_sink.items():
            topic = self.topics[sink]
            try:
                send = send_letters if sink == "dlq" else send_records
                sent = await send(self.producer(), topic, self.partition, records)
            except FENCED as error:
                raise self._taken(topic, error) from error
            for batch in sent:
                self.room.send(batch.records, batch.bytes)
                self.waiting[batch.acknowledged] = topic
                batch.acknowledged.add_done_callback(functools.partial(self._done, batch))
            self._sent(topic, len(records))

    def _done(self, batch: Sent, future: "asyncio.Future[Any]") -> None:
        """An acknowledged batch is forgotten; a refused one stays, so that the next checkpoint meets it."""
        self.room.send(-batch.records, -batch.bytes)
        if future.cancelled() or future.exception() is not None:
            self.refused()
        else:
            del self.waiting[future]

    async def acknowledged(self, futures: Iterable["asyncio.Future[Any]"]) -> None:
        """Wait for these batches. Raises DeliveryError when one was refused."""
        for future in futures:
            topic = self.waiting.get(future, "")
            try:
                await future
            except FENCED as error:
                raise self._taken(topic, error) from error
            except Exception as error:
                raise DeliveryError(
                    f"topic {topic}[{self.partition}]: the broker refused outputs ({reason(error)}). "
                    "Their input is not acknowledged and will be read again; see that the topic exists, that this "
                    "worker may write to it and that its max.message.bytes suffices, then start again."
                ) from error

    def _taken(self, topic: str, error: Exception) -> FencedError:
        return FencedError(
            f"topic {topic}[{self.partition}]: another worker has taken this partition over ({type(error).__name__}), or "
            "this one stood still for too long. What was not committed does not count; that input is read again."
        )

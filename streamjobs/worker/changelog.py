"""The fenced producer of one partition: its changelog, and with exactly_once all else a checkpoint makes safe.

Only the worker that opened it last can write: a frozen worker that wakes up after losing the partition is refused by the
broker, whatever it believes, and so are its offsets where they go through here; the group need not be asked. A
transaction is one checkpoint: all of it counts, or nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.kafka.topic_id import marks
from streamjobs.kafka.topics import writer_of
from streamjobs.worker.failures import FENCED, DeliveryError, FencedError, reason
from streamjobs.worker.outbox import BATCH_BYTES, Packed, patient, send_records

CLOSE_WITHIN = 5.0  # seconds; a producer that lost its broker would wait for ever
# Seconds a transaction may stay open before the broker ends it. Longer than a batch waits for its leader: a worker lives
# through the same outages as without transactions. A worker that dies leaves one open until then or until the next start.
OPEN_AT_MOST = 180.0


class Changelog:
    """Open it before the changelog and the committed offset are read: opening ends what the previous owner left open.

    source: the input topic, where its offsets are committed here; input_id: its topic's id, kept with every record.
    """

    def __init__(
        self, client: Mapping[str, Any], name: str, topic: str, partition: int, source: str = "", input_id: str = ""
    ) -> None:
        self.name, self.topic, self.partition, self.source = name, topic, partition, source
        self._marks = marks(input_id)
        self._producer = patient(
            AIOKafkaProducer(
                **client,
                transactional_id=writer_of(name, partition),
                transaction_timeout_ms=round(1000 * OPEN_AT_MOST),
                max_batch_size=BATCH_BYTES,
            )
        )

    def producer(self) -> Any:
        """For what is to join the transaction."""
        return self._producer

    async def open(self) -> None:
        """Raises DeliveryError when the broker refuses the transactional id."""
        try:
            await self._producer.start()
            await self._producer.begin_transaction()
        except KafkaError as error:
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: cannot open the changelog for writing "
                f"({reason(error)}). See that this worker may use transactional ids of this job."
            ) from error

    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        """One transaction of snapshots; gives the changelog offset it reaches, the one of its commit marker.

        Raises FencedError when another worker took the partition over, DeliveryError when the broker refuses; nothing
        was written then.
        """
        reached = await self.send(snapshots)
        await self.commit()
        return reached

    async def send(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Snapshots into the open transaction, acknowledged; gives the changelog offset its marker will have.

        aiokafka commits a transaction one of whose batches was refused: what joins it is acknowledged before `commit`.
        """
        with self._told(snapshots):
            records: list[Packed] = [("state", key, data, None, self._marks) for key, data in snapshots]
            sent = await send_records(self._producer, self.topic, self.partition, records)
            last = -1
            for batch in sent:
                last = max(last, (await batch.acknowledged).offset + batch.records - 1)  # its first record's offset
        return last + 1  # only this producer writes here, so the marker follows its last record

    async def join(self, offset: int) -> None:
        """The next input offset into the open transaction."""
        with self._told():
            place = {TopicPartition(self.source, self.partition): OffsetAndMetadata(offset, "")}
            await self._producer.send_offsets_to_transaction(place, self.name)

    async def commit(self) -> None:
        """All of the transaction counts from here on, and the next one is open."""
        with self._told():
            if not self._producer._txn_manager.is_in_transaction():
                raise FencedError(self._taken("its producer has failed"))
            await self._producer.commit_transaction()
            await self._producer.begin_transaction()

    @contextmanager
    def _told(self, snapshots: Sequence[tuple[bytes, bytes | None]] = ()) -> Iterator[None]:
        try:
            yield
        except FENCED as error:
            raise FencedError(self._taken(type(error).__name__)) from error
        except MessageSizeTooLargeError as error:
            largest = max(len(data or b"") for _, data in snapshots)
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots of up to {largest} bytes as too "
                "large. Raise the topic's max.message.bytes, or lower budget, rank or dimension, then start again."
            ) from error
        except KafkaError as error:
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots ({reason(error)}). "
                "Their input is not acknowledged and will be read again."
            ) from error

    def _taken(self, why: str) -> str:
        return (
            f"topic {self.topic}[{self.partition}]: another worker has taken this partition over ({why}), or this one stood "
            f"still for {OPEN_AT_MOST:.0f} s. Its last changes were not written; whoever has it now makes them again."
        )

    async def close(self) -> None:
        """Never raises: what stays open is resolved by whoever opens it next, or by the broker in OPEN_AT_MOST."""
        with suppress(Exception):
            if self._producer._txn_manager.is_in_transaction():
                await asyncio.wait_for(self._producer.abort_transaction(), CLOSE_WITHIN)
        with suppress(Exception):
            await asyncio.wait_for(self._producer.stop(), CLOSE_WITHIN)

"""The fenced transactional producer of one partition: it writes the changelog, and with exactly_once everything else too.

The broker accepts writes only from the worker that opened this producer last. A worker that froze and lost the partition
is refused when it wakes up, whatever it believes. The same holds for offsets committed through this producer, so the
consumer group need not be asked. One transaction is one checkpoint: all of it counts, or nothing.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer, errors
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.errors import SetupError
from streamjobs.kafka.patches.batches import LeaderEpochs
from streamjobs.kafka.topic_id import Origin, lost_states
from streamjobs.kafka.topics import BATCH_BYTES, writer_of
from streamjobs.worker.failures import EXPIRED, FENCED, DeliveryError, FencedError, has_expired, reason
from streamjobs.worker.outbox import BATCH_TTL, Fields, extend_batch_ttl, send_records

CLOSE_WITHIN = 5.0  # seconds; a producer that lost its broker would wait for ever
# Seconds until the broker aborts an open transaction. Longer than a batch waits for its leader, so a worker survives the
# same outages as without transactions. The transaction of a dead worker stays open that long, or until the next start.
TRANSACTION_TIMEOUT = 180.0
# Seconds after which an idle producer shows that it is there. The broker forgets one that has been idle for
# transactional.id.expiration.ms (7 days), and its fence too: if producers were opened again then, a former owner that wakes
# would shut the present one out.
KEEP_ALIVE = 3600.0
NO_ORIGIN = Origin()


class Changelog:
    """Open it before reading the changelog and the committed offset: opening aborts what the previous owner left open.

    origin: the input topic of the committed offsets and the changelog's id, stored with every record.
    end: of the changelog as far as it is known to be written, 0 where nothing is known.
    batch_bytes: of a batch, unless a snapshot is larger.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        name: str,
        topic: str,
        partition: int,
        origin: Origin = NO_ORIGIN,
        *,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.name, self.topic, self.partition, self.origin = name, topic, partition, origin
        self.end = 0
        self._joined: float | None = None  # time.monotonic() when something joined the open transaction first
        self._committed = time.monotonic()  # or opened
        self._producer = extend_batch_ttl(
            AIOKafkaProducer(
                **client,
                transactional_id=writer_of(name, partition),
                transaction_timeout_ms=round(1000 * TRANSACTION_TIMEOUT),
                max_batch_size=batch_bytes,
            )
        )

    def producer(self) -> Any:
        """For records that are to join the transaction."""
        self._joined = self._joined or time.monotonic()
        return self._producer

    async def open(self) -> None:
        """Fence the previous owner and begin the first transaction. Raises DeliveryError when the broker refuses."""
        try:
            await self._producer.start()
            await self._producer.begin_transaction()
            self._committed = time.monotonic()
        except errors.KafkaError as error:
            what = "Check that this worker may use the job's transactional ids."
            if isinstance(error, errors.InvalidTransactionTimeout):
                what = f"Raise the broker's transaction.max.timeout.ms to {1000 * TRANSACTION_TIMEOUT:.0f} or more."
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: cannot open the changelog for writing ({reason(error)}). {what}"
            ) from error

    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Write snapshots in one transaction and return the offset of its commit marker.

        Raises FencedError when another worker took the partition over, DeliveryError when the broker refuses; nothing
        was written then.
        """
        reached = await self.send(snapshots)
        await self.commit()
        return reached

    async def send(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Add snapshots to the open transaction, wait for their acknowledgement, return the offset its marker will have.

        aiokafka commits a transaction even if one of its batches was refused. So everything is acknowledged before
        `commit`. Raises SetupError if the broker puts them below `end`: a node without what was written has become leader,
        and not every such node refuses the next batch. The local store must not follow there.
        """
        self._joined = self._joined or time.monotonic()
        with self._translated_errors(snapshots):
            headers = self.origin.headers
            records: list[Fields] = [("state", key, data, None, headers) for key, data in snapshots]
            sent = await send_records(self._producer, self.topic, self.partition, records)
            last = -1
            for batch in sent:
                first = (await batch.acknowledged).offset  # of its first record; -1 where the broker no longer knows
                if 0 <= first < self.end:
                    raise SetupError(lost_states(self.topic, self.partition, self.end, first))
                last = max(last, first + batch.records - 1)
        self.end = max(self.end, last + 2)  # only this producer writes here, so the marker follows its last record
        return last + 1

    async def join(self, offset: int, progress: int = 0, moment: str = "", epoch: int | None = None) -> None:
        """Add the next input offset to the open transaction. progress: up to where outputs are out, if that is beyond.

        moment: of the partition's keys at the offset, see `core.live.live`. epoch: of the input's leader; None: as read.
        """
        with self._translated_errors():
            place = TopicPartition(self.origin.topic, self.partition)
            epoch = LeaderEpochs.safe.get(place) if epoch is None else epoch
            text = self.origin.metadata_of(offset, progress, moment, epoch, self.end)
            committed = {place: OffsetAndMetadata(offset, text)}
            await self._producer.send_offsets_to_transaction(committed, self.name)

    async def keep_alive(self) -> None:
        """After KEEP_ALIVE, commit a transaction without records. Nothing may join it meanwhile.

        Its requests are a checkpoint's, with this producer's epoch: they fence no other, and a former owner is refused.
        """
        if self._joined is None and time.monotonic() - self._committed > KEEP_ALIVE:
            manager = self.producer()._txn_manager
            if manager.is_in_transaction():
                manager.maybe_add_partition_to_txn(TopicPartition(self.topic, self.partition))
            await self.commit()

    async def commit(self) -> None:
        """Commit the open transaction and begin the next one."""
        with self._translated_errors():
            if not self._producer._txn_manager.is_in_transaction():
                raise errors.IllegalOperation("its producer has failed")
            await self._producer.commit_transaction()
            self._joined, self._committed = None, time.monotonic()
            await self._producer.begin_transaction()

    @contextmanager
    def _translated_errors(self, snapshots: Sequence[tuple[bytes, bytes | None]] = ()) -> Iterator[None]:
        try:
            yield
        except errors.MessageSizeTooLargeError as error:
            largest = max(len(data or b"") for _, data in snapshots)
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots of up to {largest} bytes as too "
                "large. Raise the topic's max.message.bytes, or lower budget, rank or dimension, then start again."
            ) from error
        except errors.KafkaTimeoutError as error:
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker did not accept snapshots within {BATCH_TTL:.0f} s "
                f"({reason(error)}): it has no leader for the topic, it is too slow, or this worker is. Their input is not "
                "acknowledged and is read again at the next start."
            ) from error
        except (errors.KafkaError, *FENCED) as error:
            if has_expired(error, self._producer):
                raise DeliveryError(f"topic {self.topic}[{self.partition}]: {EXPIRED}") from error
            if isinstance(error, FENCED):
                raise FencedError(self._taken_over(type(error).__name__)) from error
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots ({reason(error)}). "
                "Their input is not acknowledged and is read again at the next start."
            ) from error

    def _taken_over(self, why: str) -> str:
        open_for = time.monotonic() - self._joined if self._joined is not None else 0.0
        if open_for > TRANSACTION_TIMEOUT:
            return (
                f"topic {self.topic}[{self.partition}]: the broker ended this worker's transaction ({why}), which had been "
                f"open for {open_for:.0f} s, longer than the {TRANSACTION_TIMEOUT:.0f} s a checkpoint may take. The "
                "transaction is void, and its input is read again. The worker was frozen, or too slow: give it more memory "
                "([state] cache) or processor, or start more workers."
            )
        return (
            f"topic {self.topic}[{self.partition}]: another worker has taken this partition over ({why}). "
            "Its last changes were not written; the new owner repeats them."
        )

    async def close(self) -> None:
        """Never raises: the next owner aborts what stays open, or the broker after TRANSACTION_TIMEOUT."""
        await close_transactional(self._producer)


async def close_transactional(producer: Any) -> None:
    """Abort the producer's open transaction and stop it, as far as the broker answers. Never raises."""
    with suppress(Exception):
        if producer._txn_manager.is_in_transaction():
            # Nothing more of it may be sent. Aborting would wait, for ever where a topic was deleted.
            producer._message_accumulator.fail_all(errors.ProducerClosed())
            producer._txn_manager._pending_txn_partitions.clear()
            await asyncio.wait_for(producer.abort_transaction(), CLOSE_WITHIN)
    with suppress(Exception):
        await asyncio.wait_for(producer.stop(), CLOSE_WITHIN)

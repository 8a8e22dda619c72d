"""What `rekey` copies next, and the transactional producer that writes it.

A partition of a backlog is read in large pieces, so without `InTimeOrder` a key's records from four partitions would lie
minutes or days apart in the copy, and its learner would skip them as late. A partition keeps its own order, whatever its
timestamps say: a record counts as no older than the one before it.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as Place

from streamjobs.core.messages import Record
from streamjobs.core.partitioners import murmur2
from streamjobs.kafka import client
from streamjobs.kafka.topics import BATCH_BYTES
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import TRANSACTION_TIMEOUT, close_transactional
from streamjobs.worker.failures import FENCED, DeliveryError, FencedError, reason
from streamjobs.worker.outbox import Fields, SentBatch, extend_batch_ttl, send_dead_letters

METADATA_EVERY_MS = 10_000  # new partitions of either topic are seen within it
CACHED_KEYS = 65_536  # keys with a remembered partition
_TIME = itemgetter(0)


class Topics(NamedTuple):
    """The topics of a copy, as they are now."""

    source: str
    target: str
    letters: str
    created: list[str]
    source_partitions: int
    target_partitions: int
    letters_partitions: int
    metadata: str  # of committed offsets


class Writer:
    """The fenced transactional producer of the copy."""

    def __init__(self, settings: Settings, known: Topics) -> None:
        self.known, self.group = known, settings.source.topic
        self.bytes = 0  # of the open transaction
        self._partitions = known.target_partitions
        self._sent: list[SentBatch] = []
        self._choose = lru_cache(maxsize=CACHED_KEYS)(murmur2)
        self._producer = extend_batch_ttl(
            AIOKafkaProducer(
                **client.for_aiokafka(settings.broker),
                transactional_id=self.group,
                transaction_timeout_ms=round(1000 * TRANSACTION_TIMEOUT),
                max_batch_size=BATCH_BYTES,
                compression_type="zstd",
                metadata_max_age_ms=METADATA_EVERY_MS,
            )
        )

    async def open(self) -> None:
        with self._translated():
            await self._producer.start()
            await self._producer.begin_transaction()
            await self._count_partitions()

    def place(self, key: bytes) -> int:
        return self._choose(key, self._partitions)

    async def _count_partitions(self) -> None:
        """A copy that has grown takes keys to its new partitions, as with any producer."""
        self._partitions = len(await self._producer.partitions_for(self.known.target))

    async def send(self, topic: str, partition: int, records: Sequence[Fields]) -> None:
        with self._translated():
            sent = await send_dead_letters(self._producer, topic, partition, records)
        self._sent += sent
        self.bytes += sum(batch.bytes for batch in sent)

    async def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit what was sent, once all of it is acknowledged (aiokafka commits without what was refused)."""
        with self._translated():
            for batch in self._sent:
                await batch.acknowledged
            committed = {
                Place(self.known.source, number): OffsetAndMetadata(offset, self.known.metadata)
                for number, offset in offsets.items()
            }
            if committed:
                await self._producer.send_offsets_to_transaction(committed, self.group)
            if not self._producer._txn_manager.is_in_transaction():
                raise FencedError(self._taken_over("its transaction has ended"))
            await self._producer.commit_transaction()
            await self._producer.begin_transaction()
            await self._count_partitions()
        self._sent, self.bytes = [], 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except FENCED as error:
            raise FencedError(self._taken_over(type(error).__name__)) from error
        except MessageSizeTooLargeError as error:
            raise DeliveryError(
                f"topic {self.known.target}: the broker refused a record as too large; nothing of its transaction counts. "
                f"Raise the topic's max.message.bytes to that of {self.known.source}, then start rekey again."
            ) from error
        except KafkaError as error:
            raise DeliveryError(
                f"topic {self.known.target}: the broker refused the copies ({reason(error)}); its transaction is void. "
                "Start rekey again; it continues behind the last transaction."
            ) from error

    def _taken_over(self, why: str) -> str:
        return (
            f"topic {self.known.target}: the broker refuses further copies of this 'streamjobs rekey' ({why}), because "
            f"another one of {self.known.source} has taken over, or this one was frozen for more than "
            f"{TRANSACTION_TIMEOUT:.0f} s. Nothing is lost, and workers read each copy once. If no other one runs, start "
            "rekey again."
        )

    async def close(self) -> None:
        """Never raises: the next one aborts what stays open, or the broker does."""
        await close_transactional(self._producer)


class InTimeOrder:
    """Records that were read and wait, by partition.

    >>> from streamjobs.core.messages import Stored
    >>> waiting = InTimeOrder()
    >>> for partition, times in ((0, (1, 5, 9)), (1, (2, 3))):
    ...     waiting.add(partition, [Stored("imu", partition, at, at, b"", b"", ()) for at in times])
    >>> [record.timestamp for record in waiting.take(unread={0, 1})]
    [1, 2, 3]
    >>> waiting.take(unread={1}), waiting.first(0), len(waiting.take(unread=()))
    ([], 5, 2)
    """

    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, Record]]] = {}
        self._latest: dict[int, int] = {}  # timestamp so far, of each partition

    def clear(self) -> None:
        self._waiting.clear()
        self._latest.clear()

    def add(self, partition: int, records: Sequence[Record]) -> None:
        queue, latest = self._waiting.setdefault(partition, deque()), self._latest.get(partition, -1)
        for record in records:
            latest = max(latest, record.timestamp)
            queue.append((latest, record))
        self._latest[partition] = latest

    def count(self, partition: int) -> int:
        return len(self._waiting.get(partition, ()))

    def first(self, partition: int) -> int | None:
        """Offset of the first record that waits."""
        queue = self._waiting.get(partition)
        return queue[0][1].offset if queue else None

    def take(self, unread: Collection[int]) -> list[Record]:
        """All that no older record can come before. unread: partitions that have more, perhaps older than the others'."""
        if any(not self._waiting.get(partition) for partition in unread):
            return []
        until = min((self._waiting[partition][-1][0] for partition in unread), default=None)
        taken: list[tuple[int, Record]] = []
        for _, queue in sorted(self._waiting.items()):
            while queue and (until is None or queue[0][0] <= until):
                taken.append(queue.popleft())
        taken.sort(key=_TIME)
        return [record for _, record in taken]

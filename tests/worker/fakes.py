"""A broker of lists, for the worker's unit tests: topics, a changelog and committed offsets that survive a "crash"."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from streamjobs.core.interface import Core
from streamjobs.core.messages import Stored
from streamjobs.kafka.topic_id import Origin, text_of_sections
from streamjobs.kafka.topics import BATCH_BYTES
from streamjobs.settings.sections import StateSection
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.changelog import NO_ORIGIN
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.partition import FetchedRecords
from streamjobs.worker.store import NO_MARKS, MemoryStore, Store
from tests.worker.fake_core import hash_core


class Crash(Exception):
    """The process ends here."""


class Answer(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Metadata(NamedTuple):
    offset: int


class Broker:
    """What survives a crash. `at(step)` is called before and after each step of a checkpoint and may raise Crash."""

    def __init__(self) -> None:
        self.topics: list[Answer] = []
        self.changelog: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.committed: dict[int, int] = {}  # R of each partition
        self.progress: dict[int, int] = {}  # P, as the metadata of the commit
        self.sections: dict[int, str] = {}  # of the same metadata
        self.moments: dict[int, str] = {}  # the same
        self.steps: list[str] = []
        self.at: Callable[[str], None] = lambda step: None

    def step(self, name: str) -> None:
        self.steps.append(name)
        self.at(name)


class FakeProducer:
    """aiokafka's batch interface with real batches; `hold` keeps acknowledgements back, `refuse` is what they raise."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.refuse = broker, None
        self.hold = False
        self.held: list[tuple[asyncio.Future[Any], int]] = []
        self.batches: list[int] = []  # records of each batch

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(BATCH_BYTES, 0)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> "asyncio.Future[Any]":
        self.batches.append(batch.record_count())
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.refuse is not None:
            future.set_exception(self.refuse)
            return future
        first = len(self.broker.topics)
        records = MemoryRecords(bytes(batch._build()))
        while records.has_next():
            for record in records.next_batch():
                key, value = record.key, record.value
                self.broker.topics.append(
                    Answer(
                        topic,
                        partition,
                        None if key is None else bytes(key),
                        None if value is None else bytes(value),
                        tuple(record.headers),
                    )
                )
        if self.hold:
            self.held.append((future, first))
        else:
            future.set_result(Metadata(first))
        return future

    def release(self) -> None:
        for future, first in self.held:
            future.set_result(Metadata(first))
        self.held.clear()


class FakeChangelog:
    """A partition's fenced changelog: only the one opened last may write."""

    origin = NO_ORIGIN
    end = kept_alive = 0

    def __init__(self, broker: Broker, partition: int, error: Exception | None = None) -> None:
        self.broker, self.partition, self.error = broker, partition, error
        self.opened = self.closed = False

    async def open(self) -> None:
        self.opened = True

    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        self.broker.step("before changelog")
        if self.error is not None:
            raise self.error
        records = self.broker.changelog.setdefault(self.partition, [])
        records += list(snapshots)
        self.broker.step("after changelog")
        return len(records) - 1

    async def keep_alive(self) -> None:
        self.kept_alive += 1

    async def close(self) -> None:
        self.closed = True


class FakeTransactions(FakeChangelog):
    """The same with transactions: outputs, snapshots and offset wait apart, `commit` makes them count together."""

    def __init__(self, broker: Broker, partition: int, error: Exception | None = None) -> None:
        super().__init__(broker, partition, error)
        self.apart = Broker()
        self.out = FakeProducer(self.apart)
        self.upto: int | None = None

    def producer(self) -> FakeProducer:
        return self.out

    async def send(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        self.broker.step("before changelog")
        if self.error is not None:
            raise self.error
        self.apart.changelog[0] = list(snapshots)
        self.broker.step("after changelog")
        return len(self.broker.changelog.get(self.partition, [])) + len(snapshots) - 1

    async def join(self, offset: int, progress: int = 0, moment: str = "") -> None:
        self.broker.step("before offset")
        self.upto, self.progress, self.sections, self.moment = offset, progress, self.origin.sections, moment
        self.broker.step("after offset")

    async def commit(self) -> None:
        self.broker.step("before commit")
        await asyncio.sleep(0)  # whoever could send meanwhile tries to
        broker, apart = self.broker, self.apart
        broker.topics += apart.topics
        broker.changelog.setdefault(self.partition, []).extend(apart.changelog.pop(0, []))
        assert self.upto is not None
        broker.committed[self.partition], self.upto = self.upto, None
        broker.progress[self.partition] = self.progress
        broker.sections[self.partition] = self.sections
        broker.moments[self.partition] = self.moment
        apart.topics.clear()
        self.broker.step("after commit")


class WatchedStore(MemoryStore):
    """A memory store that tells the broker's steps."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    def write(self, partition: int, items: Any, offset: int, *, logged: bool = True, marks: Any = NO_MARKS) -> None:
        self.broker.step("before store")
        super().write(partition, items, offset, logged=logged, marks=marks)
        self.broker.step("after store")


class FakeKafka:
    """The `KafkaPort` of these tests."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.out = broker, FakeProducer(broker)
        self.changelog_error: Exception | None = None
        self.transactional = False
        self.takes = True  # whether the group takes offsets
        self.opened: list[FakeChangelog] = []
        self.origin_of: Callable[[int], Origin] = lambda partition: NO_ORIGIN

    def producer(self) -> FakeProducer:
        return self.out

    def changelog(self, partition: int) -> FakeChangelog:
        made = FakeTransactions if self.transactional else FakeChangelog
        self.opened.append(made(self.broker, partition, self.changelog_error))
        self.opened[-1].origin = self.origin_of(partition)
        return self.opened[-1]

    async def commit(self, partition: int, offset: int, progress: int = 0, moment: str = "") -> bool:
        self.broker.step("before commit")
        if self.takes:
            self.broker.committed[partition], self.broker.progress[partition] = offset, progress
            self.broker.sections[partition] = self.origin_of(partition).sections
            self.broker.moments[partition] = moment
        self.broker.step("after commit")
        return self.takes


class Worker:
    """A delivery with fakes around it; use it inside a running loop."""

    def __init__(
        self,
        broker: Broker | None = None,
        *,
        store: Store | None = None,
        core: Core | None = None,
        backpressure: Backpressure | None = None,
        exactly_once: bool = False,
        **state: Any,
    ) -> None:
        self.broker = broker or Broker()
        self.kafka = FakeKafka(self.broker)
        self.kafka.transactional = exactly_once
        self.store = store or WatchedStore(self.broker)
        core = core or hash_core("in")
        section = StateSection(**{"store": "memory", "checkpoint": 60, "replay": 0, **state})
        self.delivery = Delivery(
            core,
            section,
            self.store,
            self.kafka,
            Metrics("in"),
            backpressure=backpressure,
            exactly_once=exactly_once,
            origin=Origin(sections=text_of_sections(core.job.sections)),
        )
        self.kafka.origin_of = lambda number: self.delivery.former.origin_of(number, self.delivery.origin)

    async def begin(self, *partitions: int) -> Delivery:
        """Fence, restore from the changelog, take on at the committed offsets."""
        delivery, broker = self.delivery, self.broker
        delivery.raise_barrier()
        fenced = await delivery.fence(partitions)
        for number in partitions:
            records, reached = broker.changelog.get(number, []), self.store.reached(number)
            begin = 0 if reached is None else reached + 1
            if records[begin:]:
                MemoryStore.write(self.store, number, dict(records[begin:]).items(), len(records) - 1)  # type: ignore[arg-type]
        delivery.mark_restored(fenced)
        for number in partitions:  # as `Consumer._start_offsets` does
            again = broker.committed.get(number, 0) < broker.progress.get(number, 0)
            delivery.former[number] = broker.sections.get(number, "") if again else ""
        delivery.moments = dict(broker.moments)
        delivery.assign({number: broker.committed.get(number, 0) for number in partitions}, broker.progress)
        delivery.lower_barrier()
        return delivery

    def fetch(self, partition: int, records: Sequence[Any], epoch: int | None = None) -> None:
        self.delivery.offer(partition, FetchedRecords(records, self.delivery.epoch if epoch is None else epoch))

    async def apply_and_crash(self, partition: int, records: Sequence[Any], at_once: int) -> None:
        """The records in small batches with a checkpoint behind each, then a crash."""
        held = self.delivery.held[partition]
        for at in range(0, len(records), at_once):
            self.fetch(partition, records[at : at + at_once])
            await self.settle()
            await held.checkpoints.take()
        for task in held.tasks:
            task.cancel()

    async def apply_and_stop(self, partition: int, records: Sequence[Any]) -> None:
        """The records of a partition that begins, then a clean stop."""
        delivery = await self.begin(partition)
        self.fetch(partition, records)
        await self.settle()
        delivery.raise_barrier()
        await delivery.revoke("stop")

    async def settle(self, partition: int = 0) -> None:
        """Until all that was fetched is applied."""
        held = self.delivery.held.get(partition)
        while held is not None and not held.partition.closing:
            if not held.partition._queue and not held.partition._taken and not held.partition.lock.locked():
                break
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    while not holds():
        await asyncio.sleep(0)


def stream(count: int, *, keys: int = 5, partition: int = 0, first: int = 0) -> list[Stored]:
    """Records of an input partition: value = offset, keys in turn."""
    return [
        Stored("in", partition, offset, 1_000 + offset, b"k%d" % (offset % keys), b"%d" % offset, [])
        for offset in range(first, first + count)
    ]


async def crashed_at(worker, records, step):
    """A checkpoint after 20 records, and one after 25 more that a crash ends at this step ("outputs": before it begins)."""
    broker = worker.broker
    await worker.begin(0)
    worker.fetch(0, records[:20])
    await worker.settle()
    assert await worker.delivery.held[0].checkpoints.take()
    worker.fetch(0, records[20:45])
    await worker.settle()

    def crash(name):
        if name == step:
            raise Crash

    if step != "outputs":
        broker.at = crash
        with pytest.raises(Crash):
            await worker.delivery.held[0].checkpoints.take()
    broker.at = lambda name: None
    for task in worker.delivery.held[0].tasks:
        task.cancel()


def get(port, path, headers=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

"""Recovery: restore the local store from the changelog, inside Faust's recovery service, and then let the input begin.

It reads up to a position, not up to a last record: a transaction's marker at the end is not a record, and Faust would wait
for it for ever. Only the last value per key of each chunk is written, without write-ahead log: 19,000 keys of 8 KB a
second instead of 1,100.
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from mode import Service

from streamjobs.core.state import snapshot
from streamjobs.errors import SetupError, SnapshotError
from streamjobs.kafka.reader import position_of, readable
from streamjobs.kafka.topic_id import RESTORE, Origin, deleted_states, newest_input
from streamjobs.kafka.topics import TOMBSTONES
from streamjobs.worker.failures import is_passing, reason
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.store import Store

log = structlog.get_logger("streamjobs")

CHUNK_BYTES = 16 << 20  # of a partition: read, reduced to the last value per key, written
FETCH_BYTES = 16 << 20  # at most, of one fetch: with twice as much a record costs a quarter more, by misses of the cache
PARTITION_BYTES = 4 << 20  # at most, of one partition in a fetch
OUTDATED = "it was not used for longer than the changelog keeps tombstones"
SCANNED = 100  # keys of a store at once
SLOW = "it took longer than tombstones are kept (delete.retention.ms)"
AGAIN_AFTER = 1.0  # seconds after an answer that did not come; without progress the watchdog ends the worker
POLL_MS = 20  # short: a marker at the end is not a record, so it would not end a longer wait


class WrittenKeys:
    """The keys of a partition that have got a snapshot, each once however often it is written: hashes, 8 bytes a key."""

    def __init__(self) -> None:
        self._hashes = np.empty(0, np.int64)  # sorted

    def take(self, values: Mapping[bytes, bytes | None]) -> int:
        """By how many the keys have become more; a tombstone takes its key away.

        >>> keys = WrittenKeys()
        >>> keys.take({b"a": b"1", b"b": b"1"}), keys.take({b"b": b"2", b"c": b"1"}), keys.take({b"a": None, b"d": None})
        (2, 1, -1)
        """
        before = len(self._hashes)
        for written in (True, False):
            some = [hash(key) for key, snapshot in values.items() if (snapshot is not None) is written]
            hashes = np.unique(np.array(some, np.int64))
            at = np.searchsorted(self._hashes, hashes)
            known = np.zeros(len(at), bool)
            inside = at < len(self._hashes)
            known[inside] = self._hashes[at[inside]] == hashes[inside]
            if written:
                self._hashes = np.insert(self._hashes, at[~known], hashes[~known])
            else:
                self._hashes = np.delete(self._hashes, at[known])
        return len(self._hashes) - before


class _Chunk:
    """Last values per key of one partition, not written yet.

    age: seconds at the recovery's start since the store had all tombstones; -inf where it may have the only copy of states.
    """

    def __init__(self, end: int, whole: str, age: float) -> None:
        self.end, self.whole, self.age, self.upto, self.bytes = end, whole, age, -1, 0
        self.values: dict[bytes, bytes | None] = {}
        self.keys = WrittenKeys()
        self.input: Origin | None = None

    def add(self, records: Sequence[Any]) -> None:
        self.input = newest_input((record.headers for record in records), self.input)
        keys, values = [record.key for record in records], [record.value for record in records]
        if None in keys:
            readable(records[keys.index(None)])
        self.values.update(zip(keys, values, strict=True))
        self.bytes += sum(map(len, filter(None, values)))
        self.upto = records[-1].offset

    def write(self, partition: int, store: Store, changelog_id: str) -> int:
        written = self.keys.take(self.values)
        marks: dict[str, str | None] = {"changelog": changelog_id or None} | ({"whole": self.whole} if self.whole else {})
        if self.input is not None:  # a name that is not known must not stay next to another topic's id
            before = Origin.of(store.marks(partition))
            life = self.input.life or (before.life if before.input_id == self.input.input_id else "")
            marks |= {"source": self.input.input_id, "topic": self.input.topic or None, "life": life or None}
        store.write(partition, self.values.items(), self.upto, logged=False, marks=marks)
        self.values.clear()
        self.bytes = 0
        return written


class _Keys(_Chunk):
    """The keys with a state, for which a partition is read again if that has taken longer than tombstones are kept.

    Before a broker removes a tombstone, it has removed the states before it. Thus the second reading does not find a key
    if the first one missed its tombstone. It depends on no time: the partition is fenced, and has no new records.
    """

    def __init__(self, end: int) -> None:
        super().__init__(end, "", -math.inf)
        self.alive: set[bytes] = set()

    def add(self, records: Sequence[Any]) -> None:
        for record in map(readable, records):
            (self.alive.discard if record.value is None else self.alive.add)(record.key)

    async def end_others(self, partition: int, store: Store) -> None:
        after = None
        while entries := store.scan(partition, after, SCANNED):
            self.values.update({key: None for key, _ in entries if key not in self.alive})
            after = entries[-1][0]
            await asyncio.sleep(0)


async def restore(
    client: Mapping[str, Any],
    topic: str,
    bounds: Mapping[int, tuple[int, int]],
    store: Store,
    metrics: Metrics,
    changelog_id: str = "",
    tombstones: float = TOMBSTONES / 1000,
) -> None:
    """Bring the store up to the changelog's end. bounds: partition -> (first offset, end) of the changelog.

    changelog_id: the topic's id, which the store keeps. tombstones: seconds that the changelog keeps them for. A store that
    was not used for longer is read again from the beginning: it may have states that were ended since. What takes longer to
    read is read twice, see `_Keys`.
    Raises SetupError when the store is ahead of the changelog: they do not belong together. Also when the broker has
    deleted records of the changelog that the store lacks.
    """
    started, now = time.perf_counter(), time.time()
    todo = _unread(topic, bounds, store, changelog_id, now, now - tombstones)
    if not todo:
        return metrics.set_recovery(0, 0.0)
    remaining = sum(chunk.end - at for at, chunk in todo.values())
    metrics.set_recovery(remaining)
    log.info("recovery started", partitions=len(todo), records=remaining)
    consumer = AIOKafkaConsumer(
        **client,
        enable_auto_commit=False,
        check_crcs=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=PARTITION_BYTES,
        fetch_max_bytes=FETCH_BYTES,
    )
    await consumer.start()
    read = written = 0
    try:
        consumer.assign(list(todo))
        for tp, (at, _) in todo.items():
            consumer.seek(tp, at)
        while todo:
            for tp, records in (await consumer.getmany(*todo, timeout_ms=POLL_MS)).items():
                chunk = todo[tp][1]
                chunk.add(records)
                read += len(records)
                if chunk.bytes >= CHUNK_BYTES:
                    written += chunk.write(tp.partition, store, changelog_id)
                await asyncio.sleep(0)
            for tp in [tp for tp, (_, chunk) in todo.items() if position_of(consumer, tp) >= chunk.end]:
                chunk = todo.pop(tp)[1]
                chunk.upto = chunk.end - 1
                if chunk.age + time.perf_counter() - started > tombstones:
                    log.warning("reading the changelog's keys again", partition=tp.partition, why=SLOW)
                    written += chunk.write(tp.partition, store, changelog_id)
                    remaining += chunk.end
                    todo[tp] = 0, _Keys(chunk.end)
                    consumer.seek(tp, 0)
                    continue
                if isinstance(chunk, _Keys):
                    await chunk.end_others(tp.partition, store)
                chunk.whole = f"{now:.0f}"
                written += chunk.write(tp.partition, store, changelog_id)
                store.flush(tp.partition)  # before any logged write: see store.py
                consumer.pause(tp)
            metrics.set_recovery(max(0, remaining - read))
    finally:
        await asyncio.sleep(0)
        await consumer.stop()
    took = time.perf_counter() - started
    metrics.set_recovery(0, took)
    log.info("recovery finished", records=read, keys_written=written, seconds=round(took, 2))


async def learned_up_to(store: Store, until: float, topic: str, partition: int) -> int:
    """The offset after the newest record of the input that a state of this partition has learned; 0 without any.

    Also 0 if it is not known at `until` (time.monotonic()): the start of the worker waits for it.
    """
    newest, after = 0, None
    while entries := store.scan(partition, after, SCANNED):
        after = entries[-1][0]
        for _, data in entries:
            with suppress(SnapshotError):
                newest = max(newest, snapshot.decode(data, 0).offsets.get((topic, partition), -1) + 1)
        await asyncio.sleep(0)
        if time.monotonic() > until:
            return 0
    return newest


def _unread(
    topic: str, bounds: Mapping[int, tuple[int, int]], store: Store, changelog_id: str, now: float, since: float
) -> dict[TopicPartition, tuple[int, _Chunk]]:
    """Where to begin in each partition that the store does not hold completely, and the chunk to read into.

    since: a store that was last whole before is cleared. now, since: seconds since 1970.
    """
    todo, lacking = {}, {}
    for partition, (first, end) in bounds.items():
        reached = store.reached(partition)
        if first > (0 if reached is None else reached + 1):
            lacking[partition] = first
        if reached is not None and reached >= end:
            raise SetupError(
                f"topic {topic}[{partition}]: the local store holds changelog offset {reached}, but the changelog ends at "
                f"{end}; it was deleted or recreated, and the store has states that it lacks. {RESTORE}"
            )
        marks = store.marks(partition)
        outdated = not first and changelog_id and float(marks.get("whole", now)) < since
        if outdated and marks.get("changelog") == changelog_id:  # else it may have the only copy of states
            log.warning("rebuilding the local store from the changelog", partition=partition, why=OUTDATED)
            store.clear(partition)
            reached = None
        at = first if reached is None else max(reached + 1, first)
        if at < end:
            copied = not first and changelog_id and marks.get("changelog") == changelog_id
            age = 0.0 if reached is None else now - float(marks.get("whole", now)) if copied else -math.inf
            todo[TopicPartition(topic, partition)] = (at, _Chunk(end, f"{now:.0f}" if reached is None else "", age))
    if problems := deleted_states(topic, lacking):
        raise SetupError(problems[0])
    return todo


class ChangelogRecovery(Recovery):  # type: ignore[misc]
    """After each rebalance: `app.fence_and_restore`, then Faust's own last steps, which let the input begin.

    Faust's loop in between is not used. It compares the store with the changelog's end before anything is fenced, and
    stops the worker on a commit marker that is still being written. It waits for a next rebalance, which may never come,
    when an answer is IllegalStateError. And it fetches the changelog a second time.
    """

    @Service.task  # type: ignore[untyped-decorator]
    async def _restart_recovery(self) -> None:
        while not self.should_stop:
            if await self.wait_for_stopped(self.signal_recovery_start):
                return
            self.signal_recovery_start.clear()
            generation = self._generation_id
            try:
                await self._wait(self._recover(generation))
            except RebalanceAgain:
                continue
            except ServiceStopped:
                return
            except Exception as error:  # noqa: BLE001 - raised, it would end this service and leave the worker idle
                if not is_passing(error):
                    self.app.delivery.fail(error)
                    return
                log.warning("recovery begins again", why=reason(error))
                await self.sleep(AGAIN_AFTER)
                if self.app.delivery.fencing:  # else revoked: another worker may write them now
                    self.signal_recovery_start.set()

    async def _recover(self, generation: int) -> None:
        self._set_recovery_started()
        if await self.app.fence_and_restore({tp.partition for tp in self.active_tps}):
            self.app.flow_control.resume()
            self.app.consumer.resume_flow()  # `perform_seek` does nothing before
            if not self.active_tps:  # a spare worker: Faust seeks only where there is something to seek
                await self.app.consumer.perform_seek()
            await self.on_recovery_completed(generation)

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        """Without Faust's timeouts: after one it would end this service, and the worker would idle for ever."""
        await super()._wait(coro)


class Tables(TableManager):  # type: ignore[misc]
    _recovery: Any

    @property
    def recovery(self) -> Any:
        if self._recovery is None:
            self._recovery = ChangelogRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Without Faust's initial sleep of a second, which waits for tables to be declared: our one table is."""
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()

"""Checkpoints of one partition. This module decides what at_least_once and exactly_once mean.

The steps and their order stand in `Checkpoints._take_at_least_once` and `Checkpoints._take_exactly_once`. Each step
waits for the one before it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from streamjobs.core.interface import JobLike
from streamjobs.kafka.topic_id import Origin, added_sections
from streamjobs.worker.partition import Cut, Partition
from streamjobs.worker.store import NO_MARKS, Store

BACKLOG_PAUSE = 1.0  # seconds; with exactly_once a checkpoint each 0.1 s makes a record of a backlog 8 % dearer
SPREAD = 0.618  # times a partition's number: the golden ratio keeps any number of partitions apart

CommitOffset = Callable[[int, int, int, str], Awaitable[bool]]  # partition, R, P, moment -> whether the group took them
ObserveStep = Callable[[str, float], None]  # step, seconds


class OutputsLike(Protocol):
    async def wait_acknowledged(self, futures: "Iterable[asyncio.Future[Any]]") -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...


class ChangelogLike(Protocol):
    origin: Origin
    end: int

    def producer(self) -> Any: ...
    async def open(self) -> None: ...
    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int: ...
    async def send(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int: ...
    async def join(self, offset: int, progress: int = 0, moment: str = "") -> None: ...
    async def commit(self) -> None: ...
    async def keep_alive(self) -> None: ...
    async def close(self) -> None: ...


class FormerSections(dict[int, str]):
    """By partition: the sections of the job that has sent the outputs of records that are applied again, by its commit.

    Sections that were added since begin behind these outputs, as after a clean stop.
    """

    def origin_of(self, number: int, present: Origin) -> Origin:
        """For a commit of the partition."""
        former = self.get(number)
        return present._replace(sections=former) if former else present

    def job_before(
        self, number: int, job: JobLike, changelog: ChangelogLike, present: Origin
    ) -> tuple[JobLike, Callable[[], None]] | None:
        """See `Partition.take_over`; None where no section was added."""
        former = self.get(number)
        if not former or not (added := added_sections(present.sections, former)):
            self.pop(number, None)
            return None

        def caught_up() -> None:
            del self[number]
            changelog.origin = present

        changelog.origin = self.origin_of(number, present)
        return job.without(added), caught_up


class Checkpoints:
    """The checkpoints of one partition, one at a time.

    commit_offset: commits the input offset to the group; None means exactly_once, where it joins the transaction.
    marks: for the store.
    """

    def __init__(
        self,
        partition: Partition,
        *,
        outbox: OutputsLike,
        changelog: ChangelogLike,
        store: Store,
        commit_offset: CommitOffset | None,
        on_step: ObserveStep = lambda step, seconds: None,
        on_snapshots: Callable[[int, int], None] = lambda records, size: None,
        on_commit: Callable[[], None] = lambda: None,
        marks: Mapping[str, str | None] = NO_MARKS,
    ) -> None:
        self.partition, self.outbox, self.changelog, self.store = partition, outbox, changelog, store
        self._commit_offset, self._on_step = commit_offset, on_step
        self._on_snapshots, self._on_commit = on_snapshots, on_commit
        self._marks = marks
        self._one_at_a_time = asyncio.Lock()

    async def run(self, every: float) -> None:
        """Take a checkpoint every so many seconds, or as soon as one is due, until the partition closes.

        In a backlog, BACKLOG_PAUSE passes from one to the next, unless one is due: its records are late anyway, and each
        costs processor. The first one comes sooner and at a different moment in each partition: checkpoints at the same
        moment would hold up the records of all partitions together.
        """
        partition, ended = self.partition, time.monotonic()
        wait = every * (partition.number * SPREAD % 1.0 or 1.0)
        while not partition.closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(partition.due.wait(), wait)
            began = time.monotonic()
            if partition.has_backlog and not partition.due.is_set() and began < ended + BACKLOG_PAUSE:
                wait = min(every, ended + BACKLOG_PAUSE - began)
            elif not partition.closing:  # `Delivery.revoke`, which closes it, takes the last one
                await self.take()
                ended = time.monotonic()
                wait = max(every / 2, every - (ended - began))

    async def take(self) -> bool:
        """Take one checkpoint; False when the group refused the offset (it is rebalancing: the input is read again).

        Raises DeliveryError when outputs or snapshots were refused; no later step has happened then.
        """
        async with self._one_at_a_time:
            async with self.partition.lock:
                cut = await self.partition.cut()
                if cut is not None and self._commit_offset is None:
                    self.outbox.hold()  # outputs made from here on belong to the next transaction
                if cut is None:
                    await self.changelog.keep_alive()  # while the lock is held no output joins its transaction
                    return True
            if self._commit_offset is not None:
                return await self._take_at_least_once(cut, self._commit_offset)
            try:
                await self._take_exactly_once(cut)
            finally:
                self.outbox.release()
            return True

    async def finish(self, within: float) -> bool:
        """The last checkpoint, and more until all states are written, for so many seconds at most."""
        partition, began = self.partition, time.monotonic()
        if partition.pace is not None:
            partition.pace.all = True
        taken = await self.take()
        while taken and partition.replay_from < partition.next and time.monotonic() - began < within:
            taken = await self.take()
        return taken

    async def _take_at_least_once(self, cut: Cut, commit_offset: CommitOffset) -> bool:
        """The order that makes a job at_least_once; False when the group refused the offset.

        1. outputs: all outputs of the applied records are acknowledged by the broker.
        2. changelog: the changed snapshots are written in one transaction of the partition's fenced producer.
        3. store: the same snapshots are written to the local store, with the changelog offset they reach.
        4. commit: the next input offset is committed to the consumer group.

        A crash between two steps repeats at most the input since the last checkpoint. Outputs come again with the same
        bytes. A snapshot knows the last offset it has applied, so records it already holds are skipped. Where the partition
        has a pace, the snapshots are those that are due, and the commit has the offsets R and P of `worker.pace`.
        """
        partition, started = self.partition, time.perf_counter()
        await self.outbox.wait_acknowledged(cut.outputs)
        started = self._end_step("outputs", started)
        if cut.snapshots:
            reached = await self.changelog.write(cut.snapshots)
            started = self._end_step("changelog", started)
            started = self._write_store(cut, reached, started)
        else:
            await self.changelog.keep_alive()  # records may change no state for days
        partition.mark_stored()
        if not await commit_offset(partition.number, cut.replay_from, cut.next_offset, cut.moment):
            return False
        self._end_step("commit", started)
        self._record_commit(cut)
        return True

    async def _take_exactly_once(self, cut: Cut) -> None:
        """The order that makes a job exactly_once: outputs, changelog and input offset are one transaction.

        1. outputs: all outputs, which were sent inside the open transaction, are acknowledged.
        2. changelog: the changed snapshots join the transaction and are acknowledged.
        3. offsets: the next input offset joins the transaction.
        4. commit: the transaction is committed. From here on all three count; before, none of them does.
        5. store: the snapshots are written to the local store.

        A crash between 4 and 5 leaves the store behind the changelog, and recovery brings it up. The store is never ahead
        of what is committed. Outputs made meanwhile wait (`outbox.hold`), because they belong to the next transaction.
        """
        partition, started, reached = self.partition, time.perf_counter(), -1
        await self.outbox.wait_acknowledged(cut.outputs)
        started = self._end_step("outputs", started)
        if cut.snapshots:
            reached = await self.changelog.send(cut.snapshots)
            started = self._end_step("changelog", started)
        await self.changelog.join(cut.replay_from, cut.next_offset, cut.moment)
        started = self._end_step("offsets", started)
        await self.changelog.commit()
        self.outbox.release()
        started = self._end_step("commit", started)
        self._record_commit(cut)
        if cut.snapshots:
            self._write_store(cut, reached, started)
        partition.mark_stored()

    def _write_store(self, cut: Cut, reached: int, started: float) -> float:
        marks = {**self._marks, "whole": f"{time.time():.0f}"}
        if self.partition.pace is not None:
            marks["replay"] = str(cut.replay_from)
        self.store.write(self.partition.number, cut.snapshots, reached, marks=marks)
        self._on_snapshots(len(cut.snapshots), sum([len(data or b"") for _, data in cut.snapshots]))
        return self._end_step("store", started)

    def _record_commit(self, cut: Cut) -> None:
        partition = self.partition
        partition.committed, partition.replay_from, partition.committed_at = (
            cut.next_offset,
            cut.replay_from,
            time.monotonic(),
        )
        if partition.pace is not None:
            partition.pace.mark_committed()
        self._on_commit()

    def _end_step(self, step: str, started: float) -> float:
        now = time.perf_counter()
        self._on_step(step, now - started)
        return now

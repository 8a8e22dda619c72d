"""A checkpoint: outputs, then changelog, then local store, then the input offset. Each step waits for the one before.

A crash between two steps repeats at most the input since the last checkpoint: outputs come again with the same bytes,
and snapshots that were already written make the records they hold be skipped.

With exactly_once outputs, changelog and input offset are one transaction, and the local store follows its commit: after
a crash in between recovery brings it up to the changelog. It is never ahead of what is committed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from streamjobs.worker.partition import Cut, Partition
from streamjobs.worker.store import Store


class OutputsLike(Protocol):
    async def acknowledged(self, futures: "Iterable[asyncio.Future[Any]]") -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...


class ChangelogLike(Protocol):
    def producer(self) -> Any: ...
    async def open(self) -> None: ...
    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int: ...
    async def send(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int: ...
    async def join(self, offset: int) -> None: ...
    async def commit(self) -> None: ...
    async def close(self) -> None: ...


SPREAD = 0.618  # of a partition's number: the golden ratio keeps any number of them apart

Commit = Callable[[int, int], Awaitable[bool]]  # partition, next offset -> whether the group took it
Took = Callable[[str, float], None]  # stage, seconds


class Checkpoints:
    """The checkpoints of one partition, one at a time. commit: of the input offset; None: it joins the transaction."""

    def __init__(
        self,
        partition: Partition,
        *,
        outbox: OutputsLike,
        changelog: ChangelogLike,
        store: Store,
        commit: Commit | None,
        took: Took = lambda stage, seconds: None,
        written: Callable[[int, int], None] = lambda records, size: None,
        committed: Callable[[], None] = lambda: None,
        input_id: str = "",
    ) -> None:
        self.partition, self.outbox, self.changelog, self.store = partition, outbox, changelog, store
        self._commit, self._took, self._written, self._committed = commit, took, written, committed
        self._input_id = input_id
        self._one = asyncio.Lock()

    async def run(self, every: float) -> None:
        """A checkpoint every so many seconds, or as soon as one is due; until the partition closes.

        The first one comes sooner, each partition's at another moment: together they would hold up all the others' records.
        """
        partition = self.partition
        wait = every * (partition.number * SPREAD % 1.0 or 1.0)
        while not partition.closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(partition.due.wait(), wait)
            wait = every
            if not partition.closing:  # what remains is the business of whoever closes
                await self.take()

    async def take(self) -> bool:
        """One checkpoint; False when the group did not take the offset (it is rebalancing: all is read again).

        Raises DeliveryError when outputs or snapshots were refused; no later step has happened then.
        """
        async with self._one:
            async with self.partition.lock:
                cut = self.partition.cut()
                if cut is not None and self._commit is None:
                    self.outbox.hold()  # what is applied from here on belongs to the next transaction
            if cut is None:
                return True
            if self._commit is not None:
                return await self._in_steps(cut, self._commit)
            try:
                await self._at_once(cut)
            finally:
                self.outbox.release()
            return True

    async def _in_steps(self, cut: Cut, commit: Commit) -> bool:
        partition, begun = self.partition, time.perf_counter()
        await self.outbox.acknowledged(cut.outputs)
        begun = self._step("outputs", begun)
        if cut.snapshots:
            last = await self.changelog.write(cut.snapshots)
            begun = self._step("changelog", begun)
            begun = self._store(cut, last, begun)
        partition.stored()
        if not await commit(partition.number, cut.upto):
            return False
        self._step("commit", begun)
        self._done(cut)
        return True

    async def _at_once(self, cut: Cut) -> None:
        partition, begun, last = self.partition, time.perf_counter(), -1
        await self.outbox.acknowledged(cut.outputs)
        begun = self._step("outputs", begun)
        if cut.snapshots:
            last = await self.changelog.send(cut.snapshots)
            begun = self._step("changelog", begun)
        await self.changelog.join(cut.upto)
        begun = self._step("offsets", begun)
        await self.changelog.commit()
        self.outbox.release()
        begun = self._step("commit", begun)
        self._done(cut)
        if cut.snapshots:
            self._store(cut, last, begun)
        partition.stored()

    def _store(self, cut: Cut, last: int, begun: float) -> float:
        self.store.write(self.partition.number, cut.snapshots, last, source=self._input_id)
        self._written(len(cut.snapshots), sum([len(data or b"") for _, data in cut.snapshots]))
        return self._step("store", begun)

    def _done(self, cut: Cut) -> None:
        self.partition.committed = cut.upto
        self._committed()

    def _step(self, stage: str, begun: float) -> float:
        now = time.perf_counter()
        self._took(stage, now - begun)
        return now

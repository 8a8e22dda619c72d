"""A checkpoint: outputs, then changelog, then local store, then the input offset. Each step waits for the one before.

A crash between two steps repeats at most the input since the last checkpoint: outputs come again with the same bytes,
and snapshots that were already written make the records they hold be skipped.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from streamjobs.shell.partition import Partition
from streamjobs.shell.store import Store


class OutputsLike(Protocol):
    async def acknowledged(self, futures: "Iterable[asyncio.Future[Any]]") -> None: ...


class ChangelogLike(Protocol):
    async def open(self) -> None: ...
    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int: ...
    async def close(self) -> None: ...


SPREAD = 0.618  # of a partition's number: the golden ratio keeps any number of them apart

Commit = Callable[[int, int], Awaitable[bool]]  # partition, next offset -> whether the group took it
Took = Callable[[str, float], None]  # stage, seconds


class Checkpoints:
    """The checkpoints of one partition, one at a time."""

    def __init__(
        self,
        partition: Partition,
        *,
        outbox: OutputsLike,
        changelog: ChangelogLike,
        store: Store,
        commit: Commit,
        took: Took = lambda stage, seconds: None,
        written: Callable[[int, int], None] = lambda records, size: None,
    ) -> None:
        self.partition, self.outbox, self.changelog, self.store = partition, outbox, changelog, store
        self._commit, self._took, self._written = commit, took, written
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
        partition = self.partition
        async with self._one:
            async with partition.lock:
                cut = partition.cut()
            if cut is None:
                return True
            begun = time.perf_counter()
            await self.outbox.acknowledged(cut.outputs)
            begun = self._step("outputs", begun)
            if cut.snapshots:
                last = await self.changelog.write(cut.snapshots)
                begun = self._step("changelog", begun)
                self.store.write(partition.number, cut.snapshots, last)
                begun = self._step("store", begun)
                self._written(len(cut.snapshots), sum([len(data) for _, data in cut.snapshots]))
            partition.stored()
            if not await self._commit(partition.number, cut.upto):
                return False
            self._step("commit", begun)
            partition.committed = cut.upto
            return True

    def _step(self, stage: str, begun: float) -> float:
        now = time.perf_counter()
        self._took(stage, now - begun)
        return now

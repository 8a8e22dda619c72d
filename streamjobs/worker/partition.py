"""One assigned partition: its live states, what is queued, what is applied and not yet safe; a pump that applies it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from streamjobs.core.interface import Core
from streamjobs.core.messages import Output, Record, Report
from streamjobs.core.state.live_stats import Standing
from streamjobs.core.state.snapshot import Offsets
from streamjobs.worker.backpressure import Room
from streamjobs.worker.idle_keys import Expiry, Recent

MOST_AT_ONCE = 5_000  # records handed over together
SLICE = 500  # records of one call of `advance`: the event loop waits for it, and more at once cost more each
OVERDUE = 3  # times the checkpoint's bounds: applying waits for the checkpoint

Snapshots = list[tuple[bytes, bytes | None]]  # None: a tombstone


class Records(list[Any]):
    """The records one fetch brought for a partition, with the epoch of the fetch and the bytes of their values."""

    __slots__ = ("bytes", "epoch")

    def __init__(self, records: Sequence[Any], epoch: int) -> None:
        super().__init__(records)
        self.epoch = epoch
        self.bytes = sum([len(record.value) for record in records if record.value is not None])


class OutboxLike(Protocol):
    @property
    def waiting(self) -> "dict[asyncio.Future[Any], str]": ...
    async def send(self, outputs: Sequence[Output]) -> None: ...


class Cut(NamedTuple):
    """What a checkpoint makes safe: everything that belongs to the records applied so far, and nothing else."""

    upto: int  # the next input offset
    outputs: "list[asyncio.Future[Any]]"
    snapshots: Snapshots


class Bounds(NamedTuple):
    """A partition is due for a checkpoint after so many records or so many bytes of changed state."""

    records: int
    bytes: int


class Partition:
    """`start` is the input offset to begin at; `read` gives a key's snapshot from the local store."""

    def __init__(
        self,
        number: int,
        start: int,
        *,
        core: Core,
        read: Callable[[int, bytes], bytes | None],
        most_bytes: int,
        outbox: OutboxLike,
        room: Room,
        bounds: Bounds,
        advanced: Callable[[Report, float], None] = lambda report, seconds: None,
        expiry: Expiry | None = None,
        expired: Callable[[int], None] = lambda keys: None,
    ) -> None:
        self.number, self.core, self.outbox, self.room, self.bounds = number, core, outbox, room, bounds
        self.next = self.committed = start
        self.storing: dict[bytes, bytes | None] = {}  # cut, and not yet in the store
        self.newest = float("-inf")  # event time of the newest row, seconds
        self.live = core.make_live(core.job, self._stored, most_bytes)
        self.lock = asyncio.Lock()  # a cut never falls between applying and handing over
        self.due = asyncio.Event()
        self.closing = False
        self._read, self._advanced = read, advanced
        self._expiry, self._expired = expiry, expired
        self._recent = Recent()
        self._queue: deque[Records] = deque()
        self._wake, self._relieved = asyncio.Event(), asyncio.Event()
        self._cut_at = start  # `next` at the last cut
        self._handing_over = False

    def _stored(self, key: bytes) -> bytes | None:
        """A state that left the live ones between cut and store is not in the store yet."""
        return self.storing[key] if key in self.storing else self._read(self.number, key)

    def standing(self) -> Standing:
        """How its keys stand; may be asked from another thread."""
        return self.live.standing(self._recent.before(time.perf_counter()))

    def offer(self, records: Records) -> None:
        """Queue a fetched batch."""
        self._queue.append(records)
        self.room.queue(len(records), records.bytes)
        self._wake.set()

    def close(self) -> None:
        """No more applying: the queue is dropped, the pump ends after the batch in hand."""
        self.closing = True
        for records in self._queue:
            self.room.queue(-len(records), -records.bytes)
        self._queue.clear()
        for event in (self._wake, self._relieved, self.due):
            event.set()

    async def pump(self) -> None:
        """Apply whatever has queued up, all of it in one call, and hand the outputs over; until `close`."""
        while not self.closing:
            await self._wake.wait()
            self._wake.clear()
            while self._queue and not self.closing:
                while self._overdue() and not self.closing:
                    self._relieved.clear()
                    self.due.set()
                    await self._relieved.wait()
                async with self.lock:
                    await self._apply(self._take())
                await asyncio.sleep(0)  # a backlog leaves the loop to the others as well

    def _take(self) -> list[Record]:
        """What has queued up, up to a bound, as one list in offset order."""
        taken: list[Record] = []
        while self._queue and len(taken) < MOST_AT_ONCE:
            records = self._queue.popleft()
            self.room.queue(-len(records), -records.bytes)
            taken += records
        return taken

    async def _apply(self, records: list[Record]) -> None:
        if not records:
            return
        self._handing_over = True  # stays set when this fails or is cancelled: no checkpoint may follow
        outputs: list[Output] = []
        for at in range(0, len(records), SLICE):
            if at:
                await asyncio.sleep(0)
            begun = time.perf_counter()
            made, report = self.core.advance(self.core.job, self.live, records[at : at + SLICE])
            outputs += made
            ended = time.perf_counter()
            self._recent.note(ended, self.live.now)
            self._advanced(report, ended - begun)
            self.newest = max(self.newest, report.newest_event or self.newest)
        self.next = max(self.next, records[-1].offset + 1)
        if self.next - self._cut_at >= self.bounds.records or self.live.dirty_bytes >= self.bounds.bytes:
            self.due.set()
        if outputs:
            await self.outbox.send(outputs)
        self._handing_over = False

    def _overdue(self) -> bool:
        return (
            self.next - self._cut_at >= OVERDUE * self.bounds.records or self.live.dirty_bytes >= OVERDUE * self.bounds.bytes
        )

    def cut(self) -> Cut | None:
        """Everything applied since the last cut; None when there is nothing. Hold `lock`.

        Raises RuntimeError when a batch was applied and its outputs were not handed over.
        """
        if self._handing_over:
            raise RuntimeError(f"partition {self.number}: the last batch was not handed over, no checkpoint may follow it")
        self.due.clear()
        if self.next == self.committed:
            return None
        self._cut_at = self.next
        idle = self._idle()
        snapshots: Snapshots = [*self.live.snapshots(), *((key, None) for key in idle)]
        self.storing = dict(snapshots)
        return Cut(self.next, list(self.outbox.waiting), snapshots)

    def _idle(self) -> list[bytes]:
        """Keys that are no more; looked for before `snapshots` makes those that have changed look as if they had not."""
        if self._expiry is None:
            return []
        since = self._recent.before(time.perf_counter())
        keys = self._expiry.found(self.newest, self.live, since, self._has_committed)
        for key in keys:
            self.live.forget(key)
        if keys:
            self._expired(len(keys))
        return keys

    def _has_committed(self, offsets: Offsets) -> bool:
        return all(offset < self.committed for (_, number), offset in offsets.items() if number == self.number)

    def stored(self) -> None:
        """The last cut's snapshots are in the store."""
        self.storing = {}
        self._relieved.set()

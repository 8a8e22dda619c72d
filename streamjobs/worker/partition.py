"""One assigned partition: its live states, its queue, and what is applied but not yet stored; `pump` applies the queue."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streamjobs.core.interface import Core, JobLike
from streamjobs.core.live.live_stats import LiveStats
from streamjobs.core.messages import ASIDE, LETTER_HEADERS, Output, Record, Report
from streamjobs.core.state.snapshot import Offsets
from streamjobs.process import return_free_memory
from streamjobs.worker.backpressure import Backpressure, Turns
from streamjobs.worker.idle_keys import Expiry, RecentBatches

if TYPE_CHECKING:
    from streamjobs.worker.pace import Pace

MAX_AT_ONCE = 2_000  # records taken from the queue together
SLICE = 500  # most records of one call of `advance`: larger calls cost more per record
LEAST_SLICE = 16
FIRST_SLICE = 64  # a record may take 200 ms, which no call has shown yet
HOLD = 0.25  # seconds of applying after which a waiting checkpoint gets its turn
TRIM_EVERY = 5.0  # seconds after which what batches and checkpoints left free in the heap returns to the system
READ_OPEN, READ_EVERY = 0.02, 0.9  # seconds for reading which stored keys are in alarm; least from one reading to the next
OVERDUE = 3  # times the checkpoint's bounds: applying waits for the checkpoint
OVERDUE_AFTER = 5.0  # seconds a checkpoint may take: then applying waits for it, and leaves it the event loop

Snapshots = list[tuple[bytes, bytes | None]]  # None: a tombstone
Ready = Callable[[Sequence[Record]], Awaitable[list[Record]]]


class FetchedRecords(list[Any]):
    """The records one fetch brought for a partition, with the epoch of the fetch and the bytes of their values."""

    __slots__ = ("bytes", "epoch")

    def __init__(self, records: Sequence[Any], epoch: int) -> None:
        super().__init__(records)
        self.epoch = epoch
        self.bytes = sum([len(record.value) for record in records if record.value is not None])


class OutboxLike(Protocol):
    @property
    def unacknowledged(self) -> "dict[asyncio.Future[Any], str]": ...
    async def send(self, outputs: Sequence[Output]) -> None: ...


class Cut(NamedTuple):
    """What a checkpoint writes: everything that belongs to the records applied so far, and nothing else."""

    next_offset: int  # of the input: P of `worker.pace`
    outputs: "list[asyncio.Future[Any]]"
    snapshots: Snapshots
    replay_from: int  # R
    moment: str  # of the keys at R, which the commit needs where the state of one depends on the others


class Bounds(NamedTuple):
    """A checkpoint is due after so many records, or so many bytes of changed state."""

    records: int
    bytes: int


class Partition:
    """start: the first input offset to apply; read_many: gives keys' snapshots from the local store.

    turns: those of all partitions of the worker, which share its event loop.
    ready: has what records need to be decoded, such as their schemas, and gives them back; it may take its time.
    """

    def __init__(
        self,
        number: int,
        start: int,
        *,
        core: Core,
        read_many: Callable[[int, Sequence[bytes]], list[bytes | None]],
        max_live_bytes: int,
        outbox: OutboxLike,
        backpressure: Backpressure,
        bounds: Bounds,
        on_advance: Callable[[Report, float], None] = lambda report, seconds: None,
        expiry: Expiry | None = None,
        on_expired: Callable[[int], None] = lambda keys: None,
        turns: Turns | None = None,
        ready: Ready | None = None,
    ) -> None:
        self.number, self.core, self.outbox = number, core, outbox
        self.backpressure, self.bounds = backpressure, bounds
        self.next = self.replay_from = start  # the committed R is `replay_from`, the committed P is `committed`
        self.held = self.committed = start
        self.pace: Pace | None = None  # of writing states; None: every checkpoint writes all
        self.reading: Iterator[bool] | None = None  # each step reads some of the stored keys that are in alarm
        self._read_open_at = -inf
        self._on_replayed = on_advance
        self._before: JobLike | None = None  # see `take_over`
        self._write_all = False  # with the next cut, see `_snapshots`
        self._passing = 0  # bytes that were remembered at the last cut
        self.unstored: dict[bytes, bytes | None] = {}  # snapshots of the last cut until they are in the store
        self._leaving: frozenset[bytes] = frozenset()  # idle keys of the last cut until their tombstones are written
        self.newest = float("-inf")  # event time of the newest row, seconds
        self.live, self._most_live = core.make_live(core.job, self._read_snapshots, max_live_bytes), max_live_bytes
        self.lock = asyncio.Lock()  # keeps a cut from falling between applying records and sending their outputs
        self.due = asyncio.Event()
        self.closing = False
        self.committed_at = time.monotonic()  # of the last commit, or of the start
        self.caught_up_at = self.committed_at  # when it was last seen to have no record that waits for its commit
        self._read_many, self._on_advance = read_many, on_advance
        self._expiry, self._on_expired = expiry, on_expired
        self._recent = RecentBatches()
        self._queue: deque[FetchedRecords] = deque()
        self._fetched = start  # the offset after all that was ever queued
        self._wake, self._stored, self._closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.turns = turns or Turns()
        self._ready = ready
        self._taken: list[Record] = []  # from the queue, not applied yet
        self._slice = FIRST_SLICE
        self._cut_at = start  # `next` at the last cut
        self._cut_since: float | None = None  # time.monotonic() of a cut that is not stored yet
        self._sending = self._waits_for_turn = False

    def take_over(
        self,
        held: int,
        pace: "Pace | None",
        on_replayed: Callable[[Report, float], None],
        before: "tuple[JobLike, Callable[[], None]] | None" = None,
        whole: bool = False,
    ) -> None:
        """held: outputs of records before this offset are out, and held back. on_replayed: gets the reports of these.

        before: the job for these records, if it differs, and what is called when a cut has all states as of `held`. Until
        then no record from there on is applied: a takeover would apply it with the former job. whole: the first cut writes
        all states, because the commit lacks their moment (`core.live.silence`).
        """
        self.held = self.committed = max(self.next, held)
        self.pace, self._on_replayed, self._write_all = pace, on_replayed, whole
        self._before, self._on_caught_up = before or (None, lambda: None)

    @property
    def waiting_since(self) -> float:
        """time.monotonic() since which its waiting records have had no commit; inf: they may not have one yet."""
        return inf if self._waits_for_turn else max(self.committed_at, self.caught_up_at)

    @property
    def has_backlog(self) -> bool:
        """Whether the records of another large call of `advance` wait."""
        return len(self._taken) + sum([len(records) for records in self._queue]) >= SLICE

    def _read_snapshots(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """States that were evicted between cut and store are not in the store yet."""
        unstored = self.unstored
        absent = [key for key in keys if key not in unstored]
        found = dict(zip(absent, self._read_many(self.number, absent), strict=True)) if absent else {}
        return [unstored[key] if key in unstored else found[key] for key in keys]

    def stats(self) -> LiveStats:
        """Statistics of its keys; safe to call from another thread."""
        return self.live.stats(self._recent.count_before(time.perf_counter()))

    def worst(self, most: int) -> list[tuple[str, float]]:
        """Its active keys with the largest newest LS errors; safe to call from another thread."""
        return self.live.worst(self._recent.count_before(time.perf_counter()), most)

    def offer(self, records: FetchedRecords) -> None:
        """Queue a fetched batch, without what it had before: a consumer may go back, and no key knows its dead letters."""
        if records and records[0].offset < self._fetched:
            records = FetchedRecords([record for record in records if record.offset >= self._fetched], records.epoch)
        if not records:
            return
        self._fetched = records[-1].offset + 1
        self._queue.append(records)
        self.backpressure.add_queued(len(records), records.bytes)
        self._wake.set()

    def close(self) -> None:
        """Drop the queue and apply nothing more; the pump ends after the call of `advance` it is in."""
        self.closing = True
        for records in self._queue:
            self.backpressure.add_queued(-len(records), -records.bytes)
        self._queue.clear()
        for event in (self._wake, self._stored, self._closed, self.due):
            event.set()

    async def pump(self) -> None:
        """Apply what has queued up and send the outputs, until `close`."""
        while not self.closing:
            await self._wake.wait()
            self._wake.clear()
            while (self._taken or self._queue) and not self.closing:
                while self._overdue() and not self.closing:
                    self._stored.clear()
                    self.due.set()
                    await self._stored.wait()
                if not self._taken:
                    self._taken = self._dequeue()
                    if self._ready is not None and not await self._get_ready(self._ready):
                        return
                async with self._turn_again() if (again := self.next < self.held) else nullcontext():
                    while True:
                        async with self.lock:
                            applied = await self._apply(self._taken)
                            self._taken = self._taken[applied:]
                        if not (again and applied and self._has_more_again()):
                            break
                        await asyncio.sleep(0)
                if not applied and (self._leaving or self._before) and not self.closing:
                    self._stored.clear()
                    await self._stored.wait()
                await asyncio.sleep(0)  # a long queue must not starve the other tasks

    @asynccontextmanager
    async def _turn_again(self) -> AsyncIterator[None]:
        """While it waits for its turn, another partition has it: /health judges that one."""
        self._waits_for_turn = True
        async with self.turns.again:
            self._waits_for_turn, self.caught_up_at = False, time.monotonic()
            yield

    def _has_more_again(self) -> bool:
        """Whether `_taken` has more records to apply again, without a wait for a checkpoint or for what decoding needs."""
        if not self._taken and self._ready is None and not self.closing:
            self._taken = self._dequeue()
        return bool(self._taken) and self.next < self.held and not self.closing and not self._overdue()

    async def _get_ready(self, ready: Ready) -> bool:
        """Wait for what the taken records need; False when the partition was closed meanwhile. Checkpoints go on."""
        waiting = asyncio.ensure_future(ready(self._taken))
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((waiting, closed), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return False
            self._taken = waiting.result()
            return True
        finally:
            for task in (waiting, closed):
                task.cancel()

    def _dequeue(self) -> list[Record]:
        """What has queued up, at most about MAX_AT_ONCE records, as one list in offset order."""
        taken: list[Record] = []
        while self._queue and len(taken) < MAX_AT_ONCE:
            records = self._queue.popleft()
            self.backpressure.add_queued(-len(records), -records.bytes)
            taken += records
        return taken

    async def _apply(self, records: list[Record]) -> int:
        """Apply records until a checkpoint is due or has waited for HOLD, and send the outputs. Gives how many were applied.

        Unless closed, the first call of `advance` happens, however often checkpoints are due: records move on. Only the
        records of a key that is being removed wait. If a crash came before its tombstone was written, the state would be
        there again, and the outputs, which might be sent already, would have other bytes.
        """
        self._sending = True  # stays set when this fails or is cancelled: no checkpoint may follow
        outputs: list[Output] = []
        at, began, passed = 0, time.perf_counter(), self.next >= self.held
        while at < len(records):
            if at:
                await asyncio.sleep(0)
            async with self.turns:
                if self.closing or (at and (self.due.is_set() or time.perf_counter() - began > HOLD)):
                    break
                part = records[at : at + self._slice]
                if self._leaving:
                    keyed = zip(part, self.core.job.keyed(part), strict=True)
                    part = [record for record, _ in takewhile(lambda one: one[1].key not in self._leaving, keyed)]
                    if not part:
                        break
                again = part[0].offset < self.held
                if at and not again and not passed:
                    break  # `turns.again` is not kept while outputs are sent
                if again:
                    part = list(takewhile(lambda record: record.offset < self.held, part))
                elif self._before is not None:
                    self.next = max(self.next, self.held)  # where nothing is left of the records before
                    self.due.set()
                    break
                spent = 0.0 if self.pace is None else time.thread_time()
                started = time.perf_counter()
                made, report = self.core.advance(self._before or self.core.job, self.live, part)
                ended = time.perf_counter()
                outputs += made if not again else filter(_is_new, made)
                at += len(part)
                fitting = int(self.turns.call_seconds * len(part) / max(ended - started, 1e-9))
                self._slice = min(SLICE, max(LEAST_SLICE, fitting))
                self._recent.add(ended, self.live.now)
                if self.pace is not None:
                    self.pace.applied.seconds += time.thread_time() - spent
                    self.pace.applied.bytes += self.live.log.pack(self.pace.codec)  # objects would keep free memory
                    letters = report.set_aside or report.dead_lettered.get(ASIDE) or report.failures
                    self._write_all |= bool(letters or report.write_all)
                self.newest = max(self.newest, report.newest_event or self.newest)
                self.next = max(self.next, part[-1].offset + 1)
                (self._on_replayed if again else self._on_advance)(report, ended - started)
                if self.next - self._cut_at >= self.bounds.records or self._bytes() >= self.bounds.bytes:
                    self.due.set()
        if outputs:
            await self.outbox.send(outputs)
        self._sending = False
        return at

    def _overdue(self) -> bool:
        if self._cut_since is not None and time.monotonic() - self._cut_since > OVERDUE_AFTER:
            return True
        return self.next - self._cut_at >= OVERDUE * self.bounds.records or self._bytes() >= OVERDUE * self.bounds.bytes

    def _bytes(self) -> int:
        """About how many bytes the next cut lets go; with a pace, without the states that it chooses."""
        if self.pace is None:
            return self.live.dirty_bytes
        return self.live.parked.bytes + self.live.log.bytes - self._passing

    async def cut(self) -> Cut | None:
        """Everything applied since the last cut; None when there is nothing. Call it while holding `lock`.

        Sends the dead letters of keys with states that cannot be written: they belong to it. Raises RuntimeError where
        outputs of applied records were not sent.
        """
        if self._sending:
            raise RuntimeError(
                f"partition {self.number}: the outputs of the last records were not sent, so no checkpoint may follow"
            )
        self.due.clear()
        if time.monotonic() - self.turns.trimmed_at > TRIM_EVERY:
            self.turns.trimmed_at = time.monotonic()
            return_free_memory()
        self._read_open()
        if self._before is not None and self.next >= self.held:
            self._before, self._write_all = None, True
            self._on_caught_up()
        if self.next == self.committed == self.replay_from:
            self._stored.set()
            return None
        idle = self._forget_idle_keys()
        snapshots: Snapshots = [*self._snapshots(), *((key, None) for key in idle)]
        letters, report = self.live.owed()
        if report.set_aside:
            if self.pace is not None:
                snapshots += self._snapshots(whole=True)
                more = self.live.owed()
                letters += more.outputs
                report.add(more.report)
            self._on_advance(report, 0.0)
            self._sending = True
            await self.outbox.send(letters)
            self._sending = False
        replay_from, moment = self.next, self.live.moment
        if self.pace is not None:
            replay_from, moment = self.pace.replay_from, self.pace.moment
        moment += self.live.reported
        cut = Cut(max(self.next, self.held), list(self.outbox.unacknowledged), snapshots, replay_from, moment)
        if not snapshots and (replay_from, cut.next_offset) == (self.replay_from, self.committed):
            self._cut_at = self.next  # applied again, and nothing is due: `pump` goes on
            self._stored.set()
            return None
        self.unstored, self._leaving = dict(snapshots), frozenset(idle)
        self._cut_at, self._cut_since = self.next, time.monotonic()
        return cut

    def _read_open(self) -> None:
        """Some of the stored keys that are in alarm; all that was cut before is stored now."""
        now = time.perf_counter()
        if now - self._read_open_at < READ_EVERY:  # a checkpoint may come every 75 ms
            return
        self._read_open_at, until = now, now + READ_OPEN
        while self.reading is not None and not self.closing and next(self.reading) and time.perf_counter() < until:
            pass

    def _snapshots(self, *, whole: bool = False) -> Snapshots:
        """What is due, with what is parked. whole: all, so that R passes every record so far.

        With letters of keys that are set aside all states are written: a replay from before would send them again, or,
        where the takeover can read the key's state, learn from these records, which `dlq redrive` sends once more. The same
        with letters of a learner that failed: the takeover may have a learner that is corrected. The same where a
        group depends on alarms that states do not have: they have the newest one of their key. The same where a key is
        missing: the takeover may expect other keys.
        """
        if self.pace is None:
            return [*self.live.snapshots()]
        whole, free = whole or self._write_all, 1.0 - self.live.nbytes / self._most_live
        live = self.live
        keys = self.pace.cut(self.next, list(live.changed()), live.parked, whole=whole, free=free, moment=live.moment)
        self._write_all = False
        snapshots = self.live.snapshots(keys)
        self.live.log.trim(self.pace.replay_from)
        self._passing = self.live.log.bytes
        return [*snapshots]

    def _forget_idle_keys(self) -> list[bytes]:
        """Must run before `live.snapshots`, which marks changed keys as unchanged: a changed key is busy, not idle."""
        if self._expiry is None:
            return []
        since = self._recent.count_before(time.perf_counter())
        keys = self._expiry.idle_keys(self.newest, self.live, since, self._has_committed)
        for key in keys:
            self.live.forget(key)
        if keys:
            self._on_expired(len(keys))
        return keys

    def _has_committed(self, offsets: Offsets) -> bool:
        """R and not P: from there on records come again after a crash."""
        return all(offset < self.replay_from for (_, number), offset in offsets.items() if number == self.number)

    def mark_stored(self) -> None:
        """The last cut's snapshots are in the store."""
        self.unstored, self._leaving = {}, frozenset()
        self._cut_since = None
        self._stored.set()


def _is_new(output: Output) -> bool:
    """Whether an output of a record that is applied again was not sent before.

    It is a dead letter of a key that is set aside, because a checkpoint with such letters writes all states, so R passes
    their records.
    """
    if output.sink != "dlq":
        return False
    return dict(output.headers[: len(LETTER_HEADERS)])["streamjobs-error-reason"] == ASIDE.encode()

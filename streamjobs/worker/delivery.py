"""All assigned partitions of a worker: handing fetched batches over, taking partitions on, making them safe, letting go.

Epoch and barrier make a rebalance safe: what was fetched under an older epoch is dropped, and nothing is fetched
between losing partitions and having sought to the committed offsets oneself.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from streamjobs.core.interface import Core
from streamjobs.settings.sections import StateSection
from streamjobs.worker.backpressure import Room
from streamjobs.worker.checkpoint import ChangelogLike, Checkpoints, Commit
from streamjobs.worker.failures import DeliveryError, FencedError
from streamjobs.worker.idle_keys import Expiry
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.outbox import Outbox
from streamjobs.worker.partition import Bounds, Partition, Records
from streamjobs.worker.store import Store

log = structlog.get_logger("streamjobs")

OPEN_AT_ONCE = 16  # changelog producers that connect at the same time


def _tell_lost(error: FencedError) -> None:
    log.warning("partition lost before it was made safe: its new owner reads again", error=str(error))


class Outside(Protocol):
    """What delivery needs of Kafka; made by the app, replaced by fakes in tests."""

    def producer(self) -> Any: ...
    def changelog(self, partition: int) -> ChangelogLike: ...
    async def commit(self, partition: int, offset: int) -> bool: ...


class Lost(NamedTuple):
    """A partition another worker writes by now, and the group has not taken away yet."""

    since: float  # time.monotonic()
    error: FencedError


class Held(NamedTuple):
    """A partition at work."""

    partition: Partition
    checkpoints: Checkpoints
    tasks: "list[asyncio.Task[None]]"


class Delivery:
    """`failing` is set by the first failure; from then on nothing is acknowledged any more."""

    def __init__(
        self,
        core: Core,
        state: StateSection,
        store: Store,
        outside: Outside,
        metrics: Metrics,
        *,
        room: Room | None = None,
        topics: Mapping[str, str] | None = None,
        exactly_once: bool = False,
        input_id: str = "",
    ) -> None:
        self.core, self.state, self.store, self.outside, self.metrics = core, state, store, outside, metrics
        self.room = room or Room()
        self.topics = topics or core.job.sinks
        self.exactly_once, self.input_id = exactly_once, input_id
        self.held: dict[int, Held] = {}
        self.epoch, self.barrier = 0, True
        self.stopping = False
        self.dropped = 0  # batches of an older epoch
        self.failed: BaseException | None = None
        self.failing = asyncio.Event()
        self.lost: dict[int, Lost] = {}
        self._changelogs: dict[int, ChangelogLike] = {}
        self.prepared: frozenset[int] = frozenset()  # fenced, and their stores restored
        self._revoking = asyncio.Lock()

    @property
    def partitions(self) -> dict[int, Partition]:
        return {number: held.partition for number, held in self.held.items()}

    def bar(self) -> None:
        """Nothing fetched so far counts any more, and nothing is fetched until `unbar`."""
        self.barrier = True
        self.epoch += 1

    def unbar(self) -> None:
        self.epoch += 1
        self.barrier = False

    def offer(self, number: int, records: Records) -> None:
        """A fetched batch of a partition; dropped when it belongs to an older epoch."""
        held = self.held.get(number)
        if held is None or records.epoch != self.epoch or held.partition.closing:
            self.dropped += 1
            return
        held.partition.offer(records)

    async def fence(self, numbers: Iterable[int]) -> dict[int, ChangelogLike]:
        """Open a changelog producer per partition: from here on no previous owner can write. Comes before any reading.

        Gives what `restored` is told when their stores are restored.
        """
        await self._close_changelogs()
        opening = self._changelogs = {number: self.outside.changelog(number) for number in numbers}
        slots = asyncio.Semaphore(OPEN_AT_ONCE)

        async def opened(changelog: ChangelogLike) -> None:
            async with slots:
                await changelog.open()

        await asyncio.gather(*[opened(changelog) for changelog in opening.values()])
        return opening

    def restored(self, fenced: dict[int, ChangelogLike]) -> None:
        """These can be taken on, unless they were taken away or fenced anew meanwhile."""
        if fenced is self._changelogs:
            self.prepared = frozenset(fenced)

    def assign(self, positions: Mapping[int, int]) -> bool:
        """Take partitions on at these input offsets; their changelogs are open and their stores restored.

        False when they are not: they were assigned anew while the ones before were made ready, which is done for these next.
        """
        if self.stopping or self.failed is not None:
            return False
        if not self.prepared.issuperset(positions):
            log.info("assigned anew before it was ready", partitions=sorted(positions), prepared=sorted(self.prepared))
            return False
        self.store.keep(list(positions))
        share = self.state.cache // max(1, len(positions))
        for number, start in positions.items():
            held = self.held.get(number)
            if held is None:
                self.held[number] = self._take_on(number, start, share)
            elif start != held.partition.next:  # sought again without having been revoked
                log.info("reading again", partition=number, start=start, applied_up_to=held.partition.next)
        self.metrics.assigned(self.partitions)
        return True

    def _take_on(self, number: int, start: int, share: int) -> Held:
        metrics, state = self.metrics, self.state
        changelog = self._changelogs[number]
        producer = changelog.producer if self.exactly_once else self.outside.producer
        outbox = Outbox(number, self.topics, producer, self.room, sent=metrics.produced)
        partition = Partition(
            number,
            start,
            core=self.core,
            read=self.store.get,
            most_bytes=share,
            outbox=outbox,
            room=self.room,
            bounds=Bounds(state.checkpoint_records, state.checkpoint_bytes),
            advanced=metrics.advanced,
            expiry=self._expiry(number),
            expired=partial(self._expired, number),
        )
        outbox.refused = partition.due.set
        checkpoints = Checkpoints(
            partition,
            outbox=outbox,
            changelog=changelog,
            store=self.store,
            commit=None if self.exactly_once else self._commit(),
            took=metrics.took,
            written=metrics.written,
            committed=lambda: metrics.committed(time.time()),
            input_id=self.input_id,
        )
        tasks = [self._watched(partition, work) for work in (partition.pump(), checkpoints.run(state.checkpoint))]
        return Held(partition, checkpoints, tasks)

    def _expiry(self, number: int) -> Expiry | None:
        ttl = self.state.ttl
        return None if ttl is None else Expiry(ttl, partial(self.store.scan, number), self.core.job.heard)

    def _expired(self, number: int, keys: int) -> None:
        self.metrics.expired(keys)
        log.info("states of idle keys removed", partition=number, keys=keys)

    def _commit(self) -> Commit:
        async def commit(number: int, offset: int) -> bool:
            taken = await self.outside.commit(number, offset)
            if not taken:
                log.info("commit refused, the group is rebalancing: read again", partition=number, offset=offset)
            return taken

        return commit

    def _watched(self, partition: Partition, work: Any) -> "asyncio.Task[None]":
        async def watch() -> None:
            try:
                await work
            except asyncio.CancelledError:  # never by us: a library let one of its own escape
                self.fail(DeliveryError("a partition's work was cancelled from outside; a restart continues it."))
                raise
            except FencedError as error:
                self._lose(partition, error)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be acknowledged after it
                if partition.number not in self.lost:  # else a checkpoint met what the loss had left half done
                    self.fail(error)

        return asyncio.ensure_future(watch())

    def _lose(self, partition: Partition, error: FencedError) -> None:
        """Nothing more of it is applied or made safe. The group, which put this worker out, will come to tell it so."""
        partition.close()
        if partition.number not in self.lost:
            self.lost[partition.number] = Lost(time.monotonic(), error)
            _tell_lost(error)

    async def revoke(self, why: str) -> None:
        """Stop applying, make everything applied safe, forget it all. Call `bar` first.

        One at a time: stopping in the middle of a rebalance, the second would close what the first still writes with.
        """
        async with self._revoking:
            await self._revoke(why)

    async def _revoke(self, why: str) -> None:
        begun = time.perf_counter()
        held, self.held = list(self.held.values()), {}
        for one in held:
            one.partition.close()
        for one in held:
            await asyncio.gather(*one.tasks, return_exceptions=True)
        if self.failed is None:
            ours = [one for one in held if one.partition.number not in self.lost]
            results = await asyncio.gather(*[one.checkpoints.take() for one in ours], return_exceptions=True)
            for result in results:
                if isinstance(result, FencedError):
                    _tell_lost(result)
                elif isinstance(result, BaseException):
                    self.fail(result)
        await self._close_changelogs()
        self.lost.clear()
        self.metrics.assigned({})
        if held:
            took = round(1e3 * (time.perf_counter() - begun))
            log.info("partitions made safe and left", why=why, partitions=len(held), milliseconds=took)

    async def _close_changelogs(self) -> None:
        changelogs, self._changelogs, self.prepared = list(self._changelogs.values()), {}, frozenset()
        await asyncio.gather(*[changelog.close() for changelog in changelogs], return_exceptions=True)

    def fail(self, error: BaseException) -> None:
        """The first failure counts; no checkpoint follows it."""
        if self.failed is None:
            self.failed = error
            self.bar()
            for held in self.held.values():
                held.partition.close()
            self.failing.set()

    def finished(self, ends: Mapping[int, int], passed: Mapping[int, tuple[int, int]]) -> bool:
        """Whether every assigned partition has applied all before its end.

        passed: position of the fetches and the offset after the last fetched record, per partition; markers and
        compacted records at an end move the position only.
        """
        for number, held in self.held.items():
            at, fetched = passed.get(number, (0, 0))
            applied = held.partition.next
            if applied < ends.get(number, 0) and not (at >= ends[number] and applied >= fetched):
                return False
        return bool(self.held)

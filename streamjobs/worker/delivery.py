"""All assigned partitions of a worker: start them, pass fetched batches on, checkpoint and release them.

Two things make a rebalance safe. Every fetch carries the epoch it was made in, and batches of an older epoch are dropped.
While the barrier is up, nothing is fetched: from losing partitions until the consumer has sought to the committed offsets.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from streamjobs.core.interface import Core
from streamjobs.core.messages import ASIDE, Report
from streamjobs.kafka.topic_id import Origin
from streamjobs.kafka.topics import NO_LIMITS, Limits
from streamjobs.process import return_free_memory, use_all_descriptors
from streamjobs.settings.sections import StateSection
from streamjobs.worker.backpressure import Backpressure, Turns
from streamjobs.worker.changelog import NO_ORIGIN
from streamjobs.worker.checkpoint import ChangelogLike, Checkpoints, FormerSections
from streamjobs.worker.failures import DeliveryError, FencedError
from streamjobs.worker.idle_keys import Expiry
from streamjobs.worker.logs import CacheMisses, Notices, log_starting_over
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.outbox import Outbox
from streamjobs.worker.partition import Bounds, FetchedRecords, Partition, Ready
from streamjobs.worker.store import Store

if TYPE_CHECKING:
    from streamjobs.worker.pace import Applied, Pace

log = structlog.get_logger("streamjobs")

FAILED_WITHIN = 2.0  # seconds that work in progress may still take after a failure
FINISH_WITHIN = 2.0  # seconds a released partition writes states: what is left, its next owner computes again
OPEN_AT_ONCE = 16  # changelog producers that connect at the same time
NO_PROGRESS: Mapping[int, int] = {}


class KafkaPort(Protocol):
    """What delivery needs of Kafka; made by the app, replaced by fakes in tests."""

    def producer(self) -> Any: ...
    def changelog(self, partition: int) -> ChangelogLike: ...
    async def commit(self, partition: int, offset: int, progress: int, moment: str) -> bool: ...  # of `partition.Cut`


class TakenOver(NamedTuple):
    """A partition that another worker already writes, and that the group has not revoked here yet."""

    since: float  # time.monotonic()
    error: FencedError


class HeldPartition(NamedTuple):
    """A partition at work, with the tasks that apply its records and take its checkpoints."""

    partition: Partition
    checkpoints: Checkpoints
    tasks: "list[asyncio.Task[None]]"


class Delivery:
    """`failing` is set by the first failure; nothing is acknowledged after it."""

    def __init__(
        self,
        core: Core,
        state: StateSection,
        store: Store,
        kafka: KafkaPort,
        metrics: Metrics,
        *,
        backpressure: Backpressure | None = None,
        exactly_once: bool = False,
        origin: Origin = NO_ORIGIN,
        ready: Ready | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.core, self.state, self.store, self.kafka, self.metrics = core, state, store, kafka, metrics
        self.backpressure = backpressure or Backpressure()
        self.topics = core.job.sinks
        self.exactly_once, self.origin, self.ready, self.limits = exactly_once, origin, ready, limits
        self.held: dict[int, HeldPartition] = {}
        self.former = FormerSections()
        self.moments: dict[int, str] = {}  # by partition: of its commit
        self.epoch, self.barrier = 0, True
        self.stopping = False
        self.dropped = 0  # batches of an older epoch
        self.failed: BaseException | None = None
        self.failing = asyncio.Event()
        self.released = asyncio.Event()  # the last checkpoints are taken, because the worker stops
        self.taken_over: dict[int, TakenOver] = {}
        self._changelogs: dict[int, ChangelogLike] = {}
        self.fencing = False  # whether an assignment, perhaps of none, was fenced and not revoked since
        self.prepared: frozenset[int] = frozenset()  # fenced, and their stores restored
        self._revoking = asyncio.Lock()
        self.turns = Turns()
        self._applied: Applied | None = None  # by all partitions, where states have a pace
        self.finish_within = FINISH_WITHIN
        self._settling: dict[int, int] = {}
        self._misses = CacheMisses(state.cache)

    @property
    def partitions(self) -> dict[int, Partition]:
        return {number: held.partition for number, held in self.held.items()}

    def raise_barrier(self) -> None:
        """Drop everything fetched so far, and fetch nothing until `lower_barrier`."""
        self.barrier = True
        self.epoch += 1

    def lower_barrier(self) -> None:
        self.epoch += 1
        self.barrier = False

    def offer(self, number: int, records: FetchedRecords) -> None:
        """Pass a fetched batch to its partition; it is dropped when it belongs to an older epoch."""
        held = self.held.get(number)
        if held is None or records.epoch != self.epoch or held.partition.closing:
            self.dropped += 1
            return
        held.partition.offer(records)

    async def fence(self, numbers: Iterable[int]) -> dict[int, ChangelogLike]:
        """Open a changelog producer per partition, so that no previous owner can write any more. Call it before any read.

        Returns what `mark_restored` takes once the stores of these partitions are restored.
        """
        use_all_descriptors()
        await self._close_changelogs()
        self.fencing = True
        opening = self._changelogs = {number: self.kafka.changelog(number) for number in numbers}
        slots = asyncio.Semaphore(OPEN_AT_ONCE)

        async def open_one(changelog: ChangelogLike) -> None:
            async with slots:
                await changelog.open()

        tasks = [asyncio.ensure_future(open_one(changelog)) for changelog in opening.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # one that opened after a failure would fence the producer of the next attempt
                task.cancel()
        return opening

    def end_of_changelog(self, number: int) -> int:
        """As far as its states are written; 0 where nothing is known."""
        changelog = self._changelogs.get(number)
        return 0 if changelog is None else changelog.end

    def mark_restored(self, fenced: dict[int, ChangelogLike], life: str = "") -> None:
        """Allow `assign` of these partitions, unless they were revoked or fenced again meanwhile.

        life: of the input, from the stores: for a group with expired commits.
        """
        if fenced is self._changelogs:
            self.prepared = frozenset(fenced)
            if life and not self.origin.life:
                self.origin = self.origin._replace(life=life)
                self.core = self.core._replace(job=self.core.job.in_life(life))
                for changelog in fenced.values():
                    changelog.origin = self.origin

    def assign(self, positions: Mapping[int, int], progress: Mapping[int, int] = NO_PROGRESS) -> bool:
        """Start partitions at these input offsets; their changelogs are open and their stores restored.

        progress: up to where the outputs of a partition are out, if that is beyond.
        False when they are not: another rebalance came while the previous assignment was recovering, and the recovery of
        this one follows.
        """
        if self.stopping or self.failed is not None:
            return False
        if not self.prepared.issuperset(positions):
            log.info("reassigned before recovery finished", partitions=sorted(positions), prepared=sorted(self.prepared))
            return False
        self.store.keep(list(positions))
        share = self.state.cache // max(1, len(positions))
        for number, start in positions.items():
            if number not in self.held:  # else it was sought again without a revoke: see `Partition.offer`
                self.held[number] = self._start_partition(number, start, share, progress.get(number, start))
        self.metrics.set_partitions(self.partitions)
        return True

    def _start_partition(self, number: int, start: int, share: int, held: int) -> HeldPartition:
        metrics, state = self.metrics, self.state
        if held > start:
            log.info(
                "applying records again", partition=number, records=held - start, reason="outputs are out, states lack them"
            )
        reached = self.store.reached(number)
        if reached is not None and (state.replay or held > start):  # its states may be as of later offsets, and others not
            self.store.write(number, (), reached, marks={"replay": str(start)})
        changelog = self._changelogs[number]
        producer = changelog.producer if self.exactly_once else self.kafka.producer
        to = self.topics, producer, self.backpressure
        outbox = Outbox(number, *to, on_sent=metrics.count_outputs, spans=self.limits.spans)
        partition = Partition(
            number,
            start,
            core=self.core,
            read_many=self.store.get_many,
            max_live_bytes=share,
            outbox=outbox,
            backpressure=self.backpressure,
            bounds=Bounds(state.checkpoint_records, state.checkpoint_bytes),
            on_advance=self._on_advance(number),
            expiry=self._expiry(number),
            on_expired=partial(self._count_expired, number),
            turns=self.turns,
            ready=self.ready,
        )
        moment = self.moments.get(number, "")
        if self.core.meet is not None:
            log_starting_over(self.core.meet(partition.live, partial(self.store.scan, number), moment, held))
        if self.core.read_open is not None:
            partition.reading = self.core.read_open(self.core.job, partition.live, partial(self.store.scan, number))
        before = self.former.job_before(number, self.core.job, changelog, self.origin)
        pace, whole = self._pace(start, partition.live.moment), bool(partition.live.moment) and not moment
        if pace is not None and reached is None:
            pace.least = 1  # only states name the input's id, by which one is known that is recreated meanwhile
        partition.take_over(held, pace, self._on_replayed(number, held), before, whole)
        outbox.on_refused = partition.due.set
        checkpoints = Checkpoints(
            partition,
            outbox=outbox,
            changelog=changelog,
            store=self.store,
            commit_offset=None if self.exactly_once else self._commit_offset,
            on_step=metrics.observe_step,
            on_snapshots=metrics.count_snapshots,
            on_commit=lambda: metrics.record_commit(time.time()),
            marks={**self.origin.marks, "replay": None},
        )
        work = partition.pump(), checkpoints.run(state.checkpoint_seconds(self.exactly_once))
        return HeldPartition(
            partition, checkpoints, [asyncio.ensure_future(self._supervise(partition, one)) for one in work]
        )

    def _on_advance(self, number: int) -> Callable[[Report, float], None]:
        notices = Notices(number)

        def on_advance(report: Report, seconds: float) -> None:
            self.metrics.count_advance(report, seconds)
            notices.take(report, seconds)
            self._misses.count(report, time.monotonic())

        return on_advance

    def _pace(self, start: int, moment: str) -> "Pace | None":
        state = self.state
        if not state.replay:
            return None
        from streamjobs.worker.pace import Applied, Pace

        self._applied = self._applied or Applied()
        at_end = max(1, state.checkpoint_bytes // 4 // self.core.job.state_bytes)
        return Pace(start, self._applied, replay=state.replay, cache=state.cache, at_end=at_end, moment=moment)

    def _on_replayed(self, number: int, held: int) -> Callable[[Report, float], None]:
        """For records with outputs that are out: nothing of them is counted twice. What `partition._is_new` is counted."""
        seconds = 0.0

        def on_replayed(report: Report, took: float) -> None:
            nonlocal seconds
            seconds += took
            self.metrics.count_replayed(report.records, took)
            letters = report.dead_lettered.get(ASIDE, 0)
            if report.set_aside or letters:
                self._on_advance(number)(Report(set_aside=report.set_aside, dead_lettered={ASIDE: letters}), 0.0)
            one = self.held.get(number)
            if one is not None and one.partition.next >= held:
                log.info("records applied again", partition=number, up_to=held, seconds=round(seconds, 2))

        return on_replayed

    def settle(self) -> bool:
        """Write all states that partitions have to write as of the first call; whether that is done. Call it until it is."""
        done = True
        for number, held in self.held.items():
            partition = held.partition
            upto = self._settling.setdefault(number, partition.next)  # records that come meanwhile do not count
            if partition.pace is not None and partition.replay_from < upto:
                partition.pace.all, done = True, False
                partition.due.set()
        return done

    def _expiry(self, number: int) -> Expiry | None:
        if self.state.ttl is None:
            return None
        return Expiry(self.state.ttl, partial(self.store.scan, number), partial(self.core.last_event, self.core.job))

    def _count_expired(self, number: int, keys: int) -> None:
        self.metrics.count("keys_expired_total", keys)
        log.info("states of idle keys removed", partition=number, keys=keys)

    async def _commit_offset(self, number: int, offset: int, progress: int, moment: str) -> bool:
        accepted = await self.kafka.commit(number, offset, progress, moment)
        if not accepted:
            log.info("offset commit refused during a rebalance", partition=number, offset=offset)
        return accepted

    async def _supervise(self, partition: Partition, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:  # never by us: a library let one of its own escape
            cancelled = f"partition {partition.number}: a library cancelled the worker's task."
            self.fail(DeliveryError(f"{cancelled} Start the worker again; it continues from the last checkpoint."))
            raise
        except FencedError as error:
            partition.close()  # nothing more of it counts; the group, which has given it away, will revoke it here
            if partition.number not in self.taken_over:
                self.taken_over[partition.number] = TakenOver(time.monotonic(), error)
                _log_taken_over(partition.number, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be acknowledged after it
            if partition.number not in self.taken_over:  # else a checkpoint met what the takeover left half done
                self.fail(error)

    async def revoke(self, why: str) -> None:
        """Stop applying, take a last checkpoint of each partition, release them all. Call `raise_barrier` first.

        One call at a time: when the worker stops during a rebalance, the second call would close the changelogs that the
        first one still writes to.
        """
        async with self._revoking:
            released = await self._revoke(why)
        if not released:
            return
        gc.collect()  # the tasks of a partition and what they ended with refer to each other, and to its live states
        return_free_memory()

    async def _revoke(self, why: str) -> int:
        """Gives the number of partitions."""
        started = time.perf_counter()
        held, self.held = list(self.held.values()), {}
        for one in held:
            one.partition.close()
        await self._ended([task for one in held for task in one.tasks])
        if self.failed is None:
            ours = [one for one in held if one.partition.number not in self.taken_over]
            results = await self._ended([asyncio.ensure_future(one.checkpoints.finish(self.finish_within)) for one in ours])
            for one, result in zip(ours, results, strict=True):
                if isinstance(result, FencedError):
                    _log_taken_over(one.partition.number, result)
                elif isinstance(result, BaseException):
                    self.fail(result)
        await self._close_changelogs()
        self.fencing = False
        self.taken_over.clear()
        self.metrics.set_partitions({})
        if held:
            took = round(1e3 * (time.perf_counter() - started))
            log.info("partitions checkpointed and released", why=why, partitions=len(held), milliseconds=took)
        return len(held)

    async def _ended(self, work: "Sequence[asyncio.Future[Any]]") -> list[Any]:
        """The result or error of each. After a failure, what goes on is cancelled: it may wait for a topic that is gone."""
        failing = asyncio.ensure_future(self.failing.wait())
        try:
            while not failing.done() and (unfinished := [one for one in work if not one.done()]):
                await asyncio.wait({failing, *unfinished}, return_when=asyncio.FIRST_COMPLETED)
            if unfinished := [one for one in work if not one.done()]:
                await asyncio.wait(unfinished, timeout=FAILED_WITHIN)
        finally:
            for one in (failing, *work):
                one.cancel()
        return await asyncio.gather(*work, return_exceptions=True)

    async def _close_changelogs(self) -> None:
        changelogs, self._changelogs, self.prepared = list(self._changelogs.values()), {}, frozenset()
        await asyncio.gather(*[changelog.close() for changelog in changelogs], return_exceptions=True)

    def fail(self, error: BaseException) -> None:
        """Stop all partitions; the first failure is kept, and no checkpoint follows it."""
        if self.failed is None:
            self.failed = error
            self.raise_barrier()
            for held in self.held.values():
                held.partition.close()
            self.failing.set()

    def caught_up(self, ends: Mapping[int, int], fetched_to: Mapping[int, tuple[int, int]]) -> bool:
        """Whether every assigned partition has applied everything before its end.

        fetched_to: per partition the position of the next fetch and the offset after the last fetched record. Transaction
        markers and compacted records at an end move the position only.
        """
        for number, held in self.held.items():
            position, after_last = fetched_to.get(number, (0, 0))
            applied = held.partition.next
            if applied < ends.get(number, 0) and not (position >= ends[number] and applied >= after_last):
                return False
        return bool(self.held)


def _log_taken_over(number: int, error: FencedError) -> None:
    log.warning("partition taken over by another worker", partition=number, error=str(error))

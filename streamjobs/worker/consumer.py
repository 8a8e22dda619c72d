"""Faust's consumer made safe for rebalances: records go from the fetch to `Delivery`, and only checkpoints move offsets.

What Faust 0.15.3 and aiokafka 0.14.0 do that loses or repeats records here, and the answer to each:
- Faust forgets revoked partitions' applied but uncommitted offsets: `on_partitions_revoked` takes a checkpoint first.
- Records fetched before a seek arrive after it: epoch, barrier, and one lock for all fetches and seeks.
- Faust starts four tasks for each event and five for each fetch: no event is made, and its loop of fetches is replaced.
- `seek_to_committed` does not move a partition without a commit: its first offset is committed before.
- aiokafka takes an empty set of partitions for all of them: it is never passed on.
- `commit` may return without committing: `commit_exactly` calls the consumer itself.
- Faust asks aiokafka about partitions that another rebalance took meanwhile: `perform_seek` expects that.
- Faust stops the thread's queue of calls and then waits for a rebalance that calls the thread: `on_thread_stop`.
- In a rebalance while it stops, Faust closes the consumer's parts from the main thread, and the group is not left: `close`.
- Faust fixes `fetch_max_wait_ms` at 1,500: offset requests would wait behind an empty fetch on the same connection.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, KafkaTimeoutError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.threads import QueuedMethod

from streamjobs.core.state import snapshot
from streamjobs.errors import SetupError, SnapshotError, StreamjobsError
from streamjobs.kafka import groups, topic_id
from streamjobs.kafka.layout import Commit, growth, require_laid_out, require_same_count
from streamjobs.kafka.patches.batches import LeaderEpochs
from streamjobs.kafka.patches.connections import UnknownTopic
from streamjobs.kafka.preflight import learned_from, setting_of
from streamjobs.kafka.topic_id import progress_of
from streamjobs.worker.backpressure import MAX_RECORDS, Hold
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.failures import DeliveryError, RecordsReplaced
from streamjobs.worker.logs import (
    log_deleted,
    log_foreign_offset,
    log_new_settings,
    log_removed,
    log_stateless,
    log_uncommitted,
)
from streamjobs.worker.partition import FetchedRecords
from streamjobs.worker.recovery import learned_up_to

log = structlog.get_logger("streamjobs")

FETCH_BYTES = 16 << 20  # at most, of one fetch over all its partitions
NO_NODE = -1  # as the leader of a partition
WAIT = 0.25  # seconds one call waits for records, or for backpressure to end
ASK_AGAIN = 8  # times, WAIT apart, while a partition's new leader does not say what it has
LOOK_FOR = 20.0  # seconds, how far states have learned; well below the watchdog's two minutes
BARRIER_POLL = 0.02  # seconds between two looks at the barrier

OTHER_INPUT = (
    "job {0}: another worker of this name reads topic {1}, and this one reads {2}; both would write one changelog. "
    "Nothing is lost. Give each job its own [job] name."
)
NO_LEADER = (
    "topic {0}: cannot read its offsets ({1}); 'streamjobs check JOB --online' names a partition without a leader. Nothing "
    "is lost: a restart continues from the last checkpoint."
)


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread aiokafka's consumer lives in."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        self._hold = Hold(self.app.linger)
        self._hold.choose(consumer, 0, time.perf_counter())
        consumer._fetch_max_bytes = FETCH_BYTES
        consumer._max_poll_records = MAX_RECORDS
        consumer._isolation_level = "read_committed"  # a transactional input may hold aborted records
        return consumer

    async def _fetch_records(self, *arguments: Any, timeout: float, **named: Any) -> Any:
        began = time.perf_counter()
        fetched = await super()._fetch_records(*arguments, timeout=min(timeout, self._hold.patience), **named)
        records, since = sum(map(len, fetched.values())), max(began, self.app.delivery.turns.ended)
        self._hold.choose(self._consumer._fetcher, records, since)  # before aiokafka sends the next one
        return fetched

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        """Fetch without Faust's queue of calls."""
        promise, consumer = self.parent_loop.create_future(), self._ensure_consumer()
        named = {"timeout": timeout, "max_records": consumer._max_poll_records}
        call = QueuedMethod(promise, self._fetch_records, (consumer, active_partitions), named)
        self.thread_loop.call_soon_threadsafe(self._begin, call)
        return await promise

    def _begin(self, call: QueuedMethod) -> None:
        fetch = self.method_queue._process_enqueued(call)
        self._call = self.thread_loop.create_task(fetch)  # kept, or it might be collected

    async def on_start(self) -> None:
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        coordinator._coordination_task.add_done_callback(self._on_coordination_ended)

    async def on_thread_stop(self) -> None:
        """Stop the consumer before Faust's queue of calls: it waits for a callback under way, which calls this thread."""
        if self._consumer is not None:
            await self._consumer.stop()
        await super().on_thread_stop()

    def close(self) -> None:
        """`on_thread_stop` closes the consumer, in the thread that it lives in."""

    def _on_coordination_ended(self, task: "asyncio.Task[None]") -> None:
        """Fail the worker: without this task the consumer never joins its group again, and the worker would idle."""
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            error = DeliveryError(
                f"the consumer cannot take part in its group any more ({problem}). Start the worker again; it continues "
                "from the last checkpoint."
            )
            self.parent_loop.call_soon_threadsafe(self.app.delivery.fail, error)

    async def commit_exactly(self, offsets: Mapping[TP, int], progress: int = 0, moment: str = "") -> bool:
        """Commit these offsets; False when the group is rebalancing, other refusals raise. more: as in `partition.Cut`."""
        own, origin_of = self.app.delivery.origin, self.app.delivery.former.origin_of
        commits = {}
        for tp, offset in offsets.items():
            more = moment, LeaderEpochs.safe.get(tp), self.app.delivery.end_of_changelog(tp.partition)
            metadata = origin_of(tp.partition, own).metadata_of(offset, progress, *more)
            commits[TopicPartition(*tp)] = OffsetAndMetadata(offset, metadata)
        try:
            await self._ensure_consumer().commit(commits)
        except (CommitFailedError, IllegalStateError):
            return False
        return True

    async def commits_of_group(self, topic: str, partitions: Iterable[int]) -> dict[int, Commit]:
        """What the group has committed, also in partitions of other members."""
        wanted = [TopicPartition(topic, number) for number in partitions]
        found = await self._ensure_consumer()._coordinator.fetch_committed_offsets(wanted)
        return {tp.partition: Commit(one.offset, one.metadata or "") for tp, one in found.items() if one.offset >= 0}

    async def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `patches.epochs`."""
        from streamjobs.kafka.patches.epochs import ends_of_epochs

        return await ends_of_epochs(self._ensure_consumer()._client, epochs)

    async def without_leader(self, topics: Collection[str]) -> set[TP] | None:
        cluster = ClusterMetadata()
        if not await self._ensure_consumer()._client._metadata_update(cluster, topics):
            return None
        known = {TP(topic, number) for topic in topics for number in cluster.partitions_for_topic(topic) or ()}
        return {tp for tp in known if cluster.leader_for_partition(tp) == NO_NODE}

    async def pause_fetching(self, partitions: set[TP]) -> None:
        """Never fetch these assigned partitions here: the changelog's, which recovery reads with its own consumer."""
        consumer = self._ensure_consumer()
        held = consumer.assignment()
        consumer.pause(*[tp for tp in map(TopicPartition._make, partitions) if tp in held])


class Consumer(driver.Consumer):  # type: ignore[misc]
    """`app.delivery` holds epoch and barrier and takes the batches; `app.source` is the input topic."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._fetching = asyncio.Lock()  # no fetch is in flight across a seek
        self.fetched_to: dict[int, tuple[int, int]] = {}  # see `Delivery.caught_up`
        self._progress: dict[int, int] = {}  # of each partition: up to where outputs are out, see `worker.pace`
        self._expected: dict[TP, int] = {}  # the offset that each input partition's next record should have
        self._compacted: bool | None = None  # whether the input is; None: not asked yet
        self._removed: dict[TP, tuple[int, int]] = {}  # offsets without a record of a compacted input: all, and those logged
        super().__init__(*arguments, **named)

    @property
    def _delivery(self) -> Delivery:
        delivery: Delivery = self.app.delivery
        return delivery

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _source(self, partitions: Any) -> set[TP]:
        return {tp for tp in partitions if tp.topic == self.app.source}

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Still in the old generation of the group, so the checkpoints taken here count."""
        self._delivery.raise_barrier()
        await self._delivery.revoke("revoked")
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self._delivery.raise_barrier()
        if self._delivery.held:
            await self._delivery.revoke("assigned without having been revoked")
        others = assigned - self._source(assigned)
        if {tp.partition for tp in assigned - others} != {tp.partition for tp in others}:
            await self._require_one_input()
        await self._thread.call_thread(self._thread.pause_fetching, others)
        await super().on_partitions_assigned(assigned, generation_id)

    async def _require_one_input(self) -> None:
        """Fail if a member of the group reads another topic: both would get parts of one changelog and wait without end.

        The topic that states have learned from continues, else one with committed offsets, else the first by name: both
        workers decide alike, and one ends. Without a partition of the changelog the first ends too: a worker that has all of
        them continues without this question.
        """
        source, name, changelog = self.app.source, self.app.conf.id, self.app.changelog
        with suppress(KafkaError, StreamjobsError):  # of the questions: the next rebalance asks again
            group = await asyncio.to_thread(groups.described, self.app.client, name)
            held = [{tp.topic for tp in member} for member in group.members]
            others = set().union(*held) - {source, changelog}
            if not others:
                return
            commits = await asyncio.to_thread(groups.commits, self.app.client, name)
            begun = {place.topic for place in commits}  # perhaps with dead letters alone
            learned = {place.topic for place, one in commits.items() if topic_id.has_learned(*one)}
            if len(learned) > 1:  # the end that a commit names may be of an idle producer's marker, or of the other's states
                waiting = {place.topic for place, one in commits.items() if progress_of(*one) > one.offset}
                asked = self.app.broker_section, changelog, sorted(learned)
                learned = {await asyncio.to_thread(learned_from, *asked)} - {""} or waiting
            by_right = sorted({source, *others}, key=lambda topic: (topic not in learned, topic not in begun, topic))
            able = [topic for topic in by_right if any({topic, changelog} <= topics for topics in held)] or by_right
            if able[0] != source:
                self._delivery.fail(SetupError(OTHER_INPUT.format(name, able[0], source)))

    async def perform_seek(self) -> None:
        """Seek every input partition to its committed offset, start the partitions, and let fetching begin."""
        if not self.flow_active:
            return  # recovery seeks when it is done
        delivery = self._delivery
        if not delivery.barrier:  # a new epoch at each attempt would be progress to the watchdog
            delivery.raise_barrier()
        async with self._fetching:
            try:
                starts = await self._start_offsets()
            except SetupError as error:
                delivery.fail(error)
                return
            except KafkaTimeoutError as error:
                delivery.fail(DeliveryError(NO_LEADER.format(self.app.source, error)))
                return
            try:
                if starts:
                    await super().seek_wait(starts)
            except IllegalStateError as gone:  # another rebalance took a partition meanwhile: its recovery seeks again
                numbers = sorted(tp.partition for tp in starts)
                log.info("reassigned before the input could begin", partitions=numbers, why=str(gone))
                return
            self._expected = dict(starts)
            self.fetched_to.clear()
            for tp, offset in starts.items():
                self._committed_offset[tp] = offset
                self._read_offset[tp] = offset or None
            try:
                assigned = delivery.assign({tp.partition: offset for tp, offset in starts.items()}, self._progress)
            except StreamjobsError as error:  # the stored states are another job's
                delivery.fail(error)
                return
            if not assigned:
                return
            delivery.lower_barrier()
        log.info("ready", partitions=sorted(tp.partition for tp in starts))

    async def _start_offsets(self) -> dict[TP, int]:
        """The offset each input partition starts at. Commits the first offset where no commit is, or an earlier one.

        Raises SetupError when the topic is not the one the states have learned from: its id differs, or a committed offset
        lies beyond its end; or when it has grown and states have not moved.
        """
        thread, consumer = self._thread, self._thread._ensure_consumer()
        count: int = self.app.conf.topic_partitions
        commits = await thread.call_thread(thread.commits_of_group, self.app.source, range(count))
        numbers = [tp.partition for tp in self._source(self.assignment())]
        require_same_count(self.app.source, count, max(numbers, default=-1) + 1)
        if self._delivery.origin.time_unit:
            marks = [commit.metadata for commit in commits.values()]
            topic_id.decided_time_unit(self.app.source, marks, self._delivery.origin.time_unit)
        if not self.app.waiting:
            require_laid_out(self.app.source, growth(commits, count), count)
        partitions = sorted(tp for tp in self._source(self.assignment()) if tp.partition not in self.app.idle)
        if not partitions:
            return {}
        wanted = [TopicPartition(*tp) for tp in partitions]
        first = await thread.call_thread(consumer.beginning_offsets, wanted)
        ends = await thread.call_thread(consumer.end_offsets, wanted)
        epochs = {
            place: topic_id.epoch_of(commits[place.partition].metadata) for place in wanted if place.partition in commits
        }
        LeaderEpochs.safe = {place: epoch for place, epoch in epochs.items() if epoch is not None}
        kept = await thread.call_thread(thread.ends_of_epochs, LeaderEpochs.safe) if LeaderEpochs.safe else {}
        starts, until = dict[TP, int](), time.monotonic() + LOOK_FOR
        uncommitted: dict[TP, int] = {}
        overtaken: dict[TP, int] = {}  # by the first offset, because retention deleted records before it
        stateless: dict[int, int] = {}  # partitions with committed offsets and without states
        for tp, partition in zip(partitions, wanted, strict=True):
            topic_id.require_same_input(self.app.conf.id, self._delivery.origin, self._learned_from(tp.partition))
            committed, metadata = commits.get(tp.partition, (None, ""))
            self._progress[tp.partition] = progress_of(committed, metadata) if committed is not None else 0
            self._delivery.moments[tp.partition] = topic_id.clock_of(metadata)
            if committed is None:
                starts[tp] = uncommitted[tp] = first[partition]
                if self._delivery.store.scan(tp.partition, None, 1):
                    log_uncommitted(tp)
                continue
            upto = self._progress[tp.partition]
            if 0 <= kept.get(partition, -1) < upto:
                raise SetupError(topic_id.replaced_records(tp, kept[partition], upto))
            _require_within(tp, upto, ends[partition], metadata)
            if not metadata and (learned := await learned_up_to(self._delivery.store, until, *tp)) not in (0, committed):
                log_foreign_offset(tp, committed, learned)
            await self._require_states(tp.partition, topic_id.states_of(metadata))
            if self._has_nameless_states(tp.partition):
                topic_id.require_same_fields(tp, metadata, self._delivery.origin.fields)
            log_new_settings(tp, metadata, self._delivery.origin.settings, (committed, upto))
            self._delivery.former[tp.partition] = topic_id.sections_of(metadata) if committed < upto else ""
            if committed < first[partition]:
                self._count_deleted(tp, committed, first[partition])
                overtaken[tp] = first[partition]
                self._delivery.moments[tp.partition] = ""  # it is of a record that is gone
            if committed > first[partition] and self._delivery.store.reached(tp.partition) is None:
                stateless[tp.partition] = committed
            starts[tp] = max(committed, first[partition])
        if uncommitted:
            await thread.call_thread(thread.commit_exactly, uncommitted)
        for tp, offset in overtaken.items():  # R; without a new record no checkpoint would move it, and commands wait for it
            await thread.call_thread(thread.commit_exactly, {tp: offset}, self._progress[tp.partition])
        await self._log_stateless(stateless)
        return starts

    async def _require_states(self, number: int, written: int) -> None:
        """Raises SetupError if the changelog of a partition ends before `written`."""
        if self._delivery.end_of_changelog(number) < written:
            # Asked again: a rebalance may have closed the changelog since, or given it to a worker that has written.
            place = TopicPartition(self.app.changelog, number)
            end = (await self._thread.call_thread(self._thread._ensure_consumer().end_offsets, [place]))[place]
            if end < written:
                raise SetupError(topic_id.lost_states(place.topic, number, written, end))

    async def _log_stateless(self, committed: Mapping[int, int]) -> None:
        """Log these, unless the commit has the changelog's id: its records gave no states, such as dead letters."""
        known = await self.committed_changelogs(committed) if committed else {}
        for number, offset in committed.items():
            if not known.get(number):
                log_stateless(TP(self.app.source, number), offset)

    def _learned_from(self, partition: int) -> topic_id.Origin:
        """The input that the local store's states have learned from. Stores of older releases do not know its name."""
        store = self._delivery.store
        known = topic_id.Origin.of(store.marks(partition))
        if known.topic or known.input_id == self._delivery.origin.input_id:
            return known
        for _, data in store.scan(partition, None, 1):
            with suppress(SnapshotError):
                names = {topic for topic, _ in snapshot.decode(data).offsets}
                known = known._replace(topic=min(names, default=""))
        return known

    def _has_nameless_states(self, partition: int) -> bool:
        """Whether the first stored state has no names of fields, as old releases wrote it: it cannot refuse other fields."""
        for _, data in self._delivery.store.scan(partition, None, 1):
            with suppress(SnapshotError):
                return snapshot.FIELDS not in snapshot.described_by(data)
        return False

    async def committed_changelogs(self, partitions: Collection[int]) -> dict[int, str]:
        """The ids of the changelog that the group's offsets of these partitions were committed with, where known."""
        commits = await self._thread.call_thread(self._thread.commits_of_group, self.app.source, partitions)
        return {number: topic_id.changelog_of(commit.metadata) for number, commit in commits.items()}

    async def without_leader(self, topics: Collection[str]) -> set[TP] | None:
        """The partitions of these topics that have no leader now; None where no broker answers."""
        found: set[TP] | None = await self._thread.call_thread(self._thread.without_leader, topics)
        return found

    def rejoin(self) -> None:
        """Have the group distribute its partitions again, as after a member has come or gone."""
        coordinator = self._thread._ensure_consumer()._coordinator
        self._thread.thread_loop.call_soon_threadsafe(coordinator.request_rejoin)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        async with self._fetching:
            await super().seek_wait(partitions)

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetch until Faust stops it."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await self._wait_next_records(WAIT)
                await asyncio.sleep(0)
        except (asyncio.CancelledError, *self.consumer_stopped_errors):
            if not self.app.should_stop:
                raise

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, Any]:
        """Fetch, and offer the records of the input to `delivery`; no other topic is fetched."""
        delivery = self._delivery
        active = {tp for tp in self._source(active_partitions or ()) if tp.partition not in self.app.idle}
        if not active:
            await asyncio.sleep(WAIT)
            return {}
        if delivery.barrier:
            await asyncio.sleep(BARRIER_POLL)
            return {}
        if not delivery.backpressure.may_fetch.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(delivery.backpressure.may_fetch.wait(), WAIT)
            return {}
        async with self._fetching:
            if delivery.barrier:
                return {}
            epoch = delivery.epoch
            fetched: dict[TP, Any] = await super()._getmany(active, min(timeout, WAIT))
            for tp in active:  # positions do not move until the next fetch
                records, (_, before) = fetched.get(tp), self.fetched_to.get(tp.partition, (0, 0))
                position = self.position_of(tp.partition)
                self.fetched_to[tp.partition] = (position or 0, records[-1].offset + 1 if records else before)
            for tp, records in fetched.items():
                if records:
                    await self._require_read_records(tp, records[0].offset)
                await self._log_skipped(tp, records)
                if records:
                    delivery.offer(tp.partition, FetchedRecords(records, epoch))
            return fetched

    async def _require_read_records(self, tp: TP, begin: int) -> None:
        """Fail where the log lacks what was read before. Asked only behind a new leader, or where aiokafka went back."""
        epoch = int.from_bytes(LeaderEpochs.newest.get(tp, b"\xff"), "big", signed=True)
        expected, safe = self._expected.get(tp, 0), LeaderEpochs.safe.get(tp, -1)
        if epoch <= safe and begin >= expected:
            return
        place, end = TopicPartition(*tp), None
        for _ in range(ASK_AGAIN if safe >= 0 else 0):
            end = (await self._thread.call_thread(self._thread.ends_of_epochs, {place: safe})).get(place)
            if end is not None:
                break
            await asyncio.sleep(WAIT)
        if end is not None and 0 <= end < expected:
            return self._delivery.fail(RecordsReplaced(topic_id.replaced_records(tp, end, expected)))
        if epoch >= 0:
            LeaderEpochs.safe[tp] = max(epoch, safe)

    async def _log_skipped(self, tp: TP, records: list[Any]) -> None:
        """Log records that retention deleted before they were fetched: aiokafka continues with what is left, silently."""
        expected, begin = self._expected.get(tp), records[0].offset if records else 0
        if expected is not None and begin > expected:  # markers and compacted records leave gaps too: those are not deleted
            partition = TopicPartition(*tp)
            consumer = self._thread._ensure_consumer()
            first = (await self._thread.call_thread(consumer.beginning_offsets, [partition]))[partition]
            if first > expected:
                self._count_deleted(tp, expected, min(first, begin))
                expected = min(first, begin)
        if records:
            if expected is not None and begin < expected:  # aiokafka went back: the topic may have been recreated
                UnknownTopic.at = time.monotonic()
            elif expected is not None and (lacking := records[-1].offset + 1 - expected - len(records)) > 0:
                await self._log_removed(tp, lacking)
            self._expected[tp] = max(records[-1].offset + 1, self.position_of(tp.partition) or 0)

    async def _log_removed(self, tp: TP, offsets: int) -> None:
        """Log offsets without a record if the input is compacted: at first, and each time that they have doubled."""
        if self._compacted is None:
            policy = await asyncio.to_thread(setting_of, self.app.broker_section, tp.topic, "cleanup.policy")
            self._compacted = "compact" in (policy or "").split(",")
        if self._compacted:
            count, logged = self._removed.get(tp, (0, 0))
            count += offsets
            if count >= 2 * logged:
                log_removed(tp.topic, tp.partition, count)
                logged = count
            self._removed[tp] = count, logged

    def _count_deleted(self, tp: TP, begin: int, end: int) -> None:
        """Log records that were deleted. Those before P have outputs, and the states of some keys lack them from now on."""
        again = max(min(end, self._progress.get(tp.partition, 0)) - begin, 0)
        if again:
            self._delivery.metrics.count("replay_lost_records_total", again)
        self._delivery.metrics.count("records_deleted_total", end - begin - again)
        log_deleted(tp.topic, tp.partition, unlearned=again, unread=end - begin - again)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Replaces Faust's check of its own acknowledgements, which are not used here; /health checks ours."""

    async def commit_offset(self, partition: int, offset: int, progress: int, moment: str) -> bool:
        """Commit the next offset of an input partition; False when the group does not accept it."""
        tp = TP(self.app.source, partition)
        if tp not in self.assignment():
            return False
        accepted: bool = await self._thread.call_thread(self._thread.commit_exactly, {tp: offset}, progress, moment)
        if accepted:
            self._committed_offset[tp] = offset
        return accepted

    def _fetch_state(self, partition: int) -> Any:
        consumer = self._thread._consumer
        subscription = consumer._subscription.subscription if consumer is not None else None
        assignment = subscription.assignment if subscription is not None else None
        tp = TopicPartition(self.app.source, partition)
        return assignment.state_value(tp) if assignment is not None and tp in assignment.tps else None

    def position_of(self, partition: int) -> int | None:
        """The offset fetched next, None while unknown."""
        state = self._fetch_state(partition)
        return state._position if state is not None else None

    def end_of(self, partition: int) -> int | None:
        """The partition's end as the last fetch reported it, None while unknown.

        If everything before it has been fetched, it is the offset after the last record. Only markers of transactions or
        gaps of compaction follow, for which no commit comes.
        """
        state = self._fetch_state(partition)
        end: int | None = state.highwater if state is not None else None
        position, after_last = self.fetched_to.get(partition, (0, 0))
        return after_last if end is not None and position >= end else end


def _require_within(tp: TP, upto: int, end: int, metadata: str) -> None:
    """Raises SetupError for a committed offset behind the end of its partition. metadata: "" if another program set it."""
    if upto > end:
        how, back = ("", "") if metadata else (", or another program set the offset", ", set the offset back")
        raise SetupError(
            f"topic {tp.topic}[{tp.partition}]: this job has read up to offset {upto}, but the topic ends at {end}; it was "
            f"deleted or recreated{how}. Give the job a new [job] name{back}, or restore the topic."
        )


class Transport(driver.Transport):  # type: ignore[misc]
    """Faust makes its consumer and producer through this."""

    Consumer = Consumer

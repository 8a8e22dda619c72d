"""Faust's consumer made safe for rebalances: a batch of records is one event, and offsets move only by checkpoints.

Places that Faust 0.15.3 and aiokafka 0.14.0 get wrong for us, each answered here:
- revoked partitions' applied but uncommitted offsets are forgotten: made safe in `on_partitions_revoked` before;
- records fetched before a seek arrive after it: epoch and barrier, and one lock for all fetches and seeks;
- `getmany` seeks by itself while the flow is stopped: `perform_seek` returns at once then;
- `seek_to_committed` leaves a partition without a commit where it is: its beginning is committed first;
- an empty set of partitions means all of them to aiokafka: never passed on;
- `commit` may return without committing: ours goes to the consumer itself;
- `fetch_max_wait_ms` is fixed at 1,500: offset requests would wait behind an empty fetch on the same connection.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import structlog
from aiokafka.errors import CommitFailedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streamjobs.errors import SetupError
from streamjobs.kafka.topic_id import refuse_another
from streamjobs.worker.backpressure import MOST_RECORDS
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.partition import Records

log = structlog.get_logger("streamjobs")

FETCH_WAIT = 100  # milliseconds an empty fetch stays at the broker
FETCH_BYTES = 16 << 20  # most of one fetch, over all its partitions
WAIT = 0.25  # seconds one call waits for records, and fetching waits for room


def _tell_deleted(tp: TP, records: int) -> None:
    log.warning("records were deleted before this job read them", topic=tp.topic, partition=tp.partition, records=records)


class Batch(NamedTuple):
    """Looks like a ConsumerRecord to Faust; its value are the records, its offset the last one's."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[()]
    key: None
    value: Records
    checksum: None = None
    serialized_key_size: int = 0
    serialized_value_size: int = 0


class Thread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread aiokafka's consumer lives in."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT
        consumer._fetch_max_bytes = FETCH_BYTES
        consumer._max_poll_records = MOST_RECORDS
        consumer._isolation_level = "read_committed"  # of a transactional input only what counts
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        coordinator._coordination_task.add_done_callback(self._coordination_ended)

    def _coordination_ended(self, task: "asyncio.Task[None]") -> None:
        """Without its routine the consumer never joins its group again: a worker that idles."""
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            error = DeliveryError(
                f"the consumer cannot take part in its group any more ({problem}); start the worker again."
            )
            self.parent_loop.call_soon_threadsafe(self.app.delivery.fail, error)

    async def commit_exactly(self, offsets: Mapping[TP, int]) -> bool:
        """False when the group is rebalancing; other refusals raise."""
        try:
            await self._ensure_consumer().commit(
                {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
            )
        except (CommitFailedError, IllegalStateError):
            return False
        return True

    async def leave_out(self, partitions: set[TP]) -> None:
        """Assigned, and never to be fetched here: the changelog, which recovery reads with a consumer of its own."""
        consumer = self._ensure_consumer()
        held = consumer.assignment()
        consumer.pause(*[tp for tp in map(TopicPartition._make, partitions) if tp in held])


class Consumer(driver.Consumer):  # type: ignore[misc]
    """`app.delivery` holds epoch and barrier and takes the batches; `app.source` is the input topic."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._fetching = asyncio.Lock()  # no fetch is in flight across a seek
        self.passing = False  # whether `passed` is kept, see `Delivery.finished`
        self.passed: dict[int, tuple[int, int]] = {}
        self._due: dict[TP, int] = {}  # the offset each input partition is to go on with
        super().__init__(*arguments, **named)

    @property
    def _delivery(self) -> Delivery:
        delivery: Delivery = self.app.delivery
        return delivery

    def _new_consumer_thread(self) -> Thread:
        return Thread(self, loop=self.loop, beacon=self.beacon)

    def _source(self, partitions: Any) -> set[TP]:
        return {tp for tp in partitions if tp.topic == self.app.source}

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Still under the old generation: what is made safe here counts."""
        self._delivery.bar()
        await self._delivery.revoke("revoked")
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self._delivery.bar()
        if self._delivery.held:
            await self._delivery.revoke("assigned without having been revoked")
        await self._thread.call_thread(self._thread.leave_out, assigned - self._source(assigned))
        await super().on_partitions_assigned(assigned, generation_id)

    async def perform_seek(self) -> None:
        """Seek every input partition to its committed offset, take the partitions on, and let fetching begin."""
        if not self.flow_active:
            return  # recovery seeks when it is done
        delivery = self._delivery
        delivery.bar()
        async with self._fetching:
            try:
                at = await self._places()
            except SetupError as error:
                delivery.fail(error)
                return
            if at:
                await super().seek_wait(at)
            self._due = dict(at)
            self.passed.clear()
            for tp, offset in at.items():
                self._committed_offset[tp] = offset
                self._read_offset[tp] = offset or None
            if not delivery.assign({tp.partition: offset for tp, offset in at.items()}):
                return
            delivery.unbar()
        log.info("ready", partitions=sorted(tp.partition for tp in at))

    async def _places(self) -> dict[TP, int]:
        """Where each input partition goes on; one without a commit gets its beginning committed.

        Raises SetupError when a committed offset lies beyond the end: the topic is not the one it was.
        """
        thread, consumer = self._thread, self._thread._ensure_consumer()
        partitions = sorted(self._source(self.assignment()))
        if not partitions:
            return {}
        wanted = [TopicPartition(*tp) for tp in partitions]
        first = await thread.call_thread(consumer.beginning_offsets, wanted)
        ends = await thread.call_thread(consumer.end_offsets, wanted)
        at: dict[TP, int] = {}
        unknown: dict[TP, int] = {}
        for tp, partition in zip(partitions, wanted, strict=True):
            known = self._delivery.store.source(tp.partition)
            refuse_another(tp.topic, known, self._delivery.input_id)
            committed = await thread.call_thread(consumer.committed, partition)
            if committed is None:
                at[tp] = unknown[tp] = first[partition]
                if self._delivery.store.reached(tp.partition) is not None:
                    log.warning(
                        "no committed offset, but states: reading from the beginning, what a key has applied is skipped; "
                        "if the input was made anew, 'state forget-offsets' first",
                        topic=tp.topic,
                        partition=tp.partition,
                    )
                continue
            if committed > ends[partition]:
                raise SetupError(
                    f"topic {tp.topic}[{tp.partition}]: this job has read up to offset {committed}, but the topic ends at "
                    f"{ends[partition]}; it was deleted or made anew. Give the job a new [job] name, or restore the topic."
                )
            if committed < first[partition]:
                _tell_deleted(tp, first[partition] - committed)
            at[tp] = max(committed, first[partition])
        if unknown:
            await thread.call_thread(thread.commit_exactly, unknown)
        return at

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        async with self._fetching:
            await super().seek_wait(partitions)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, Any]:
        delivery = self._delivery
        active = set(active_partitions or ())  # a copy: it is the consumer's own set
        source = self._source(active)
        if source and (delivery.barrier or not delivery.room.free.is_set()):
            active -= source
            if not active:
                await self._hold()
                return {}
        async with self._fetching:
            if not active or (delivery.barrier and self._source(active)):
                return {}
            epoch = delivery.epoch
            fetched = await super()._getmany(active, min(timeout, WAIT))
            if self.passing:
                self._note(self._source(active), fetched)
            for tp in self._source(fetched):
                await self._missed(tp, fetched[tp])
        return {tp: self._batched(tp, records, epoch) for tp, records in fetched.items() if records}

    def _note(self, source: set[TP], fetched: Mapping[TP, Any]) -> None:
        """How far fetching has come; positions stand still until the next fetch."""
        for tp in source:
            records, (_, before) = fetched.get(tp), self.passed.get(tp.partition, (0, 0))
            position = self.position_of(tp.partition)
            self.passed[tp.partition] = (position or 0, records[-1].offset + 1 if records else before)

    async def _missed(self, tp: TP, records: list[Any]) -> None:
        """Says what the topic has deleted before it was fetched here: aiokafka goes on with what is left, silently."""
        due, begin = self._due.get(tp), records[0].offset if records else 0
        if due is not None and begin > due:  # or a marker, or compacted records: those are no loss
            partition = TopicPartition(*tp)
            consumer = self._thread._ensure_consumer()
            first = (await self._thread.call_thread(consumer.beginning_offsets, [partition]))[partition]
            if first > due:
                _tell_deleted(tp, min(first, begin) - due)
        if records:
            self._due[tp] = max(records[-1].offset + 1, self.position_of(tp.partition) or 0)

    async def _hold(self) -> None:
        if self._delivery.barrier:
            await asyncio.sleep(0.02)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._delivery.room.free.wait(), WAIT)

    def _batched(self, tp: TP, records: list[Any], epoch: int) -> list[Any]:
        if tp.topic != self.app.source:
            return records
        batch, last = Records(records, epoch), records[-1]
        return [Batch(last.topic, last.partition, last.offset, last.timestamp, 0, (), None, batch)]

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """A batch is one event: the offsets in between are no gaps, and Faust's books of them would only grow."""
        if tp.topic != self.app.source:
            await super()._add_gap(tp, offset_from, offset_to)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's watch over its own acknowledgements, which are not used here; /health watches ours."""

    async def commit_offset(self, partition: int, offset: int) -> bool:
        """Whether the group took the next offset of an input partition."""
        tp = TP(self.app.source, partition)
        if tp not in self.assignment():
            return False
        taken: bool = await self._thread.call_thread(self._thread.commit_exactly, {tp: offset})
        if taken:
            self._committed_offset[tp] = offset
        return taken

    def _state(self, partition: int) -> Any:
        consumer = self._thread._consumer
        subscription = consumer._subscription.subscription if consumer is not None else None
        assignment = subscription.assignment if subscription is not None else None
        tp = TopicPartition(self.app.source, partition)
        return assignment.state_value(tp) if assignment is not None and tp in assignment.tps else None

    def position_of(self, partition: int) -> int | None:
        """The offset fetched next, None while unknown."""
        state = self._state(partition)
        return state._position if state is not None else None

    def end_of(self, partition: int) -> int | None:
        """The partition's end as the last fetch told, None while unknown."""
        state = self._state(partition)
        return state.highwater if state is not None else None


class Transport(driver.Transport):  # type: ignore[misc]
    """Faust makes its consumer and producer through this."""

    Consumer = Consumer

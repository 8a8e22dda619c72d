"""Fetched batches, epochs, bounds, failures: what reaches a partition and what is dropped."""

import asyncio
import weakref

import pytest
from aiokafka.errors import KafkaError

from streamjobs.errors import SnapshotError
from streamjobs.worker import delivery as delivery_module
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.failures import DeliveryError, FencedError, failure_line, reason
from tests.worker.fake_core import fold, hash_core
from tests.worker.fakes import FakeChangelog, Worker, stream, until


def test_what_queued_up_is_applied_in_one_call_and_in_order():
    calls = []
    core = hash_core("in")

    def advance(job, live, records):
        calls.append([record.offset for record in records])
        return core.advance(job, live, records)

    async def body():
        worker = Worker(core=core._replace(advance=advance))
        await worker.begin(0)
        for part in range(0, 50, 10):
            worker.fetch(0, stream(10, first=part))
        await worker.settle()

    asyncio.run(body())
    assert calls == [list(range(50))]


def test_a_batch_of_an_older_epoch_is_dropped():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        before = delivery.epoch
        delivery.raise_barrier()
        worker.fetch(0, stream(10), epoch=before)
        meanwhile = delivery.epoch
        delivery.lower_barrier()
        worker.fetch(0, stream(10), epoch=meanwhile)
        await worker.settle()
        assert delivery.dropped == 2 and delivery.partitions[0].next == 0
        worker.fetch(0, stream(10))
        await worker.settle()
        assert delivery.partitions[0].next == 10

    asyncio.run(body())


def test_a_batch_of_a_revoked_partition_is_dropped():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        epoch = delivery.epoch
        delivery.raise_barrier()
        await delivery.revoke("rebalance")
        worker.fetch(0, stream(10), epoch=epoch)
        assert delivery.dropped == 1 and worker.broker.topics == []

    asyncio.run(body())


def test_a_revoke_frees_the_live_states_before_it_returns_free_memory(monkeypatch):
    alive = []

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.fetch(0, stream(10))
        await worker.settle()
        live = weakref.ref(delivery.partitions[0].live)
        monkeypatch.setattr(delivery_module, "return_free_memory", lambda: alive.append(live() is not None))
        delivery.raise_barrier()
        await delivery.revoke("rebalance")

    asyncio.run(body())
    assert alive == [False]


def test_stopping_during_a_rebalance_waits_for_its_last_checkpoints():
    """The second revocation finds nothing to checkpoint, and must not close the changelogs that the first one writes to."""

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        (changelog,) = worker.kafka.opened
        write, may_write = changelog.write, asyncio.Event()

        async def slow(snapshots):
            await may_write.wait()
            assert not changelog.closed, "closed in the middle of its last write"
            return await write(snapshots)

        changelog.write = slow
        worker.fetch(0, stream(10))
        await worker.settle(0)
        delivery.raise_barrier()
        first = asyncio.ensure_future(delivery.revoke("revoked"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(delivery.revoke("stop"))
        await asyncio.sleep(0.05)
        may_write.set()
        await asyncio.gather(first, second)
        assert worker.broker.committed == {0: 10} and changelog.closed

    asyncio.run(body())


def test_revoking_checkpoints_the_applied_and_drops_the_queued():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        worker.fetch(0, stream(10))
        await worker.settle(0)
        worker.fetch(0, stream(10, first=10))
        delivery.raise_barrier()
        await delivery.revoke("rebalance")
        assert worker.broker.committed == {0: 10}
        assert delivery.backpressure.queued == 0 and delivery.backpressure.queued_bytes == 0
        assert all(changelog.closed for changelog in worker.kafka.opened)

    asyncio.run(body())


def test_the_changelog_is_fenced_before_a_partition_starts():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        assert [changelog.opened for changelog in worker.kafka.opened] == [True, True]
        assert set(delivery.held) == {0, 1}

    asyncio.run(body())


def test_partitions_reassigned_before_recovery_finished_are_not_started():
    """A second rebalance during the recovery of the first: the changelogs are closed, or another assignment's."""

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.store.write(0, [(b"k0", b"state")], 7)
        delivery.raise_barrier()
        await delivery.revoke("revoked")
        assert not delivery.assign({0: 0}) and delivery.held == {}
        before = await delivery.fence([1])
        fenced = await delivery.fence([1])
        delivery.mark_restored(before)
        assert not delivery.assign({1: 0}) and delivery.held == {}, "its store is not restored"
        delivery.mark_restored(fenced)
        assert delivery.assign({1: 0}) and set(delivery.held) == {1}
        assert worker.store.reached(0) is None, "what was written there since is not in memory"
        delivery.stopping = True
        assert not delivery.assign({1: 0}), "the worker is stopping"
        await delivery.revoke("stop")

    asyncio.run(body())


def test_no_changelog_is_opened_after_a_fence_that_failed():
    """The next attempt opens it again, and a late one would fence that."""

    async def body():
        worker, opened = Worker(), list[int]()

        class Slow(FakeChangelog):
            async def open(self) -> None:
                await asyncio.sleep(0.02 * self.partition)
                if not self.partition:
                    raise DeliveryError("no answer")
                opened.append(self.partition)

        worker.kafka.changelog = lambda number: Slow(worker.broker, number)
        delivery = await worker.begin()
        with pytest.raises(DeliveryError, match="no answer"):
            await delivery.fence([0, 1])
        await asyncio.sleep(0.05)
        assert not opened and delivery.fencing
        await delivery.revoke("revoked")
        assert not delivery.fencing
        await delivery.fence([])  # a spare worker, or one whose partitions all wait for a leader
        assert delivery.fencing
        await delivery.revoke("revoked")
        assert not delivery.fencing

    asyncio.run(body())


def test_too_many_unacknowledged_outputs_stop_fetching_until_they_are_acknowledged():
    async def body():
        backpressure = Backpressure(max_records=50)
        worker = Worker(backpressure=backpressure)
        await worker.begin(0)
        worker.kafka.out.hold = True
        worker.fetch(0, stream(60))
        await worker.settle()
        assert not backpressure.may_fetch.is_set() and backpressure.unacknowledged == 60 and backpressure.queued == 0
        worker.kafka.out.release()
        await asyncio.sleep(0)
        assert (
            backpressure.may_fetch.is_set() and backpressure.unacknowledged == 0 and backpressure.unacknowledged_bytes == 0
        )

    asyncio.run(body())


@pytest.mark.parametrize(("records", "size"), [(51, 1), (1, 1001)])
def test_too_much_queued_stops_fetching(records, size):
    async def body():
        backpressure = Backpressure(max_records=50, max_bytes=1000)
        backpressure.add_queued(records, size)
        held = not backpressure.may_fetch.is_set()
        backpressure.add_queued(-records, -size)
        assert held and backpressure.may_fetch.is_set()

    asyncio.run(body())


def test_applying_waits_for_a_checkpoint_that_is_overdue():
    async def body():
        worker = Worker(checkpoint_records=10)
        delivery = await worker.begin(0)
        worker.kafka.out.hold = True  # the checkpoint cannot finish
        for first in range(0, 100, 10):
            worker.fetch(0, stream(10, first=first))
            for _ in range(20):
                await asyncio.sleep(0)
        applied = delivery.partitions[0].next
        assert applied < 100
        worker.kafka.out.hold = False
        worker.kafka.out.release()
        for _ in range(2000):
            await asyncio.sleep(0.001)
            if delivery.partitions[0].next == 100:
                break
        assert delivery.partitions[0].next == 100

    asyncio.run(body())


def test_after_a_failure_nothing_more_is_acknowledged():
    core = hash_core("in")

    def advance(job, live, records):
        result = core.advance(job, live, records)
        if records[-1].offset >= 20:
            raise SnapshotError("stored bytes are damaged")
        return result

    async def body():
        worker = Worker(core=core._replace(advance=advance))
        delivery = await worker.begin(0)
        worker.fetch(0, stream(10))
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        steps = len(worker.broker.steps)
        worker.fetch(0, stream(20, first=10))
        await asyncio.wait_for(delivery.failing.wait(), 5)
        assert isinstance(delivery.failed, SnapshotError)
        with pytest.raises(RuntimeError, match="were not sent"):
            await delivery.held[0].checkpoints.take()
        delivery.raise_barrier()
        await delivery.revoke("stop")
        assert len(worker.broker.steps) == steps and worker.broker.committed == {0: 10}

    asyncio.run(body())


def test_no_checkpoint_follows_a_failure_elsewhere():
    """Such as of the consumer, because the broker has lost records that were read: all partitions could be written."""

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.fetch(0, stream(10))
        await worker.settle()
        delivery.fail(DeliveryError("other records are at these offsets"))
        await delivery.revoke("stop")
        assert worker.broker.steps == [] and worker.broker.committed == {}

    asyncio.run(body())


@pytest.mark.parametrize(("exactly_once", "sent"), [(False, 10), (True, 0)], ids=["at_least_once", "exactly_once"])
def test_a_partition_taken_over_by_another_worker_is_released_without_ending_the_worker(exactly_once, sent):
    async def body():
        worker = Worker(exactly_once=exactly_once)
        worker.kafka.changelog_error = FencedError("taken over")
        delivery = await worker.begin(0)
        worker.fetch(0, stream(10))
        await worker.settle()
        delivery.raise_barrier()
        await delivery.revoke("revoked")
        assert delivery.failed is None and worker.broker.committed == {} and len(worker.broker.topics) == sent

    asyncio.run(body())


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
def test_a_partition_taken_over_at_work_is_released_and_the_others_go_on(exactly_once):
    """Another worker writes there before the group has told this one: nothing of it is applied or acknowledged any more."""

    async def body():
        worker = Worker(exactly_once=exactly_once, checkpoint_records=10)
        delivery = await worker.begin(0, 1)
        worker.kafka.opened[0].error = FencedError("taken over")
        for number in (0, 1):
            worker.fetch(number, stream(10, partition=number))
            await worker.settle(number)
        await asyncio.wait_for(until(lambda: delivery.taken_over and worker.broker.committed), 5)
        worker.fetch(0, stream(10, first=10))
        await worker.settle()
        assert list(delivery.taken_over) == [0] and worker.broker.committed == {1: 10} and delivery.failed is None
        assert delivery.partitions[0].next == 10 and delivery.backpressure.queued == 0
        delivery.raise_barrier()
        await delivery.revoke("revoked")
        assert delivery.failed is None and not delivery.taken_over and worker.broker.committed == {1: 10}

    asyncio.run(body())


def test_a_partition_taken_over_during_its_last_checkpoint_is_released():
    """The checkpoint has begun before the group takes the partition away, and is refused after it."""

    async def body():
        worker = Worker(checkpoint_records=10)
        delivery = await worker.begin(0)
        (changelog,), refused = worker.kafka.opened, asyncio.Event()

        async def write(snapshots):
            await refused.wait()
            raise FencedError("taken over")

        changelog.write = write
        worker.fetch(0, stream(10))
        await worker.settle()
        await asyncio.sleep(0.01)
        delivery.raise_barrier()
        letting_go = asyncio.ensure_future(delivery.revoke("revoked"))
        await asyncio.sleep(0)
        refused.set()
        await letting_go
        assert delivery.failed is None and worker.broker.committed == {}

    asyncio.run(body())


def test_a_tail_without_records_counts_as_caught_up():
    """Offsets of transaction markers and compacted records never come as records."""

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        assert not delivery.caught_up({0: 12}, {0: (12, 10)})  # fetched, and still on the way
        worker.fetch(0, stream(10))
        await worker.settle()
        assert delivery.caught_up({0: 10}, {})
        assert not delivery.caught_up({0: 12}, {0: (10, 10)})
        assert delivery.caught_up({0: 12}, {0: (12, 10)})

    asyncio.run(body())


def test_bad_records_become_dead_letters_before_the_offset_moves():
    records = [record._replace(value=b"bad") if record.offset % 3 == 0 else record for record in stream(9, keys=2)]

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.fetch(0, records)
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        letters = [answer for answer in worker.broker.topics if answer.topic == "in.dlq"]
        assert [letter.value for letter in letters] == [b"bad"] * 3 and worker.broker.committed == {0: 9}
        text = worker.delivery.metrics
        made = text.registry.get_sample_value("streamjobs_records_dead_lettered_total", {"reason": "malformed"})
        assert made == 3

    asyncio.run(body())


def test_work_cancelled_by_a_library_is_a_failure_and_not_an_idle_worker():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        await asyncio.sleep(0)  # it has begun
        delivery.held[0].tasks[0].cancel()
        await asyncio.wait_for(delivery.failing.wait(), 5)
        assert isinstance(delivery.failed, DeliveryError)

    asyncio.run(body())


def test_the_line_of_an_unexpected_failure_tells_the_place_and_not_what_a_record_held():
    try:
        float("98765-secret")
    except ValueError as error:
        line = failure_line(error)
    assert "ValueError at test_delivery.py:" in line and "secret" not in line and "\n" not in line


def test_what_a_client_library_calls_unexpected_is_reported_with_what_it_was():
    try:
        try:
            {}["98765-secret"]
        except KeyError as unforeseen:
            raise KafkaError("Unexpected error during batch delivery") from unforeseen
    except KafkaError as error:
        text = reason(error)
    assert text.startswith("KafkaError: Unexpected error during batch delivery, on KeyError at test_delivery.py:")
    assert "secret" not in text and reason(KafkaError("as it is")) == "KafkaError: as it is"


def test_the_hash_state_tells_a_swap_from_an_order():
    one, other = [-1, 0, 0], [-1, 0, 0]
    for seq in (1, 2):
        fold(one, seq)
    for seq in (2, 1):
        fold(other, seq)
    assert one != other


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_dead_letter_is_sent_and_counted_once_where_the_consumer_goes_back(exactly_once):
    """No key knows the offset of a dead letter; records wait in the queue when it goes back."""
    records = [record._replace(value=b"bad") if record.offset % 3 == 0 else record for record in stream(60)]

    async def body():
        worker = Worker(exactly_once=exactly_once)
        delivery = await worker.begin(0)
        worker.fetch(0, records[:20])
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        worker.fetch(0, records[20:40])
        assert delivery.assign(worker.broker.committed)
        worker.fetch(0, records[20:30])
        worker.fetch(0, records[30:])
        worker.fetch(0, records[10:15])
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        offsets = [int(dict(answer.headers)["streamjobs-id"].split(b"-")[2]) for answer in worker.broker.topics]
        assert sorted(offsets) == list(range(60)) and worker.broker.committed == {0: 60}
        assert delivery.metrics.taken.dead_lettered.total() == 20 and delivery.metrics.taken.records == 60
        assert delivery.backpressure.queued == 0

    asyncio.run(body())

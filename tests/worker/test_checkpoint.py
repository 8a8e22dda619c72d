"""The order of a checkpoint, and what a crash between any two of its steps leaves behind."""

import asyncio
import math
from types import SimpleNamespace

import pytest

from streamjobs.kafka.topic_id import Origin
from streamjobs.worker import checkpoint
from streamjobs.worker import partition as module
from streamjobs.worker.checkpoint import Checkpoints, FormerSections
from streamjobs.worker.failures import DeliveryError, FencedError
from streamjobs.worker.partition import Partition
from streamjobs.worker.store import MemoryStore
from tests.worker.fake_core import hash_core
from tests.worker.fakes import Broker, Worker, crashed_at, stream, until
from tests.worker.outcome import check

ORDER = ["before changelog", "after changelog", "before store", "after store", "before commit", "after commit"]


def test_a_checkpoint_writes_changelog_store_and_offset_in_this_order():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.fetch(0, stream(20))
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        assert worker.broker.steps == ORDER
        assert worker.broker.committed == {0: 20}

    asyncio.run(body())


def test_nothing_is_written_before_the_outputs_are_acknowledged():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.kafka.out.hold = True
        worker.fetch(0, stream(20))
        await worker.settle()
        taking = asyncio.ensure_future(delivery.held[0].checkpoints.take())
        for _ in range(20):
            await asyncio.sleep(0)
        assert worker.broker.steps == [] and not taking.done()
        worker.kafka.out.release()
        assert await taking and worker.broker.committed == {0: 20}

    asyncio.run(body())


@pytest.mark.parametrize("wiped", [False, True], ids=["disk kept", "disk wiped"])
@pytest.mark.parametrize("step", [*ORDER, "outputs"])
def test_a_crash_between_any_two_steps_loses_and_repeats_nothing_in_the_states(step, wiped):
    records = stream(60, keys=7)

    async def first_life(broker, store):
        worker = Worker(broker, store=store)
        await crashed_at(worker, records, step)
        return worker.store

    async def second_life(broker, store):
        worker = Worker(broker, store=store)
        await worker.begin(0)
        worker.fetch(0, records[broker.committed[0] :])
        await worker.settle()
        worker.delivery.raise_barrier()
        await worker.delivery.revoke("test")
        assert worker.delivery.failed is None

    broker = Broker()
    store = asyncio.run(first_life(broker, None))
    assert broker.committed[0] == (45 if step == "after commit" else 20)
    asyncio.run(second_life(broker, MemoryStore() if wiped else store))
    assert broker.committed == {0: 60}
    check(broker, records)


def test_a_refused_output_stops_the_partition_before_anything_else_is_written():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.kafka.out.refuse = RuntimeError("no right to write")
        worker.fetch(0, stream(20))
        await asyncio.wait_for(delivery.failing.wait(), 5)  # at once, not at the next checkpoint's time
        assert isinstance(delivery.failed, DeliveryError)
        assert "in.predictions[0]" in str(delivery.failed)
        delivery.raise_barrier()
        await delivery.revoke("stop")
        assert worker.broker.steps == [] and worker.broker.committed == {}

    asyncio.run(body())


def test_a_fenced_changelog_leaves_store_and_offset_untouched():
    async def body():
        worker = Worker()
        worker.kafka.changelog_error = FencedError("taken over")
        delivery = await worker.begin(0)
        worker.fetch(0, stream(20))
        await worker.settle()
        delivery.held[0].partition.due.set()
        await asyncio.wait_for(until(lambda: delivery.taken_over), 5)
        delivery.raise_barrier()
        await delivery.revoke("revoked")
        assert worker.broker.steps == ["before changelog"] and delivery.failed is None
        assert worker.store.reached(0) is None and worker.broker.committed == {}

    asyncio.run(body())


def test_an_offset_the_group_did_not_take_is_read_again_without_training_twice():
    records = stream(40)

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.kafka.takes = False
        worker.fetch(0, records)
        await worker.settle()
        assert not await delivery.held[0].checkpoints.take()
        delivery.raise_barrier()
        await delivery.revoke("rebalanced")
        worker.kafka.takes = True
        await worker.begin(0)
        worker.fetch(0, records)
        await worker.settle()
        delivery.raise_barrier()
        await delivery.revoke("stop")
        assert worker.broker.committed == {0: 40}
        check(worker.broker, records)
        assert len(worker.broker.topics) == 40  # the second time all were skipped

    asyncio.run(body())


@pytest.mark.parametrize("bound", ["checkpoint_records", "checkpoint_bytes"])
def test_a_checkpoint_comes_as_soon_as_there_is_enough_to_store(bound):
    async def body():
        worker = Worker(**{bound: 10 if bound == "checkpoint_records" else 5 * 1024})
        await worker.begin(0)
        worker.fetch(0, stream(12))
        for _ in range(1000):
            await asyncio.sleep(0.001)
            if worker.broker.committed:
                break
        assert worker.broker.committed == {0: 12}

    asyncio.run(body())


def test_checkpoints_in_quick_succession_read_stored_keys_that_are_in_alarm_once_a_second(monkeypatch):
    """Else the reading would take a quarter of each 75 ms."""
    steps, times = [], iter([5.0, 5.01, 5.03, 5.075, 5.8, 6.0, 6.03])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    partition = object.__new__(Partition)
    partition._read_open_at, partition.closing = -math.inf, False
    partition.reading = iter(lambda: steps.append(1) or True, None)
    counts = []
    for _ in range(4):
        partition._read_open()
        counts.append(len(steps))
    assert counts == [2, 2, 2, 3]


def test_a_state_that_leaves_memory_while_it_is_being_stored_is_not_read_from_before():
    """Between cut and store a clean key may be evicted; the store still has its older snapshot."""

    async def body():
        worker = Worker(core=hash_core("in", most_keys=1))
        delivery = await worker.begin(0)
        worker.fetch(0, stream(3, keys=1))
        await worker.settle()
        partition = delivery.held[0].partition
        cut = await partition.cut()
        worker.fetch(0, stream(1, first=3))  # another key: evicts the first, which is clean now
        await worker.settle()
        assert b"k0" not in partition.live.states
        worker.fetch(0, stream(1, keys=1, first=4))
        await worker.settle()
        assert partition.live.states[b"k0"][1] == 4 and cut is not None

    asyncio.run(body())


@pytest.mark.parametrize(
    ("backlog", "due", "taken_at"),
    [
        (lambda now: False, (), [0.1, 0.2, 0.3, 0.4, 0.5]),
        (lambda now: True, (), [1.0, 2.03]),
        (lambda now: now < 0.25, (), [0.3, 0.4, 0.5]),  # as soon as it is gone
        (lambda now: True, (0.4, 0.7), [0.4, 0.7, 1.73]),  # its records or bytes ask for one
    ],
)
def test_checkpoints_of_a_backlog_are_a_second_apart_unless_one_is_due(monkeypatch, backlog, due, taken_at):
    clock, taken = [0.0], []

    async def wait_for(waiting, seconds):
        waiting.close()
        clock[0] = round(clock[0] + max(seconds, 0.001), 3)
        partition.has_backlog = backlog(clock[0])
        if clock[0] not in due:
            raise TimeoutError
        partition.due.set()

    async def take():
        partition.due.clear()
        taken.append(clock[0])
        clock[0] += 0.03  # so long does it take: it belongs to the time between two
        partition.closing = len(taken) == len(taken_at)

    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(checkpoint, "asyncio", SimpleNamespace(wait_for=wait_for, Lock=asyncio.Lock))
    partition = SimpleNamespace(number=0, closing=False, due=asyncio.Event(), has_backlog=False)
    checkpoints = Checkpoints(partition, outbox=None, changelog=None, store=None, commit_offset=None)
    checkpoints.take = take
    asyncio.run(checkpoints.run(every=0.1))
    assert taken == pytest.approx(taken_at, abs=0.0015)


def test_a_partition_has_a_backlog_while_another_large_call_waits():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        partition = delivery.held[0].partition
        async with partition.lock:
            worker.fetch(0, stream(499))
            assert not partition.has_backlog
            worker.fetch(0, stream(520)[499:])
            assert partition.has_backlog
        await worker.settle()
        assert not partition.has_backlog

    asyncio.run(body())


def test_the_sections_of_a_former_job_are_forgotten_where_none_was_added():
    """Else a section that is removed and added again would count as never removed, and its alarms in between be lost."""
    former, changelog = FormerSections({0: "stuck.1,bouts.2", 1: ""}), SimpleNamespace(origin=Origin())
    present = Origin(sections="stuck.1")
    assert former.job_before(0, None, changelog, present) is None
    assert former.origin_of(0, present) == present and changelog.origin == Origin()

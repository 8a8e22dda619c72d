"""How long a partition keeps the event loop, and who gets it next: other partitions, and the checkpoint that waits."""

import asyncio
import time

from streamjobs.worker import backpressure as turns_module
from streamjobs.worker import partition as partition_module
from streamjobs.worker.partition import FIRST_SLICE, LEAST_SLICE, SLICE
from tests.worker.fake_core import hash_core
from tests.worker.fakes import Worker, stream, until


def slow_core(calls, seconds_a_record):
    core = hash_core("in")

    def advance(job, live, records):
        calls.append(len(records))
        time.sleep(seconds_a_record * len(records))
        return core.advance(job, live, records)

    return core._replace(advance=advance)


def test_calls_of_advance_begin_short_and_stay_so_where_a_record_takes_long():
    calls: list[int] = []

    async def body():
        worker = Worker(core=slow_core(calls, 0.002))
        await worker.begin(0)
        worker.fetch(0, stream(1500))
        await until(lambda: worker.delivery.partitions[0].next == 1500)

    asyncio.run(body())
    assert calls[0] == FIRST_SLICE and max(calls) < SLICE / 2 and min(calls[:-1]) >= LEAST_SLICE
    assert sum(calls) == 1500


def test_calls_of_advance_are_short_while_a_viewer_asks_and_long_again_later(monkeypatch):
    monkeypatch.setattr(turns_module, "ASKED_FOR", 0.5)
    calls: list[int] = []

    async def body():
        worker = Worker(core=slow_core(calls, 0.0002))
        await worker.begin(0)
        partition = worker.delivery.partitions[0]
        partition.turns.expect_questions()
        worker.fetch(0, stream(1000))
        await until(lambda: partition.next == 1000)
        asked, calls[:] = calls[:], []
        await asyncio.sleep(0.6)
        worker.fetch(0, stream(1000, first=1000))
        await until(lambda: partition.next == 2000)
        return asked

    asked = asyncio.run(body())
    assert max(asked[1:]) < SLICE / 10
    assert max(calls) > 2 * max(asked[1:]) and sum(asked) == sum(calls) == 1000


def test_other_tasks_wait_for_one_call_of_advance_not_for_one_of_every_partition():
    calls: list[int] = []

    async def body():
        worker = Worker(core=slow_core(calls, 0.001))
        await worker.begin(*range(4))
        partitions = worker.delivery.partitions
        for number in partitions:
            worker.fetch(number, stream(1000))
        between = []  # calls of `advance` between two turns of this task
        while any(one.next < 1000 for one in partitions.values()):
            before = len(calls)
            await asyncio.sleep(0)
            between.append(len(calls) - before)
        return between

    between = asyncio.run(body())
    least = 1000 * 0.001 / turns_module.CALL / 2  # calls of a partition
    assert sum(between) == len(calls) > 4 * least and max(between) <= 2  # the last one is short: two of them


def test_a_waiting_checkpoint_gets_its_turn_before_all_that_queued_up_is_applied(monkeypatch):
    """Else a backlog of keys that are not live keeps every checkpoint waiting, until the broker ends its transaction."""
    monkeypatch.setattr(partition_module, "HOLD", 0.0)
    calls: list[int] = []

    async def body():
        worker = Worker(core=slow_core(calls, 0.0))
        delivery = await worker.begin(0)
        worker.fetch(0, stream(4 * SLICE))
        await until(lambda: calls)
        taken = asyncio.ensure_future(delivery.held[0].checkpoints.take())
        await taken
        early = dict(worker.broker.committed)
        await until(lambda: delivery.partitions[0].next == 4 * SLICE)
        await delivery.held[0].checkpoints.take()
        return early, worker.broker.committed

    early, late = asyncio.run(body())
    assert 0 < early[0] < 4 * SLICE and late == {0: 4 * SLICE}


def test_applying_waits_for_a_checkpoint_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(partition_module, "OVERDUE_AFTER", 0.05)

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        (changelog,) = worker.kafka.opened
        write, may_write = changelog.write, asyncio.Event()

        async def slow(snapshots):
            await may_write.wait()
            return await write(snapshots)

        changelog.write = slow
        worker.fetch(0, stream(10))
        await worker.settle(0)
        taking = asyncio.ensure_future(delivery.held[0].checkpoints.take())
        await asyncio.sleep(0.1)
        worker.fetch(0, stream(10, first=10))
        await asyncio.sleep(0.05)
        waited = delivery.partitions[0].next
        may_write.set()
        await taking
        await until(lambda: delivery.partitions[0].next == 20)
        return waited

    assert asyncio.run(body()) == 10

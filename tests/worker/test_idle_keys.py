"""Removing the states of idle keys: a few at a time, never one that is in use or whose last records may come again."""

import asyncio
import time

import pytest

from streamjobs.worker.idle_keys import KEYS_PER_CHECKPOINT, Expiry
from streamjobs.worker.store import MemoryStore
from tests.worker.fake_core import STATE, hash_core
from tests.worker.fakes import Broker, Worker, stream

HOUR = 3600.0


class Lives:
    def __init__(self, busy=()):
        self.keys = busy

    def busy(self, key, since):
        return key in self.keys


def expiry(count, ttl=HOUR):
    """Keys k0000, k0001, ... whose newest event was at as many seconds, with one applied record each at the same offset."""
    keys = {b"k%04d" % n: float(n) for n in range(count)}
    store = MemoryStore()
    store.write(0, [(key, key) for key in keys], 0)
    asked = []

    def scan(after, most):
        asked.append(after)
        return store.scan(0, after, most)

    return Expiry(ttl, scan, lambda data: (keys[data], {("in", 0): int(keys[data])})), asked


def test_a_pass_takes_a_few_keys_at_a_time_and_rests_before_the_next_one():
    one, asked = expiry(2 * KEYS_PER_CHECKPOINT + 10)
    found = [one.idle_keys(1e6, Lives(), 0, lambda offsets: True) for _ in range(6)]
    assert [len(keys) for keys in found] == [KEYS_PER_CHECKPOINT, KEYS_PER_CHECKPOINT, 10, 0, 0, 0]
    assert sorted(key for keys in found for key in keys) == [b"k%04d" % n for n in range(2 * KEYS_PER_CHECKPOINT + 10)]
    assert len(asked) == 3
    assert one.idle_keys(1e6 + HOUR, Lives(), 0, lambda offsets: True)


def test_only_idle_keys_that_are_not_busy_and_have_committed_are_found():
    one, _ = expiry(50)
    found = one.idle_keys(HOUR + 30, Lives([b"k0005"]), 0, lambda offsets: offsets["in", 0] < 20)
    assert found == [b"k%04d" % n for n in range(20) if n != 5]
    one, _ = expiry(50)
    assert one.idle_keys(HOUR + 30, Lives(), 0, lambda offsets: True) == [b"k%04d" % n for n in range(30)]


def test_a_device_from_the_future_ends_nobodys_state():
    one = Expiry(HOUR, lambda after, most: [(b"k", b"")], lambda data: (time.time() - 60, {}))
    assert one.idle_keys(time.time() + 1e9, Lives(), 0, lambda offsets: True) == []


def test_nothing_is_known_of_time_before_the_first_row():
    one, asked = expiry(5)
    assert one.idle_keys(float("-inf"), Lives(), 0, lambda offsets: True) == [] and asked == []


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_removed_state_is_gone_from_changelog_store_and_memory_and_its_key_starts_over(exactly_once):
    """The fake core's keys age by an hour with each of their records; here its key k0 has one, k1 has ten."""
    core, broker = hash_core("in"), Broker()
    records = [*stream(1, keys=1), *[record._replace(key=b"k1") for record in stream(10, first=1)]]

    def advance(job, live, some):
        outputs, report = core.advance(job, live, some)
        report.newest_event = 10 * HOUR
        return outputs, report

    async def body():
        worker = Worker(broker, core=core._replace(advance=advance), ttl="5h", exactly_once=exactly_once)
        delivery = await worker.begin(0)
        worker.fetch(0, records)
        await worker.settle()
        take = delivery.held[0].checkpoints.take
        assert await take()
        assert worker.store.get(0, b"k0") is not None, "its record was not committed before"
        delivery.held[0].partition._expiry._pass_began = 0.0  # the rest between passes is over
        worker.fetch(0, [record._replace(key=b"k1") for record in stream(1, first=11)])
        await worker.settle()
        assert await take()
        assert broker.changelog[0][-1] == (b"k0", None) and worker.store.get(0, b"k0") is None
        assert b"k0" not in delivery.partitions[0].live.states and worker.store.get(0, b"k1") is not None
        assert delivery.metrics.registry.get_sample_value("streamjobs_keys_expired_total") == 1
        worker.fetch(0, stream(1, keys=1, first=12))
        await worker.settle()
        assert await take()
        _, offset, count, _ = STATE.unpack_from(worker.store.get(0, b"k0"))
        assert (offset, count) == (12, 1)

    asyncio.run(body())


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_late_record_of_a_key_that_is_being_removed_waits_for_the_tombstone(exactly_once, crashes):
    """Its output would come again with other bytes after a crash before the tombstone is written: the old state's."""
    core, broker = hash_core("in"), Broker()
    records = [*stream(1, keys=1), *[record._replace(key=b"k1") for record in stream(10, first=1)]]
    late = [record._replace(key=b"k1") for record in stream(1, first=12)] + stream(1, keys=1, first=13)

    def advance(job, live, some):
        outputs, report = core.advance(job, live, some)
        report.newest_event = 10 * HOUR
        return outputs, report

    async def spin():
        for _ in range(50):
            await asyncio.sleep(0)

    async def body():
        worker = Worker(broker, core=core._replace(advance=advance), ttl="5h", exactly_once=exactly_once)
        delivery = await worker.begin(0)
        worker.fetch(0, records)
        await worker.settle()
        held = delivery.held[0]
        assert await held.checkpoints.take()
        held.partition._expiry._pass_began = 0.0
        out = worker.kafka.opened[0].out if exactly_once else worker.kafka.out
        out.hold = True
        worker.fetch(0, [record._replace(key=b"k1") for record in stream(1, first=11)])
        await worker.settle()
        taking = asyncio.ensure_future(held.checkpoints.take())
        await spin()
        worker.fetch(0, late)
        await spin()
        assert held.partition.next == 13, "the other key's record does not wait"
        if not crashes:
            out.hold = False
            out.release()
            assert await taking
            await worker.settle()
            assert await held.checkpoints.take() and held.partition.next == 14
        for task in (taking, *held.tasks):
            task.cancel()
        again = Worker(broker, store=worker.store, core=core._replace(advance=advance), exactly_once=exactly_once)
        delivery = await again.begin(0)
        begin = broker.committed[0]
        again.fetch(0, [one for one in [*records, *stream(1, first=11), *late] if one.offset >= begin])
        await again.settle()
        assert await delivery.held[0].checkpoints.take()
        values = {answer.value for answer in broker.topics if answer.headers[0][1] == b"in-0-13"}
        assert len(values) == 1
        assert values.pop().startswith(b"13,2," if crashes else b"13,1,")

    asyncio.run(body())

"""States written at their own pace: what takeovers after crashes anywhere compute again, repeat and leave behind."""

import asyncio
import random
from contextlib import suppress

import pytest

from streamjobs.worker import pace as pace_module
from streamjobs.worker.pace import Applied, Pace
from streamjobs.worker.partition import MAX_AT_ONCE, Partition
from streamjobs.worker.store import MemoryStore
from tests.worker.fake_core import STATE, hash_core
from tests.worker.fakes import Broker, Crash, Worker, stream
from tests.worker.outcome import check

RECORDS = stream(400, keys=23)


@pytest.fixture(autouse=True)
def _frozen_clock(monkeypatch):
    """No key is due because of its age."""
    monkeypatch.setattr(pace_module, "LONGEST", 1e9)


def _pace(applied, **named):
    return Pace(0, applied, **{"replay": 10.0, "cache": 1 << 40, "at_end": 1_000, **named})


def test_each_key_is_written_once_within_the_bound_and_as_many_at_a_time():
    applied = Applied()
    pace, keys = _pace(applied), [b"%d" % key for key in range(1_000)]
    written = []
    for second in range(1, 31):  # of applying, and all keys change in each
        applied.seconds += 1.0
        written.append(pace.cut(1_000 * second, keys, ()))
        pace.mark_committed()
        assert pace.seconds <= 11.0 and 1_000 * second - pace.replay_from <= 11_000
    assert [len(some) for some in written] == [100] * 30
    assert all(len(set().union(*written[at : at + 10])) == 1_000 for at in range(20))


def test_a_checkpoint_that_does_not_end_uses_up_more_than_the_bounds_allow():
    applied = Applied()
    pace, used = _pace(applied), []
    for second in range(40):
        applied.seconds += 1.0
        if second < 20:
            pace.cut(second, [b"%d" % key for key in range(100)], ())  # the last of these checkpoints hangs
        if second < 19:
            pace.mark_committed()
        used.append(pace.used)
    assert max(used[:19]) < 1.0 and used[39] == pytest.approx(used[18] + 2.1) and pace.seconds > 20.0


@pytest.mark.parametrize("bound", ["seconds", "bytes", "age"])
def test_every_bound_makes_keys_due(bound, monkeypatch):
    applied = Applied()
    pace = _pace(applied, **({"cache": 20_000} if bound == "bytes" else {}))
    assert pace.cut(5, [b"a"], ()) == [] and pace.replay_from == 0
    if bound == "age":
        monkeypatch.setattr(pace_module, "LONGEST", 1e-9)
    elif bound == "seconds":
        applied.seconds += 10.0
    else:
        applied.bytes += 10_000
    assert pace.cut(9, [], ()) == [b"a"] and pace.replay_from == 9


@pytest.mark.parametrize(("free", "most"), [(1.0, 5_000), (0.3, 3_000), (0.0, 1_250), (-1.0, 1_250)])
def test_records_take_the_room_that_live_states_leave(free, most):
    applied = Applied()
    pace = _pace(applied, cache=10_000)
    pace.cut(5, [b"a"], (), free=free)
    applied.bytes += most - 1
    assert pace.cut(6, [], (), free=free) == []
    applied.bytes += 1
    assert pace.cut(7, [], (), free=free) == [b"a"]


def test_records_that_wait_for_their_states_are_made_small_and_count_as_what_they_take_then():
    async def body():
        worker = Worker(replay="1h")
        held = (await worker.begin(0)).held[0]
        log, applied = held.partition.live.log, held.partition.pace.applied
        for first in (0, 300):
            worker.fetch(0, stream(300, keys=7, first=first))
            await worker.settle()
            for _ in range(2):  # also before the checkpoint: a record as objects takes ten times as much
                assert 0 < log.bytes == applied.bytes < (first + 300) * 70
                await held.checkpoints.take()
        (records,) = [records for records, _ in log.of(None)]
        assert records == stream(600, keys=7)

    asyncio.run(body())


def test_records_that_all_states_have_are_not_remembered():
    """Otherwise a worker would keep all that it has ever applied."""

    async def body():
        worker = Worker(replay="1h")
        held = (await worker.begin(0)).held[0]
        log = held.partition.live.log
        for first in range(0, 400, 100):
            worker.fetch(0, stream(100, keys=7, first=first))
            await worker.settle()
            held.partition.pace.all = first == 200
            await held.checkpoints.take()
            needed = range(worker.broker.committed[0], first + 100)
            assert [one.offset for records, _ in log.of(None) for one in records] == [*needed]
            assert (log.bytes > 0) == (len(needed) > 0)
        assert needed == range(300, 400)

    asyncio.run(body())


@pytest.mark.parametrize(("free", "tight"), [(0.3, False), (0.2, True)])
def test_records_are_compressed_where_live_states_leave_little_of_the_cache(free, tight, monkeypatch):
    async def body():
        worker = Worker(replay="1h")
        partition = (await worker.begin(0)).held[0].partition
        monkeypatch.setattr(type(partition.live), "nbytes", property(lambda live: (1.0 - free) * partition._most_live))
        log, sizes = partition.live.log, []
        for first in (0, 300):
            worker.fetch(0, stream(300, keys=7, first=first))
            await worker.settle()
            sizes.append(log.bytes - sum(sizes))
            await partition.cut()
        return sizes, [one for records, _ in log.of(None) for one in records]

    (plain, after), records = asyncio.run(body())
    assert (after < plain / 2) == tight and records == stream(600, keys=7)


def test_a_key_that_left_memory_and_came_back_is_due_since_its_first_change():
    pace = _pace(Applied())
    pace.cut(5, [b"a", b"b"], ())
    pace.cut(8, [b"b"], [b"a"])  # the state of a is written with this cut
    assert pace.replay_from == 0
    pace.cut(12, [b"a", b"b"], ())
    pace.cut(13, [b"a"], [b"b"])
    assert pace.replay_from == 8


class _Sim:
    """A job in several lives, each with a crash at a random step of a random checkpoint."""

    def __init__(self, seed, exactly_once, monkeypatch):
        self.random, self.exactly_once = random.Random(seed), exactly_once
        self.broker, self.store, self.replayed = Broker(), None, 0
        self.twice_from = []  # P at each crash
        monkeypatch.setattr(Pace, "_pass_time", self._pass_time)

    def _pass_time(self, most_bytes):
        return self.random.choice([0.0, 0.05, 0.3])

    def worker(self, replay="10s"):
        core = hash_core("in", most_keys=self.random.choice([5, 1_000]))
        return Worker(self.broker, store=self.store, core=core, exactly_once=self.exactly_once, replay=replay)

    async def live(self, last, replay="10s"):
        broker, rng = self.broker, self.random
        worker = self.worker(replay)
        self.store = worker.store
        start, held = broker.committed.get(0, 0), broker.progress.get(0, 0)
        await worker.begin(0)
        self.replayed += max(0, held - start)
        at, steps = start, rng.randrange(8, 40)
        while at < len(RECORDS) and (last or steps > 0):
            count = rng.randrange(1, 40)
            worker.fetch(0, RECORDS[at : at + count])
            at += count
            await worker.settle()
            if not last and steps < 8:
                self._crash_after(rng.randrange(1, 9))
            steps -= 8
            with suppress(Crash):
                await worker.delivery.held[0].checkpoints.take()
                assert int(self.store.marks(0).get("replay", 0)) <= broker.committed[0], "its states lack records before"
                continue
            break
        broker.at = lambda name: None
        if last:
            worker.delivery.raise_barrier()
            await worker.delivery.revoke("stop")
            assert worker.delivery.failed is None
        else:
            self.twice_from.append(broker.progress.get(0, 0))
            for task in worker.delivery.held[0].tasks:
                task.cancel()
            if rng.random() < 0.5:
                self.store = MemoryStore()

    def _crash_after(self, steps):
        def at(name):
            nonlocal steps
            steps -= 1
            if not steps:
                raise Crash

        self.broker.at = at

    def run(self, lives=5, last_replay="10s"):
        for _ in range(lives):
            asyncio.run(self.live(False))
        asyncio.run(self.live(True, last_replay))


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_crashes_anywhere_lose_nothing_and_repeat_only_what_was_not_committed(seed, exactly_once, monkeypatch):
    sim = _Sim(seed, exactly_once, monkeypatch)
    sim.run(last_replay="10s" if seed % 2 else "0s")
    assert sim.replayed > 20, "no takeover had anything to apply again"
    broker = sim.broker
    assert broker.committed == broker.progress == {0: len(RECORDS)}
    check(broker, RECORDS)
    if exactly_once:
        assert len(broker.topics) == len(RECORDS)
        return
    seen, repeats = set(), []
    for answer in broker.topics:
        offset = int(dict(answer.headers)["streamjobs-id"].rpartition(b"-")[2])
        repeats += [offset] * (offset in seen)
        seen.add(offset)
    assert all(any(offset >= begin for begin in sim.twice_from) for offset in repeats)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_commit_without_metadata_repeats_outputs_and_loses_nothing(exactly_once, monkeypatch):
    """As where an older release takes over, or a tool sets offsets back."""
    sim = _Sim(3, exactly_once, monkeypatch)
    for _ in range(4):
        asyncio.run(sim.live(False))
        sim.broker.progress.clear()
    asyncio.run(sim.live(True, "0s"))
    check(sim.broker, RECORDS)
    assert len(sim.broker.topics) > len(RECORDS), "nothing was repeated: this test shows nothing"


def test_a_release_in_time_leaves_nothing_to_apply_again_and_one_without_leaves_the_rest():
    async def body(within):
        worker = Worker(core=hash_core("in", state_bytes=1 << 20), replay="1h", checkpoint_bytes="20MB")
        delivery = await worker.begin(0)
        delivery.finish_within = within
        worker.fetch(0, stream(100, keys=50))
        await worker.settle()
        delivery.raise_barrier()
        await delivery.revoke("revoked")
        return worker.broker

    broker = asyncio.run(body(30.0))
    assert broker.committed == broker.progress == {0: 100}
    broker = asyncio.run(body(0.0))
    assert broker.committed == {0: 0} and broker.progress == {0: 100}
    assert 0 < len(broker.changelog[0]) < 50, "it wrote part of the states"


def test_settle_writes_everything_while_the_worker_runs():
    async def body():
        worker = Worker(replay="1h")
        delivery = await worker.begin(0)
        worker.fetch(0, stream(40))
        await worker.settle()
        await delivery.held[0].checkpoints.take()
        assert worker.broker.committed == {0: 0} and worker.broker.progress == {0: 40}
        while not delivery.settle():
            await asyncio.sleep(0)
        assert worker.broker.committed == {0: 40} and len(worker.broker.topics) == 40
        assert delivery.partitions[0].pace.seconds == 0.0, "nothing would be applied again"

    asyncio.run(body())


def test_settle_ends_while_records_keep_coming():
    async def body():
        worker = Worker(replay="1h")
        delivery = await worker.begin(0)
        for first in range(0, 400, 20):
            worker.fetch(0, stream(20, first=first))
            await worker.settle()
            if delivery.settle():
                return first
            await delivery.held[0].checkpoints.take()
        return 400

    assert asyncio.run(body()) == 20


def test_records_are_applied_again_beyond_a_checkpoint_where_no_state_is_due():
    async def body():
        first = Worker(replay="1h")
        first.broker.changelog[0] = [(b"another", None)]
        delivery = await first.begin(0)
        first.fetch(0, stream(200, keys=1))
        await first.settle()
        await delivery.held[0].checkpoints.take()
        for task in delivery.held[0].tasks:
            task.cancel()
        assert first.broker.committed == {0: 0} and first.broker.progress == {0: 200}
        second = Worker(first.broker, replay="1h", checkpoint_records=10)
        partition = (await second.begin(0)).held[0].partition
        for begin in range(0, 200, 40):
            second.fetch(0, stream(40, keys=1, first=begin))
            await second.settle()
        return partition.next

    assert asyncio.run(asyncio.wait_for(body(), 20)) == 200


def test_the_first_checkpoint_of_a_partition_without_states_writes_one_because_states_name_the_input():
    async def body():
        worker = Worker(replay="1h")
        held = (await worker.begin(0)).held[0]
        for upto in (200, 400):
            worker.fetch(0, stream(200, keys=20, first=upto - 200))
            await worker.settle()
            await held.checkpoints.take()
            assert worker.broker.progress == {0: upto} and len(worker.broker.changelog[0]) == 1

    asyncio.run(body())


def test_idle_states_are_removed_only_after_the_committed_offset_has_passed_them():
    async def body():
        worker = Worker(replay="1h", ttl="1m", exactly_once=False)
        delivery = await worker.begin(0)
        partition = delivery.held[0].partition
        partition.newest = 1e9
        worker.fetch(0, stream(20))
        await worker.settle()
        partition.pace.all = True
        await delivery.held[0].checkpoints.take()  # all are written, and R is 20
        partition.pace.all = False
        worker.broker.committed[0] = partition.replay_from = 16  # as if that commit had been refused: k1 has applied 16
        worker.fetch(0, stream(1, first=20, keys=1))
        await worker.settle()
        partition._expiry._pass_began = float("-inf")
        await delivery.held[0].checkpoints.take()
        assert all(data is not None for _, data in worker.broker.changelog[0])

    asyncio.run(body())


def test_the_state_of_a_key_is_the_same_in_any_number_of_lives(monkeypatch):
    sim = _Sim(5, True, monkeypatch)
    sim.run()
    once = _Sim(5, True, monkeypatch)
    once.run(lives=0)
    assert _states(sim.broker) == _states(once.broker)


def _states(broker):
    return {key: STATE.unpack_from(data)[1:] for key, data in dict(broker.changelog[0]).items()}


def _skips(monkeypatch):
    """R is where the checkpoint is, whatever is not written."""
    monkeypatch.setattr(Pace, "replay_from", property(lambda self: self._since.offset))


def _repeats(monkeypatch):
    """Outputs of records that are applied again are sent again."""
    real = Partition.take_over
    monkeypatch.setattr(Partition, "take_over", lambda self, held, *named: real(self, 0, *named))


@pytest.mark.parametrize("plant", [_skips, _repeats])
def test_planted_bugs_are_noticed(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(4):
            sim = _Sim(seed, True, monkeypatch)
            sim.run()
            check(sim.broker, RECORDS)
            assert len(sim.broker.topics) == len(RECORDS)


@pytest.mark.parametrize("replay", ["1h", "0s"])
def test_a_store_that_recovery_has_filled_says_which_records_its_states_may_lack(replay):
    """`state restore --from-local` continues there, not after the newest record that one of its states has."""
    broker = Broker()

    async def body():
        first = Worker(broker)
        await first.begin(0)
        first.fetch(0, RECORDS[:50])
        await first.settle()
        assert await first.delivery.held[0].checkpoints.take()
        broker.committed[0], broker.progress[0] = 11, 50  # as if states of other keys were still to be written
        stale = MemoryStore()
        stale.write(0, (), -1, marks={"replay": "9999"})  # of a former input
        for store in (None, stale):
            taking = Worker(broker, store=store, replay=replay)
            await taking.begin(0)
            assert taking.store.marks(0)["replay"] == "11"
        taking.fetch(0, RECORDS[11:60])
        await taking.settle()
        assert await taking.delivery.held[0].checkpoints.take()
        assert ("replay" in taking.store.marks(0)) == (replay == "1h"), "a checkpoint that writes all states leaves no mark"

    asyncio.run(body())


def test_partitions_apply_again_one_after_the_other_so_that_the_first_sends_new_outputs_soon():
    count = 2 * MAX_AT_ONCE

    def fetch(worker, number):
        for at in range(0, count, 500):
            worker.fetch(number, stream(500, partition=number, first=at))

    async def crashed():
        first = Worker(replay="1h")
        await first.begin(0, 1)
        for number in (0, 1):
            fetch(first, number)
        for number in (0, 1):
            await first.settle(number)
            await first.delivery.held[number].checkpoints.take()
            for task in first.delivery.held[number].tasks:
                task.cancel()
        return first.broker

    async def applied(broker):
        calls, core = [], hash_core("in")

        def advance(job, live, records):
            calls.append(records[0].partition)
            return core.advance(job, live, records)

        takeover = Worker(broker, core=core._replace(advance=advance), replay="1h")
        await takeover.begin(0, 1)
        for number in (0, 1):
            fetch(takeover, number)
        for number in (0, 1):
            await takeover.settle(number)
        return calls

    broker = asyncio.run(crashed())
    assert broker.committed == {0: 0, 1: 0} and broker.progress == {0: count, 1: count}
    calls = asyncio.run(applied(broker))
    assert len(calls) > 4 and calls == sorted(calls)

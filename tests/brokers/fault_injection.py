"""Workers with an injected fault, a crash or a bug: python -m tests.brokers.fault_injection FAULT[:N][+FAULT[:N]] JOB.toml

crash-after-STEP   SIGKILL right after a step of a checkpoint (outputs, changelog, store, commit; offsets in a
                  transaction), of the Nth one that has it: a crash that any worker may have.
crash-after-removal  SIGKILL after the Nth step of a checkpoint from the one that removed the states of idle keys.
stands            its event loop waits for a lock for ever after the outputs of the Nth checkpoint.
holds             the same in a library that does not release the interpreter's lock, so that no other thread runs.
stops-in-rebalance  gets SIGTERM when it is assigned partitions, and goes on with that when its consumer is closed.
stops-before-rebalance  the same, and goes on with that before its consumer is closed.
never-closes      its consumer's fetcher never ends, as when it is cancelled while a rebalance cancels what it waits for.
commits-first     commits an offset before its states are stored, and dies in between.
forgets-offsets   a restored key does not know which records it has applied.
forgets-parked    states that left for want of room before they were stored are not stored.
drops-on-revoke   what is applied and not safe when partitions are taken away is forgotten, and its offset committed.
letters-last      dead letters are sent after the offset is committed, and it dies in between.
outside           its outputs are no part of its transactions.
unfenced          its changelog is written by producers that do not exclude another worker's.
clock-jumps       its wall clock jumps by days.
clock-of-file     its wall clock is off by the seconds in the file $STREAMJOBS_TESTS_CLOCK, as read at each look.
removes-by-clock  its idle keys are idle by its wall clock.
unwatched         nobody looks whether the changelog is still the topic that the states were written to.
no-ids            keeps no ids of topics and no end of the changelog, as older releases did.
watchful          asks for the ids of topics every few seconds instead of every 20.
keeps-alive       an idle changelog's producer shows every N seconds that it is there, instead of every hour.
patient           released partitions write all their states, in up to N seconds instead of 2.
impatient         credentials may be refused for seconds only, instead of a minute.
counts-ids        its alarms have ids from a counter that begins with the process.
damages-store     the local store keeps a damaged state of person N, each time it is written.
spoils            the live state of person N becomes one that cannot be written, once.
overwrites-damaged  a damaged state is replaced by a new one.
drops-aside       records of keys that are set aside are dropped.
repeats           a takeover sends the outputs of records that it applies again.
skips             a checkpoint commits its own position though states are not written.
ignores-metadata  a takeover treats each commit as one of an earlier release.
ignores-states    a takeover does not look how far the changelog went.
below-0           its states have numbers that earlier releases refuse.
long-clock        its commits have a clock that earlier releases refuse.
learner-fails     its learner raises for a sample that begins with FAILS, after having learned it.
"""

import asyncio
import ctypes
import itertools
import math
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from aiokafka.consumer.fetcher import Fetcher

from streamjobs.core.live.aside import Aside
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output
from streamjobs.core.state.snapshot import Offsets
from streamjobs.job_files import core_from, read_job
from streamjobs.kafka import preflight
from streamjobs.kafka.topic_id import Origin
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.learner import LearnerStage
from streamjobs.worker import app, changelog, consumer, delivery, watchdog
from streamjobs.worker.changelog import Changelog
from streamjobs.worker.checkpoint import Checkpoints
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.idle_keys import Expiry
from streamjobs.worker.outbox import Outbox
from streamjobs.worker.pace import Pace
from streamjobs.worker.partition import Partition
from streamjobs.worker.run import run
from streamjobs.worker.store import RocksStore
from tests.brokers.damage import flipped

FAILS = 4711.25

Injection = Callable[[int], object]


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crashes_after(step: str) -> Injection:
    def inject(count: int) -> None:
        real = Checkpoints._end_step
        left = [count]

        def _step(self: Any, done: str, begun: float) -> float:
            if done == step:
                left[0] -= 1
                if not left[0]:
                    os.write(2, f"injected crash after {step}\n".encode())
                    crash()
            return real(self, done, begun)

        Checkpoints._end_step = _step  # type: ignore[method-assign]

    return inject


def _stands(count: int, wait: Callable[[], object]) -> None:
    real, left = Checkpoints._end_step, [count]

    def _step(self: Any, done: str, begun: float) -> float:
        left[0] -= done == "outputs"
        if not left[0]:
            os.write(2, b"injected stand\n")
            wait()
        return real(self, done, begun)

    Checkpoints._end_step = _step  # type: ignore[method-assign]


def stands(count: int) -> None:
    lock = threading.Lock()
    lock.acquire()
    _stands(count, lock.acquire)


def holds(count: int) -> None:
    lock, libc = (ctypes.c_long * 16)(), ctypes.PyDLL(None)  # a mutex of C, which no signal interrupts
    libc.pthread_mutex_lock(lock)
    _stands(count, lambda: libc.pthread_mutex_lock(lock))


def stops_in_rebalance(_: int, until: Callable[[Any], bool] = lambda consumer: consumer._thread._consumer._closed) -> None:
    real = consumer.Consumer.on_partitions_assigned

    async def assigned(self: Any, *what: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while not until(self):
            await asyncio.sleep(0.001)
        try:
            await real(self, *what)
        except asyncio.CancelledError:
            os.write(2, b"the rebalance did not end\n")
            raise

    consumer.Consumer.on_partitions_assigned = assigned  # type: ignore[method-assign]


def never_closes(_: int) -> None:
    async def close(self: Any) -> None:
        os.write(2, b"injected wait without end\n")
        await asyncio.get_running_loop().create_future()

    Fetcher.close = close


def crashes_after_removal(count: int) -> None:
    real, counted, left = Checkpoints._end_step, Delivery._count_expired, [0]

    def _count_expired(self: Any, number: int, keys: int) -> None:
        counted(self, number, keys)
        left[0] = left[0] or count

    def _step(self: Any, done: str, begun: float) -> float:
        if left[0]:
            left[0] -= 1
            if not left[0]:
                os.write(2, b"injected crash after a removal\n")
                crash()
        return real(self, done, begun)

    Delivery._count_expired, Checkpoints._end_step = _count_expired, _step  # type: ignore[method-assign]


def commits_first(_: int) -> None:
    async def take(self: Any) -> bool:
        if self.partition.next > self.partition.committed:
            await self._commit_offset(self.partition.number, self.partition.next, self.partition.next, "")
            crash()
        return True

    Checkpoints.take = take  # type: ignore[method-assign]


def forgets_offsets(_: int) -> None:
    real = Live.enter

    def enter(self: Any, keys: Sequence[bytes]) -> None:
        real(self, keys)
        for key in keys:
            self.offsets[self.slot_of[key]] = Offsets()

    Live.enter = enter  # type: ignore[method-assign]


def forgets_parked(_: int) -> None:
    real = Live.snapshots

    def snapshots(self: Any, *keys: Any) -> list[tuple[bytes, bytes]]:
        self.parked.clear()
        return real(self, *keys)

    Live.snapshots = snapshots  # type: ignore[method-assign]


def unfenced(_: int) -> None:
    class Unfenced(Changelog):
        def __init__(self, client: Any, name: str, *place: Any, **limits: Any) -> None:
            super().__init__(client, f"{name}-{uuid.uuid4()}", *place, **limits)
            self.name = name  # of the group

    app.Changelog = Unfenced  # type: ignore[misc]


def outside(_: int) -> None:
    real = Delivery._start_partition

    def take_on(self: Any, number: int, *named: Any) -> Any:
        held = real(self, number, *named)
        held.checkpoints.outbox.producer = self.kafka.producer
        return held

    Delivery._start_partition = take_on  # type: ignore[method-assign]


def drops_on_revoke(_: int) -> None:
    real = Delivery.revoke

    async def revoke(self: Any, why: str) -> None:
        if why != "stop":
            for one in self.held.values():
                await self.kafka.commit(one.partition.number, one.partition.next, 0, "")
                one.partition.next = one.partition.committed
        await real(self, why)

    Delivery.revoke = revoke  # type: ignore[method-assign]


def letters_last(_: int) -> None:
    send, take = Outbox.send, Checkpoints.take
    letters: dict[Any, list[Output]] = {}  # of each partition's outbox

    async def without(self: Any, outputs: Sequence[Output]) -> None:
        letters.setdefault(self, []).extend(output for output in outputs if output.sink == "dlq")
        await send(self, [output for output in outputs if output.sink != "dlq"])

    async def then_letters(self: Any) -> bool:
        before = len(letters.get(self.outbox, ()))  # what comes meanwhile is not committed by this one
        taken = await take(self)
        if taken and before:
            crash()
        return taken

    Outbox.send, Checkpoints.take = without, then_letters  # type: ignore[method-assign]


def clock_jumps(_: int) -> None:
    """Every second the wall clock is right, two days ahead, or two days behind."""
    real, begun = time.time, time.monotonic()
    time.time = lambda: real() + (0.0, 172_800.0, -172_800.0)[int(time.monotonic() - begun) % 3]


def clock_of_file(_: int) -> None:
    real, file = time.time, os.environ["STREAMJOBS_TESTS_CLOCK"]

    def moment() -> float:
        with open(file, encoding="utf-8") as off:
            return real() + float(off.read())

    time.time = moment


def removes_by_clock(_: int) -> None:
    real = Expiry.idle_keys
    Expiry.idle_keys = lambda self, newest, *rest: real(self, math.inf, *rest)  # type: ignore[method-assign]


def unwatched(_: int) -> None:
    def require_same_changelog(topic: str, known: str, present: str) -> None:
        """Asks nothing."""

    for module in (app, watchdog):
        module.require_same_changelog = require_same_changelog  # type: ignore[attr-defined]
    preflight.changelog_problems = lambda *_: []
    ignores_states(0)


def no_ids(_: int) -> None:
    preflight.origin_of = lambda settings, admin: Origin(settings.source.topic)
    Changelog.end = property(lambda self: 0, lambda self, end: None)  # type: ignore[assignment]


def watchful(seconds: int) -> None:
    watchdog.IDS_EVERY = float(seconds)


def keeps_alive(seconds: int) -> None:
    changelog.KEEP_ALIVE = float(seconds)


def patient(seconds: int) -> None:
    delivery.FINISH_WITHIN = float(seconds)


def impatient(seconds: int) -> None:
    watchdog.REFUSED_FOR = float(seconds)


def learner_fails(_: int) -> Callable[[], None]:
    """Gives what mends it again."""
    real = LearnerStage.advance

    def advance(self: Any, work: Any, slots: Any, X: Any, Y: Any, learn: Any) -> Any:
        at = np.flatnonzero(X[:, 0] == FAILS)
        if self.predicts and len(at):
            upto = at[0] + 1
            real(self, work, slots[:upto], X[:upto], Y[:upto], learn[:upto])
            raise IndexError("a planted bug")
        return real(self, work, slots, X, Y, learn)

    def mend() -> None:
        LearnerStage.advance = real  # type: ignore[method-assign]

    LearnerStage.advance = advance  # type: ignore[method-assign]
    return mend


def repeats(_: int) -> None:
    real = Partition.take_over
    Partition.take_over = lambda self, held, *named: real(self, 0, *named)  # type: ignore[method-assign]


def skips(_: int) -> None:
    Pace.replay_from = property(lambda self: self._since.offset)  # type: ignore[method-assign,assignment]


def ignores_metadata(_: int) -> None:
    consumer.progress_of = lambda offset, metadata: offset


def ignores_states(_: int) -> None:
    consumer.topic_id.states_of = lambda metadata: 0


def counts_ids(_: int) -> None:
    real, ids = Alarms.advance, itertools.count(1)

    def advance(self: Any, work: Any, slots: Any, times: Any, verdicts: Any, learn: Any, identify: Any) -> Any:
        return real(self, work, slots, times, verdicts, learn, lambda row, watch: next(ids))

    Alarms.advance = advance  # type: ignore[method-assign]


def damages_store(number: int) -> None:
    real, damaged = RocksStore.write, f"person-4711-{number}".encode()

    def write(self: Any, partition: int, items: Any, offset: int, **named: Any) -> None:
        bent = [(key, flipped(data) if key == damaged and data else data) for key, data in items]
        real(self, partition, bent, offset, **named)

    RocksStore.write = write  # type: ignore[method-assign]


def spoils(number: int) -> None:
    real, spoiled, left = Live.snapshots, f"person-4711-{number}".encode(), [5]  # cuts with the key changed

    def snapshots(self: Any, *keys: Any) -> list[tuple[bytes, bytes]]:
        slot = self.slot_of.get(spoiled)
        if slot in self.dirty:
            left[0] -= 1
            if left[0] == 0:
                self.work["order"]["newest"][slot] = np.nan
        return real(self, *keys)

    Live.snapshots = snapshots  # type: ignore[method-assign]


def overwrites_damaged(_: int) -> None:
    real = Live._load

    def load(self: Any, slots: list[int], snapshots: list[bytes]) -> dict[int, str]:
        self._begin(list(real(self, slots, snapshots)))
        return {}

    Live._load = load  # type: ignore[method-assign]


def drops_aside(_: int) -> None:
    Aside.letters = lambda *_: []  # type: ignore[method-assign]


def below_0(_: int) -> None:
    real = Live.encode

    def encode(self: Any, slots: list[int]) -> list[bytes]:
        repeats = self.work["idle"]["repeats"]
        kept = repeats[slots]
        repeats[slots] = -1
        data = real(self, slots)
        repeats[slots] = kept
        return data

    Live.encode = encode  # type: ignore[method-assign]


def long_clock(_: int) -> None:
    real = Origin.metadata_of
    Origin.metadata_of = lambda *of: real(*of).replace(" reported=", ",")  # type: ignore[method-assign]


STEPS = ("outputs", "changelog", "store", "commit")
FAULTS: dict[str, Injection] = {
    **{f"crash-after-{step}": crashes_after(step) for step in (*STEPS, "offsets")},
    "crash-after-removal": crashes_after_removal,
    "stands": stands,
    "holds": holds,
    "stops-in-rebalance": stops_in_rebalance,
    "stops-before-rebalance": partial(stops_in_rebalance, until=lambda consumer: consumer.app.should_stop),
    "never-closes": never_closes,
    "commits-first": commits_first,
    "forgets-offsets": forgets_offsets,
    "forgets-parked": forgets_parked,
    "outside": outside,
    "unfenced": unfenced,
    "drops-on-revoke": drops_on_revoke,
    "letters-last": letters_last,
    "clock-jumps": clock_jumps,
    "clock-of-file": clock_of_file,
    "removes-by-clock": removes_by_clock,
    "unwatched": unwatched,
    "no-ids": no_ids,
    "watchful": watchful,
    "keeps-alive": keeps_alive,
    "patient": patient,
    "impatient": impatient,
    "learner-fails": learner_fails,
    "repeats": repeats,
    "skips": skips,
    "ignores-metadata": ignores_metadata,
    "ignores-states": ignores_states,
    "counts-ids": counts_ids,
    "damages-store": damages_store,
    "spoils": spoils,
    "overwrites-damaged": overwrites_damaged,
    "drops-aside": drops_aside,
    "below-0": below_0,
    "long-clock": long_clock,
}


def program(fault: str, count: int = 1) -> tuple[str, ...]:
    """The program of a worker with this fault, for `Worker(job, program=...)`; `count`: the N of FAULT[:N]."""
    return ("-m", "tests.brokers.fault_injection", f"{fault}:{count}")


def crash_after(step: str, checkpoint: int = 1) -> tuple[str, ...]:
    """The program of a worker that kills itself after this step of its Nth checkpoint."""
    return program(f"crash-after-{step}", checkpoint)


def inject(what: str) -> None:
    """Put FAULT[:N], or several joined by +, into this process."""
    for one in what.split("+"):
        name, _, count = one.partition(":")
        FAULTS[name](int(count or 1))


if __name__ == "__main__":
    inject(sys.argv[1])
    composition = read_job(sys.argv[-1])
    sys.exit(run(composition.settings, lambda: core_from(composition), once="--once" in sys.argv))

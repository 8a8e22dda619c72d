"""What is done to workers. Each scenario proves that its faults happened and leaves everything done, for `verify`.

A scenario sends its own load, and gives what it did as lines for people to read.
"""

import random
import shutil
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.brokers.bed import PARTITIONS, Bed, until
from tests.brokers.load import Load
from tests.brokers.workers import Worker, working

RATE = 2_000  # records a second
FENCED = "another worker has taken this partition over"
SESSION_WITHIN = 90.0  # seconds for the group to notice a dead or frozen member (its session is 4 s)


class Death(NamedTuple):
    """A worker killed in the middle of its work."""

    code: int
    committed: int  # input records committed when it was dead
    answered: int  # features it and those before it had sent
    pending: int  # input records not committed

    def prove(self) -> "Death":
        assert self.code == -9, f"it ended with {self.code}, not by the kill"
        assert self.committed > 0 and self.pending > 0, f"it was not killed in the middle of its work: {self}"
        return self


def kill(bed: Bed, worker: Worker) -> Death:
    code = worker.kill()
    committed = sum(bed.committed().values())
    return Death(code, committed, answered(bed), sum(bed.ends().values()) - committed).prove()


def answered(bed: Bed) -> int:
    return sum(bed.ends(bed.job.sinks["features"]).values())


def progress(bed: Bed, worker: Worker, records: int = 1) -> None:
    """Wait until so many more records are committed."""
    goal = sum(bed.committed().values()) + records

    def further() -> bool:
        worker.must_live()
        return sum(bed.committed().values()) >= goal

    until(further, f"{bed.name}: worker {worker.name} commits {records} more records", 180)


def kills(bed: Bed, count: int, seed: int, *, wipe: bool = False, static: bool = True) -> list[str]:
    """kill -9 at `count` random moments of work, each followed by a restart; `wipe`: without its state directory.

    static: the worker has an instance id, so that its restart need not wait for the dead one's session to end.
    """
    rnd, told = random.Random(seed), []
    env = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"} if static else {}
    worker = Worker(bed, **env).ready()
    try:
        with Load(bed, RATE, seed=seed) as load:
            for _ in range(count):
                progress(bed, worker)
                time.sleep(rnd.uniform(0.0, 1.5))
                death = kill(bed, worker)
                told.append(str(death))
                if wipe:
                    assert any(worker.state.rglob("*.sst")) or any(worker.state.rglob("*.log")), "there was no state"
                    shutil.rmtree(worker.state)
                worker = Worker(bed, **env).ready()
                if wipe:
                    (restored,) = worker.events("recovery finished")
                    assert restored["keys_written"] > 0
            progress(bed, worker)
            load.finish()
        bed.until_done([worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    return told


def joins(bed: Bed, count: int, seed: int, *, kills_too: bool = False) -> list[str]:
    """A second worker joins and leaves `count` times; with `kills_too` one of the two is sometimes killed instead."""
    rnd, told = random.Random(seed), []
    first = Worker(bed, "a").ready()
    second: Worker | None = None
    try:
        with Load(bed, RATE, seed=seed) as load:
            for turn in range(count):
                progress(bed, first)
                second = Worker(bed, "b" if first.name == "a" else "a").ready()
                shared(bed)
                time.sleep(rnd.uniform(0.0, 1.5))
                if not kills_too or turn % 3 == 2:
                    code = second.stop()
                    assert code == 0, f"the leaving worker ended with {code}:\n{second.text()[-2000:]}"
                    told.append("two members with 2 partitions each; the second left with code 0")
                elif turn % 3 == 0:
                    told.append(f"two members; the second killed: {kill(bed, second)}")
                else:
                    told.append(f"two members; the first killed: {kill(bed, first)}")
                    first, second = second, None
                alone(bed)
            progress(bed, first)
            load.finish()
        bed.until_done([first])
        assert first.stop() == 0
    finally:
        first.end()
        if second is not None:
            second.end()
    return told


def frozen(
    bed: Bed, seed: int, *, until_finished: bool, program: Sequence[str] = ("-m", "streamjobs", "run"), fenced: bool = True
) -> list[str]:
    """A worker is frozen in the middle of its work past its session; another takes over; the frozen one wakes up.

    until_finished: it wakes after the other has finished everything (a zombie's write would be the last one); else
    while the other works. Needs `[state] checkpoint` of seconds, so that it is frozen with unsaved changes.
    fenced: False for a worker of a planted bug, whose writes after waking nobody refuses.
    """
    with working(bed, "a", program=program) as sleeper, Load(bed, RATE, seed=seed) as load:
        progress(bed, sleeper)
        until(lambda: unsaved(bed) > 500, "the worker has answered more than it has committed", every=0.01)
        sleeper.freeze()
        held = unsaved(bed)
        assert held > 0, "it was frozen just after a checkpoint: nothing was at stake"
        with working(bed, "b", program=program) as other:
            alone(bed)  # the frozen one has lost its session, all partitions are the other's
            told = [f"frozen with {held} records answered and not committed; the group put it out"]
            progress(bed, other)
            if until_finished:
                load.finish()
                bed.until_done([other])
                finished = bed.snapshots()
            sleeper.wake()
            if fenced:
                until(lambda: FENCED in sleeper.text(), lambda: f"a changelog write fenced:\n{sleeper.text()[-2000:]}", 40)
                told.append("woken: its changelog write was fenced")
            else:
                until(
                    lambda: sleeper.events("partitions checkpointed and released"),
                    "the woken worker loses its partitions",
                    40,
                )
            if until_finished:
                time.sleep(2.0)  # whatever it would still write is written now
                assert bed.snapshots() == finished, "the woken worker changed states it had lost"
            else:
                progress(bed, other)
                load.finish()
                bed.until_done([other])
            if sleeper.process.poll() is None:
                sleeper.stop()
            assert other.stop() == 0
    return told


def unsaved(bed: Bed) -> int:
    """Records answered but not committed (each gives one features record; repeats make it larger)."""
    return answered(bed) - sum(bed.committed().values())


def shared(bed: Bed) -> None:
    """Two members share the partitions."""
    half = PARTITIONS // 2
    until(
        lambda: bed.members() == [half, half], lambda: f"two members with {half} partitions: {bed.members()}", SESSION_WITHIN
    )


def alone(bed: Bed) -> None:
    """One member has all partitions."""
    until(lambda: bed.members() == [PARTITIONS], lambda: f"one member with all partitions: {bed.members()}", SESSION_WITHIN)

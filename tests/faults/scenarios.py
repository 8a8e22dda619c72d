"""What is done to workers. Each scenario proves that its faults happened and leaves everything done, for `verify`.

A scenario sends its own load, and gives what it did as lines for people to read.
"""

import random
import shutil
import time
from typing import NamedTuple

from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, until
from tests.brokers.load import Load
from tests.brokers.workers import Worker, running_worker

RATE = 1_000  # records a second
ATTEMPTS = 20  # to freeze a worker between two checkpoints
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


def kill(job: KafkaJob, worker: Worker) -> Death:
    code = worker.kill()
    committed = sum(job.committed().values())
    return Death(code, committed, answered(job), sum(job.ends().values()) - committed).prove()


def answered(job: KafkaJob) -> int:
    return sum(job.ends(job.core.sinks["features"]).values())


def wait_for_commits(job: KafkaJob, worker: Worker, records: int = 1) -> None:
    """Wait until so many more records are committed."""
    goal = sum(job.committed().values()) + records

    def further() -> bool:
        worker.assert_running()
        return sum(job.committed().values()) >= goal

    until(further, f"{job.name}: worker {worker.name} commits {records} more records", 180)


def kills(job: KafkaJob, forks: ForkServer, count: int, seed: int, *, wipe: bool = False) -> list[str]:
    """kill -9 at `count` random moments of work, each followed by a restart; `wipe`: without its state directory.

    The worker has an instance id, so that its restart need not wait for the dead one's session to end.
    """
    rnd, told = random.Random(seed), []
    env = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}
    worker = Worker(job, fork_server=forks, **env).ready()
    try:
        with Load(job, RATE, seed=seed) as load:
            for _ in range(count):
                wait_for_commits(job, worker)
                time.sleep(rnd.uniform(0.0, 1.5))
                death = kill(job, worker)
                told.append(str(death))
                if wipe:
                    assert any(worker.state.rglob("*.sst")) or any(worker.state.rglob("*.log")), "there was no state"
                    shutil.rmtree(worker.state)
                worker = Worker(job, fork_server=forks, **env).ready()
                if wipe:
                    (restored,) = worker.events("recovery finished")
                    assert restored["keys_written"] > 0
            wait_for_commits(job, worker)
            load.finish()
        job.wait_until_done([worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    return told


def joins(job: KafkaJob, forks: ForkServer, count: int, seed: int, *, kills_too: bool = False) -> list[str]:
    """A second worker joins and leaves `count` times; with `kills_too` one of the two is sometimes killed instead."""
    rnd, told = random.Random(seed), []
    first = Worker(job, "a", fork_server=forks).ready()
    second: Worker | None = None
    try:
        with Load(job, RATE, seed=seed) as load:
            for turn in range(count):
                wait_for_commits(job, first)
                second = Worker(job, "b" if first.name == "a" else "a", fork_server=forks).ready()
                wait_for_two_members(job)
                time.sleep(rnd.uniform(0.0, 1.5))
                if not kills_too or turn % 3 == 2:
                    code = second.stop()
                    assert code == 0, f"the leaving worker ended with {code}:\n{second.text()[-2000:]}"
                    told.append("two members with 2 partitions each; the second left with code 0")
                elif turn % 3 == 0:
                    told.append(f"two members; the second killed: {kill(job, second)}")
                else:
                    told.append(f"two members; the first killed: {kill(job, first)}")
                    first, second = second, None
                wait_for_one_member(job)
            wait_for_commits(job, first)
            load.finish()
        job.wait_until_done([first])
        assert first.stop() == 0
    finally:
        first.end()
        if second is not None:
            second.end()
    return told


def frozen(job: KafkaJob, forks: ForkServer, seed: int, *, until_finished: bool) -> list[str]:
    """A worker is frozen in the middle of its work past its session; another takes over; the frozen one wakes up.

    until_finished: it wakes after the other has finished everything (a zombie's write would be the last one); else
    while the other works. Needs `[state] checkpoint` of seconds, so that it is frozen with unsaved changes.
    """
    with running_worker(job, "a", fork_server=forks) as sleeper, Load(job, RATE, seed=seed) as load:
        wait_for_commits(job, sleeper)
        held = freeze_with_work(job, sleeper)
        with running_worker(job, "b", fork_server=forks) as other:
            wait_for_one_member(job)  # the frozen one has lost its session, all partitions are the other's
            told = [f"frozen with {held} records answered and not committed; the group put it out"]
            wait_for_commits(job, other)
            if until_finished:
                load.finish()
                job.wait_until_done([other])
                finished = job.snapshots()
            sleeper.wake()
            until(lambda: FENCED in sleeper.text(), lambda: f"a changelog write fenced:\n{sleeper.text()[-2000:]}")
            told.append("woken: its changelog write was fenced")
            if until_finished:
                time.sleep(2.0)  # whatever it would still write is written now
                assert job.snapshots() == finished, "the woken worker changed states it had lost"
            else:
                wait_for_commits(job, other)
                load.finish()
                job.wait_until_done([other])
            if sleeper.process.poll() is None:
                sleeper.stop()
            assert other.stop() == 0
    return told


def freeze_with_work(job: KafkaJob, worker: Worker) -> int:
    """Freeze a worker between checkpoints; gives how many records it has answered and not committed."""
    for _ in range(ATTEMPTS):
        until(lambda: uncommitted(job) > 500, "the worker has answered more than it has committed", every=0.01)
        worker.freeze()
        time.sleep(0.2)  # what it sent before has an answer now
        if (held := uncommitted(job)) > 0:
            return held
        worker.wake()  # a checkpoint came between the look and the freeze
    raise AssertionError("it was frozen just after a checkpoint each time: nothing was at stake")


def uncommitted(job: KafkaJob) -> int:
    """Records answered but not committed (each gives one features record; repeats make it larger)."""
    return answered(job) - sum(job.committed().values())


def wait_for_two_members(job: KafkaJob) -> None:
    """Two members share the partitions."""
    half = PARTITIONS // 2
    until(
        lambda: job.members() == [half, half], lambda: f"two members with {half} partitions: {job.members()}", SESSION_WITHIN
    )


def wait_for_one_member(job: KafkaJob) -> None:
    """One member has all partitions."""
    until(lambda: job.members() == [PARTITIONS], lambda: f"one member with all partitions: {job.members()}", SESSION_WITHIN)

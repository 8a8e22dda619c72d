"""Workers stopped, killed, killed between two steps of a checkpoint, frozen; workers that join and leave."""

import itertools
import random
import time
from collections import Counter
from functools import partial
from typing import NamedTuple

from tests.brokers.fault_injection import STEPS, crash_after
from tests.brokers.kafka_job import PARTITIONS, until
from tests.brokers.workers import Worker
from tests.faults.case import Case
from tests.faults.scenarios import FENCED


class Death(NamedTuple):
    """A worker killed in the middle of its work."""

    code: int
    committed: int  # input records committed when it was dead
    pending: int  # input records not committed


def kill(case: Case, worker: Worker) -> Death:
    until(lambda: case.job.lag() > 0, "a record that is not committed", 60)  # a load that trickles leaves pauses
    code = worker.kill()
    committed, ends = sum(case.job.committed().values()), sum(case.job.ends().values())
    death = Death(code, committed, ends - committed)
    assert code == -9, f"it ended with {code}, not by the kill"
    assert committed > 0 and death.pending > 0, f"it was not killed in the middle of its work: {death}"
    case.killed = True
    return death


def sigterm(case: Case) -> None:
    """Five of two workers' lives ended by SIGTERM in the middle of their work, each replaced."""
    case.make_job()
    case.repeats = False
    rnd, workers = random.Random(case.seed), case.run_two_workers()
    case.start_load()
    for turn in range(5):
        case.wait_for_commits()
        time.sleep(rnd.uniform(0.0, 0.5))
        leaving = workers[turn % 2]
        case.stop_worker(leaving)
        assert case.job.lag() > 0, "there was nothing left to do"
        workers[turn % 2] = case.run_worker(leaving.name)
    codes = [worker.process.returncode for worker in case.all_workers if worker.process.poll() is not None]
    assert codes == [0] * 5
    case.prove("5 exits with code 0 with work left")


def sigkill(case: Case) -> None:
    """Ten kills at random moments, of one or the other of two workers or of both."""
    case.make_job()
    rnd, workers = random.Random(case.seed), {worker.name: worker for worker in case.run_two_workers(static=True)}
    case.start_load()
    deaths: list[Death] = []
    while len(deaths) < 10:
        case.wait_for_commits()
        time.sleep(rnd.uniform(0.0, 1.0))
        victims = list(workers) if len(deaths) % 3 == 1 else [rnd.choice(list(workers))]
        deaths += [kill(case, workers[name]) for name in victims]
        for name in victims:
            workers[name] = case.start_worker(name, static=True)
        for name in victims:
            workers[name].ready()
    case.prove(f"{len(deaths)} deaths by signal 9, {sum(death.pending for death in deaths)} records pending at them")


def points(case: Case) -> None:
    """Killed right after a step of a checkpoint: five times each after outputs, changelog, store and acknowledgement."""
    case.make_job(state=case.soon)
    case.start_load()
    case.killed = True
    steps = (*STEPS, "offsets") if case.exactly_once else STEPS
    rnd, plan, crashes = random.Random(case.seed), [step for step in steps for _ in range(5)], Counter[str]()
    rnd.shuffle(plan)
    workers: list[tuple[Worker, str]] = []
    for name, step in zip(itertools.cycle("ab"), plan, strict=False):
        if len(workers) == 2:
            crashes[wait_for_crash(*workers.pop(0))] += 1
        worker = case.start_worker(name, static=True, program=crash_after(step, checkpoint=rnd.randint(1, 4)))
        workers.append((worker, step))
    for worker, step in workers:
        crashes[wait_for_crash(worker, step)] += 1
    assert case.job.lag() > 0, "they crashed after their work was done"
    case.run_two_workers(static=True)
    case.prove("crashes after " + ", ".join(f"{step} {crashes[step]}" for step in steps))


def wait_for_crash(worker: Worker, step: str) -> str:
    """The worker has crashed after this step; gives the step."""
    assert worker.process.wait(120) == -9, worker.text()[-2000:]
    assert f"injected crash after {step}" in worker.text()
    return step


def zombie(case: Case) -> None:
    """Frozen past its session with uncommitted work, three times; another works on; it wakes: in the middle, at the end."""
    case.make_job(state={"checkpoint": "3s"})
    case.killed = True
    frozen, other = case.run_two_workers()
    case.start_load()
    for turn in range(3):
        case.wait_for_commits()
        at_stake = freeze_with_uncommitted_work(case, frozen)
        case.wait_for_one_member()  # its session has ended: all partitions are the other worker's
        case.wait_for_commits()
        if turn == 2:
            assert case.load is not None
            case.load.finish()
            case.job.wait_until_done([other], 240)
            case.job.wait_for_all_markers()
        frozen.wake()
        until(partial(contains, frozen, FENCED), partial(last_lines, frozen), 120)
        case.prove(f"removed from its group with {at_stake} uncommitted, fenced")
        case.wait_for_two_members()
        frozen.assert_running()  # it reports what it lost, and goes on with the partitions it gets
        frozen, other = other, frozen


def freeze_with_uncommitted_work(case: Case, worker: Worker) -> int:
    """Freeze the worker between two checkpoints; gives how many records are answered and not committed."""
    until(lambda: uncommitted(case) > 20, "more answered than committed", 120, every=0.01)
    worker.freeze()
    at_stake = uncommitted(case)
    assert at_stake > 0, "it was frozen just after a checkpoint: nothing was at stake"
    return at_stake


def contains(worker: Worker, text: str) -> bool:
    return text in worker.text()


def last_lines(worker: Worker) -> str:
    return worker.text()[-2000:]


def uncommitted(case: Case) -> int:
    """Records answered but not committed (each gives one prediction; repeats make it larger)."""
    topic = case.job.core.sinks["predictions"]
    answered = sum(case.job.ends(topic, committed_only=False).values())
    safe = case.job.ends(topic) if case.exactly_once else case.job.committed()
    return int(answered) - sum(safe.values())


def joins(case: Case) -> None:
    """A second worker joins and leaves five times within about a minute; not even an output comes again."""
    case.make_job()
    case.repeats = False
    first = case.run_worker("a")
    case.start_load()
    begun = time.monotonic()
    for turn in range(5):
        second = case.run_worker("b" if first.name == "a" else "a")
        case.wait_for_two_members()
        case.wait_for_commits()
        leaving, first = (second, first) if turn % 2 == 0 else (first, second)
        case.stop_worker(leaving)
        case.wait_for_one_member()
    took = time.monotonic() - begun
    case.prove(f"5 times 2 members with {PARTITIONS // 2} partitions each, then 1 with all, in {took:.0f} s")

"""Workers ended, killed, killed between two steps of a checkpoint, frozen, joined and left."""

import itertools
import random
import time
from functools import partial
from typing import NamedTuple

from tests.brokers.bed import PARTITIONS, until
from tests.brokers.planted import STAGES, program
from tests.brokers.workers import Worker
from tests.faults.scenarios import FENCED
from tests.faults.trial import Trial


class Death(NamedTuple):
    """A worker killed in the middle of its work."""

    code: int
    committed: int  # input records committed when it was dead
    pending: int  # input records not committed


def kill(trial: Trial, worker: Worker) -> Death:
    code = worker.kill()
    committed, ends = sum(trial.bed.committed().values()), sum(trial.bed.ends().values())
    death = Death(code, committed, ends - committed)
    assert code == -9, f"it ended with {code}, not by the kill"
    assert committed > 0 and death.pending > 0, f"it was not killed in the middle of its work: {death}"
    trial.killed = True
    return death


def sigterm(trial: Trial) -> None:
    """Five of two workers' lives ended by SIGTERM in the middle of their work, each replaced."""
    trial.make_bed()
    trial.repeats = False
    rnd, workers = random.Random(trial.seed), trial.both()
    trial.pour()
    for turn in range(5):
        trial.progress()
        time.sleep(rnd.uniform(0.0, 0.5))
        leaving = workers[turn % 2]
        trial.terminate(leaving)
        assert trial.bed.behind() > 0, "there was nothing left to do"
        workers[turn % 2] = trial.work(leaving.name)
    codes = [worker.process.returncode for worker in trial.lives if worker.process.poll() is not None]
    assert codes == [0] * 5
    trial.prove("5 exits with code 0 with work left")


def sigkill(trial: Trial) -> None:
    """Ten kills at random moments, of one or the other of two workers or of both."""
    trial.make_bed()
    rnd, workers = random.Random(trial.seed), {worker.name: worker for worker in trial.both(static=True)}
    trial.pour()
    deaths: list[Death] = []
    while len(deaths) < 10:
        trial.progress()
        time.sleep(rnd.uniform(0.0, 1.0))
        victims = list(workers) if len(deaths) % 3 == 1 else [rnd.choice(list(workers))]
        deaths += [kill(trial, workers[name]) for name in victims]
        for name in victims:
            workers[name] = trial.begin(name, static=True)
        for name in victims:
            workers[name].ready()
    trial.prove(f"{len(deaths)} deaths by signal 9, {sum(death.pending for death in deaths)} records pending at them")


def points(trial: Trial) -> None:
    """Killed right after a step of a checkpoint: five times each after outputs, changelog, store and acknowledgement."""
    trial.make_bed()
    rnd = random.Random(trial.seed)
    trial.pour()
    stages = (*STAGES, "offsets") if trial.exactly_once else STAGES
    deaths = dict.fromkeys(stages, 0)
    plan = [stage for stage in stages for _ in range(5)]
    rnd.shuffle(plan)
    trial.killed = True
    workers: list[tuple[str, Worker]] = []
    for name, stage in zip(itertools.cycle("ab"), plan, strict=False):
        if len(workers) == 2:
            _dies(*workers.pop(0), deaths)
        workers.append((stage, trial.begin(name, static=True, program=program(f"dies-after-{stage}", rnd.randint(1, 4)))))
    for stage, worker in workers:
        _dies(stage, worker, deaths)
    assert trial.bed.behind() > 0, "they died after their work was done"
    trial.both(static=True)
    trial.prove("deaths after " + ", ".join(f"{stage} {count}" for stage, count in deaths.items()))


def _dies(stage: str, worker: Worker, deaths: dict[str, int]) -> None:
    assert worker.process.wait(120) == -9, worker.text()[-2000:]
    assert f"planted death after {stage}" in worker.text()
    deaths[stage] += 1


def zombie(trial: Trial) -> None:
    """Frozen past its session with much unsaved, three times; another works on; it wakes: in the middle, and at the end."""
    trial.make_bed(state={"checkpoint": "3s"})
    trial.killed = True
    sleeper, other = trial.both()
    trial.pour()
    for turn in range(3):
        trial.progress()
        until(lambda: unsaved(trial) > 20, "more answered than committed", 120, every=0.01)
        sleeper.freeze()
        held = unsaved(trial)
        assert held > 0, "it was frozen just after a checkpoint: nothing was at stake"
        trial.alone()
        trial.progress()
        if turn == 2:
            assert trial.pouring is not None
            trial.pouring.finish()
            trial.bed.until_done([other], 240)
            trial.bed.settled()
        sleeper.wake()
        until(partial(contains, sleeper, FENCED), partial(ending, sleeper), 120)
        trial.prove(f"put out with {held} unsaved, fenced")
        trial.shared()
        sleeper.must_live()  # what it lost is told, and it goes on with what it gets
        sleeper, other = other, sleeper


def contains(worker: Worker, text: str) -> bool:
    return text in worker.text()


def ending(worker: Worker) -> str:
    return worker.text()[-2000:]


def unsaved(trial: Trial) -> int:
    """Records answered but not committed (each gives one prediction; repeats make it larger)."""
    topic = trial.bed.job.sinks["predictions"]
    answered = sum(trial.bed.ends(topic, committed_only=False).values())
    safe = trial.bed.ends(topic) if trial.exactly_once else trial.bed.committed()
    return int(answered) - sum(safe.values())


def joins(trial: Trial) -> None:
    """A second worker joins and leaves five times within about a minute; not even an output comes again."""
    trial.make_bed()
    trial.repeats = False
    first = trial.work("a")
    trial.pour()
    begun = time.monotonic()
    for turn in range(5):
        second = trial.work("b" if first.name == "a" else "a")
        trial.shared()
        trial.progress()
        leaving, first = (second, first) if turn % 2 == 0 else (first, second)
        trial.terminate(leaving)
        trial.alone()
    took = time.monotonic() - begun
    trial.prove(f"5 times 2 members with {PARTITIONS // 2} partitions each, then 1 with all, in {took:.0f} s")

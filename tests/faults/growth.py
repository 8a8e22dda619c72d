"""Partitions added to the input under load: its states follow their keys, through kills of `state repartition`."""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from tests.brokers.growth import AFTER, BEFORE, grow_input, place, program, without_offsets
from tests.brokers.kafka_job import Sent, until
from tests.brokers.verification import Answer
from tests.brokers.workers import CHECKOUT
from tests.commands.jobs import command
from tests.faults.audit import Audit
from tests.faults.case import READY, Case
from tests.faults.load import PacedLoad
from tests.running import with_bytecode

NOTICED_WITHIN = 60.0  # seconds until a worker has ended
DRAIN = ("-m", "streamjobs", "run", "--drain")
REPARTITION = ("-m", "streamjobs", "state", "repartition")


class GrowingLoad(PacedLoad):
    """Places every record by murmur2; `placed` has them as they were sent."""

    settings: ClassVar = {"topic.metadata.refresh.interval.ms": 500}
    partitions = BEFORE

    def __init__(self, case: Case, seconds: float) -> None:
        super().__init__(case.job, case.records, seconds)
        self.placed: list[Sent] = []

    def _paced(self) -> Iterator[Sent]:
        for record in super()._paced():
            placed = record._replace(partition=place(record.key, self.partitions))
            self.placed.append(placed)
            yield placed


class GrownAudit(Audit):
    """A key's records in its old partition come before those in its new one, where its state goes on without offsets."""

    def _replay(self, records: Sequence[Stored], seen: set[bytes]) -> dict[str, dict[bytes, Answer]]:
        for number in range(BEFORE, AFTER):  # read after those of the old partitions
            self._lives[number] = Live(self.job.core, partial(self._moved, number))
        wanted = super()._replay(records, seen)
        for number, key in [one for one in self.truth if one[0] < BEFORE and place(one[1], AFTER) != one[0]]:
            self.truth.setdefault((place(key, AFTER), key), without_offsets(self.truth[number, key]))
            del self.truth[number, key]
        return wanted

    def _moved(self, number: int, key: bytes) -> bytes | None:
        old = self.truth.get((place(key, BEFORE), key))
        return None if old is None else without_offsets(old)


def grown(case: Case) -> None:
    """Partitions added, 2 to 4, under load; the repartition killed four times at different steps."""
    move(case)
    rnd = random.Random(case.seed)
    for step in (rnd.randint(1, 4), rnd.randint(5, 10), 11, rnd.randint(5, 8)):  # the 11th moves the first old partition
        assert repartition(case, program("crash", step)) == -9, f"it was not killed after step {step}"
    assert repartition(case) == 0
    case.run_two_workers(static=True)
    case.prove("4 kills of state repartition")


def tombstones_first(case: Case) -> None:
    """Planted: states leave their old partitions before they are copied."""
    move(case)
    assert repartition(case, program("tombstones-first")) == -9
    assert repartition(case) == 0
    case.run_two_workers(static=True)


def move(case: Case) -> None:
    """A grown input whose workers have ended, with topics that have grown too and old partitions that are drained."""
    job = case.make_job(partitions=BEFORE)
    case.audit = GrownAudit(job, exactly_once=case.exactly_once)
    workers = [case.run_worker(name, static=True) for name in ("a", "b")]
    case.load = load = GrowingLoad(case, 60.0)
    load.start()
    case.wait_for_commits()
    grow_input(job)
    load.partitions = AFTER
    sent = len(load.placed)
    for worker in workers:
        case.wait_for_exit(worker, 3, "topics grow", NOTICED_WITHIN)
    case.wait_for_exit(case.start_worker("c"), 3, "topics grow", READY)
    until(lambda: not case.job.members(), "the sessions of the static members have ended", 60)
    until(lambda: load.acknowledged > sent, "what the producer sent by the old number of partitions is acknowledged", 60)
    assert command("topics", "grow", job.path) == 0
    case.wait_for_exit(case.start_worker("c"), 3, "--drain", READY)
    drained = case.start_worker("c", fresh=True, program=DRAIN)
    assert drained.process.wait(READY) == 0, drained.text()[-3000:]
    case.records = load.placed
    case.prove(f"grown from {BEFORE} to {AFTER} with {sent} records sent, {len(load.placed) - sent} while nobody worked")


def repartition(case: Case, words: Sequence[str] = REPARTITION) -> int:
    """The exit code of `state repartition`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, *words, str(case.job.path)],
        cwd=CHECKOUT,
        env=with_bytecode(),
        capture_output=True,
        text=True,
        timeout=READY,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.returncode

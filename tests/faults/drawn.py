"""Cases of jobs drawn from all sections: workers killed, stopped, frozen and joined at random moments; nothing is chosen.

Each fixed case names its fault and where it may do harm. These cases test combinations of sections, formats and faults that
no fixed case names.
"""

import json
import random
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

from streamjobs.core.messages import Stored
from streamjobs.job_files import job_of
from tests.brokers.fault_injection import STEPS, program
from tests.brokers.kafka_job import PARTITIONS, Sent, new_producer, send, until
from tests.brokers.workers import RUN, Worker
from tests.faults.audit import Audit
from tests.faults.case import READY, Case, ClusterJob, retried
from tests.faults.drawn_records import Drawn, Stream, draw, writer
from tests.faults.load import PacedLoad

RECORDS, SECONDS = 8_000, 12.0
KINDS = {"kill": 4, "start": 2, "stop": 2, "ending": 3, "join": 3, "freeze": 1}


class DrawnJob(ClusterJob):
    """A job with an input that may end with markers of transactions: it is done when its last record is."""

    last: dict[int, int] | None = None  # offset after the last record, by partition

    def ends(self, topic: str | None = None, **named: Any) -> dict[int, int]:
        return self.last if topic is None and self.last is not None else super().ends(topic, **named)


class TransactionalLoad(PacedLoad):
    """Sends in transactions; before some of them, the same records in one that is aborted."""

    def run(self) -> None:
        lasts = {"transactional.id": f"{self.job.name}-load", "transaction.timeout.ms": 300_000}
        producer, rng = new_producer(self.job.bootstrap, **lasts, **self.settings), random.Random(1)
        producer.init_transactions(READY)
        paced, some = self._paced(), list[Sent]()
        while not self._given_up.is_set():
            record = next(paced, None)
            some += [record] if record is not None else []
            if record is not None and len(some) < 100:
                continue
            for aborted in (True, False) if rng.random() < 0.2 else (False,):
                producer.begin_transaction()
                for one in reversed(some) if aborted else some:
                    send(producer, self.job.input, one, self._answered)
                producer.flush(READY)
                producer.abort_transaction(READY) if aborted else producer.commit_transaction(READY)
            some.clear()
            if record is None:
                return


class DrawnAudit(Audit):
    def _new(self, topic: str, *, committed_only: bool = False) -> list[Any]:
        return super()._new(topic, committed_only=committed_only or topic == self.job.input)


class History:
    """What happens to the workers of a job."""

    def __init__(self, case: Case, one: Drawn, rng: random.Random) -> None:
        self.case, self.one, self.rng = case, one, rng
        self.static, self.workers = rng.random() < 0.6, dict[str, Worker]()
        self.counts = dict.fromkeys((*KINDS, "crash", "wiped"), 0)

    def start(self, name: str) -> Worker:
        rng, state = self.rng, self.one.table["state"]
        env = {"STREAMJOBS_STATE__REPLAY": rng.choice((state["replay"], "0s", "200ms", "10s"))}
        steps = (*STEPS, "offsets") if self.case.exactly_once else STEPS
        faults = [(f"crash-after-{rng.choice(steps)}", rng.choice((1, 2, 5, 20)))]
        faults += [("crash-after-removal", rng.randrange(1, 12))] * (2 if "ttl" in state else 0)
        words = program(*rng.choice(faults)) if rng.random() < 0.5 else rng.choice((RUN, program("clock-jumps")))
        self.workers[name] = worker = self.case.start_worker(name, static=self.static, program=words, **env)
        return worker

    def kill(self, name: str) -> None:
        worker = self.workers.pop(name)
        assert worker.process.poll() in (None, 0, -9), f"worker {name} ended by itself:\n{worker.text()[-2000:]}"
        worker.end()
        if self.rng.random() < 0.25:
            shutil.rmtree(worker.state, ignore_errors=True)
            self.counts["wiped"] += 1

    def reap(self) -> None:
        """Forget workers that have crashed; any other end is a failure."""
        for name, worker in list(self.workers.items()):
            if (code := worker.process.poll()) is not None:
                assert code == -9, f"worker {name} ended with {code}:\n{worker.text()[-2000:]}"
                self.counts["crash"] += 1
                self.kill(name)

    def happen(self) -> None:
        """One fault, of a worker that is ready or about to be."""
        rng = self.rng
        self.reap()
        worker = self.workers.get("a") or self.start("a")
        (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
        if kind != "start":
            until(lambda: worker.process.poll() is not None or worker.events("ready"), "the worker is ready", READY)
        time.sleep(rng.uniform(0.0, 1.5))
        self.reap()
        name = rng.choice(["a", *self.workers])
        worker = self.workers.get(name) or self.start(name)
        self.counts[kind] += 1
        if kind == "stop":
            worker.stop()
            self.reap() if worker.process.returncode else self.workers.pop(name)
        elif kind == "join":
            self.workers.get("b") or self.start("b")
            time.sleep(rng.uniform(0.5, 4.0))  # the kill may come in the middle of the revoke
        elif kind == "freeze":
            worker.process.send_signal(signal.SIGSTOP)
            other = "b" if name == "a" else "a"
            self.workers.get(other) or self.start(other)
            time.sleep(rng.uniform(0.5, 8.0))
            worker.wake()
        if kind == "ending":
            worker.process.terminate()
            time.sleep(rng.uniform(0.0, 0.5))
        if kind in ("kill", "start", "ending") or (kind == "join" and rng.random() < 0.5):
            self.kill(name)


def drawn_case(case: Case) -> None:
    """A job, its records and what happens to its workers, all drawn from the case's seed."""
    rng = random.Random(case.seed)
    one = draw(rng)
    case.guarantee = one.table["job"]["guarantee"]
    folder = case.folder / case.name
    folder.mkdir()
    encode = writer(one, folder)
    sections = {"broker": {"session_timeout": "4s"}, **one.table}
    case.job = job = retried(
        lambda: DrawnJob(
            case.cluster.bootstrap, folder, case.name, population=one.population, directions=one.directions, **sections
        )
    )
    job.core = job_of(job.path).on_partitions(PARTITIONS)
    case.audit = DrawnAudit(job, exactly_once=case.exactly_once)
    case.records = Stream(one, case.seed, encode).records(RECORDS)
    load = TransactionalLoad if one.transactional else PacedLoad
    case.load = load(job, case.records, SECONDS)
    case.load.settings = {"compression.type": one.compression}
    case.load.start()
    history, began = History(case, one, rng), time.monotonic()
    while time.monotonic() - began < SECONDS + 5:
        history.happen()
    for name in list(history.workers):
        history.kill(name)
    case.load.finish()
    job.last = ends_of(job.inputs())
    # The audit compares all states; the last worker may need long for them with checkpoints of 64 KB on a busy machine.
    job.wait_until_done([case.run_worker("a", static=True, program=program("patient", 60))], 300)
    removed = sum(line["keys"] for worker in case.all_workers for line in worker.events("states of idle keys removed"))
    assert sum(history.counts.values()) > 0, "nothing happened to a worker"
    happened = ", ".join(f"{count} {kind}" for kind, count in history.counts.items() if count)
    case.prove(f"{happened}; {removed} states removed; {one.form}, {sorted(one.table)} {json.dumps(one.table['state'])}")


def ends_of(records: Sequence[Stored]) -> dict[int, int]:
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for record in records:
        ends[record.partition] = max(ends[record.partition], record.offset + 1)
    return ends

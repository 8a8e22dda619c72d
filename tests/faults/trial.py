"""One case under way: its job on the cluster, its workers, its load, what proves that the fault happened, its audit."""

import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from prometheus_client.parser import text_string_to_metric_families

from tests.brokers.bed import Bed, Sent, until
from tests.brokers.cluster import Cluster
from tests.brokers.nursery import Nursery
from tests.brokers.workers import RUN, Worker
from tests.faults.audit import Audit, Verdict, told
from tests.faults.stream import SOURCE, Pour

JOB: dict[str, dict[str, Any]] = {
    "source": SOURCE,
    "head": {"name": "rls"},
    "drift": {"detector": "page_hinkley"},
    "sinks": {"features": ""},
    "broker": {"session_timeout": "6s"},
}
MARKERS = 60.0  # seconds for the markers of commits to be written
READY = 180.0  # seconds; every deadline is for a machine with much else to do
SECRET = "hunter2-of-the-environment"  # stands for a password among a worker's variables
LOST = ("partition lost before it was made safe", "commit refused")  # log lines after which records are read again

T = TypeVar("T")


class ClusterBed(Bed):
    """Asks again while nodes are down."""

    def ends(self, *arguments: Any, **named: Any) -> dict[int, int]:
        return patient(lambda: Bed.ends(self, *arguments, **named))

    def committed(self) -> dict[int, int]:
        return patient(lambda: Bed.committed(self))

    def topic_setting(self, topic: str, setting: str) -> str:
        return patient(lambda: Bed.topic_setting(self, topic, setting))

    def members(self) -> list[int]:
        return patient(lambda: Bed.members(self))

    def settled(self) -> None:
        """Until every commit that was answered counts: its markers are written after the answer."""
        for name in (self.changelog, *self.job.sinks.values()):
            self.without_open(name)

    def without_open(self, name: str) -> None:
        until(lambda: self.ends(name) == self.ends(name, committed_only=False), f"{name}: all markers written", MARKERS)


def patient(ask: Callable[[], T], within: float = 90.0) -> T:
    begin = time.monotonic()
    while True:
        try:
            return ask()
        except (KafkaException, KafkaError, KeyError, TimeoutError):
            if time.monotonic() - begin > within:
                raise
        time.sleep(0.2)


class Place(NamedTuple):
    """Where cases happen, one after the other."""

    cluster: Cluster
    folder: Path
    nursery: Nursery
    guarantee: str = "at_least_once"  # [job] guarantee of every case


class Trial:
    """What a case does its work with. `proofs` say in a few words each that the fault happened; none: the case failed."""

    def __init__(self, place: "Place", name: str, records: Sequence[Sent], seed: int) -> None:
        self.cluster, self.folder, self.nursery, self.guarantee = place
        self.name, self.seed = name, seed
        self.records = records
        self.proofs: list[str] = []
        self.lives: list[Worker] = []  # every process there was
        self.counted: dict[Worker, dict[str, float]] = {}  # the counters of lives that ended with all their work safe
        self.program: Sequence[str] = RUN
        self.repeats = True  # outputs may come again, as after a crash
        self.killed = False  # a worker was ended with outputs that were not committed
        self.keeps: Any = None  # the input as it was before some of it was deleted
        self.bed: Any = None
        self.pouring: Pour | None = None

    def prove(self, text: str) -> None:
        self.proofs.append(text)

    def make_bed(self, **sections: dict[str, Any]) -> ClusterBed:
        merged = {name: JOB.get(name, {}) | sections.get(name, {}) for name in {**JOB, **sections}}
        if self.exactly_once:
            merged["job"] = {"guarantee": self.guarantee}
        self.bed = patient(lambda: ClusterBed(self.cluster.bootstrap, self.folder, self.name, **merged))
        self.audit = Audit(self.bed, exactly_once=self.exactly_once)
        return self.bed

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == "exactly_once"

    def pour(self, seconds: float = 30.0) -> Pour:
        self.pouring = Pour(self.bed, self.records, seconds)
        self.pouring.start()
        return self.pouring

    # Workers.

    def begin(
        self, name: str, *, static: bool = False, fresh: bool = False, program: Sequence[str] | None = None, **env: str
    ) -> Worker:
        """Started, and not waited for.

        static: a restart need not wait for the session of the one before it.  fresh: by the command line, not forked.
        """
        if static:
            env["STREAMJOBS_BROKER__INSTANCE_ID"] = name
        nursery = None if fresh else self.nursery
        worker = Worker(
            self.bed, name, program=program or self.program, nursery=nursery, STREAMJOBS_TESTS_SECRET=SECRET, **env
        )
        self.lives.append(worker)
        return worker

    def work(self, name: str, **options: Any) -> Worker:
        return self.begin(name, **options).ready(READY)

    def both(self, **options: Any) -> list[Worker]:
        """Two workers, ready, with two partitions each."""
        workers = [self.begin(name, **options) for name in ("a", "b")]
        for worker in workers:
            worker.ready(READY)
        self.shared()
        return workers

    @property
    def alive(self) -> list[Worker]:
        return [worker for worker in self.lives if worker.process.poll() is None]

    def shared(self) -> None:
        until(lambda: self.bed.members() == [2, 2], lambda: f"two members with 2 partitions: {self.bed.members()}", 120)

    def alone(self) -> None:
        until(lambda: self.bed.members() == [4], lambda: f"one member with 4 partitions: {self.bed.members()}", 120)

    def progress(self, records: int = 0, within: float = 180.0) -> None:
        """Wait until so many more records are committed (0: a thousandth); all workers must live meanwhile."""
        records = records or len(self.records) // 1000 + 1
        goal = sum(self.bed.committed().values()) + records
        watched = self.alive

        def further() -> bool:
            for worker in watched:
                worker.must_live()
            return sum(self.bed.committed().values()) >= goal

        until(further, f"{self.name}: {records} more records committed (of {goal})", within)

    def terminate(self, worker: Worker) -> None:
        """SIGTERM; must end with code 0 and everything it applied safe."""
        code = worker.stop(90)
        assert code == 0, f"worker {worker.name} ended with code {code} on SIGTERM:\n{worker.text()[-3000:]}"
        self._count_stopped(worker)

    def _count_stopped(self, worker: Worker) -> None:
        """What it counted, from its last log line."""
        for event in worker.events("stopped"):
            self.counted[worker] = {name: value for name, value in event.items() if isinstance(value, int)}

    def ends_by_itself(self, worker: Worker, code: int, says: str, within: float = 120.0) -> str:
        """It must end with this code and one line that says so; gives the line."""
        got = worker.process.wait(within)
        lines = [line for line in worker.text().splitlines() if line and not line.startswith("{")]
        text = worker.text()[-3000:]
        assert got == code and len(lines) == 1 and says in lines[0], f"expected code {code} and {says!r}, got {got}:\n{text}"
        return lines[0]

    def reasons(self) -> dict[str, int]:
        """Dead letters by reason, each record once."""
        found = {}
        for message in self.bed.read(self.bed.job.sinks["dlq"]):
            headers = dict(message.headers())
            found[headers["streamjobs-id"]] = headers["streamjobs-error-reason"].decode()
        return dict(Counter(found.values()))

    # The end.

    def finish(self) -> None:
        """The rest of the records, everything done, the workers stopped."""
        if self.pouring is not None:
            self.pouring.finish()
        workers = self.alive
        assert workers, "no worker is left to finish the work"
        self.bed.until_done(workers, 300)
        # Where nothing was left to do the last rebalance may still be under way.
        until(lambda: held_by(workers) == 4, "metrics that tell of 4 assigned partitions", 60)
        scrapes = [scraped(worker) for worker in workers]
        for worker in workers:
            self.terminate(worker)
        lag = sum(
            value for scrape in scrapes for name, value in scrape.items() if name.startswith("streamjobs_consumer_lag")
        )
        assert lag == 0, f"all is committed, but the workers' metrics tell of a lag of {lag:.0f}"

    def hold(self) -> Verdict:
        """The audit of everything, and whether the fault happened at all."""
        assert self.proofs, "nothing proves that the fault happened"
        sent = self.records if self.pouring is not None else ()
        unread, records = (self.keeps.unread(), self.keeps.read()) if self.keeps is not None else ((), ())
        verdict = self.audit.hold(repeats=self.repeats, sent=sent, unread=unread, records=records)
        if verdict.resent:
            self.prove(f"{verdict.resent} records sent again by the load's own producer")
        if self.exactly_once:
            self.prove(f"{verdict.undone} outputs in transactions that do not count")
            if self.killed and not verdict.undone:
                verdict.problems.append("workers were killed, and no output was in a transaction that does not count")
        verdict.problems += self.audit.stores({worker.state for worker in self.lives})
        verdict.problems += told(self.lives, [SECRET])
        verdict.problems += self._counters()
        return verdict

    def _counters(self) -> list[str]:
        """Lives that all ended in order have counted every record once; of one that was killed the counters are gone."""
        wanted = {"records": self.audit.report.records, "dead_lettered": sum(self.audit.report.dead_lettered.values())}
        again = any(line in worker.text() for worker in self.lives for line in LOST)
        whole = len(self.counted) == len(self.lives) and not again
        problems = []
        for name, truth in wanted.items():
            counted = sum(
                counts[name] - (counts["redelivered"] if name == "records" else 0) for counts in self.counted.values()
            )
            if counted != truth if whole else counted > truth and not again:
                problems.append(f"the workers counted {counted} {name}, there were {truth}")
        return problems

    def close(self) -> None:
        """Whatever state it is in, it is over."""
        for worker in self.lives:
            worker.end()
        if self.pouring is not None:
            self.pouring.give_up()
        if self.bed is not None:
            topics = {self.bed.input, self.bed.changelog, *self.bed.job.sinks.values()}
            self.bed.admin.delete_topics(list(topics))


def held_by(workers: Sequence[Worker]) -> float:
    """Partitions the workers' metrics say are assigned."""
    return sum(scraped(worker).get("streamjobs_assigned_partitions", 0) for worker in workers)


def scraped(worker: Worker) -> dict[str, float]:
    """name{labels} -> value of a worker's metrics."""
    port = worker.events("serving /metrics and /health")[0]["port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found

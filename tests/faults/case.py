"""One run of a case: its job on the cluster, workers, load, the proof that the fault happened, and the audit."""

import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from prometheus_client.parser import text_string_to_metric_families

from tests.brokers.cluster import Cluster
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import ANSWER, PARTITIONS, KafkaJob, Sent, until
from tests.brokers.workers import RUN, Worker
from tests.faults.audit import Audit, Verdict, leaks
from tests.faults.load import SOURCE, PacedLoad
from tests.faults.scenarios import ATTEMPTS

JOB: dict[str, dict[str, Any]] = {
    "source": SOURCE,
    "head": {"name": "rls"},
    "drift": {"detector": "page_hinkley"},
    "sinks": {"features": ""},
    "broker": {"session_timeout": "6s"},
}
READY = 180.0  # seconds; every deadline is for a machine with much else to do
SECRET = "hunter2-of-the-environment"  # stands for a password among a worker's variables
READ_AGAIN = (  # log events after which records are read again
    "partition taken over by another worker",
    "offset commit refused during a rebalance",
)

T = TypeVar("T")


class ClusterJob(KafkaJob):
    """A job whose questions to the cluster are repeated while nodes are down."""

    def ends(self, *arguments: Any, **named: Any) -> dict[int, int]:
        return retried(lambda: KafkaJob.ends(self, *arguments, **named))

    def committed(self) -> dict[int, int]:
        return retried(lambda: KafkaJob.committed(self))

    def topic_setting(self, topic: str, setting: str) -> str:
        return retried(lambda: KafkaJob.topic_setting(self, topic, setting))

    def members(self) -> list[int]:
        return retried(lambda: KafkaJob.members(self))

    def wait_for_all_markers(self) -> None:
        for name in (self.changelog, *self.core.sinks.values()):
            self.wait_for_markers(name)


def retried(ask: Callable[[], T], within: float = 90.0) -> T:
    begin = time.monotonic()
    while True:
        try:
            return ask()
        except (KafkaException, KafkaError, KeyError, TimeoutError):
            if time.monotonic() - begin > within:
                raise
        time.sleep(0.2)


class Environment(NamedTuple):
    """What all cases run on, one after the other."""

    cluster: Cluster
    folder: Path
    fork_server: ForkServer
    guarantee: str = "at_least_once"  # [job] guarantee of every case
    replay: str = ""  # [state] replay of every case; "": the default


class Case:
    """One run of a case. `proofs` say in a few words each that the fault happened; without one the case fails."""

    def __init__(self, environment: Environment, name: str, records: Sequence[Sent], seed: int) -> None:
        self.cluster, self.folder, self.fork_server, self.guarantee, self.replay = environment
        self.name, self.seed = name, seed
        self.records = records
        self.proofs: list[str] = []
        self.found: list[str] = []  # problems beside those of the audit
        self.all_workers: list[Worker] = []  # every process there was
        self.counted: dict[Worker, dict[str, float]] = {}  # the counters of workers that stopped in order
        self.program: Sequence[str] = RUN
        self.repeats = True  # outputs may come again, as after a crash
        self.killed = False  # a worker was ended with outputs that were not committed
        self.audited_with: Callable[[int], Callable[[], None]] | None = None  # a fault the truth has as well, and its end
        self.deleted_input: Any = None  # the input as it was before some of it was deleted
        self.job: Any = None
        self.load: PacedLoad | None = None

    def prove(self, text: str) -> None:
        self.proofs.append(text)

    def make_job(self, *, partitions: int = PARTITIONS, **sections: dict[str, Any]) -> ClusterJob:
        merged = {name: JOB.get(name, {}) | sections.get(name, {}) for name in {**JOB, **sections}}
        merged = {name: {one: to for one, to in of.items() if to is not None} for name, of in merged.items()}
        if self.exactly_once:
            merged["job"] = {"guarantee": self.guarantee}
        if self.replay:
            merged["state"] = {"replay": self.replay, **merged.get("state", {})}
        self.job = retried(
            lambda: ClusterJob(self.cluster.bootstrap, self.folder, self.name, partitions=partitions, **merged)
        )
        self.audit = Audit(self.job, exactly_once=self.exactly_once)
        return self.job

    @property
    def soon(self) -> dict[str, str]:
        """[state] of a case that needs states in the changelog within seconds."""
        return {"replay": "0s" if self.replay == "0s" else "20ms"}

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == "exactly_once"

    def start_load(self, seconds: float = 30.0) -> PacedLoad:
        self.load = PacedLoad(self.job, self.records, seconds)
        self.load.start()
        return self.load

    # Workers.

    def start_worker(
        self, name: str, *, static: bool = False, fresh: bool = False, program: Sequence[str] | None = None, **env: str
    ) -> Worker:
        """Start a worker without waiting for it.

        static: a restart does not wait for the session of the process before.  fresh: by the command line, not forked.
        """
        if static:
            env["STREAMJOBS_BROKER__INSTANCE_ID"] = name
        fork_server = None if fresh else self.fork_server
        worker = Worker(
            self.job, name, program=program or self.program, fork_server=fork_server, STREAMJOBS_TESTS_SECRET=SECRET, **env
        )
        self.all_workers.append(worker)
        return worker

    def run_worker(self, name: str, **options: Any) -> Worker:
        return self.start_worker(name, **options).ready(READY)

    def run_two_workers(self, **options: Any) -> list[Worker]:
        """Two workers, ready, with two partitions each."""
        workers = [self.start_worker(name, **options) for name in ("a", "b")]
        for worker in workers:
            worker.ready(READY)
        self.wait_for_two_members()
        return workers

    @property
    def running_workers(self) -> list[Worker]:
        return [worker for worker in self.all_workers if worker.process.poll() is None]

    def wait_for_two_members(self) -> None:
        until(lambda: self.job.members() == [2, 2], lambda: f"two members with 2 partitions: {self.job.members()}", 120)

    def wait_for_one_member(self) -> None:
        until(lambda: self.job.members() == [4], lambda: f"one member with 4 partitions: {self.job.members()}", 120)

    def wait_for_commits(self, records: int = 0, within: float = 180.0) -> None:
        """Wait until so many more records are committed (0: a thousandth); all workers must live meanwhile.

        On a slow machine workers may start when the load only trickles. The goal is then what is left before the trickle,
        and at least a thousandth. It is an error if the load ends before the goal: a fault must meet work.
        """
        if self.load is not None:
            records = min(records, self.job.lag() + self.load.left_at_pace)
        records = max(records, len(self.records) // 1000 + 1)
        goal = sum(self.job.committed().values()) + records
        watched = self.running_workers

        def further() -> bool:
            for worker in watched:
                worker.assert_running()
            ended = self.load is not None and not self.load.is_alive() and self.job.lag() == 0
            reached = sum(self.job.committed().values()) >= goal
            assert reached or not ended, f"{self.name}: the load ended before {goal} records were committed"
            return reached

        until(further, f"{self.name}: {records} more records committed (of {goal})", within)

    def wait_for_open_outputs(self, within: float = 60.0) -> None:
        """With exactly_once, wait until outputs are in transactions that are not committed."""
        if self.exactly_once:
            until(lambda: self._open(self._output_ends()), f"{self.name}: outputs in open transactions", within, every=0.01)

    def freeze_with_open_outputs(self, worker: Worker) -> None:
        """With exactly_once, freeze a worker that has outputs in transactions, which a kill then undoes.

        Without the freeze it may commit them between the look and the kill: checkpoints are 75 ms apart.
        """
        if self.exactly_once:
            for _ in range(ATTEMPTS):
                self.wait_for_open_outputs()
                worker.freeze()
                written = self._output_ends()
                time.sleep(1.0)  # the other workers have committed theirs
                if self._open(written):
                    return
                worker.wake()
            raise AssertionError(f"worker {worker.name} had no outputs in a transaction when it was frozen, each time")

    def _output_ends(self) -> dict[str, dict[int, int]]:
        return {topic: self.job.ends(topic, committed_only=False) for topic in self.job.core.sinks.values()}

    def _open(self, written: dict[str, dict[int, int]]) -> bool:
        """Whether any of the outputs written up to these offsets is not committed now."""
        counted = {topic: self.job.ends(topic) for topic in written}
        return any(end > counted[topic][number] for topic, ends in written.items() for number, end in ends.items())

    def stop_worker(self, worker: Worker) -> None:
        """SIGTERM; must end with code 0 and everything it applied safe."""
        code = worker.stop(90)
        assert code == 0, f"worker {worker.name} ended with code {code} on SIGTERM:\n{worker.text()[-3000:]}"
        self._count_stopped(worker)

    def _count_stopped(self, worker: Worker) -> None:
        """The counters of the worker, from its last log line."""
        for event in worker.events("stopped"):
            self.counted[worker] = {name: value for name, value in event.items() if isinstance(value, int)}

    def wait_for_exit(self, worker: Worker, code: int, says: str, within: float = 120.0) -> str:
        """The worker must end by itself with this code and one line that says so; gives the line."""
        got = worker.process.wait(within)
        lines = [line for line in worker.text().splitlines() if line and not line.startswith("{")]
        text = worker.text()[-3000:]
        assert got == code and len(lines) == 1 and says in lines[0], f"expected code {code} and {says!r}, got {got}:\n{text}"
        return lines[0]

    def dead_letter_reasons(self) -> dict[str, int]:
        """Dead letters by reason, each record once."""
        found = {}
        for message in self.job.read(self.job.core.sinks["dlq"]):
            headers = dict(message.headers())
            found[headers["streamjobs-id"]] = headers["streamjobs-error-reason"].decode()
        return dict(Counter(found.values()))

    # The end of the case.

    def finish(self) -> None:
        """Send the remaining records, wait until all are processed, stop the workers."""
        if self.load is not None:
            self.load.finish()
        workers = self.running_workers
        assert workers, "no worker is left to finish the work"
        self.job.wait_until_done(workers, 300)
        # Where nothing was left to do the last rebalance may still be under way.
        until(lambda: assigned_partitions(workers) == 4, "metrics that tell of 4 assigned partitions", 60)
        scrapes = [scrape_metrics(worker) for worker in workers]
        for worker in workers:
            self.stop_worker(worker)
        lag = sum(
            value for scrape in scrapes for name, value in scrape.items() if name.startswith("streamjobs_consumer_lag")
        )
        assert lag == 0, f"all is committed, but the workers' metrics tell of a lag of {lag:.0f}"

    def check(self) -> Verdict:
        """Audit everything; a case that cannot prove its fault fails."""
        assert self.proofs, "nothing proves that the fault happened"
        sent = self.records if self.load is not None else ()
        unread, records = (
            (self.deleted_input.unread(), self.deleted_input.read()) if self.deleted_input is not None else ((), ())
        )
        mend = self.audited_with(1) if self.audited_with is not None else lambda: None
        try:
            verdict = self.audit.check(repeats=self.repeats, sent=sent, unread=unread, records=records)
        finally:
            mend()
        if verdict.resent:
            self.prove(f"{verdict.resent} records sent again by the load's own producer")
        if self.exactly_once:
            self.prove(f"{verdict.undone} outputs in transactions that do not count")
            if self.killed and not verdict.undone:
                verdict.problems.append("workers were killed, and no output was in a transaction that does not count")
        failed = self.audit.report.dead_lettered.get("learner_failed", 0)
        if failed and self.audited_with is None:
            verdict.problems.append(f"a stage raised an error for {failed} records")
        verdict.problems += self.audit.stores({worker.state for worker in self.all_workers})
        verdict.problems += leaks(self.all_workers, [SECRET])
        verdict.problems += self._counters() + self.found
        return verdict

    def _counters(self) -> list[str]:
        """Workers that all stopped in order have counted every record once; the counters of a killed one are gone."""
        truth_of = self.audit.report
        wanted = {"records": truth_of.records, "dead_lettered": sum(truth_of.dead_lettered.values())}
        again = any(line in worker.text() for worker in self.all_workers for line in READ_AGAIN)
        whole = len(self.counted) == len(self.all_workers) and not again
        if whole and not self.audit.gaps:  # what a key has learned before it was set aside is counted too
            more = {"samples": truth_of.samples, "rows": truth_of.rows}  # which earlier releases do not report
            wanted |= {name: of for name, of in more.items() if all(name in counts for counts in self.counted.values())}
        problems = []
        for name, truth in wanted.items():
            counted = sum(
                counts[name] - (counts["redelivered"] if name == "records" else 0) for counts in self.counted.values()
            )
            if counted != truth if whole else counted > truth and not again:
                each = [(worker.name, counts[name], counts["redelivered"]) for worker, counts in self.counted.items()]
                problems.append(f"the workers counted {counted} {name} (worker, {name}, redelivered: {each}), not {truth}")
        return problems

    def close(self) -> None:
        """End all workers and the load, whatever state they are in."""
        for worker in self.all_workers:
            worker.end()
        if self.load is not None:
            self.load.abort()
        if self.job is not None:
            topics = {self.job.input, self.job.changelog, *self.job.core.sinks.values()}
            for answer in self.job.admin.delete_topics(list(topics)).values():  # else the next case finds them there
                with suppress(KafkaException, TimeoutError):
                    answer.result(ANSWER)
            until(lambda: topics.isdisjoint(retried(self._topics)), "the topics are gone")

    def _topics(self) -> list[str]:
        return list(self.job.admin.list_topics(timeout=10).topics)


def assigned_partitions(workers: Sequence[Worker]) -> float:
    """Partitions the workers' metrics say are assigned."""
    return sum(scrape_metrics(worker).get("streamjobs_assigned_partitions", 0) for worker in workers)


def port_of(worker: Worker) -> int:
    """Of its /metrics and /health."""
    return int(worker.events("serving /metrics and /health")[0]["port"])


def scrape_metrics(worker: Worker) -> dict[str, float]:
    """name{labels} -> value of a worker's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port_of(worker)}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found

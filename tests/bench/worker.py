"""The worker's speed on a real Kafka on this machine: python -m tests.bench worker [PART ...] [--quick].

Parts: simple, full, frames, faust, two (backlogs), latency, once, restart, recovery. Figures are printed with the
machine's load and with what was counted; nothing is asserted about time. CPU is the worker process's own, with everything
it does.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.goals import goal
from tests.bench.once import both_guarantees
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, new_producer, send, until
from tests.brokers.workers import Worker

DIM, KEYS, FRAME = 40, 200, 100
START = 1_700_000_000.0
SOURCE = {"dim": DIM, "time": "ts", "label": "label"}
FULL = {  # one output a record
    "source": SOURCE,
    "learner": {"name": "okfeb", "rank": 10, "budget": 15},
    "head": {"name": "rls", "max_classes": 2},
    "sinks": {"features": ""},
}
SIMPLE = FULL | {"state": {"replay": "0s"}}  # its states remember no records
FAUST = ("-m", "tests.bench.programs", "faust")
STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}
_POOL = 2000


def bodies(seed: int = 1) -> list[bytes]:
    """Beginnings of JSON records of 40 floats; time and end are added when one is sent (see `_chosen`)."""
    rnd = random.Random(seed)
    made = []
    for _ in range(_POOL):
        centre = rnd.choice((-1.0, 1.0))
        x = [round(rnd.gauss(centre, 1.0), 6) for _ in range(DIM)]
        made.append(json.dumps({"x": x, "label": "up" if centre > 0 else "down"}).encode()[:-1])
    return made


def singles(count: int, keys: int = KEYS) -> Iterator[Sent]:
    pool = bodies()
    for number in range(count):
        key, at = number % keys, START + number * 1e-3
        yield Sent(b"key-%d" % key, pool[_chosen(number, keys)] + b',"ts":%.3f}' % at, key % PARTITIONS, round(at * 1000))


def _chosen(number: int, keys: int) -> int:
    """Which body: a key meets all of them before one comes again (repeats would teach it nothing)."""
    return (number // keys + 7 * (number % keys)) % _POOL


def frames(count: int) -> Iterator[Sent]:
    """Frames of 100 samples as raw f32, 50 Hz."""
    rng = np.random.default_rng(1)
    pool = [rng.normal(size=(FRAME, DIM)).astype("<f4").tobytes() for _ in range(100)]
    fixed = [("streamjobs-shape", b"%d,%d" % (FRAME, DIM)), ("streamjobs-dtype", b"f4"), ("streamjobs-rate", b"50")]
    for number in range(count):
        key, at = number % KEYS, START + number // KEYS * FRAME / 50
        headers = [*fixed, ("streamjobs-time", b"%.3f" % at), ("streamjobs-label", b'"up"' if number % 2 else b'"down"')]
        yield Sent(b"key-%d" % key, pool[number % 100], key % PARTITIONS, round(at * 1000), headers)


def surroundings() -> str:
    """The machine at this moment: load, and a fixed loop in seconds (0.13 on a free core of the machine of the README)."""
    begin, total = time.perf_counter(), 0
    for number in range(3_000_000):
        total += number
    return f"load {os.getloadavg()[0]:.1f}, fixed loop {time.perf_counter() - begin:.2f} s"


class Bench:
    """Beds on one broker, and lines of figures."""

    def __init__(self, broker: Broker, folder: Path, *, quick: bool) -> None:
        self.broker, self.folder, self.quick = broker, folder, quick
        self.made = 0

    def job(self, name: str, **sections: Any) -> KafkaJob:
        self.made += 1
        return KafkaJob(self.broker.bootstrap, self.folder, f"{name}-{self.made}", **sections)

    def count(self, full: int) -> int:
        return full // 20 if self.quick else full

    def backlog(
        self,
        name: str,
        records: Iterator[Sent],
        outputs: int,
        program: Sequence[str],
        *,
        by_commits: bool = False,
        **sections: Any,
    ) -> dict:
        """Everything is in the input before the worker starts; timed from its first output seen to the last.

        by_commits: an output counts as seen when its input is committed, for topics with markers between outputs.
        """
        job = self.job(name, **sections)
        sent = job.produce(records)
        each = outputs / sent
        predictions = job.core.sinks["predictions"]
        worker = Worker(job, program=program)

        def got() -> int:
            worker.assert_running()
            return sum(job.committed().values()) if by_commits else sum(job.ends(predictions).values())

        try:
            until(got, "the first output", 180, every=0.01)
            begin, first, cpu = time.perf_counter(), got(), worker.cpu()
            until(lambda: got() >= outputs, lambda: f"{outputs} outputs, {got()} came", 300, every=0.02)
            seconds, used = time.perf_counter() - begin, worker.cpu() - cpu
            if program[1] == "streamjobs":
                job.wait_until_done([worker])
            worker.assert_running()
            worker.process.terminate()
            ended = worker.process.wait(60)
            assert program == FAUST or ended == 0, worker.text()[-3000:]
        finally:
            worker.end()
        counted = sum(1 for _ in job.read(predictions, committed_only=True))
        timed = (outputs - first) / each
        result = {"records/s": timed / seconds, "cpu_us": used / timed * 1e6, "counted": counted, "expected": outputs}
        per = f" = {each * timed / seconds:,.0f} samples/s, {used / timed / each * 1e6:.2f} us a sample" if each > 1 else ""
        print(
            f"backlog {name:8} {timed / seconds:>9,.0f} records/s  {used / timed * 1e6:>7.1f} us CPU a record{per}  "
            f"({sent:,} records, {timed:,.0f} timed, {counted:,} outputs counted, {outputs:,} expected; {surroundings()})",
            flush=True,
        )
        return result

    def simple(self) -> dict:
        n = self.count(300_000)
        return self.backlog("simple", singles(n), n, ("-m", "tests.bench.programs", "simple"), **SIMPLE)

    def full(self) -> dict:
        n = self.count(300_000)
        return self.backlog("full", singles(n), n, ("-m", "streamjobs", "run"), **FULL)

    def frames(self) -> dict:
        n = self.count(10_000)
        source = {"dim": DIM, "format": "raw"}
        return self.backlog("frames", frames(n), n * FRAME, ("-m", "streamjobs", "run"), **FULL | {"source": source})

    def faust(self) -> dict:
        n = self.count(20_000)
        return self.backlog("faust", singles(n), n, FAUST, **FULL)

    def latency(self, rate: int = 2000) -> dict:
        """From just before produce to the output in a reader's hands, at a steady rate of single samples.

        In two paces: by a producer with Kafka's usual linger of 5 ms, and each record in a request of its own, which costs
        the broker most. Beside it what the records themselves take to reach the reader, without any worker.
        """
        seconds = 1 if self.quick else 20
        floor = self._ages("the input itself", self.job("floor", **FULL), rate, 1 if self.quick else 5, linger=5)
        usual = self.aged("producer's linger 5 ms", rate, seconds, linger=5)
        alone = self.aged("a request for each record", rate, seconds, linger=0)
        return {"floor": floor, "usual": usual, "alone": alone}

    def once(self) -> dict:
        """Outputs at least once and exactly once, in turn."""
        return both_guarantees(self)

    def aged(self, pace: str, rate: int, seconds: float, *, linger: int, **sections: Any) -> dict:
        job = self.job("latency", **FULL | sections)
        worker = Worker(job)
        try:
            worker.ready()
            time.sleep(1.0)
            result = self._ages(pace, job, rate, seconds, linger=linger, worker=worker)
            assert worker.stop() == 0
        finally:
            worker.end()
        return result

    def two(self) -> dict:
        """A backlog of one worker, and of two with half of the partitions each; timed once they have them."""
        n, rates = max(400_000, self.count(900_000)), {}  # fewer are done before the partitions are divided
        for workers in (1, 2):
            job = self.job("two", **FULL)
            job.produce(singles(n))
            ends = partial(job.ends, job.core.sinks["predictions"])
            running = [Worker(job, name) for name in "ab"[:workers]]
            try:
                for worker in running:
                    worker.ready()
                until(lambda: job.members() == [PARTITIONS // workers] * workers, "a share for each worker", 120)  # noqa: B023
                before = sum(ends().values())
                until(lambda: sum(ends().values()) > before, "an output", 60, every=0.01)  # noqa: B023
                begin, first = time.perf_counter(), sum(ends().values())
                until(lambda: sum(ends().values()) >= n, "all outputs", 300, every=0.02)  # noqa: B023
                rates[workers] = (n - first) / (time.perf_counter() - begin)
                job.wait_until_done(running)
                more = sum(ends().values()) - n
            finally:
                for worker in running:
                    worker.end()
            print(
                f"{workers} workers: {rates[workers]:,.0f} records/s ({n - first:,} of {n:,} timed, {more} outputs "
                f"repeated; {surroundings()})",
                flush=True,
            )
        goal("two workers, of the records a second of one", rates[2] / rates[1], 1.6, "", least=True)
        return {"ratio": rates[2] / rates[1], "repeated": more}

    def _ages(
        self, pace: str, job: KafkaJob, rate: int, seconds: float, *, linger: int, worker: Worker | None = None
    ) -> dict:
        found: list[float] = []
        enough = threading.Event()
        topic = job.core.sinks["predictions"] if worker is not None else job.input
        reader = threading.Thread(target=read_ages, args=(job, topic, found, enough))
        reader.start()
        try:
            before = worker.cpu() if worker is not None else 0.0
            busy, begin = _busy(), time.monotonic()
            sent = steady(job, rate, seconds, linger=linger)
            cores = (_busy() - busy) / (time.monotonic() - begin)
            used = worker.cpu() - before if worker is not None else 0.0
            until(lambda: len(found) >= sent, lambda: f"{sent} records, {len(found)} came")
        finally:
            enough.set()
            reader.join()
        kept = sorted(found[len(found) // 10 :])  # without the first tenth: connections and caches warm up
        at = {q: 1000 * kept[min(len(kept) - 1, int(q * len(kept)))] for q in (0.5, 0.95, 0.99)}
        print(
            f"latency at {rate:,}/s, {pace}: p50 {at[0.5]:.1f}  p95 {at[0.95]:.1f}  p99 {at[0.99]:.1f}  "
            f"max {1000 * kept[-1]:.0f} ms"
            + (f", {used / sent * 1e6:.0f} us CPU a record" if worker is not None else "")
            + f"  ({sent:,} sent, {len(found):,} counted; {cores:.1f} of {os.cpu_count()} cores busy, {surroundings()})",
            flush=True,
        )
        return {"p50": at[0.5], "p99": at[0.99], "counted": len(found), "sent": sent}

    def restart(self) -> dict:
        """From the start of a new process after kill -9 to the first output it adds; static membership, under load."""
        job = self.job("restart", **FULL)
        predictions, enough = job.core.sinks["predictions"], threading.Event()
        worker = Worker(job, **STATIC).ready()
        load = threading.Thread(target=steady, args=(job, 1000, 10_000, enough))
        load.start()
        took = []
        try:
            for _ in range(1 if self.quick else 4):
                until(lambda: sum(job.committed().values()) > 0, "a commit", 60)
                time.sleep(2.0)
                assert worker.kill() == -9
                before = sum(job.ends(predictions).values())
                begin = time.perf_counter()
                worker = Worker(job, **STATIC)
                until(lambda before=before: sum(job.ends(predictions).values()) > before, "an output", 60, every=0.01)
                took.append(time.perf_counter() - begin)
        finally:
            enough.set()
            load.join()
            worker.end()
        text = ", ".join(f"{seconds:.2f}" for seconds in took)
        print(
            f"first output after kill -9: {text} s, median {statistics.median(took):.2f} s  ({surroundings()})", flush=True
        )
        return {"median": statistics.median(took)}

    def recovery(self) -> dict:
        """10,000 keys with grown states; then the disk is lost and a new worker starts."""
        keys = 500 if self.quick else 10_000
        job = self.job("recovery", **FULL)
        job.produce(singles(20 * keys, keys))
        worker = Worker(job).ready()
        try:
            job.wait_until_done([worker], 300)
            assert worker.stop() == 0
            held = job.snapshots()
            shutil.rmtree(worker.state)
            begin = time.perf_counter()
            worker = Worker(job).ready()
            ready = time.perf_counter() - begin
            (restored,) = worker.events("recovery finished")
            (compiled,) = worker.events("learner loops compiled")
            worker.stop()
        finally:
            worker.end()
        size = statistics.mean(map(len, held.values()))
        rate = restored["keys_written"] / max(restored["seconds"], 1e-3)
        print(
            f"recovery from an empty disk: {restored['keys_written']:,} keys of {size / 1024:.1f} KB "
            f"({restored['records']:,} changelog records, {len(held):,} keys) in {restored['seconds']} s"
            f" = {rate:,.0f} keys/s; start to ready {ready:.1f} s, of it loops {compiled['seconds']} s  ({surroundings()})",
            flush=True,
        )
        return {"keys/s": rate, "keys": restored["keys_written"], "held": len(held)}


def _busy() -> float:
    """CPU seconds this machine's cores have been busy with anything since it started."""
    user, nice, system, _, _, irq, soft, steal = (int(n) for n in Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def steady(job: KafkaJob, rate: int, seconds: float, enough: threading.Event | None = None, *, linger: int = 0) -> int:
    """Single samples, evenly spaced, whose event time is the moment they are sent; gives how many."""
    producer, pool = new_producer(job.bootstrap, **{"linger.ms": linger}), bodies()
    begin, number = time.time(), 0
    while number < rate * seconds and not (enough is not None and enough.is_set()):
        ahead = begin + number / rate - time.time()
        if ahead > 0:
            time.sleep(ahead)
        key, at = number % KEYS, time.time()
        value = pool[_chosen(number, KEYS)] + b',"ts":%.6f}' % at
        send(producer, job.input, Sent(b"key-%d" % key, value, key % PARTITIONS, round(at * 1000)), _ignore)
        number += 1
    producer.flush(30)
    return number


def _ignore(error: Any, message: Any) -> None:
    assert error is None, error


def read_ages(job: KafkaJob, topic: str, found: list[float], enough: threading.Event) -> None:
    """How old each record was when it came: now less its timestamp (the event time in whole milliseconds)."""
    consumer = Consumer(
        {"bootstrap.servers": job.bootstrap, "group.id": "ages", "fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 50}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while not enough.is_set():
        message = consumer.poll(0.05)  # not consume(n, t): that waits t for n messages
        if message is not None and message.error() is None:
            found.append(time.time() - message.timestamp()[1] / 1000)
    consumer.close()


PARTS = ("simple", "full", "frames", "faust", "two", "latency", "once", "restart", "recovery")


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench worker", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"absent: all of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the records")
    options = parser.parse_args(list(arguments))
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]!r}; there are: {', '.join(PARTS)}")
    try:
        with cleaning_up_on_sigterm(), tempfile.TemporaryDirectory(prefix="streamjobs-bench-") as folder, Broker() as broker:
            bench = Bench(broker, Path(folder), quick=options.quick)
            results = {part: getattr(bench, part)() for part in options.parts or PARTS}
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if {"full", "faust"} <= results.keys():
        ratio = results["faust"]["cpu_us"] / results["full"]["cpu_us"]
        print(f"a record costs stock Faust {ratio:.0f} times as much CPU as the worker, both calling the same learner")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

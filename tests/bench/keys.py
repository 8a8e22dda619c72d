"""How the worker takes many keys: python -m tests.bench keys [NUMBER ...] [--records N] [--memory] [--quick].

For each number of keys, on a real Kafka: a backlog in which the keys come in turn, so that beyond [state] cache no record
finds its state in memory. Printed: records a second, processor and resident memory of the worker, states read and written,
the time from start to ready after its disk was wiped, and after a second worker joined; bytes on disk and in the changelog.
`--memory`: memory of 20,000 keys over their slots.
"""

import argparse
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.settings.load import settings_from
from tests.bench.goals import goal
from tests.bench.worker import FULL, START, singles, surroundings
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, until
from tests.brokers.workers import Worker

DIM = 4
NUMBERS = (10_000, 50_000, 200_000, 1_000_000)
RECORDS = 1_600_000
JOB = {  # 1.3 KB a key after its first records, 3.8 once its budget is full
    "source": {"dim": DIM, "time": "ts", "label": "label"},
    "learner": {"name": "okfeb", "rank": 10, "budget": 15},
    "head": {"name": "rls", "max_classes": 2},
    "sinks": {"features": ""},
}
STATE = {"replay": "0s"}  # each checkpoint writes every changed state; `tests.bench state` has the others
REST = 15  # seconds after a backlog
WARM = 20  # records of each key before anything is measured: at the 15th its budget is full, and its subspace begins
_POOL = 4096


def in_turn(keys: int, first: int, count: int) -> Iterator[Sent]:
    """Records number first to first + count; the keys come in turn."""
    numbers = range(first, first + count)
    return _records((number % keys, number // keys, number + number // keys) for number in numbers)


def _records(chosen: Iterable[tuple[int, int, int]]) -> Iterator[Sent]:
    """chosen: number of the key, seconds since the start, number of the values."""
    rnd = random.Random(1)
    bodies = []
    for _ in range(_POOL):
        x = [round(rnd.gauss(0.0, 1.0), 4) for _ in range(DIM)]
        bodies.append(json.dumps({"x": x, "label": "up" if x[0] > 0 else "down"}).encode()[:-1])
    for key, after, number in chosen:
        at = START + after
        value = bodies[number % _POOL] + b',"ts":%d}' % at
        yield Sent(b"key-%d" % key, value, key % PARTITIONS, round(at * 1000))


def misses(keys: int = 3_000, turns: int = 5) -> dict[str, float]:
    """The core alone: us of processor a record whose state is live, is not, and where every tenth is not."""
    job, stored = Job.from_settings(settings_from({**JOB, "source": {"topic": "t", **JOB["source"]}})), {}
    plenty, little = Live(job, stored.get, most_bytes=1 << 32), Live(job, stored.get, most_bytes=4 << 20)
    offsets, seconds, numbers = itertools.count(), itertools.count(), itertools.count()

    def cost(live: Live, chosen: Sequence[int]) -> float:
        sent = _records(zip(chosen, seconds, numbers, strict=False))  # no time twice: duplicates are not learned
        records = [Stored("t", 0, next(offsets), one.timestamp, one.key, one.value) for one in sent]
        began, answered = time.process_time(), 0
        for first in range(0, len(records), 500):
            answered += len(advance(job, live, records[first : first + 500]).outputs)
            if first % 10_000 == 0:
                stored.update(live.snapshots())
        assert answered == len(records), f"{len(records)} records have {answered} outputs"
        return 1e6 * (time.process_time() - began) / len(records)

    for _ in range(WARM):
        cost(plenty, range(keys))
    stored.update(plenty.snapshots())
    rnd, results = random.Random(2), {"live": [], "not live": [], "a tenth not live": []}
    hot = little.most_slots // 2
    often = [rnd.randrange(hot) for _ in range(keys)]
    mixed = [rnd.randrange(hot) if n % 10 else rnd.randrange(hot, keys) for n in range(keys)]
    for _ in range(turns):
        for name, live, chosen in (
            ("", little, often),  # brings them in
            ("live", little, often),
            ("not live", little, range(keys)),
            ("", little, often),
            ("a tenth not live", little, mixed),
        ):
            results.setdefault(name, []).append(cost(live, chosen))
    del results[""]
    told = {name: statistics.median(costs) for name, costs in results.items()}
    per_key = told["not live"] - told["live"]
    print(
        f"core alone, {little.most_slots} slots: "
        + ", ".join(f"{name} {cost:.1f} us a record ({cost / told['live']:.2f}x)" for name, cost in told.items())
        + f"; a state read and written costs {per_key:.1f} us  ({surroundings()})",
        flush=True,
    )
    return told


def misses_in_worker(broker: Broker, folder: Path, keys: int = 6_000, records: int = 60_000) -> dict[str, float]:
    """A worker's processor, us a record, where all keys are live, and where every tenth or each record's is not."""
    job = KafkaJob(broker.bootstrap, folder, "misses", **JOB, state={"cache": "4MB", **STATE})
    hot = 200  # keys: half of what fits in all partitions together, so that they stay
    job.produce(in_turn(keys, 0, WARM * keys))
    worker = Worker(job).ready()
    told: dict[str, list[float]] = {"live": [], "a tenth not live": [], "none live": []}
    reads = dict.fromkeys(told, 0.0)
    try:
        until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 3600, every=0.5)
        cold = itertools.cycle(range(hot, keys))
        for turn, name in enumerate([*told] * 3):
            every = {"live": 0, "a tenth not live": 10, "none live": 1}[name]
            seconds = itertools.count(WARM + turn * records)
            numbers = [next(cold) if every and n % every == 0 else n % hot for n in range(records)]
            used, before = worker.cpu(), Figures(worker)["state_reads_total"]
            job.produce(_records((key, at, at) for key, at in zip(numbers, seconds, strict=False)))
            until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 3600, every=0.5)
            told[name].append(1e6 * (worker.cpu() - used) / records)
            reads[name] = Figures(worker)["state_reads_total"] - before
    finally:
        worker.end()
    costs = {name: statistics.median(values) for name, values in told.items()}
    print(
        "worker: "
        + ", ".join(
            f"{name} {cost:.1f} us CPU a record ({cost / costs['live']:.2f}x; {reads[name]:,.0f} states read)"
            for name, cost in costs.items()
        )
        + f", {records:,} records each  ({surroundings()})",
        flush=True,
    )
    return costs


class Figures:
    """What a worker's own metrics say."""

    def __init__(self, worker: Worker) -> None:
        (serving,) = worker.events("serving /metrics and /health")
        port = serving["port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
        self.values = {name: float(value) for name, value in lines}

    def __getitem__(self, name: str) -> float:
        return self.values[f"streamjobs_{name}"]


def resident(worker: Worker) -> int:
    """Bytes of memory the process holds now."""
    (line,) = [one for one in Path(f"/proc/{worker.process.pid}/status").read_text().splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(broker: Broker, folder: Path, keys: int, records: int) -> dict[str, float]:
    """Prints the figures of so many keys; gives what was counted."""
    job = KafkaJob(broker.bootstrap, folder, f"keys-{keys}", **JOB, state=STATE)
    began = time.perf_counter()
    sent = job.produce(in_turn(keys, 0, records))
    print(f"{keys:>9,} keys: {sent:,} records produced in {time.perf_counter() - began:.0f} s", flush=True)
    worker = Worker(job).ready()
    try:
        print(_backlog(job, worker, keys, records), flush=True)
        stored = size_of(worker.state)
        assert worker.stop() == 0
        shutil.rmtree(worker.state)
        began = time.perf_counter()
        worker = Worker(job).ready()
        ready = time.perf_counter() - began
        (restored,) = worker.events("recovery finished")
        rate = restored["keys_written"] / max(restored["seconds"], 1e-3)
        joined = _join(job, worker)
        print(
            f"{keys:>9,} keys: wiped disk: ready after {ready:.1f} s ({restored['records']:,} changelog records at "
            f"{restored['records'] / max(restored['seconds'], 1e-3):,.0f}/s, {rate:,.0f} keys/s); second worker: ready "
            f"after {joined:.1f} s; {stored / 1e6:.0f} MB on disk ({surroundings()})",
            flush=True,
        )
        return {
            "sent": sent,
            "answered": sum(job.ends(job.core.sinks["predictions"]).values()),
            "restored": restored["keys_written"],
        }
    finally:
        worker.end()


def paced(broker: Broker, folder: Path, keys: int = 10_000, seconds: int = 20) -> dict[str, float]:
    """A worker's processor where each key sends a record a second, so that every record's state is written."""
    job = KafkaJob(broker.bootstrap, folder, "paced", **JOB, state=STATE)
    job.produce(in_turn(keys, 0, WARM * keys))
    worker = Worker(job).ready()
    try:
        until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 3600, every=0.5)
        used, before, began = worker.cpu(), Figures(worker)['changelog_records_total{store="state"}'], time.perf_counter()
        for turn in range(WARM, WARM + seconds):
            for tenth in range(10):
                numbers = range(turn * keys + tenth * keys // 10, turn * keys + (tenth + 1) * keys // 10)
                job.produce(_records((number % keys, number // keys, number) for number in numbers))
                time.sleep(max(0.0, began + turn - WARM + (tenth + 1) / 10 - time.perf_counter()))
        took = time.perf_counter() - began
        until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 600, every=0.1)
        cost = 1e6 * (worker.cpu() - used) / (keys * seconds)
        written = Figures(worker)['changelog_records_total{store="state"}'] - before
        held = resident(worker)
    finally:
        worker.end()
    print(
        f"{keys:>9,} keys with a record a second: {cost:.0f} us CPU a record, {written / (keys * seconds):.2f} states "
        f"written a record, {held / 1e6:.0f} MB resident, {keys * seconds / took:,.0f} records/s ({surroundings()})",
        flush=True,
    )
    return {"cpu_us": cost, "written": written / (keys * seconds)}


def memory(broker: Broker, folder: Path, keys: int = 20_000, each: int = 20) -> dict[str, float]:
    """What a worker holds beyond an idle one, over the slots of its keys, which just fit: most in a backlog, and after."""
    core = Job.from_settings(settings_from({**FULL, "source": {"topic": "t", **FULL["source"]}}))
    slots = keys * Live(core, read_many=lambda wanted: [None] * len(wanted)).slot_bytes
    job = KafkaJob(broker.bootstrap, folder, "memory", **FULL, state={"cache": f"{slots * 1.02 / 2**20:.0f}MB"})
    worker = Worker(job).ready()
    try:
        time.sleep(1.0)
        idle, seen = resident(worker), [0]
        job.produce(singles(each * keys, keys))

        def done() -> bool:
            seen.append(resident(worker))
            return job.lag() == 0

        until(done, lambda: f"{job.lag()} records wait", 3600, every=0.1)
        time.sleep(REST)
        after, live = resident(worker), Figures(worker)["keys"]
    finally:
        worker.end()
    print(f"{keys:>9,} keys, {slots / 1e6:.0f} MB of slots, {idle / 1e6:.0f} MB idle ({surroundings()})", flush=True)
    goal("memory beyond an idle worker, over the slots, most in a backlog", (max(seen) - idle) / slots, 1.3, "")
    goal(f"memory beyond an idle worker, over the slots, {REST} s after it", (after - idle) / slots, 1.3, "")
    return {"live": live, "most": max(seen) - idle, "after": after - idle}


def _backlog(job: KafkaJob, worker: Worker, keys: int, records: int) -> str:
    began, cpu = time.perf_counter(), worker.cpu()
    most = idle = resident(worker)

    def done() -> bool:
        nonlocal most
        worker.assert_running()
        most = max(most, resident(worker))
        return job.lag() == 0

    until(done, lambda: f"{job.lag()} records wait", 3600, every=0.5)
    seconds, used = time.perf_counter() - began, worker.cpu() - cpu
    said = Figures(worker)
    live, slot = said["keys"], Live(job.core, read_many=lambda wanted: [None] * len(wanted)).slot_bytes
    return (
        f"{keys:>9,} keys: {records / seconds:,.0f} records/s, {1e6 * used / records:.0f} us CPU a record, "
        f"{most / 1e6:.0f} MB resident, {(most - idle) / 1e6:.0f} more than at rest, of which {live * slot / 1e6:.0f} for "
        f"{live:,.0f} live keys of {slot:,} bytes, {slot / job.core.state_bytes:.2f} times their state_bytes; "
        f"{said['state_reads_total']:,.0f} states read, {said['keys_evicted_total']:,.0f} left the cache "
        f"({surroundings()})"
    )


def _join(job: KafkaJob, first: Worker) -> float:
    """Seconds from the start of a second worker until it has its partitions."""
    began = time.perf_counter()
    second = Worker(job, "b")
    try:
        second.ready()
        until(lambda: job.members() == [PARTITIONS // 2] * 2, "two members with half the partitions each", 120)
        return time.perf_counter() - began
    finally:
        second.stop()
        second.end()
        until(lambda: job.members() == [PARTITIONS], "the first one's partitions are back", 120)
        first.assert_running()


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench keys", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, help=f"of keys; absent: {', '.join(map(str, NUMBERS))}")
    parser.add_argument("--records", type=int, default=RECORDS, help="of a backlog, at least two of every key")
    parser.add_argument("--paced", action="store_true", help="only 10,000 keys with a record a second each")
    parser.add_argument("--memory", action="store_true", help="only the memory of 20,000 keys in a backlog and after it")
    parser.add_argument("--quick", action="store_true", help="2,000 keys and 10,000 records")
    options: Any = parser.parse_args(list(arguments))
    if not (options.paced or options.memory):
        misses()
    numbers, records = options.numbers or list(NUMBERS), options.records
    if options.quick:
        numbers, records = [2_000], 10_000
    try:
        with cleaning_up_on_sigterm(), tempfile.TemporaryDirectory(prefix="streamjobs-bench-") as folder, Broker() as broker:
            if options.memory or not (options.paced or options.quick):
                memory(broker, Path(folder))
            if options.memory:
                return 0
            if options.paced or not options.quick:
                paced(broker, Path(folder))
            if options.paced:
                return 0
            if not options.quick:
                misses_in_worker(broker, Path(folder))
            for keys in numbers:
                measure(broker, Path(folder), keys, max(records, 2 * keys))
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

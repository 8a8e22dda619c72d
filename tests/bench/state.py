"""What states cost at their pace: python -m tests.bench state [--keys N] [--seconds N] [--rounds N] [--quick].

On a real Kafka, in turn with [state] replay = "0s" (each checkpoint writes every changed state), "10s", and so long that no
state is written. Printed: processor and changelog bytes of a record, of keys with a record a second; the time until a
worker has all states again after kill -9 and the loss of its disk; with exactly_once the delay of outputs at 2,000 a second,
and the speed of a backlog. The last lines have the goals, `tests.bench people` has those of people.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.goals import DAY, goal
from tests.bench.keys import JOB, Figures, in_turn, resident
from tests.bench.once import RATE, RUN
from tests.bench.worker import FULL, STATIC, Bench, singles, surroundings
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.kafka_job import KafkaJob, until
from tests.brokers.workers import Worker

PACES = {"0s": "each checkpoint", "10s": "10 s", "1h": "no state written"}
RESTORED = 20_000  # keys a second, of the goal; to it comes [state] replay
CHECKPOINT = "75ms"  # with exactly_once
FILLED = 20  # records of each key before: its budget is full
STEPS = 10  # a second


def measure(bench: Bench, replay: str, keys: int, seconds: int) -> dict[str, float]:
    """Prints the figures of one pace; gives them, with the number of keys that came back."""
    job = KafkaJob(
        bench.broker.bootstrap, bench.folder, f"state-{replay}-{bench.made}", **JOB | {"state": {"replay": replay}}
    )
    bench.made += 1
    job.produce(in_turn(keys, 0, FILLED * keys))
    worker = Worker(job, **STATIC).ready()
    try:
        until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 600, every=0.5)
        used, before, held = worker.cpu(), Figures(worker), 0
        _feed(job, keys, seconds)
        until(lambda: job.lag() == 0, lambda: f"{job.lag()} records wait", 600, every=0.5)
        cost, after, held = worker.cpu() - used, Figures(worker), resident(worker)
        assert worker.kill() == -9
        shutil.rmtree(worker.state)
        began = time.perf_counter()
        worker = Worker(job, **STATIC).ready()
        ready = time.perf_counter() - began
        again = sum(event["records"] for event in worker.events("applying records again"))
        begun = len(worker.events("applying records again"))
        until(lambda: len(worker.events("records applied again")) >= begun, "the records are applied again", 300, every=0.05)
        whole = time.perf_counter() - began
        assert worker.stop() == 0
    finally:
        worker.end()
    records = keys * seconds
    size, written = ((_written(after, of) - _written(before, of)) / records for of in ("bytes", "records"))
    result = {"cpu_us": 1e6 * cost / records, "bytes": size, "ready": ready, "whole": whole, "back": len(job.snapshots())}
    print(
        f"{PACES.get(replay, replay):<16} {result['cpu_us']:>6.1f} us CPU a record  {size:>7,.0f} changelog bytes and "
        f"{written:.3f} states a record  {held / 1e6:,.0f} MB resident; disk lost: ready after {ready:.1f} s, {again:,} "
        f"records applied again after {whole:.1f} s ({surroundings()})",
        flush=True,
    )
    return result


def _written(figures: Figures, of: str) -> float:
    """Nothing is told of a changelog that nothing was written to."""
    return figures.values.get(f'streamjobs_changelog_{of}_total{{store="state"}}', 0.0)


def _feed(job: KafkaJob, keys: int, seconds: int) -> None:
    """A record a second of each key."""
    began, part = time.perf_counter(), keys // STEPS
    for step in range(seconds * STEPS):
        job.produce(in_turn(keys, FILLED * keys + step * part, part))
        time.sleep(max(0.0, began + (step + 1) / STEPS - time.perf_counter()))


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench state", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="500 keys, 5 s, one round")
    options = parser.parse_args(list(arguments))
    keys, seconds, rounds = (500, 5, 1) if options.quick else (options.keys, options.seconds, options.rounds)
    found: dict[str, list[dict[str, float]]] = {}
    try:
        with cleaning_up_on_sigterm(), tempfile.TemporaryDirectory(prefix="streamjobs-bench-") as folder, Broker() as broker:
            bench = Bench(broker, Path(folder), quick=options.quick)
            for _ in range(rounds):
                for replay in PACES:
                    found.setdefault(replay, []).append(measure(bench, replay, keys, seconds))
            for replay in ("0s", "10s"):
                sections = {"job": {"guarantee": "exactly_once"}, "state": {"checkpoint": CHECKPOINT, "replay": replay}}
                name = f"exactly_once, {CHECKPOINT}, {PACES[replay]}"
                ages = bench.aged(name, RATE, 3 if options.quick else 15, linger=5, **sections)
            count, speeds = bench.count(400_000), {"at_least_once": [], "exactly_once": []}
            for guarantee in list(speeds) * (1 if options.quick else 3):
                sections = {**FULL, "job": {"guarantee": guarantee}, "state": {"checkpoint": CHECKPOINT}}
                backlog = bench.backlog(guarantee, singles(count), count, RUN, by_commits=True, **sections)
                speeds[guarantee].append(backlog["records/s"])
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    cost = {replay: statistics.median(one["cpu_us"] for one in of_pace) for replay, of_pace in found.items()}
    paced = {name: statistics.median(one[name] for one in found["10s"]) for name in ("bytes", "whole")}
    print(f"processor a record, against no state written: {PACES['0s']} {cost['0s'] / cost['1h']:.2f}")
    goal("okfeb job, 100,000 sensors at 1/s, changelog a day", paced["bytes"] * 100_000 * DAY / 1e12, 0.8, "TB")
    goal(f"processor a record, {keys:,} keys at 1/s, of a worker that writes no state", cost["10s"] / cost["1h"], 1.15, "")
    goal("exactly_once, delay of outputs at 2,000/s, p50", ages["p50"], 60, "ms")
    goal("exactly_once, delay of outputs at 2,000/s, p99", ages["p99"], 150, "ms")
    share = 100 * statistics.median(speeds["exactly_once"]) / statistics.median(speeds["at_least_once"])
    goal("exactly_once, of the speed of at_least_once", share, 97, "%", least=True)
    goal(f"ready after kill -9 on another machine, {keys:,} keys", paced["whole"], keys / RESTORED + 10, "s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

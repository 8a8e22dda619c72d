"""What the live page costs a worker at full speed on a real Kafka, and how fast it answers for a key: tests.bench page.

In turns of a few seconds: nobody looks; 20 viewers and one that never reads. CPU is the worker's, per record. Figures are
printed with the machine's load, and nothing is asserted about time.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.worker import FULL, KEYS, singles, surroundings
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.workers import Worker
from tests.page.viewers import idle_viewer, viewers

VIEWERS, TURN, TURNS, ASKED = 20, 2.0, 5, 100
BACKLOG = 600_000  # records


def measure(broker: Broker, folder: Path, *, quick: bool = False) -> dict[str, float]:
    """CPU per record with and without viewers, and milliseconds until a key's answer is there."""
    turns, turn, asks, backlog = (1, 0.5, 10, BACKLOG // 8) if quick else (TURNS, TURN, ASKED, BACKLOG)
    job = KafkaJob(broker.bootstrap, folder, "page", **FULL | {"drift": {"detector": "page_hinkley"}})
    job.produce(singles(backlog))
    worker = Worker(job)
    costs: dict[int, list[float]] = {0: [], VIEWERS: []}
    rates, events = [0.0], 0
    try:
        worker.ready()
        port = worker.events("serving /metrics and /health")[0]["port"]
        time.sleep(0.5)
        asked = sorted(_asked(port, f"key-{number % KEYS}") for number in range(asks))
        left = backlog - _records(port)
        for _ in range(turns):
            if costs[0] and left < 3 * turn * max(rates):
                break  # the rest of the input is too little for another turn
            costs[0].append(_cost(worker, port, turn)[0])
            with viewers(port, VIEWERS) as seen, idle_viewer(port):
                time.sleep(0.2)
                cost, rate = _cost(worker, port, turn)
            costs[VIEWERS].append(cost)
            rates.append(rate)
            events += sum(seen)
            left = backlog - _records(port)
    finally:
        worker.end()
    alone, watched = (statistics.median(one) for one in costs.values())
    at = {q: 1000 * asked[int(q * (len(asked) - 1))] for q in (0.5, 0.95, 1.0)}
    more, apart = 100 * (watched / alone - 1), 100 * (max(costs[0]) / min(costs[0]) - 1)
    print(
        f"page: {alone * 1e6:.1f} us CPU a record alone, {watched * 1e6:.1f} with {VIEWERS} viewers, one more never reads:"
    )
    print(f"  {more:+.1f} % ({len(costs[0])} turns of {turn:g} s each, those alone differ by {apart:.0f} %;")
    print(f"  {max(rates):,.0f} records/s, {events} events read; {surroundings()})")
    print(f"a key's answer at that speed: median {at[0.5]:.1f}, p95 {at[0.95]:.1f}, longest {at[1.0]:.1f} ms")
    print(f"  ({len(asked)} asked; {surroundings()})", flush=True)
    return {"alone": alone, "watched": watched, "median": at[0.5], "events": float(events)}


def _records(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("streamjobs_records_consumed_total{"))


def _cost(worker: Worker, port: int, seconds: float) -> tuple[float, float]:
    """(seconds of processor a record, records a second)."""
    records, cpu, begun = _records(port), worker.cpu(), time.perf_counter()
    time.sleep(seconds)
    done, used = _records(port) - records, worker.cpu() - cpu
    assert done > 0, "the worker had nothing to do"
    return used / done, done / (time.perf_counter() - begun)


def _asked(port: int, key: str) -> float:
    begun = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/keys/{key}", timeout=20) as answer:
        told = json.load(answer)
    took = time.perf_counter() - begun
    assert told["states"][0]["key"] == key
    time.sleep(0.01)
    return took


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench page", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one turn of a second each")
    options = parser.parse_args(list(arguments))
    try:
        with cleaning_up_on_sigterm(), tempfile.TemporaryDirectory(prefix="streamjobs-bench-") as folder, Broker() as broker:
            measure(broker, Path(folder), quick=options.quick)
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

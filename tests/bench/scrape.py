"""Size and time of a scrape with many live keys: python -m tests.bench scrape [KEYS] [--quick].

The states of KEYS keys (100,000) are live in four partitions, and all of them had a record lately, which is the most that a
scrape looks through. /metrics is fetched over HTTP from the worker's own server. Targets: below 60 KB and 20 ms.
"""

import argparse
import statistics
import sys
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.health import Health
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.metrics.table import METRICS
from streamjobs.worker.partition import Bounds, Partition
from tests.bench.keys import JOB, in_turn
from tests.bench.worker import surroundings
from tests.brokers.kafka_job import PARTITIONS

KEYS, QUICK_KEYS = 100_000, 400
ROWS = 2  # of each key
AT_ONCE = 500
SCRAPES = 50


def loaded(keys: int) -> Metrics:
    """The metrics of a worker that has PARTITIONS partitions and all these keys in memory."""
    table = {**JOB, "source": {"topic": "imu", **JOB["source"]}, "drift": {"detector": "page_hinkley"}}
    job = Job.from_settings(settings_from(table))
    core = Core(job, lambda job, read_many, most: Live(job, read_many=read_many, most_bytes=most), advance, last_event)
    metrics = Metrics("imu", job.model, "page_hinkley", job.sinks.values(), (), "bench")
    partitions = {
        number: Partition(
            number,
            0,
            core=core,
            read_many=lambda number, wanted: [None] * len(wanted),
            max_live_bytes=4 << 30,
            outbox=None,  # type: ignore[arg-type]  # nothing is sent
            backpressure=Backpressure(),
            bounds=Bounds(1 << 40, 1 << 40),
        )
        for number in range(PARTITIONS)
    }
    metrics.set_partitions(partitions)
    metrics.end_of = lambda partition: ROWS * keys
    records: dict[int, list[Stored]] = {number: [] for number in partitions}
    for number, one in enumerate(in_turn(keys, 0, ROWS * keys)):
        records[one.partition].append(Stored("imu", one.partition, number, one.timestamp, one.key, one.value))
    for number, those in records.items():
        for first in range(0, len(those), AT_ONCE):
            started = time.perf_counter()
            _, report = advance(job, partitions[number].live, those[first : first + AT_ONCE])
            metrics.count_advance(report, time.perf_counter() - started)
    metrics.count_snapshots(1, 1)
    return metrics


def measure(keys: int) -> dict[str, float]:
    """Bytes of a scrape, and milliseconds of wall (median, longest) and of processor (median, client included)."""
    metrics = loaded(keys)
    active = metrics.stats().active
    health = Health(metrics, state="running")
    metrics.watch(ready=lambda: health.ready()[0] == 200, directory=None)
    server = Server(MetricsSection(port=0), health)
    port = server.start()
    walls, costs, size = [], [], 0
    try:
        for _ in range(SCRAPES):
            began, used = time.perf_counter(), time.process_time()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                size = len(answer.read())
            walls.append(1000 * (time.perf_counter() - began))
            costs.append(1000 * (time.process_time() - used))
    finally:
        server.stop()
    told = {"keys": active, "bytes": size, "ms": statistics.median(walls), "cpu ms": statistics.median(costs)}
    print(
        f"scrape, {active:,} live keys: {size / 1000:.1f} KB, {told['ms']:.1f} ms (median of {SCRAPES}; "
        f"longest {max(walls):.1f}), {told['cpu ms']:.1f} ms CPU; {len(METRICS)} metrics  ({surroundings()})",
        flush=True,
    )
    return told


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench scrape", description=__doc__.splitlines()[0])
    parser.add_argument("keys", nargs="?", type=int, default=KEYS)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KEYS} keys")
    options: Any = parser.parse_args(list(arguments))
    measure(QUICK_KEYS if options.quick else options.keys)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

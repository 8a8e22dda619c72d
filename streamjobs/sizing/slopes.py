"""How cost grows with keys and records: derived from measured runs, pure arithmetic.

A worker spends on each record: its own handling, the core's `advance` (measured for the job at hand), a state written when
it is due, and a state read when its key is not live.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from statistics import fmean
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.settings.types import SECONDS
from streamjobs.worker.pace import LONGEST, TIGHT, room

BUSY = 0.6  # of its core that a worker should be at most: the rest catches up after a stop, and takes over from others
FEWEST_PARTITIONS = 4
MANY_WORKERS = 1_000
MB = 1e6
MOST_RATE = 1e6


@dataclass(frozen=True)
class Slopes:
    """Of the measured runs. `data`: the contents of measured.toml."""

    data: dict[str, Any]

    @cached_property
    def handling(self) -> float:
        """us a record that a worker adds to the core's own."""
        return float(self.data["worker"]["live"] - self.data["core"]["live"])

    @cached_property
    def core_miss(self) -> float:
        """us that a state read and written costs the core alone."""
        return float(self.data["core"]["not_live"] - self.data["core"]["live"])

    @cached_property
    def write(self) -> float:
        """us for a state written at a checkpoint. In the smallest run every key was written once a second."""
        run = self.data["run"][0]
        return float((run["cpu_us"] - self.data["worker"]["live"]) * run["records_per_second"] / run["keys"])

    @cached_property
    def read_and_write(self) -> float:
        """us for a state that is read and written for a single record, as in the larger runs."""
        return fmean(run["cpu_us"] for run in self.data["run"][1:]) - float(self.data["worker"]["live"])

    @cached_property
    def resident(self) -> tuple[float, float]:
        """Bytes of a worker without keys, and bytes for each byte of live states."""
        slot = self.data["slot_bytes"]
        return _line([(slot * run["live_keys"], MB * run["resident_mb"]) for run in self.data["run"]])

    @cached_property
    def disk(self) -> tuple[float, float]:
        """Bytes of a store without keys, and bytes for each byte of snapshots."""
        return _line([(run["keys"] * run["snapshot_bytes"], MB * run["disk_mb"]) for run in self.data["run"]])

    @cached_property
    def recovered(self) -> float:
        """Bytes of snapshots a second that a worker restores from the changelog."""
        return float(min(run["recovered_keys_per_second"] * run["snapshot_bytes"] for run in self.data["run"][1:]))


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """a and b of y = a + b x, with the least squares of the relative errors over points (x, y)."""
    weights = [1 / (y * y) for _, y in points]
    x_mean = fmean((x for x, _ in points), weights)
    y_mean = fmean((y for _, y in points), weights)
    rows = list(zip(points, weights, strict=True))
    slope = sum(w * (x - x_mean) * (y - y_mean) for (x, y), w in rows) / sum(w * (x - x_mean) ** 2 for (x, _), w in rows)
    return y_mean - slope * x_mean, slope


class Cost(NamedTuple):
    """What was measured for a job on the machine at hand."""

    live: float  # us of processor for a record of a live key, in the core
    miss: float  # us more where its state is read and written
    fixed_loop: float  # seconds
    slot_bytes: int  # a live key in memory
    state_bytes: int  # a snapshot, at most
    untaught_bytes: int = 0  # a live key without a label in memory
    record_bytes: int = 117  # remembered; the defaults are those of the measured runs
    compressed_bytes: int = 22  # the same, compressed
    known_bytes: int = 0  # a key in memory that need not be live


def rate_of(text: str) -> float:
    """Records a second of a rate such as 30/min; raises ConfigError.

    >>> rate_of("1/s"), rate_of("30/min"), rate_of("0.5 / s")
    (1.0, 0.5, 0.5)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|min|h|day)\s*", text)
    if match is None or not 0 < float(match[1]) <= MOST_RATE:
        raise ConfigError(f"--rate: expected a number for each s, min, h or day, such as 1/s or 30/min; got {text!r}.")
    return float(match[1]) / SECONDS[match[2]]


class Load(NamedTuple):
    keys: int
    rate: float  # records a second of each key
    cache: int  # [state] cache, bytes
    checkpoint: float  # seconds
    replay: float = 0.0  # [state] replay, seconds of processor


class Need(NamedTuple):
    """What all workers of a job need together, and each of them."""

    keys: int
    records_per_second: float
    cpu_us: float  # a record
    cores: float
    workers: int
    partitions: int
    memory: float  # bytes of each worker
    disk: float  # bytes of each worker
    live: float  # share of the keys with states that stay in memory
    changelog: float  # bytes a day
    recovery: float  # seconds until a worker that lost its disk is ready


def need(slopes: Slopes, cost: Cost, load: Load) -> Need:
    """The fewest workers that stay below `BUSY` of a core each, with what they need."""
    workers = 1
    while True:
        cpu = _cpu(slopes, cost, load, workers)
        cores = load.keys * load.rate * cpu / 1e6
        if cores <= BUSY * workers:
            break
        workers = max(workers + 1, min(ceil(cores / BUSY), 2 * workers))
    own = load.keys / workers
    live_bytes = min(own * cost.slot_bytes, load.cache)
    between, remembered = _pace(cost, load, workers)
    empty, each = slopes.resident
    store, spread = slopes.disk
    partitions = FEWEST_PARTITIONS
    while partitions < 2 * workers:
        partitions *= 2
    return Need(
        load.keys,
        load.keys * load.rate,
        cpu,
        cores,
        workers,
        partitions,
        empty + each * live_bytes + remembered + own * cost.known_bytes,
        store + spread * own * cost.state_bytes,
        min(1.0, live_bytes / (own * cost.slot_bytes)),
        86_400 * load.keys * min(load.rate, 1 / between) * cost.state_bytes,
        own * cost.state_bytes / slopes.recovered + _applying(cost, load, workers) * between * bool(load.replay),
    )


def _applying(cost: Cost, load: Load, workers: int) -> float:
    """The part of its time that a worker applies records in."""
    return load.keys / workers * load.rate * cost.live / 1e6


def too_many_workers(needs: Sequence[Need]) -> str:
    """A sentence about the first of these loads that needs more than MANY_WORKERS."""
    for one in needs:
        if one.workers > MANY_WORKERS:
            return (
                f"note: {one.workers:,} workers for {one.keys:,} keys are more than a job is made for; a record costs "
                f"{one.cpu_us / 1000:,.1f} ms. A smaller budget, a [window] or another learner costs less."
            )
    return ""


def _pace(cost: Cost, load: Load, workers: int) -> tuple[float, float]:
    """Seconds between two writes of a state that changes all the time, and bytes of the records remembered meanwhile."""
    if not load.replay:
        return load.checkpoint, 0.0
    free = 1.0 - load.keys / workers * cost.slot_bytes / load.cache
    bytes_per_second = load.keys / workers * load.rate * (cost.compressed_bytes if free < TIGHT else cost.record_bytes)
    bounds = (LONGEST, load.replay / _applying(cost, load, workers), room(load.cache, free) / bytes_per_second)
    between = max(load.checkpoint, min(bounds))
    return between, between * bytes_per_second


def _cpu(slopes: Slopes, cost: Cost, load: Load, workers: int) -> float:
    """us of processor a record. With more keys than the cache holds, no record finds its state live: the worst case."""
    machine: float = cost.fixed_loop / slopes.data["fixed_loop_seconds"]
    state: float = cost.miss / slopes.core_miss  # how this job's states compare on this machine
    if load.keys / workers * cost.slot_bytes > load.cache:
        return slopes.handling * machine + cost.live + slopes.read_and_write * state
    writes = min(1.0, 1 / (load.rate * _pace(cost, load, workers)[0]))
    return slopes.handling * machine + cost.live + slopes.write * state * writes

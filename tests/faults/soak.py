"""Random faults for hours on one job, audited every few minutes, and the slope of the workers' memory.

States are compared once, after the workers have stopped: before, they write them at their own pace.
"""

import random
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from tests.brokers.workers import Worker
from tests.faults.case import Case, Environment, scrape_metrics
from tests.faults.load import KEYS, people
from tests.faults.network import mended

ROUND = 240.0  # seconds of faults between two audits
RECORDS = 30_000  # of a round, at least two of each key
# Seconds after its start a worker's memory is not looked at: it fills its arrays. What its local store writes into, at
# most 64 MB, fills and empties within half an hour more: a slope seen over less than hours tells that.
QUIET = 120.0
PAGE = 4096
KINDS = {"kill": 1, "broker": 4, "stop": 4, "reset": 4, "silence": 4, "slow": 4, "freeze": 4}  # kill ends a life: rare


def duration(text: str) -> float:
    """Seconds of 90s, 30m, 2h."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


class Slope(NamedTuple):
    megabytes: float  # an hour
    error: float  # standard error of it
    hours: float  # it was seen over

    def __str__(self) -> str:
        return f"{self.megabytes:+.1f} +- {self.error:.1f} MB an hour over {self.hours:.2f} h"


class Memory:
    """Resident bytes of every worker over its life."""

    def __init__(self) -> None:
        self.born: dict[Worker, float] = {}
        self.seen: dict[Worker, list[tuple[float, float]]] = {}

    def look(self, workers: list[Worker]) -> None:
        now = time.monotonic()
        for worker in workers:
            age = now - self.born.setdefault(worker, now)
            try:
                resident = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * PAGE
            except (OSError, IndexError):
                continue
            if age > QUIET:
                self.seen.setdefault(worker, []).append((now, resident))

    def slopes(self) -> dict[str, Slope]:
        """Of each worker by name, least squares over its lives, each with a level of its own; those seen long enough."""
        lives: dict[str, list[tuple[Array, Array]]] = {}
        for worker, pairs in self.seen.items():
            if len(pairs) >= 3:
                times, levels = np.array(pairs).T
                lives.setdefault(worker.name, []).append((times / 3600, levels / 2**20))
        return {name: slope_of(parts) for name, parts in sorted(lives.items())}


def slope_of(lives: list[tuple[Array, Array]]) -> Slope:
    """Of (hours, MB) of every life. The error takes each second for a measurement of its own: it may be larger, not less."""
    t = np.concatenate([hours - hours.mean() for hours, _ in lives])
    m = np.concatenate([sizes - sizes.mean() for _, sizes in lives])
    slope = float(t @ m / (t @ t))
    left, free = m - slope * t, len(t) - len(lives) - 1
    error = float(np.sqrt(left @ left / free / (t @ t))) if free > 0 else float("nan")
    return Slope(slope, error, float(sum(hours[-1] - hours[0] for hours, _ in lives)))


def soak(environment: Environment, seconds: float, seed: int, keys: int = KEYS, cache: str | None = None) -> int:
    """Exit code. Killed are both workers' processes now and then, else brokers and the network: lives stay long.

    cache: [state] cache of the workers, where the keys are not to fit.
    """
    rnd, memory, begun = random.Random(seed), Memory(), time.monotonic()
    case = Case(environment, f"soak{seed}", [], seed)
    case.make_job(state={"cache": cache} if cache else {})
    each = max(2, RECORDS // keys)
    failed, turn, done = 0, 0, 0
    proxied = {"STREAMJOBS_BROKER__URL": f"kafka://{environment.cluster.proxied}"}
    workers = {worker.name: worker for worker in case.run_two_workers(static=True, **proxied)}
    try:
        while time.monotonic() - begun < seconds:
            turn += 1
            case.records = people(seed + turn, keys=keys, each=each, start=1_700_000_000.0 + 86_400 * turn)
            case.start_load(ROUND / 2)
            ends, told = time.monotonic() + min(ROUND, seconds), []
            while time.monotonic() < ends:
                told.append(_fault(case, rnd, workers, proxied))
                calm = time.monotonic() + rnd.uniform(5, 25)
                while time.monotonic() < calm:
                    memory.look(list(workers.values()))
                    time.sleep(1)
            environment.cluster.whole()
            _revive(case, workers, proxied)
            assert case.load is not None
            done += case.load.finish()
            case.job.wait_until_done(list(workers.values()), 300)
            read = sum(scrape_metrics(worker)["streamjobs_state_reads_total"] for worker in workers.values())
            last = time.monotonic() - begun >= seconds
            if last:
                for worker in workers.values():
                    case.stop_worker(worker)
            verdict = case.audit.check(repeats=True, sent=case.records, states=last)
            grown = "; ".join(f"worker {name} {slope}" for name, slope in memory.slopes().items()) or "not seen long enough"
            failed += bool(verdict.problems)
            print(f"round {turn}: {', '.join(told)}{'; states compared' * last}\n  {verdict}", flush=True)
            print(f"  memory: {grown}; {read:,.0f} states read from stores by these workers", flush=True)
    finally:
        mended(case)
        case.close()
    print(f"{done} records, {turn} rounds, {failed} FAILED" if failed else f"{done} records, {turn} rounds, no harm done")
    return 1 if failed else 0


def _fault(case: Case, rnd: random.Random, workers: dict[str, Worker], env: dict[str, str]) -> str:
    """One fault, over when this returns; what it was."""
    cluster = case.cluster
    node, proxies = rnd.choice(list(cluster.nodes)), list(cluster.proxies.values())
    (kind,) = rnd.choices(list(KINDS), list(KINDS.values()))
    _revive(case, workers, env)
    name = rnd.choice(list(workers))
    if kind == "kill":
        workers[name].kill()
        _revive(case, workers, env)
    elif kind in ("broker", "stop"):
        cluster.kill(node) if kind == "broker" else cluster.stop(node)
        time.sleep(rnd.uniform(1, 10))
        cluster.restart(node)
        cluster.in_sync()
    elif kind == "reset":
        for proxy in proxies:
            proxy.reset()
    elif kind == "silence":
        for proxy in proxies:
            proxy.silence(True)
        time.sleep(rnd.uniform(1, 12))
        mended(case)
    elif kind == "slow":
        for proxy in proxies:
            proxy.latency = 0.1
        time.sleep(10)
        mended(case)
    else:
        workers[name].freeze()
        time.sleep(rnd.uniform(1, 12))
        workers[name].wake()
    return kind


def _revive(case: Case, workers: dict[str, Worker], env: dict[str, str]) -> None:
    """Start again what has wait_for_exit, as whoever runs workers does."""
    for name, worker in workers.items():
        if worker.process.poll() is not None:
            workers[name] = case.run_worker(name, static=True, **env)

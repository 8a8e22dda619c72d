"""Random faults for hours on one bed, audited every few minutes, and the slope of the workers' memory."""

import random
import time
from pathlib import Path

import numpy as np

from tests.faults.network import mended
from tests.faults.stream import people
from tests.faults.trial import Place, Trial
from tests.kafka.workers import Worker

ROUND = 240.0  # seconds of faults between two audits
EACH = 150  # records of each key in a round
QUIET = 120.0  # seconds after its start a worker's memory is not looked at: it fills its arrays
PAGE = 4096


def duration(text: str) -> float:
    """Seconds of 90s, 30m, 2h."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


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

    def slope(self) -> tuple[float, float]:
        """MB an hour, least squares over all lives with a level of their own; and the hours it was seen over."""
        moments, sizes, hours = [], [], 0.0
        for pairs in self.seen.values():
            if len(pairs) < 3:
                continue
            times, levels = np.array(pairs).T
            moments.append(times - times.mean())
            sizes.append(levels - levels.mean())
            hours += (times[-1] - times[0]) / 3600
        if not moments:
            return float("nan"), 0.0
        t, m = np.concatenate(moments), np.concatenate(sizes)
        return float((t @ m) / (t @ t) * 3600 / 2**20), hours


def soak(place: Place, seconds: float, seed: int) -> int:
    """Exit code. Killed are both workers' processes now and then, else brokers and the network: lives stay long."""
    rnd, memory, begun = random.Random(seed), Memory(), time.monotonic()
    trial = Trial(place, f"soak{seed}", [], seed)
    trial.make_bed()
    failed, turn, done = 0, 0, 0
    proxied = {"STREAMJOBS_BROKER__URL": f"kafka://{place.cluster.proxied}"}
    workers = {worker.name: worker for worker in trial.both(static=True, **proxied)}
    try:
        while time.monotonic() - begun < seconds:
            turn += 1
            trial.records = people(seed + turn, each=EACH, start=1_700_000_000.0 + 86_400 * turn)
            trial.pour(ROUND / 2)
            ends, told = time.monotonic() + min(ROUND, seconds), []
            while time.monotonic() < ends:
                told.append(_fault(trial, rnd, workers, proxied))
                calm = time.monotonic() + rnd.uniform(5, 25)
                while time.monotonic() < calm:
                    memory.look(list(workers.values()))
                    time.sleep(1)
            place.cluster.whole()
            _revive(trial, workers, proxied)
            assert trial.pouring is not None
            done += trial.pouring.finish()
            trial.bed.until_done(list(workers.values()), 300)
            verdict = trial.audit.hold(repeats=True, expect=len(trial.records))
            slope, hours = memory.slope()
            failed += bool(verdict.problems)
            print(
                f"round {turn}: {', '.join(told)}\n  {verdict}\n  memory {slope:+.1f} MB an hour over {hours:.2f} h",
                flush=True,
            )
    finally:
        mended(trial)
        trial.close()
    print(f"{done} records, {turn} rounds, {failed} FAILED" if failed else f"{done} records, {turn} rounds, no harm done")
    return 1 if failed else 0


def _fault(trial: Trial, rnd: random.Random, workers: dict[str, Worker], env: dict[str, str]) -> str:
    """One fault, over when this returns; what it was."""
    cluster = trial.cluster
    node, proxies = rnd.choice(list(cluster.nodes)), list(cluster.proxies.values())
    kind = rnd.choice(["kill", "broker", "stop", "reset", "silence", "slow", "freeze"])
    _revive(trial, workers, env)
    name = rnd.choice(list(workers))
    if kind == "kill":
        workers[name].kill()
        _revive(trial, workers, env)
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
        mended(trial)
    elif kind == "slow":
        for proxy in proxies:
            proxy.latency = 0.1
        time.sleep(10)
        mended(trial)
    else:
        workers[name].freeze()
        time.sleep(rnd.uniform(1, 12))
        workers[name].wake()
    return kind


def _revive(trial: Trial, workers: dict[str, Worker], env: dict[str, str]) -> None:
    """Start again what has ended, as whoever runs workers does."""
    for name, worker in workers.items():
        if worker.process.poll() is not None:
            workers[name] = trial.work(name, static=True, **env)

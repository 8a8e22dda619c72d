"""What states of people cost: python -m tests.bench people [--people N] [--seconds N] [--labelled N] [--quick].

The job of the demo on a real Kafka, with [state] replay = "0s" (each checkpoint writes every changed state) and with
the default. One person in `--labelled` gives labels. Printed with the goals: changelog bytes a day and memory of a person.
At their pace, states are written only after minutes: measure at least 300 s.
"""

import argparse
import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from streamjobs.demo.show import Stage, _running, _stage, _stop
from tests.bench.crowd import Counter, Sender, followed
from tests.bench.goals import DAY, goal
from tests.bench.worker import surroundings
from tests.brokers.workers import cpu_of

PACES = ("0s", "10s")
PEOPLE = 1000  # that the goal is for


def measure(replay: str, people: int, seconds: float, labelled: int) -> dict[str, float]:
    with _stage(f"{people:,} people, replay = {replay}", kafka=True) as stage:
        stage = stage._replace(env={**stage.env, "STREAMJOBS_STATE__REPLAY": replay})
        sender = Sender(stage.servers, stage.job.settings.source.topic, people, seconds, labelled)
        counter = Counter(stage.servers, stage.job.sinks["predictions"])
        with _running(stage, sender, counter, browser=False) as worker:
            used = cpu_of(worker.pid)
            followed(worker, stage, sender, counter)
            used, figures = cpu_of(worker.pid) - used, _figures(stage)
            _stop(worker, stage.log)
    delays = sorted(counter.delays)
    result = {
        "changelog": _sum(figures, "changelog_bytes_total") * DAY / seconds,
        "cpu_us": 1e6 * used / (people * seconds),
        "memory": _sum(figures, "state_bytes") / _sum(figures, "keys"),
        "p50": delays[len(delays) // 2],
        "p99": delays[int(0.99 * (len(delays) - 1))],
    }
    print(
        f"replay = {replay:<4} {result['changelog'] / 1e9:,.1f} GB in the changelog a day, {result['cpu_us']:.0f} us of "
        f"processor a record of {sender.samples / (people * seconds):.0f} samples, delays p50 {result['p50']:.2f} s p99 "
        f"{result['p99']:.2f} s, {result['memory'] / 1e3:.1f} KB of live state a person  ({surroundings()})",
        flush=True,
    )
    return result


def _figures(stage: Stage) -> dict[str, float]:
    """What the worker's own metrics say."""
    lines = [json.loads(line) for line in Path(stage.log).read_text().splitlines() if line.startswith("{")]
    port = next(line["port"] for line in lines if line.get("event") == "serving /metrics and /health")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        pairs = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def _sum(figures: dict[str, float], name: str) -> float:
    """Over the labels of a metric; 0 where none was set."""
    return sum(value for metric, value in figures.items() if metric.partition("{")[0] == f"streamjobs_{name}")


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench people", description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--labelled", type=int, default=100, help="one person in so many gives labels")
    parser.add_argument("--quick", action="store_true", help="40 people, 6 s")
    options = parser.parse_args(list(arguments))
    people, seconds = (40, 6.0) if options.quick else (options.people, options.seconds)
    found = {replay: measure(replay, people, seconds, options.labelled) for replay in PACES}
    of_goal = found["10s"]["changelog"] * PEOPLE / people
    goal("changelog a day, demo's job, 1,000 people, labels of one in a hundred", of_goal / 1e9, 10, "GB")
    goal("live person in memory", found["10s"]["memory"] / 1e3, 12, "KB")
    return 0

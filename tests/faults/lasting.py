"""Alarms that stay open for thousands of rows, and one job with everything at once, through kills and broker restarts."""

import json
import random
from typing import Any

import numpy as np

from tests.brokers.kafka_job import Sent
from tests.faults.case import Case
from tests.faults.inputs import finish
from tests.faults.load import START, sent
from tests.faults.processes import kill

README = {"watch": "columns", "false_alarms": "1 per 10000 rows", "detector": None}  # its [drift]
QUIET, OPEN = 2_000, 5_000  # rows of a key before its change, and after it
LASTING_KEYS = 8

KEYS, EACH, STEP = 50, 1_200, 0.5  # of the torture; seconds between samples
TTL, PAUSE, PAUSING = 100.0, 200.0, 10  # seconds, and the keys that pause for longer than their states live
DOUBLED = 0.03


def lasting(case: Case) -> None:
    """README's [drift]: one column of every key at a new level for 5,000 rows, through four kills."""
    job = case.make_job(drift=README, sinks={"drift": "", "version": 2})
    case.records = _shifted(case.seed)
    workers = case.run_two_workers(static=True)
    case.start_load(40)
    for turn in range(4):
        sixths = (turn + 1) * len(case.records) // 6  # where the workers start slowly, the load is further than that
        case.wait_for_commits(max(0, sixths - sum(job.committed().values())))
        kill(case, workers[turn % 2])
        workers[turn % 2] = case.run_worker(workers[turn % 2].name, static=True)
    finish(case)
    alarms = [json.loads(one.value()) for one in job.read(job.core.sinks["alarms"], committed_only=case.exactly_once)]
    assert len({alarm["key"] for alarm in alarms}) == LASTING_KEYS, f"{len(alarms)} alarms are not of every key"
    _none_aside(case)
    case.prove(f"4 kills, {len({alarm['id'] for alarm in alarms})} alarms while a column stood {OPEN} rows at a new level")


def torture(case: Case) -> None:
    """50 keys, out of order within a second, doubles, keys past ttl, two watches; six kills and every node restarted."""
    drift = {"watch": ["columns", "ls_error"], "false_alarms": "1 per 1000 rows", "detector": None}
    case.make_job(
        source={"lateness": "1s", "late": "dlq", "duplicates": "drop"},
        drift=drift,
        sinks={"drift": "", "version": 2},
        state={"ttl": f"{TTL:.0f}s"},
    )
    case.records = _everything(case.seed)
    workers = case.run_two_workers(static=True)
    case.start_load(90)
    for turn, node in enumerate([*case.cluster.nodes, None, None, None]):
        case.wait_for_commits(len(case.records) // 40)
        kill(case, workers[turn % 2])
        if node is not None:
            case.cluster.stop(node)
        workers[turn % 2] = case.run_worker(workers[turn % 2].name, static=True)
        if node is not None:
            case.cluster.restart(node)
            case.cluster.in_sync()
    finish(case)
    reasons = case.dead_letter_reasons()
    assert set(reasons) <= {"late"}, f"dead letters for {reasons}"
    expired = len([one for worker in case.all_workers for one in worker.events("states of idle keys removed")])
    _none_aside(case)
    doubles = len(case.records) - KEYS * EACH
    case.prove(f"6 kills, 3 nodes restarted, {doubles} doubles, {PAUSING} keys past ttl ({expired} removals)")


def _none_aside(case: Case) -> None:
    case.found += [f"{worker.name} set a key aside" for worker in case.all_workers if worker.events("key set aside")]


def _shifted(seed: int) -> list[Sent]:
    rnd, records = np.random.default_rng(seed), []
    x = np.round(rnd.normal(0, 1, (LASTING_KEYS, QUIET + OPEN, 4)), 4)
    x[:, QUIET:, 2] += 6.0
    for step in range(QUIET + OPEN):
        for key in range(LASTING_KEYS):
            at = START + 0.02 * step
            body: dict[str, Any] = {"x": x[key, step].tolist(), "ts": round(at, 3)}
            if step % 3 == 0:
                body["label"] = "up" if body["x"][0] > 0 else "down"
            records.append(sent(key, body, at))
    return records


def _everything(seed: int) -> list[Sent]:
    rnd, order = random.Random(seed), []
    levels = np.random.default_rng(seed).normal(0, 1, (KEYS, EACH, 4))
    levels[:, EACH // 3 : 2 * EACH // 3, 1] += 6.0
    for key in range(KEYS):
        for step in range(EACH):
            at = START + key * 0.001 + step * STEP + (PAUSE if key < PAUSING and step >= EACH // 2 else 0.0)
            body = {"x": np.round(levels[key, step], 4).tolist(), "ts": round(at, 3)}
            if step % 3 == 0:
                body["label"] = "up" if body["x"][0] > 0 else "down"
            order.append((at + rnd.uniform(0.0, 0.999), sent(key, body, at)))
            if rnd.random() < DOUBLED:
                order.append((at + rnd.uniform(0.0, 0.999), sent(key, body, at)))
    return [record for _, record in sorted(order, key=lambda one: one[0])]

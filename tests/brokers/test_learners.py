"""Learners whose states are more than a few arrays that move row by row: killed with -9 in the middle, equal to a replay.

Without an option three of them run. All of them: python -m pytest tests/brokers/test_learners.py -m "long or not long"
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from streamjobs.core.live.stored import decode_snapshot
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.brokers.killing import PATIENCE, STATIC, kill_in_the_middle
from tests.brokers.load import SOURCE, START, STEP, samples
from tests.brokers.recordings import JOB as WATCH
from tests.brokers.recordings import as_frames, recordings
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker

LEVELS = (4, 3, 5, 2, 6)  # categories of each column


@dataclass(frozen=True)
class Learned:
    """A job, its records, and what a key's state must show at the end: that the learner came to its later stages."""

    sections: dict[str, Any]
    records: Callable[[], Iterator[Sent]]
    shows: Callable[[Any], bool]
    expect: str
    stage: str = "learner"


def _people() -> Iterator[Sent]:
    return as_frames(recordings())


def _numbers() -> Iterator[Sent]:
    return samples(5000, keys=10)


def _codes() -> Iterator[Sent]:
    """Rows of five categories as codes, drawn from a few types that a key mixes in its own way."""
    random = np.random.default_rng(5)
    types = np.column_stack([random.integers(0, most, 8) for most in LEVELS])
    for number in range(4000):
        key = number % 20
        x = types[(random.integers(4) + key) % len(types)].copy()
        changed = random.integers(len(LEVELS))
        x[changed] = random.integers(LEVELS[changed])
        at = START + number // 20 * STEP
        yield Sent(b"key-%d" % key, json.dumps({"x": x.tolist(), "ts": at}).encode(), key % PARTITIONS, round(at * 1000))


FORECAST = {"every": STEP, "ahead": [1, 3], "lags": 4, "learner": {"name": "krls", "budget": 8}}
SKEGD = {"name": "skegd", "budget": 12, "refresh_every": 5}
CASES = {
    "skegd": Learned(
        {"source": SOURCE, "learner": SKEGD},
        _numbers,
        lambda state: len(state.map) > 0 and len(state.entered) > SKEGD["budget"],
        "a map that was updated",
    ),
    "one_vs_rest of skegd, watch": Learned(
        {**{name: WATCH[name] for name in ("source", "window")}, "learner": {"name": "one_vs_rest", "learner": SKEGD}},
        _people,
        lambda state: any(len(one) > SKEGD["budget"] for one in _fields(state, "entered")),
        "a map that was updated",
    ),
    "okdl": Learned(
        {"source": SOURCE, "learner": {"name": "okdl", "atoms": 6, "budget": 20}, "head": {"name": "rls"}},
        _numbers,
        lambda state: len(state.extractor.samples) == 20,
        "a full budget",
    ),
    "block_greedy": Learned(
        {"source": SOURCE, "learner": {"name": "block_greedy", "budget": 20, "block_size": 5}, "head": {"name": "rls"}},
        _numbers,
        lambda state: len(state.extractor.prototypes) == 20 and state.extractor.arrival.max() > 20,
        "a full budget and a swap",
    ),
    "online_greedy on categories": Learned(
        {
            "source": {"dim": len(LEVELS), "time": "ts"},
            "scaling": {"method": "none"},
            "learner": {"name": "online_greedy", "budget": 12, "kernel": {"name": "overlap"}},
        },
        _codes,
        lambda state: len(state.prototypes) == 12 and state.arrival.max() > 12,
        "a full budget and a swap",
    ),
    "krls that forecasts": Learned(
        {"source": SOURCE, "learner": {"name": "okfeb", "rank": 3, "budget": 5}, "forecast": FORECAST},
        _numbers,
        lambda state: state.learner.series.seen > 400 and {len(one) for one in _fields(state, "dictionary")} == {8},
        "every row forecast, and full budgets",
        "forecasts",
    ),
}
SHORT = ("online_greedy on categories", "krls that forecasts")


def _fields(state: Any, name: str) -> list[Any]:
    """Every field of this name in a state and in the states within it."""
    found = [getattr(state, name)] if hasattr(state, name) else []
    for value in state:
        if hasattr(value, "_fields"):
            found += _fields(value, name)
    return found


@pytest.mark.parametrize("name", [one if one in SHORT else pytest.param(one, marks=pytest.mark.long) for one in CASES])
def test_a_job_killed_in_the_middle_ends_with_the_states_of_a_replay(
    make_job: MakeJob, fork_server: ForkServer, name: str
) -> None:
    case = CASES[name]
    records = list(case.records())
    slow = {
        "checkpoint": "20ms",
        "checkpoint_records": 100,
        "replay": "0s",
    }  # many checkpoints, so that the kill finds work left
    job = make_job("learned", **case.sections, state=slow)
    left = kill_in_the_middle(job, records, fork_server)
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        job.wait_until_done([worker], PATIENCE)
        assert worker.stop() == 0
    results = verify(job, repeats=True, expect=len(records))
    states = [decode_snapshot(job.core, snapshot)[0][case.stage] for snapshot in job.snapshots().values()]
    print(f"{name}: {left} of {len(records)} records were left, {len(states)} states compared, {results}")
    assert len(states) == len({record.key for record in records})
    assert all(map(case.shows, states)), f"expected {case.expect} in every state"

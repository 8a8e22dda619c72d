"""Every learner, detector and stage in a job whose keys have hostile streams: nothing fails, and a restored state goes on.

Each key has a stream of its own, so a key that fails or leaves an unreadable state is named.
"""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from algorithms import LEARNERS, learner_from
from algorithms.common.protocol import Array
from algorithms.drift.report import watches_columns
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from tests.checks.examples import examples

START, ROWS, DIM, ONCE = 1_700_000_000.0, 90, 3, 20
ALL = ["columns", "innovations", "rows"]
OFTEN = {"watch": ALL, "false_alarms": "1 per 100 rows", "learn": 60}
OKFEB = {"learner": {"name": "okfeb", "rank": 2, "budget": 5}, "head": {"name": "rls"}}
STAGES: dict[str, dict[str, Any]] = {
    "windows": {"window": {"length": "4s", "hop": "2s", "rate": 1.0, "statistics": "rich+gravity"}, "drift": OFTEN},
    "few samples": {"window": {"length": "4s", "hop": "2s", "rate": 2.0, "fewest": 0.1}, "drift": {"watch": "ls_error"}},
    "a week": {
        "source": {"time_zone": "Europe/Berlin"},
        "drift": OFTEN | {"daily": True, "week": "aaaaabb", "counts": True},
    },
    "a reference": {
        "drift": {"watch": ALL[0], "reference": "first 60 rows", "false_alarms": "1 per 100 rows", "relearn_after": "9 rows"}
    },
    "slopes": {"drift": OFTEN | {"slopes": {"f0": "5s", "f2": "20s"}}},
    "controls": {"drift": {"watch": "ls_error", "detector": "adwin", "beside": ["last_points", "running_mean"]}},
    "rates": {"source": {"counters": ["f0", "f2"]}, "drift": OFTEN, "alarms": {"stuck": "20s"}},
    "forecasts": {"forecast": {"ahead": [1, 5], "season": 7, "cautious": True, "not_negative": ["f0"]}},
    "a grid": {"forecast": {"ahead": [1, 3], "every": "1s"}, "alarms": {"stuck": True}},
    "a forecaster": {"forecast": {"ahead": [2], "learner": "rls", "lags": 4, "inputs": ["f0", "f1"]}},
    "bouts": {"bouts": {"shortest": "5s"}, "labels": {"wait": "9s"}, "head": {"name": "rls", "smooth": 0.7}},
    "late windows": {"window": {"length": "4s", "hop": "2s", "rate": 1.0}, "labels": {"wait": "9s", "delay": "9s"}},
    "lateness": {"source": {"lateness": "3s", "late": "dlq", "duplicates": "learn"}, "labels": {"delay": "9s"}},
    "means": {"source": {"missing": "mean"}, "scaling": {"unit_norm": True, "clip": 3.0, "freeze_after": 30}},
    "old numbers": {"source": {"hold_for": "9s", "late": "drop"}, "state": {"ttl": "1d"}},
    "clipped targets": {"head": {"name": "rls", "task": "regression", "clip_target": 5.0}},
}


def streams() -> dict[str, tuple[Array, Array, Array]]:
    """By key: times (ROWS,), X (ROWS, DIM) with NaN where a number is missing, and label codes (ROWS,), NaN for none."""
    random, at = np.random.default_rng(5), np.arange(ROWS)
    t, X, y = START + at, random.normal(size=(ROWS, DIM)), (at // 8) % 2 * 1.0
    late = at >= ROWS // 2
    counts = np.where(late[:, None], random.poisson(0.7, size=X.shape), 0)
    wild, lacks = X.copy(), X.copy()
    wild[5::7], wild[6::7], wild[7::9], wild[8::11] = 1.7e308, -1.7e308, 5e-324, 1e-310
    lacks[10:70, 0], lacks[30:50] = np.nan, np.nan
    rows = {
        "level": X + 9.0 * late[:, None],
        "counts": counts,
        "late column": np.where(late[:, None], X, 5.0),
        "unscaled": X * [1e-9, 1e9, 1.0] + [0, 1e12, 0],
        "wild": wild,
        "lacks": lacks,
        "collinear": X[:, :1] * [1.0, 2.0, 3.0],
        "period 2": np.where(at % 2, 1.0, -1.0)[:, None] * np.ones(DIM),
        "integers": random.integers(0, 4, size=X.shape),
        "zeros": np.zeros_like(X),
        "growing": X * np.exp(np.linspace(-600, 600, ROWS))[:, None],
    }
    times = {"backwards": t - 3e5 * late, "one time": np.where(late, t[ROWS // 2], t), "a year": t + 3.2e7 * late}
    once = np.where(at == 9, 1.0, np.nan)
    labels = {
        "alternating": at % 2 * 1.0,
        "many classes": at * 1.0,
        "once": once,
        "wrong": random.integers(0, 2, ROWS) * 1.0,
    }
    made = {key: (t, x, y) for key, x in rows.items()}
    made |= {key: (time, X, y) for key, time in times.items()}
    return made | {key: (t, X, code) for key, code in labels.items()}


def records(task: str) -> list[Stored]:
    """All streams at once, and keys with a single row between them."""
    made: list[Stored] = []
    every = streams()
    for row in range(ROWS):
        for key, (t, X, y) in every.items():
            x = X[row].tolist()
            body = {f"f{i}": None if math.isnan(number) else number for i, number in enumerate(x)} | {"ts": float(t[row])}
            if not math.isnan(y[row]):
                body["y"] = f"c{y[row]:.0f}" if task == "classification" else float(y[row])
            made.append(_stored(len(made), key, row, body))
        if row % (ROWS // ONCE) == 0:
            made.append(_stored(len(made), f"once {row}", row, {"f0": 1, "f1": 2, "f2": 3, "ts": START + row}))
    return made


def _stored(offset: int, key: str, row: int, body: dict[str, Any]) -> Stored:
    return Stored("in", 0, offset, round(1000 * (START + row + 4e7)), key.encode(), json.dumps(body).encode())


def job_of(**sections: Any) -> Job:
    source = {"topic": "in", "fields": [f"f{i}" for i in range(DIM)], "time": "ts", "label": "y"}
    source |= {"max_abs": 1.79e308, "missing": "hold", "future": "90000000s"} | sections.pop("source", {})
    table = {"source": source, **OKFEB, **sections}
    return Job.from_settings(settings_from({name: section for name, section in table.items() if section is not None}))


def bounded(name: str, settings: dict[str, Any]) -> bool:
    """A job takes it; `classes` is a job's own setting."""
    return learner_from(name, settings).bounded and "classes" not in settings


def job_with(name: str, scaled: bool) -> Job:
    """A job with the learner's first settings of EXAMPLES that a job takes, on scaled or raw rows."""
    own = next(one.settings for one in [*examples(name)[1:], *examples(name)] if bounded(name, one.settings))
    learner, table = learner_from(name, own), {"name": name, **own}
    sections: dict[str, Any] = {} if scaled else {"scaling": {"method": "none"}}
    if learner.kind == "drift":
        return job_of(drift={"detector": table, "watch": ALL[0] if watches_columns(learner) else "ls_error"}, **sections)
    if name == "running_mean":
        return job_of(drift={"watch": "ls_error", "beside": [table]}, **sections)
    if learner.kind == "features":
        return job_of(learner=table, sinks={"features": "z"}, **sections)
    return job_of(learner=table | {"task": learner.kind}, head=None, **sections)


def refused(constant: str) -> None:
    raise AssertionError(f"an output has {constant}")


def run(job: Job, batches: list[list[Stored]], restored: bool) -> tuple[dict[Any, list[bytes]], dict[bytes, bytes]]:
    """Outputs by sink and key, and states; restored: after each batch all states are written and read again."""
    store: dict[bytes, bytes] = {}
    live, outputs = Live(job, store.get), dict[Any, list[bytes]]()
    for batch in batches:
        made = advance(job, live, batch)
        assert not made.report.failures and not made.report.set_aside and not live.aside.verdicts
        for one in made.outputs:
            outputs.setdefault((one.sink, one.key), []).append(one.value or b"")
        if restored:
            store.update(live.snapshots())
            assert not live.aside.verdicts  # of keys with a state that cannot be written
            live = Live(job, store.get)
    store.update(live.snapshots())
    assert not live.aside.verdicts
    return outputs, store


def endures(job: Job) -> None:
    stream = records(job.task)
    whole, states = run(job, [stream[at : at + 500] for at in range(0, len(stream), 500)], restored=False)
    cuts = [0, 1, 2, 30, 200, 201, 700, 1300, len(stream)]
    parts, again = run(job, [stream[a:b] for a, b in pairwise(cuts)], restored=True)
    for place in {**whole, **parts}:
        assert whole.get(place) == parts.get(place), place
    for key, data in states.items():
        assert again[key] == data, key
        assert len(data) <= job.state_bytes + 20 * ROWS, key  # without the names of its classes
        assert job.encode(*load_snapshot(job, data)) == data, key
    for (sink, _), values in whole.items():
        for value in values if sink != "dlq" else ():
            json.loads(value, parse_constant=refused)


@pytest.mark.parametrize("scaled", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["scaled", "raw"])
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "okfe"])  # which no job takes: it is not bounded
def test_a_learner_or_detector_endures_hostile_keys(name: str, scaled: bool) -> None:
    endures(job_with(name, scaled))


@pytest.mark.parametrize("which", STAGES)
def test_a_stage_endures_hostile_keys(which: str) -> None:
    endures(job_of(**STAGES[which]))

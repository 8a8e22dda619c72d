"""Drift with an extractor of its own and beside its controls: end to end, and what is no drift."""

import json

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.drift.report import ALARM, STATISTIC
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import starting_from
from streamjobs.settings.sections import Settings
from tests.core.streams import START, Worker, record, samples, settings, values

EXTRACTOR = {"name": "okfeb", "role": "track", "rank": 3, "budget": 5}
DETECTOR = {"name": "page_hinkley", "delta": 0.01, "threshold": 0.1}
DRIFT = {"extractor": EXTRACTOR, "detector": DETECTOR, "beside": [{"name": "last_points", "rank": 4}, "running_mean"]}
RECORDS = samples(360)


@pytest.fixture(scope="module")
def job() -> Job:
    return Job.from_settings(settings(drift=DRIFT))


@pytest.fixture(scope="module")
def uninterrupted(job) -> tuple[list, dict]:
    worker = Worker(job)
    outputs = values(worker.apply(RECORDS))
    worker.checkpoint()
    return outputs, worker.store


def drifts(outputs) -> list[dict]:
    return [json.loads(output.value) for output in outputs if output.sink == "drift"]


def number(value) -> float:
    return np.nan if value is None else value


def test_every_verdict_is_that_of_the_learner_and_the_detector_run_by_hand():
    chosen = settings(window=None, drift=DRIFT, scaling={"clip": 2.0}, head=None, learner={"name": "okfeb", "budget": 20})
    told = drifts(Worker(Job.from_settings(chosen)).apply(samples(200, keys=1)))
    X = np.array([[json.loads(r.value)[axis] for axis in ("ax", "ay", "az")] for r in samples(200, keys=1)])

    def run(name, rows, how=None):
        learner = learner_from(name, how or {})
        return learner.run(learner.init(dim=rows.shape[1], targets=0, seed=0), rows)[1]

    scaled = run("scaling", X, {"clip": 2.0}).features
    learners = [("okfeb", {**EXTRACTOR}), ("last_points", {"rank": 4}), ("running_mean", {})]
    for name, how in learners:
        errors = run(name, scaled, {k: v for k, v in how.items() if k != "name"}).ls_error
        found = run("page_hinkley", errors[:, None], {"delta": 0.01, "threshold": 0.1}).features
        mine = told if name == "okfeb" else [one["beside"][name] for one in told]
        assert np.array_equal([number(one["value"]) for one in mine], errors, equal_nan=True)
        assert np.array_equal([number(one["statistic"]) for one in mine], found[:, STATISTIC], equal_nan=True)
        assert [one["alarm"] for one in mine] == (found[:, ALARM] > 0).tolist()
        assert found[:, ALARM].any()
    assert {(one["extractor"], one["detector"], one["watch"]) for one in told} == {("okfeb", "page_hinkley", "ls_error")}


def test_alarms_are_counted_by_control_and_predictions_carry_the_jobs_own(job):
    advanced = advance(job, Live(job, {}.get), RECORDS)
    told = drifts(advanced.outputs)
    report = advanced.report
    assert report.drift_events == sum(one["alarm"] for one in told) > 0
    for name in ("last_points", "running_mean"):
        assert report.control_events[name] == sum(one["beside"][name]["alarm"] for one in told)
    predictions = [json.loads(output.value) for output in advanced.outputs if output.sink == "predictions"]
    assert [one["drift"] for one in predictions] == [one["alarm"] for one in told]


def test_without_controls_nothing_stands_beside():
    told = drifts(Worker(Job.from_settings(settings())).apply(RECORDS))
    assert not any("beside" in one for one in told)
    assert {one["extractor"] for one in told} == {"okfeb+rls"}


def test_a_crash_after_every_record_changes_nothing(job, uninterrupted):
    wanted, states = uninterrupted
    worker, outputs = Worker(job), []
    for one in RECORDS:
        outputs += values(worker.apply([one]))
        worker.checkpoint()
        worker.crash()

    def ordered(found):
        return sorted(found, key=lambda output: (output[4][0][1], output[0]))

    assert ordered(outputs) == ordered(wanted)
    assert worker.store == states
    assert max(map(len, states.values())) <= job.state_bytes


@pytest.mark.parametrize(
    "changed",
    [{"extractor": {**EXTRACTOR, "rank": 2}}, {"beside": ["running_mean"]}, {"idle": 3}, {"detector": "adwin"}],
)
def test_another_way_of_watching_is_another_job(job, changed):
    assert Job.from_settings(settings(drift=DRIFT | changed)).fingerprint != job.fingerprint


def test_a_new_key_that_starts_warm_takes_over_no_idea_of_what_is_usual(job):
    pooled = Worker(job, pooled=True)
    pooled.apply(RECORDS)
    started = starting_from(Job.from_settings(settings(drift=DRIFT)), pooled.live.export()).init(b"new")
    fresh = job.init(b"new")
    assert {"drift_extractor", "drift", "beside_last_points", "beside_running_mean_drift", "idle"} <= set(fresh)
    for name in fresh:
        same = all(
            np.array_equal(a, b) for a, b in zip(started[name], fresh[name], strict=True) if not hasattr(a, "_fields")
        )
        if name.startswith(("drift", "beside", "idle")):
            assert same, name
    assert started["scaling"].seen > fresh["scaling"].seen


RATE = 20.0
KERNEL = {"name": "gaussian", "bandwidth": 1.5}  # for rows that are not scaled


def motion(seconds: float, kind: int, start: float, seed: int) -> list[tuple[float, list[float]]]:
    """Samples of one of two periodic motions, with a little noise."""
    t = start + np.arange(round(seconds * RATE)) / RATE
    frequency, size = ((1.0, 1.0), (3.0, 0.5))[kind]
    X = size * np.sin(2 * np.pi * frequency * t[:, None] + [0.0, 1.0, 2.0]) + [0.0, 0.3 * kind, 1.0]
    X += 0.05 * np.random.default_rng(seed).normal(size=X.shape)
    return list(zip(t.tolist(), X.tolist(), strict=True))


def repeated(seconds: float, last: tuple[float, list[float]]) -> list[tuple[float, list[float]]]:
    """What an idle sensor gives: the last sample, over and over."""
    return [(last[0] + (n + 1) / RATE, last[1]) for n in range(round(seconds * RATE))]


def watched(parts: list[list[tuple[float, list[float]]]], **drift) -> tuple[list[float], dict[str, int], int]:
    """Times of alarms since START, alarms of each control, and how many rows were not watched."""
    stream = [sample for part in parts for sample in part]
    records = []
    for offset, at in enumerate(range(0, len(stream), 20)):
        times, X = zip(*stream[at : at + 20], strict=True)
        one = record(offset, b"p", {"x": list(X), "ts": list(times)})
        records.append(one._replace(timestamp=round(1000 * times[-1])))
    table = {
        "source": {"topic": "imu", "dim": 3, "time": "ts"},
        "window": {"length": "2s", "hop": "1s", "rate": RATE},
        "scaling": {"method": "none"},
        "learner": {"name": "okfeb"},
        "drift": {
            "extractor": {"name": "okfeb", "role": "track", "kernel": KERNEL},
            "beside": [{"name": "last_points", "kernel": KERNEL}, {"name": "running_mean", "kernel": KERNEL}],
            **drift,
        },
    }
    outputs = Worker(Job.from_settings(Settings(**table))).apply(records)
    assert all(output.sink != "dlq" for output in outputs)
    told = drifts(outputs)
    beside = {name: sum(one["beside"][name]["alarm"] for one in told) for name in ("last_points", "running_mean")}
    return [one["ts"] - START for one in told if one["alarm"]], beside, sum(one["value"] is None for one in told)


def test_another_motion_is_drift():
    alarms, beside, _ = watched([motion(60, 0, START, 0), motion(40, 1, START + 60, 1)])
    assert len(alarms) == 1 and 60 < alarms[0] < 65
    assert beside == {"last_points": 1, "running_mean": 1}


def test_a_gap_is_no_drift():
    assert watched([motion(60, 0, START, 0), motion(40, 0, START + 3660, 1)])[:2] == (
        [],
        {"last_points": 0, "running_mean": 0},
    )


def test_an_idle_sensor_is_no_drift_neither_when_it_falls_asleep_nor_when_it_wakes():
    first = motion(60, 0, START, 0)
    parts = [first, repeated(90, first[-1]), motion(40, 0, START + 150, 1)]
    alarms, beside, unseen = watched(parts)
    assert (alarms, beside) == ([], {"last_points": 0, "running_mean": 0})
    assert unseen == watched([first])[2] + 91  # the windows that end in seconds 61 to 151
    alarms, beside, _ = watched(parts, idle=0)  # the check would notice
    assert any(60 < alarm < 65 for alarm in alarms)
    assert beside["last_points"] >= 2


def test_what_changed_while_the_sensor_was_idle_is_found_when_it_wakes():
    first = motion(60, 0, START, 0)
    alarms, _, _ = watched([first, repeated(90, first[-1]), motion(40, 1, START + 150, 1)])
    assert len(alarms) == 1 and 150 < alarms[0] < 156


def test_an_idle_sensor_without_windows_is_no_drift():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * 0.1
    X[100:200] = X[99]
    table = {
        "source": {"topic": "imu", "dim": 3, "time": "ts"},
        "scaling": {"method": "none"},
        "learner": {"name": "okfeb"},
        "drift": {"detector": DETECTOR | {"threshold": 0.25, "delta": 0.03}, "beside": ["last_points"]},
    }

    def told(**how):
        records = [record(n, b"p", {"x": x.tolist(), "ts": START + n / 10}) for n, x in enumerate(X)]
        chosen = table | {"drift": table["drift"] | how}
        return drifts(Worker(Job.from_settings(Settings(**chosen))).apply(records))

    awake = told()
    assert not any(one["alarm"] or one["beside"]["last_points"]["alarm"] for one in awake)
    assert [n for n, one in enumerate(awake) if n > 50 and one["value"] is None] == list(range(110, 200))
    assert told(idle=0)[150]["value"] is not None

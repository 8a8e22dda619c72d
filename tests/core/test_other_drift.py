"""[drift] of a running job is changed: where it is asked for, models stay to the bit and drift detection begins again."""

import itertools
from typing import Any

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot, load_snapshot, starting_from
from streamjobs.core.state import snapshot
from streamjobs.core.state.migration import of_drift
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import exported_model, relearned_snapshot
from tests.core.people import job_of_people
from tests.core.streams import Worker, samples, settings

OKFEB = {"name": "okfeb", "role": "track", "rank": 3, "budget": 5}
CHART = {"name": "column_chart", "learn": 20, "least": 5, "hold": 20}
THREE = {"watch": ["columns", "innovations", "rows"], "false_alarms": "1 per 1000 rows"}
DRIFTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "thresholds": {},
    "no idle": {"idle": 0},
    "extractor": {"extractor": OKFEB, "beside": ["last_points", "running_mean"]},
    "stated": {"extractor": OKFEB, "false_alarms": "1 per 1000 rows"},
    "columns": {"watch": "columns", "false_alarms": "1 per 100 rows", "detector": CHART},
    "several": {"watch": ["columns", "ls_error"], "extractor": OKFEB, "false_alarms": "1 per 1000 rows"},
    "foreseen": THREE,
    "foreseen from more": THREE | {"learn": 600},
    "reference": {"watch": "columns", "reference": "first 60 rows", "false_alarms": "1 per 1000 rows"},
    "reference of errors": {"extractor": OKFEB, "reference": "first 120 rows", "false_alarms": "1 per 1000 rows"},
}
RECORDS = samples(1600, keys=4, seed=3)


def job(name: str, **sections: Any) -> Job:
    return Job.from_settings(settings(drift=DRIFTS[name], **sections))


def moved(worker: Worker, to: Job) -> Worker:
    """The worker's states as 'drift relearn --all' leaves them, under another job."""
    worker.checkpoint()
    return Worker(to, {key: relearned_snapshot(to, Entry(0, key, data, 0, 0)) for key, data in worker.store.items()})


def predicted(outputs: list[Any]) -> list[tuple[Any, ...]]:
    return [(one.key, one.timestamp, one.headers) for one in outputs if one.sink == "predictions"]


@pytest.mark.parametrize(("before", "after"), [*itertools.permutations(DRIFTS, 2)])
def test_models_stay_and_drift_detection_begins_again(before: str, after: str) -> None:
    old, new = job(before), job(after)
    worker = Worker(old)
    worker.apply(RECORDS[:1200])
    gone_on = moved(worker, new)
    for key, data in worker.store.items():
        held, names, offsets = load_snapshot(old, data)
        states, same_names, same_offsets = load_snapshot(new, gone_on.store[key])
        assert (names, offsets) == (same_names, same_offsets)
        fresh = new.fresh(new.seed_of(key))
        for name in new.own:
            kept = name in held and not of_drift(name) and name != "alarms"
            expected = held[name] if kept else fresh[name] if new.own[name].knows_normal else states[name]
            for a, b in zip(snapshot.flatten(states[name]), snapshot.flatten(expected), strict=True):
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name
        if old.described != new.described:
            with pytest.raises(SnapshotError, match=r"^\[drift\] was changed: undo that"):
                decode_snapshot(new, data)
    assert predicted(gone_on.apply(RECORDS[1200:])) == predicted(worker.apply(RECORDS[1200:]))


def test_an_open_alarm_is_ended_by_the_keys_next_row() -> None:
    often = {"watch": "columns", "false_alarms": "1 per 20 rows", "detector": CHART}
    plain = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
    old = Job.from_settings(settings(drift=often, **plain))
    new = Job.from_settings(settings(drift=DRIFTS["reference"], **plain))
    worker, records, at = Worker(old), samples(4000, keys=4, seed=3), 2000
    worker.apply(records[:at])
    opened: list[bytes] = []
    while not opened:
        assert at < len(records), "no alarm to leave open"
        worker.apply(records[at : at + 20])
        at += 20
        worker.checkpoint()
        opened = [key for key, data in worker.store.items() if load_snapshot(old, data)[0]["alarms"].opened.any()]
    went_on = moved(worker, new).apply(records[at:])
    ends = [one for one in went_on if one.sink == "alarms" and one.key == opened[0]]
    assert ends and b'"outcome":"learned anew"' in (ends[0].value or b"")


def test_another_model_is_still_another_job() -> None:
    worker = Worker(job("thresholds"))
    worker.apply(RECORDS[:400])
    worker.checkpoint()
    other = job("columns", head={"name": "rls", "task": "classification", "delta": 3.0})
    with pytest.raises(SnapshotError, match="Restore those settings; or give the job another"):
        load_snapshot(other, next(iter(worker.store.values())), drift_anew=True)


def test_a_job_with_a_population_keeps_its_heads() -> None:
    old, new = job_of_people(), job_of_people(drift=DRIFTS["columns"])
    worker = Worker(old)
    worker.apply(RECORDS[:1200])
    gone_on = moved(worker, new)
    for key, data in worker.store.items():
        before, after = load_snapshot(old, data)[0]["learner"], load_snapshot(new, gone_on.store[key])[0]["learner"]
        assert all(map(np.array_equal, snapshot.flatten(before), snapshot.flatten(after)))


def test_a_damaged_one_is_refused() -> None:
    old, new = job("extractor"), job("columns")
    worker = Worker(old)
    worker.apply(RECORDS[:400])
    worker.checkpoint()
    held = snapshot.decode(next(iter(worker.store.values())))
    for arrays in (held.arrays[:3], held.arrays[:-1], held.arrays[1:]):
        with pytest.raises(SnapshotError):
            load_snapshot(new, snapshot.encode(held._replace(arrays=arrays)), drift_anew=True)


def test_new_keys_start_from_a_model_of_any_drift() -> None:
    old, new = job("extractor"), job("columns")
    worker = Worker(old)
    worker.apply(RECORDS[:1200])
    worker.checkpoint()
    model = exported_model(old, Entry(0, b"p1", worker.store[b"p1"], 0, 0))
    started, plain = starting_from(new, model).init(b"new"), starting_from(old, model).init(b"new")
    assert all(map(np.array_equal, snapshot.flatten(started["learner"]), snapshot.flatten(plain["learner"])))
    with pytest.raises(SnapshotError, match=r"^\[drift\] was changed: undo that"):
        load_snapshot(job("reference", state={"start_from": "model"}), model)

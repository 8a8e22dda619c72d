"""[head] clip_target in a job: on in a regression unless it is off, told in the report, and outputs keep what came."""

import json

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.settings.composition import composition_of
from tests.core.streams import Worker, record, settings

START = 1_700_000_000.0


def regression(**learner):
    sections = {"window": None, "drift": None, "head": None, "scaling": {"method": "none"}}
    return settings(learner={"name": "klms", "budget": 20, "task": "regression", **learner}, **sections)


def stream(wild: bool, n: int = 60):
    rows = []
    for i in range(n):
        x = {"ax": (i % 7) / 7, "ay": (i % 5) / 5, "az": 1.0, "ts": START + i}
        rows.append(record(i, b"p", x | {"activity": 1e6 if wild and i == 40 else x["ax"] - x["ay"]}))
    return rows


def predictions(job: Job, records) -> tuple[list[dict], int]:
    made = advance(job, Live(job, lambda key: None), records)
    return [json.loads(one.value) for one in made.outputs if one.sink == "predictions"], made.report.targets_clipped


def test_a_wild_target_is_clipped_by_default_reported_and_shown_as_it_came():
    said, clipped = predictions(Job.from_settings(regression()), stream(wild=True))
    usual, none = predictions(Job.from_settings(regression()), stream(wild=False))
    ruined, off = predictions(Job.from_settings(regression(clip_target=0)), stream(wild=True))
    assert (clipped, none, off) == (1, 0, 0)
    assert (
        said[40]["true_value"] == 1e6
        and said[:40] == usual[:40]
        and said[40]["predicted_value"] == usual[40]["predicted_value"]
    )
    worst = max(
        abs(one["predicted_value"] - other["predicted_value"]) for one, other in zip(said[41:], usual[41:], strict=True)
    )
    assert worst < 5 and abs(ruined[41]["predicted_value"]) > 1e4


@pytest.mark.parametrize(
    ("made", "clip"),
    [
        (regression(), 10.0),
        (regression(clip_target=4), 4.0),
        (regression(clip_target=0), None),
        (settings(head={"name": "rls", "task": "regression", "clip_target": 3.5}), 3.5),
        (settings(head={"name": "rls", "task": "regression"}), 10.0),
        (settings(), None),
    ],
)
def test_the_setting_and_its_default(made, clip):
    stage = composition_of(made).clip
    assert (None if stage is None else stage.clip) == clip


def test_another_number_keeps_the_states():
    job, other = Job.from_settings(regression()), Job.from_settings(regression(clip_target=3))
    worker = Worker(job)
    worker.apply(stream(wild=True))
    worker.checkpoint()
    assert job.fingerprint == other.fingerprint
    assert load_snapshot(other, worker.store[b"p"])[0]["clip"].seen == 60

"""What a snapshot is said to hold is what the outputs said meanwhile."""

import json

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.maintenance.summary import decode_entry, details, summary
from tests.core.streams import START, Worker, samples, settings
from tests.maintenance.copying import copy_of

RECORDS = samples(360)
KEY = (0, b"p1")


def worked(**sections):
    """A job, the copy of its states after the stream, and p1's outputs by sink."""
    job = Job.from_settings(settings(**sections))
    worker = Worker(job)
    outputs: dict[str, list[dict]] = {}
    for output in worker.apply(RECORDS):
        if output.key == b"p1":
            outputs.setdefault(output.sink, []).append(json.loads(output.value))
    worker.checkpoint()
    return job, copy_of(job, worker.store), outputs


def test_a_summary_counts_what_the_key_has_had():
    job, copy, outputs = worked()
    line = summary(job, copy.entries[KEY])
    mine = [record for record in RECORDS if record.key == b"p1"]
    assert (line.key, line.partition, line.offset) == ("p1", 0, mine[-1].offset)
    assert line.rows == line.seen == len(outputs["features"])
    assert line.labels == sum(row["true_class"] is not None for row in outputs["predictions"]) > 0
    assert line.event_time == pytest.approx(START + 11.9)
    assert line.bytes == len(copy.entries[KEY].data) and line.problem is None


def test_the_mean_ls_error_is_that_of_the_outputs():
    job, copy, outputs = worked()
    errors = [row["ls_error"] for row in outputs["features"] if row["ls_error"] is not None]
    found = details(job, copy.entries[KEY])
    count = int(found["ls_error_over"].split()[2])
    assert 5 < count <= len(errors)
    assert found["ls_error"] == pytest.approx(np.mean(errors[-count:]), rel=1e-12)


@pytest.mark.parametrize("detector", ["page_hinkley", "window_ratio", "adwin"])
def test_a_detector_gives_the_mean_where_the_learner_keeps_none(detector):
    learner = {"name": "okfeb", "rank": 3, "budget": 5, "censor": "off"}
    job, copy, outputs = worked(learner=learner, drift={"detector": detector})
    assert not any(row["alarm"] for row in outputs["drift"])
    found = details(job, copy.entries[KEY])
    errors = [row["ls_error"] for row in outputs["features"] if row["ls_error"] is not None]
    count = next(int(word) for word in found["ls_error_over"].split() if word.isdigit())
    assert found["ls_error"] == pytest.approx(np.mean(errors[-count:]), rel=1e-9)


def test_details_show_every_array_of_the_state_and_are_json():
    job, copy, _ = worked()
    found = json.loads(json.dumps(details(job, copy.entries[KEY]), allow_nan=False))
    states, names, _ = decode_entry(job, copy.entries[KEY])
    shapes = {(one["stage"], one["name"]): tuple(one["shape"]) for one in found["fields"]}
    assert {stage for stage, _ in shapes} == set(job.own)
    support = states["learner"].extractor.support
    held = next(one for one in found["fields"] if (one["stage"], one["name"]) == ("learner", "extractor.support"))
    assert tuple(held["shape"]) == support.shape and held["norm"] == pytest.approx(np.linalg.norm(support))
    assert found["classes"].keys() == set(names) and found["offsets"] == {"imu[0]": found["offset"]}
    assert found["drift"]["drift"]["seen"] > 0


def test_a_snapshot_of_another_job_is_a_problem_that_names_key_and_setting():
    _, copy, _ = worked()
    other = Job.from_settings(settings(learner={"name": "okfeb", "rank": 2, "budget": 5}))
    problem = summary(other, copy.entries[KEY]).problem
    assert problem is not None and "'p1'" in problem and "rank" in problem

"""Budgeted kernel learners as learners of a job: several classes on one support, stored and restored, bounded."""

import json

import numpy as np
import pytest

from streamjobs.replay import engine
from tests.commands.jobs import START, command, job_file, jsonl
from tests.sizes import first_fast

JOB = """\
[job]
name = "poses"
[source]
topic = "watch"
dim = 2
time = "ts"
label = "pose"
[scaling]
method = "none"
"""
LEARNERS = {
    "bpas": "budget = 12\n",
    "projectron_pp": "budget = 12\n",
    "bogd": 'budget = 30\nstep_size = 0.5\nloss = "logistic"\n',
    "forgetron": "budget = 20\n",
    "rbp": "budget = 30\n",
    "projectron": "budget = 12\n",
    "norma": "max_terms = 30\nstep_size = 0.5\n",
    "kogd": "max_terms = 30\nstep_size = 0.5\n",
    "perceptron": "max_terms = 30\n",
}


def poses(tmp_path, keys: int = 6, rows: int = 80):
    """Three poses at three places, which are a little elsewhere for everybody."""
    random = np.random.default_rng(0)
    table = []
    for row in range(rows):
        for key in range(keys):
            pose = int(random.integers(3))
            angle = 2.1 * pose + 0.1 * key
            x = [float(np.cos(angle)), float(np.sin(angle))] + 0.1 * random.standard_normal(2)
            table.append({"person": f"p{key}", "ts": START + row, "x": x.tolist(), "pose": f"pose {pose}"})
    return jsonl(tmp_path / "poses.jsonl", table)


@pytest.mark.parametrize("name", first_fast(LEARNERS, 2))
def test_a_job_tells_classes_apart_and_its_stored_states_give_the_same_bytes(tmp_path, name, monkeypatch):
    job = job_file(tmp_path, JOB + f'[learner]\nname = "{name}"\n{LEARNERS[name]}kernel = {{ bandwidth = 0.7 }}\n')
    words = ("replay", job, "--input", poses(tmp_path), "--key", "person")
    assert command(*words, "--output-dir", tmp_path / "one") == 0
    said = [json.loads(line)["value"] for line in (tmp_path / "one" / "predictions.jsonl").read_text().splitlines()]
    late = said[6 * 50 :]
    assert np.mean([one["predicted_class"] != one["true_class"] for one in late]) < 0.2
    monkeypatch.setenv("STREAMJOBS_STATE__CACHE", "1B")
    monkeypatch.setenv("STREAMJOBS_STATE__CHECKPOINT_BYTES", "1B")
    monkeypatch.setattr(engine, "BATCH", 30)
    assert command(*words, "--expect", tmp_path / "one") == 0


@pytest.mark.parametrize("name", ["perceptron", "kogd", "norma"])
def test_one_without_max_terms_is_refused_by_a_job(tmp_path, name, capsys):
    job = job_file(tmp_path, JOB + f'[learner]\nname = "{name}"\n')
    assert command("check", job) == 2
    err = capsys.readouterr().err
    assert f"{name} with these settings stores every sample" in err and "max_terms" in err
    assert len(err.strip().splitlines()) == 1

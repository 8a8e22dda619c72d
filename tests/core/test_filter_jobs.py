"""Kernel filters and fixed maps as learners of a job: predicted, stored and restored, refused where they have no limit."""

import json

import numpy as np
import pytest

from streamjobs.replay import engine
from tests.commands.jobs import START, command, job_file, jsonl
from tests.sizes import first_fast

JOB = """\
[job]
name = "pumps"
[source]
topic = "flow"
dim = 2
time = "ts"
label = "next"
[scaling]
method = "none"
"""
LMS = "step_size = 1.0\nkernel = { bandwidth = 0.5 }\n"
HEAD = '[head]\nname = "rls"\n'
LEARNERS = {
    "klms": "budget = 10\n" + LMS,
    "qklms": "budget = 10\nquantum = 0.05\n" + LMS,
    "knlms": "budget = 10\ncoherence_below = 0.8\n" + LMS,
    "krls": "budget = 10\n",
    "exkrls": "budget = 10\n",
    "rff": "features = 60\n" + HEAD,
    "gauss_quadrature": "features = 60\n" + HEAD,
    "taylor": HEAD.replace("rls", "exrls"),
}


def flow(tmp_path, keys: int = 12, rows: int = 60):
    """Every pump swings at its own pace; the label is where it is next."""
    table = []
    for row in range(rows):
        for key in range(keys):
            swing = np.sin((0.3 + 0.02 * key) * (row + np.arange(3)) + key)
            x = [float(swing[0]), float(swing[1])]
            table.append({"person": f"p{key}", "ts": START + row, "x": x, "next": float(swing[2])})
    return jsonl(tmp_path / "flow.jsonl", table)


@pytest.mark.parametrize("name", first_fast(LEARNERS, 3))
def test_a_job_predicts_and_its_stored_states_give_the_same_bytes(tmp_path, name, monkeypatch):
    job, recording = (
        job_file(tmp_path, JOB + f'[learner]\nname = "{name}"\n{LEARNERS[name]}task = "regression"\n'),
        flow(tmp_path),
    )
    words = ("replay", job, "--input", recording, "--key", "person")
    assert command(*words, "--output-dir", tmp_path / "one") == 0
    said = [json.loads(line)["value"] for line in (tmp_path / "one" / "predictions.jsonl").read_text().splitlines()]
    assert len(said) == 12 * 60
    late = said[12 * 40 :]
    assert np.median([abs(one["predicted_value"] - one["true_value"]) for one in late]) < 0.5 * np.median(
        [abs(one["true_value"]) for one in late]
    )
    monkeypatch.setenv("STREAMJOBS_STATE__CACHE", "1B")
    monkeypatch.setenv("STREAMJOBS_STATE__CHECKPOINT_BYTES", "1B")
    monkeypatch.setattr(engine, "BATCH", 30)
    assert command(*words, "--expect", tmp_path / "one") == 0


def test_a_replay_tells_how_far_a_regression_is_off_what_it_said_before(tmp_path, capsys):
    job = job_file(tmp_path, JOB + f'[learner]\nname = "klms"\n{LEARNERS["klms"]}task = "regression"\n')
    words = ("replay", job, "--input", flow(tmp_path, rows=20), "--key", "person")
    assert command(*words, "--output-dir", tmp_path / "one") == 0
    told = capsys.readouterr()
    said = [json.loads(line)["value"] for line in (tmp_path / "one" / "predictions.jsonl").read_text().splitlines()]
    off = np.sqrt(np.mean([(one["predicted_value"] - one["true_value"]) ** 2 for one in said]))
    assert f"240 labels, each predicted before it was learned: root mean square error {off:.6g}" in told.out
    assert "RMSE" in told.err and "wrong" not in told.out
    assert command(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wrong"] is None and found["rmse"] == pytest.approx(off)


@pytest.mark.parametrize("name", ["klms", "qklms", "knlms", "krls", "exkrls"])
def test_a_filter_without_a_budget_is_refused_by_a_job(tmp_path, name, capsys):
    job = job_file(tmp_path, JOB + f'[learner]\nname = "{name}"\ntask = "regression"\n')
    assert command("check", job) == 2
    err = capsys.readouterr().err
    assert f"{name} with these settings stores every sample" in err and "Set a budget" in err
    assert len(err.strip().splitlines()) == 1

"""A binary learner as a job's classifier: labels as texts, stored and restored, the same bytes in any way."""

import json

import pytest

from streamjobs.core.live.live import Live
from streamjobs.job_files import job_of
from tests.commands.jobs import JOB, command, job_file, jsonl, rows

ALONE = JOB.partition("[learner]")[0]
HEAD = '[head]\nname = "one_vs_rest"\nlearner = { name = "logistic", step_size = 0.5 }\n'
JOBS = {
    "each class its own": ALONE + '[learner]\nname = "rff"\nfeatures = 60\n' + HEAD,
    "on one dictionary": ALONE
    + """[learner]
name = "one_vs_rest"
task = "classification"
classes = ["sit", "run"]
learner = { name = "knlms", loss = "hinge", budget = 8 }
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", JOBS.values(), ids=JOBS)
def test_a_job_predicts_labels_and_its_stored_states_give_the_same_bytes(tmp_path, text, monkeypatch):
    job, recording = job_file(tmp_path, text), jsonl(tmp_path / "samples.jsonl", rows(2700, keys=18))
    words = ("replay", job, "--input", recording, "--key", "person")
    assert command(*words, "--output-dir", tmp_path / "one") == 0
    lines = (tmp_path / "one" / "predictions.jsonl").read_text().splitlines()
    late = [one for line in lines if (one := json.loads(line)["value"])["seq"] >= 14]
    assert {one["predicted_class"] for one in late} == {"sit", "run"}
    assert sum(one["predicted_class"] == one["true_class"] for one in late) > 0.65 * len(late)
    monkeypatch.setenv("STREAMJOBS_STATE__CACHE", "1B")
    monkeypatch.setenv("STREAMJOBS_STATE__CHECKPOINT_BYTES", "1B")
    assert command(*words, "--expect", tmp_path / "one") == 0
    assert Live(job_of(job)).columns is not None, "states are moved one by one"


def test_check_and_describe_know_it(tmp_path, capsys):
    assert command("check", job_file(tmp_path, JOBS["each class its own"])) == 0
    assert command("describe", "one_vs_rest", "--targets", 3, "--set", "learner.name=pegasos") == 0
    said = capsys.readouterr().out
    assert "for x of length 6, 3 targets" in said and "learner = (needed)" in said


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        ('{ name = "rls" }', "learner must be a learner that classifies"),
        ('{ name = "knlms", loss = "hinge" }', "one_vs_rest with these settings stores every sample"),
        ('{ name = "knlmss" }', "unknown learner 'knlmss'; did you mean 'knlms'?"),
        ("7", "learner must be a table; got 7"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, capsys, learner, said):
    text = JOBS["each class its own"].replace('{ name = "logistic", step_size = 0.5 }', learner)
    assert command("check", job_file(tmp_path, text)) == 2
    assert said in capsys.readouterr().err

"""`streamjobs tune`: chosen by the first part of every key, scored on the rest, written as a job file."""

import json
import tomllib

import numpy as np
import pytest

from streamjobs.replay import tuning
from tests.commands.jobs import JOB, command, job_file, jsonl, rows
from tests.replay.streams import RINGS, rings


def tune(job, recording, *words, key="who"):
    return command("tune", job, "--input", recording, "--key", key, *words)


def test_it_finds_a_width_that_the_rest_confirms(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS), rings(tmp_path)
    assert tune(job, recording, "--json", "--candidates", 6) == 0
    found = json.loads(capsys.readouterr().out)
    own, chosen, linear = found["trials"][0], found["chosen"], found["linear"]
    assert own["changed"] == {} and own["rest"] > 0.3 and linear["rest"] > 0.3
    assert chosen["rest"] < 0.2 and "learner.kernel.bandwidth" in chosen["changed"]
    assert chosen["first"] == min(trial["first"] for trial in found["trials"] if trial["what"] == "own")
    assert found["labels"] == {"first": 120, "rest": 120} and not found["finished"]
    assert found["baselines"].keys() == {"last label", "most frequent label so far"}
    assert 0.3 < found["baselines"]["last label"]["rest"] < 0.7


@pytest.mark.slow
def test_the_choice_does_not_see_the_rest(tmp_path, capsys):
    """Other labels in the second half change the scores there, and nothing else."""
    job, recording = job_file(tmp_path, RINGS), rings(tmp_path)
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    for line in lines[120:]:
        line["ring"] = "inner" if line["ring"] == "outer" else "outer"
    found = []
    for source in (recording, jsonl(tmp_path / "turned.jsonl", lines)):
        assert tune(job, source, "--json", "--candidates", 5) == 0
        found.append(json.loads(capsys.readouterr().out))
    one, other = found
    assert [trial["first"] for trial in one["trials"]] == [trial["first"] for trial in other["trials"]]
    assert one["settings"] == other["settings"] and one["chosen"]["rest"] != other["chosen"]["rest"]


@pytest.mark.slow
def test_it_prints_a_table_and_writes_a_job_file_that_scores_as_printed(tmp_path, capsys):
    job, recording, new = job_file(tmp_path, RINGS), rings(tmp_path), tmp_path / "tuned.toml"
    assert tune(job, recording, "--candidates", 4, "--write", new) == 0
    out = capsys.readouterr().out
    assert "first part" in out and "chosen" in out and "last label" in out and "# a linear head" in out
    printed = tomllib.loads(out[out.index("# on the rest") :])
    written = tomllib.loads(new.read_text())
    assert written == tomllib.loads(RINGS) | printed
    assert "# two rings, one in the other" in new.read_text() and 'ttl = "90d"  # stays' in new.read_text()
    assert command("check", new) == 0
    assert tune(job, recording, "--write", new) == 2
    assert "already exists; name a new file." in capsys.readouterr().err


@pytest.mark.slow
def test_a_head_behind_an_extractor_with_windows(tmp_path, capsys):
    """Settings of both are tried; those that a learner refuses are left out."""
    job = job_file(tmp_path, JOB)
    recording = jsonl(tmp_path / "samples.jsonl", rows(600))
    assert tune(job, recording, "--json", "--candidates", 7, key="person") == 0
    found = json.loads(capsys.readouterr().out)
    tried = {name for trial in found["trials"] for name in trial["changed"]}
    assert {"learner.kernel.bandwidth", "head.forgetting"} <= tried
    assert "drift" not in found["settings"] and found["settings"]["learner"]["name"] == "okfeb"


def test_a_regression_beside_the_mean(tmp_path, capsys):
    text = """
[source]
topic = "in"
dim = 1
label = "next"
[learner]
name = "klms"
budget = 20
"""
    t = np.arange(160) / 5
    table = [{"who": "a", "x": [float(np.sin(at))], "next": 5 + float(np.sin(at + 0.2))} for at in t]
    assert tune(job_file(tmp_path, text), jsonl(tmp_path / "s.jsonl", table), "--candidates", 3, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measure"] == "rmse" and 0.5 < found["baselines"]["mean of the labels so far"]["rest"] < 0.9
    assert found["linear"]["rest"] < 0.2


def test_the_time_is_kept(tmp_path, capsys, monkeypatch):
    """The job as it is and a linear head are always tried, and nothing else where the time is up."""
    clock = iter(range(0, 100_000, 1000))
    monkeypatch.setattr(tuning.time, "monotonic", lambda: float(next(clock)))
    assert tune(job_file(tmp_path, RINGS), rings(tmp_path), "--json", "--seconds", 5) == 0
    found = json.loads(capsys.readouterr().out)
    assert [trial["changed"] for trial in found["trials"]] == [{}, {}] and not found["finished"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('label = "ring"', "", "tune needs labels to score by"),
        ('label = "ring"', 'label = "ringg"', "tune needs labelled rows in both parts; got 0 and 0."),
    ],
)
def test_what_cannot_be_scored_is_one_sentence(tmp_path, capsys, old, new, said):
    assert tune(job_file(tmp_path, RINGS.replace(old, new)), rings(tmp_path, n=10)) == 2
    assert said in capsys.readouterr().err

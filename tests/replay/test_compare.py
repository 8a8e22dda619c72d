"""`streamjobs compare`: learners and controls on the same rows, with labels that arrive late."""

import json

import numpy as np
import pytest

from streamjobs.commands.tune import delayed
from streamjobs.core.job import Job
from streamjobs.recordings.files import records_of_rows
from streamjobs.replay.scoring import Row, baselines, controls, errors_of, predicted
from streamjobs.settings.load import composition_from
from tests.commands.jobs import START, command, job_file, jsonl
from tests.replay.streams import RINGS, rings

HOLDS = 12  # rows of a ring, one after the other


def compare(job, recording, *words):
    return command("compare", job, "--input", recording, "--key", "who", *words)


def told(capsys):
    return json.loads(capsys.readouterr().out)


def test_learners_stand_next_to_controls_with_cost_and_size(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS.replace("4.0", "0.7")), rings(tmp_path)
    assert compare(job, recording, "--learners", "job,rls,okfeb,krls,adwin", "--json") == 0
    found = told(capsys)
    assert (found["measure"], found["labels"], found["delay"]) == ("error rate", 240, 0.0)
    by = {one["name"]: one for one in found["learners"]}
    assert by["job"]["half"] < 0.15 and by["rls"]["half"] > 0.3, "a line does not part the rings"
    assert by["okfeb"]["model"] == "okfeb+rls"
    assert by["job"]["bytes"] > by["rls"]["bytes"] > 100 and all(by[name]["micros"] > 0 for name in ("job", "rls", "krls"))
    assert by["krls"]["error"] is not None
    assert by["adwin"]["refused"] == "adwin is a detector; name learners."
    assert [one["name"] for one in found["controls"]] == ["last label", "most frequent label so far"]
    assert 0.4 < found["controls"][0]["error"] < 0.6


@pytest.mark.parametrize(
    ("learners", "said"),
    [
        ("job,qlms", "--learners: unknown learner 'qlms'; did you mean 'qklms' or "),
        ("zzz", "--learners: unknown learner 'zzz'; 'streamjobs describe' lists them."),
        ("adwin", "adwin cannot run: adwin is a detector; name learners."),
        (" ,", "--learners: name one or more"),
    ],
)
def test_learners_that_cannot_be_run_are_a_mistake_of_usage(learners, said, tmp_path, capsys):
    assert compare(job_file(tmp_path, RINGS), rings(tmp_path), "--learners", learners) == 2
    captured = capsys.readouterr()
    assert said in captured.err and not captured.out


def test_next_to_the_job_its_learner_has_its_default_settings(tmp_path, capsys):
    job = job_file(tmp_path, RINGS)  # a kernel that is too wide by far
    found = []
    for names in ("job,knlms", "knlms"):
        assert compare(job, rings(tmp_path), "--learners", names, "--json") == 0
        found += [one["half"] for one in told(capsys)["learners"]]
    assert found[0] == found[2] != found[1]


def test_its_error_is_the_share_of_wrong_predictions_of_a_replay(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS), rings(tmp_path)
    assert command("replay", job, "--input", recording, "--key", "who", "--json") == 0
    replayed = told(capsys)
    assert compare(job, recording, "--learners", "job", "--json") == 0
    found = told(capsys)
    unpredicted = 1  # a row without a prediction counts as wrong here, and not in the replay
    assert 0 <= 240 * found["learners"][0]["error"] - replayed["wrong"] <= 2 * unpredicted
    assert 240 * found["controls"][0]["error"] - replayed["controls"]["wrong_last_label"] == 2  # the first row of both keys


def test_without_a_column_for_the_key_the_names_of_the_files_are_the_keys(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS.replace("4.0", "0.7")), rings(tmp_path)
    assert compare(job, recording, "--learners", "job", "--json") == 0
    by_column = told(capsys)
    rows = [json.loads(line) for line in recording.read_text().splitlines()]
    (tmp_path / "people").mkdir()
    for name in {row["who"] for row in rows}:
        jsonl(tmp_path / "people" / f"{name}.jsonl", [row for row in rows if row["who"] == name])
    assert command("compare", job, "--input", tmp_path / "people", "--learners", "job", "--json") == 0
    by_file = told(capsys)
    assert by_file["labels"] == by_column["labels"] and by_file["learners"][0]["error"] == by_column["learners"][0]["error"]


def test_a_linear_learner_has_an_intercept(tmp_path, capsys):
    job = job_file(tmp_path, RINGS.replace('task = "classification"\nloss = "hinge"', 'task = "regression"'))
    random, line = np.random.default_rng(3), []
    for i in range(120):
        x, y = random.normal(size=2)
        line.append({"who": "a", "ts": START + i, "x": x, "y": y, "ring": 10 + x})
    assert compare(job, jsonl(tmp_path / "line.jsonl", line), "--learners", "rls", "--json") == 0
    assert told(capsys)["learners"][0]["half"] < 0.5, "without one it is near 10"


def test_a_delay_takes_what_repeating_the_last_label_had(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS.replace("4.0", "0.7")), rings(tmp_path, holds=HOLDS)
    assert compare(job, recording, "--learners", "job", "--json") == 0
    at_once = told(capsys)
    assert compare(job, recording, "--learners", "job", "--delay", f"{2 * HOLDS}s", "--json") == 0
    late = told(capsys)
    assert late["delay"] == 2 * HOLDS
    assert at_once["controls"][0]["half"] < 0.2 and late["controls"][0]["half"] > 0.8
    assert late["learners"][0]["half"] < 0.3
    assert compare(job, recording, "--learners", "job", "--delay", "20s") == 0
    out = capsys.readouterr().out
    assert "20 s before its label is known" in out and "most frequent label so far" in out


def test_tune_takes_labels_that_arrive_late(tmp_path, capsys):
    job, recording = job_file(tmp_path, RINGS), rings(tmp_path, holds=HOLDS)
    words = ("tune", job, "--input", recording, "--key", "who", "--json", "--candidates", 6)
    assert command(*words) == 0
    at_once = told(capsys)
    assert command(*words, "--delay", f"{2 * HOLDS}s") == 0
    late = told(capsys)
    assert at_once["baselines"]["last label"]["rest"] < 0.2
    assert late["baselines"]["last label"]["rest"] > 0.8
    assert late["chosen"]["rest"] < late["trials"][0]["rest"]


@pytest.mark.parametrize("delay", [0.0, 2.0, 3.5])
def test_controls_use_only_labels_that_the_model_has_learned(delay):
    """Against the definition: a label is known once a row `delay` later was predicted."""
    random = np.random.default_rng(3)
    times = random.uniform(0.3, 1.7, 60).cumsum()
    rows = [
        Row(f"k{n % 2}", float(t), None, None if random.random() < 0.2 else f"c{random.integers(3)}")
        for n, t in enumerate(times)
    ]
    said = controls("classification", rows, delay)
    for at, row in enumerate(rows):
        mine = [(n, one) for n, one in enumerate(rows[:at]) if one.key == row.key]
        now = mine[-1][1].time if mine else -np.inf  # the newest row before this one
        known = [one.label for _, one in mine if one.label is not None and one.time <= now - delay]
        assert said["last label"][at].said == (known[-1] if known else None)
        most = said["most frequent label so far"][at].said
        assert known.count(most) == max(map(known.count, known), default=0)


def test_persistence_and_the_mean_are_the_controls_of_numbers():
    rows = [Row("k", float(n), None, value) for n, value in enumerate((1.0, 3.0, 2.0))]
    found = baselines("regression", rows, 0.34, 0.0)
    assert found["last label"].rest == pytest.approx(np.sqrt((2.0**2 + 1.0**2) / 2))
    assert found["mean of the labels so far"].rest == pytest.approx(np.sqrt((2.0**2 + 0.0**2) / 2))
    pairs = [Row("k", 0.0, None, [3.0, 4.0])]
    assert errors_of("regression", pairs, 1.0, 0.0).first == pytest.approx(5.0), "a row without any prediction: 0"


def test_a_job_without_labels_is_refused_with_one_sentence(tmp_path, capsys):
    job = job_file(tmp_path, RINGS.replace('label = "ring"\n', ""))
    assert compare(job, rings(tmp_path), "--learners", "job") == 2
    assert "compare needs labels to score by" in capsys.readouterr().err
    waits = delayed({"labels": {"most": 5}}, "3s")
    assert waits == {"labels": {"most": 5, "delay": "3s"}} and delayed({}, None) == {}


def test_rows_are_those_of_the_job():
    table = {"source": {"topic": "in", "fields": ["x"], "time": "ts", "label": "y"}, "learner": {"name": "lms"}}
    job = Job.from_composition(composition_from(table))
    given = [{"who": "a", "ts": START + n, "x": 1.0, "y": float(n)} for n in range(5)]
    rows, replay = predicted(job, list(records_of_rows(iter(given), job.settings.source, "who", None, job.settings.side)))
    assert [row.label for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0] and replay.tally.rows == 5


def test_an_input_without_a_row_is_an_error_and_no_table(tmp_path, capsys):
    recording = jsonl(
        tmp_path / "a.jsonl", [{"who": "w", "x": [1.0, "hot"], "ts": START + n, "ring": "in"} for n in range(9)]
    )
    assert compare(job_file(tmp_path, RINGS), recording, "--learners", "job,rls") == 1
    out, err = capsys.readouterr()
    assert (
        not out
        and "nothing was learned: all 9 records became dead letters. The first: wrong_value, topic in[0] offset" in err
    )

"""`replay --score`: keys scored against their labels next to controls, and alarms told apart."""

import json
from types import SimpleNamespace

import pytest

from streamjobs.errors import ConfigError
from streamjobs.fit.reports.report import LAST, MAJORITY
from streamjobs.fit.scored import JOB, Scores
from tests.fit.people import JOB as TEXT
from tests.fit.people import as_csv, command, job_file, rows


def _take(scores: Scores, key: str, labels: str, said: str, alarms: tuple[float, ...] = ()) -> None:
    """A row every second, a letter each; '.' is none."""
    for second, (label, one) in enumerate(zip(labels, said, strict=True)):
        named = {"true_class": None if label == "." else label, "predicted_class": None if one == "." else one}
        value = json.dumps({"key": key, "ts": float(second), **named}).encode()
        scores.take(SimpleNamespace(sink="predictions", value=value))
    for start in alarms:
        for is_open in (True, False):
            value = json.dumps({"key": key, "start": start, "open": is_open}).encode()
            scores.take(SimpleNamespace(sink="alarms", value=value))


def test_rows_are_scored_by_key_and_the_last_label_is_one_that_was_known():
    scores = Scores(5.0)
    _take(scores, "b", "s" * 20 + "w" * 20, "s" * 20 + "w" * 20)
    _take(scores, "a", "s" * 20 + "w" * 20, "s" * 40)
    _take(scores, "c", "." * 40, "s" * 40)
    evaluated = scores.evaluated()
    assert evaluated.names == ["a", "b"] and evaluated.of(JOB).tolist() == [0.5, 1.0]
    assert evaluated.of(LAST).tolist() == [28 / 40] * 2  # 6 rows before the first label, 6 after the change
    assert evaluated.of(MAJORITY)[0] < evaluated.of(LAST)[0]
    assert evaluated.of(JOB, "fresh").tolist() == [0.5, 1.0] and evaluated.of(LAST, "fresh").tolist() == [0.0, 0.0]
    assert evaluated.counts.tolist() == [[40, 0], [20, 20]] and scores.unlabelled == 40


def test_alarms_at_a_change_of_the_label_are_true_and_others_false():
    scores = Scores(0.0)
    _take(scores, "a", "s" * 40 + "w" * 40, "s" * 80, alarms=(3.0, 25.0, 42.0, 60.0))
    scores.evaluated()
    assert scores.alarmed()[:3] == (1, 1, 2)  # the one at 3 s is where the first recording begins


def test_the_command_reports_what_the_rows_say_and_writes_the_page(tmp_path, capsys):
    recordings, path = as_csv(tmp_path / "in.csv", list(rows())), job_file(tmp_path)
    assert command("fit", path, "--input", recordings, "--no-report") == 0
    new = as_csv(tmp_path / "new.csv", list(rows(2, seed=9)))
    capsys.readouterr()
    words = ("--input", new, "--key", "person", "--score", "--output-dir", tmp_path / "out", "--json")
    assert command("replay", path, *words) == 0
    said = json.loads(capsys.readouterr().out)
    lines = [json.loads(line)["value"] for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    shares = [
        sum(one["predicted_class"] == one["true_class"] for one in mine) / len(mine)
        for mine in ([one for one in lines if one["key"] == key] for key in ("p8", "p9"))
    ]
    assert [one["all"] for one in said["scored"]["people"].values()] == pytest.approx(shares)
    assert said["scored"]["advice"].startswith("Advice: ")
    assert "prefers-color-scheme:dark" in (tmp_path / "out" / "score.html").read_text()
    regression = TEXT.replace('label = "activity"', 'label = "activity"\n[labels]\nwait = "60s"')
    assert command("replay", job_file(tmp_path, regression), *words) == 2
    assert "--score needs" in capsys.readouterr().err


def test_without_a_label_there_is_nothing_to_score():
    scores = Scores(0.0)
    _take(scores, "a", "....", "ssss")
    with pytest.raises(ConfigError, match="no row has a class and a label"):
        scores.evaluated()

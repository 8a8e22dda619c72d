"""`replay --score`: keys scored against their labels next to controls, and alarms told apart."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from streamjobs.errors import ConfigError
from streamjobs.fit.reading import _by_pauses
from streamjobs.fit.recordings import PAUSE, fresh, late_windows
from streamjobs.fit.reports.report import LAST, MAJORITY, as_text
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


def test_first_windows_are_counted_as_fit_counts_them():
    """A recording ends at a pause of 10 s beyond a window's length, and windows that are unknown are windows of it."""
    times = np.r_[np.arange(30.0), np.arange(40.5, 60.0), np.arange(90.0, 120.0)]
    unknown, wrong = {1.0, 2.0, 50.5}, {*range(7), *np.arange(40.5, 47.0).tolist(), *range(90, 93)}
    scores, late = Scores(5.0, 2.0), late_windows(5.0, 1.0)
    for time in times.tolist():
        row = {"key": "a", "ts": time, "true_class": "s", "predicted_class": "w" if time in wrong else "s"}
        scores.take(SimpleNamespace(sink="predictions", value=json.dumps(row | {"unknown": time in unknown}).encode()))
    evaluated = scores.evaluated()
    rows = SimpleNamespace(keys=["a"] * len(times), ends=times.tolist(), labels=["s"] * len(times))
    places = [recording for _, recording in _by_pauses(rows, list(range(len(times))), 2.0, PAUSE)]
    assert places == ["1"] * 50 + ["2"] * 30, "not at the pause of 11.5 s"
    first = fresh(np.array(places, np.int64), late) & ~np.isin(times, list(unknown))
    assert first.sum() == 10
    right = np.array([time not in wrong for time in times.tolist()])
    assert evaluated.of(JOB, "fresh").tolist() == [pytest.approx(right[first].mean())] == [0.3]
    assert "In the first 6 windows of each recording" in as_text(evaluated)


def test_alarms_at_a_change_of_the_label_are_true_and_others_false():
    scores = Scores(0.0)
    _take(scores, "a", "s" * 40 + "w" * 40, "s" * 80, alarms=(3.0, 25.0, 42.0, 60.0))
    scores.evaluated()
    assert scores.alarmed()[:3] == (1, 1, 2)  # the one at 3 s is where the first recording begins
    assert scores.alarmed().hours == 58 / 3600, "30 s after the first 10 s of a recording, less the second of its last row"


def test_alarms_where_labels_are_missing_are_not_false():
    """Between two activities a person sits down or gets up, which often has no label."""
    scores = Scores(0.0)
    _take(scores, "a", "s" * 40 + "." * 15 + "w" * 40 + "." * 30, "s" * 125, alarms=(25.0, 42.0, 50.0, 90.0, 100.0, 120.0))
    scores.evaluated()
    assert scores.alarmed()[:3] == (1, 1, 2), "true: at 50 s, false: at 25 and 90 s"


def test_changes_after_a_long_time_without_labels_are_not_counted():
    """Rows with a label in a hundred: the change may be anywhere between two of them."""
    scores = Scores(0.0)
    _take(scores, "a", ("s" + "." * 99 + "w" + "." * 99) * 3 + "s" * 30 + "w" * 30, "s" * 660, alarms=(150.0, 631.0))
    said = " ".join(scores.evaluated().more)
    assert scores.alarmed()[:3] == (1, 1, 0) and scores.alarmed().unknown == 6
    assert "Alarms: 1 of 1 changes of the label within 10 s (6 more after 60 s without a label are not counted); 0 f" in said


def test_where_labels_are_rare_no_alarm_is_called_false():
    """A label in 30 rows: none of them shows what a person does 10 s later."""
    scores = Scores(0.0, length=2.0)
    _take(scores, "a", ("s" + "." * 29) * 6, "s" * 180, alarms=(35.0, 71.0, 100.0))
    assert "labels are too rare to recognise false ones." in " ".join(scores.evaluated().more)
    assert scores.alarmed()[2:4] == (0, 0.0)


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
    waiting = TEXT.replace('label = "activity"', 'label = "activity"\n[labels]\nwait = "60s"')
    assert command("replay", job_file(tmp_path, waiting), *words) == 0
    assert json.loads(capsys.readouterr().out)["scored"] == said["scored"]
    regression = TEXT.replace('[population]\nfile = "{file}"\n', "").replace("smooth = 0.3", 'task = "regression"')
    assert command("replay", job_file(tmp_path, regression), *words) == 2
    assert "--score needs" in capsys.readouterr().err


def test_records_with_a_label_that_the_job_has_no_class_for_are_counted_with_the_figures(tmp_path, capsys):
    """Their dead letters stood elsewhere alone, and the figures looked as good as without them."""
    recordings, path = as_csv(tmp_path / "in.csv", list(rows())), job_file(tmp_path)
    assert command("fit", path, "--input", recordings, "--no-report") == 0
    table = [row | {"activity": "swim"} if row["activity"] == "run" else row for row in rows(2, seed=9)]
    words = "--input", as_csv(tmp_path / "new.csv", table), "--key", "person", "--score"
    for text, count in ((TEXT, 1600), (TEXT.replace("smooth = 0.3", "smooth = 0.3\nmax_classes = 4"), 0)):
        capsys.readouterr()
        assert command("replay", job_file(tmp_path, text), *words) == 0
        said = capsys.readouterr().out
        assert (f"Not scored: {count:,} records with a label that the job has no class for" in said) == (count > 0)
    path = job_file(tmp_path, TEXT.replace("smooth = 0.3", 'smooth = 0.3\nclasses = ["sit", "walk", "run"]'))
    assert command("fit", path, "--input", recordings, "--no-report", "--force") == 0
    assert command("replay", path, *words) == 0
    assert "Not scored: 1,600 records with a label that the job has no class for" in (said := capsys.readouterr().out)
    assert "Add the labels to classes, and fit again." in said


def test_without_a_label_there_is_nothing_to_score():
    scores = Scores(0.0)
    _take(scores, "a", "....", "ssss")
    with pytest.raises(ConfigError, match="no row has a class and a label"):
        scores.evaluated()


def test_fit_lets_labels_arrive_as_late_as_the_job_does(tmp_path, capsys):
    recordings = as_csv(tmp_path / "in.csv", list(rows()))
    path = job_file(tmp_path, TEXT + '[labels]\ndelay = "5s"\n')
    assert command("fit", path, "--input", recordings, "--shuffles", "1", "--folds", "2") == 0
    assert "labels 5 windows late" in capsys.readouterr().out


def test_what_fit_promises_is_what_a_replay_of_the_same_people_scores(tmp_path, capsys):
    """Recordings with hardly a pause between them: a window spans two, the filter runs on, labels come 5 s late."""
    close = [[{**row, "ts": row["ts"] - 19.7 * row["recording"]} for row in rows(*which)] for which in ((), (2, 9))]
    new = as_csv(tmp_path / "new.csv", [{**row, "person": f"new {row['person']}"} for row in close[1]])
    path = job_file(tmp_path, TEXT.replace("smooth = 0.3", 'filter = "hmm"') + '[labels]\ndelay = "5s"\n')
    words = "fit", path, "--input", as_csv(tmp_path / "in.csv", close[0]), "--test", new, "--no-report", "--json"
    assert command(*words) == 0
    promised = json.loads(capsys.readouterr().out)["test"]
    assert command("replay", path, "--input", new, "--key", "person", "--score", "--json") == 0
    scored = json.loads(capsys.readouterr().out)["scored"]
    for name, person in scored["people"].items():
        figures = ("windows", "all", "half", "f1", "fresh", "fresh_half")
        assert [promised["people"][name][one] for one in figures] == [person[one] for one in figures]
    assert promised["confusion"] == scored["confusion"] and len(scored["people"]) == 2
    assert promised["ways"][LAST]["fresh"]["mean"] == scored["ways"][LAST]["fresh"]["mean"]


def test_recordings_that_are_not_in_order_of_time_are_not_scored_in_silence(tmp_path, capsys):
    shifted = [row | {"ts": row["ts"] - (120.0 if row["activity"] == "run" else 0.0)} for row in rows()]
    recordings, path = as_csv(tmp_path / "in.csv", shifted), job_file(tmp_path)
    assert command("fit", path, "--input", recordings, "--shuffles", "1", "--folds", "2") == 0
    said = capsys.readouterr().out
    assert f"Next, with recordings of other people: streamjobs fit {path} --input {recordings} --test RECORDINGS" in said
    assert "not in order of time" in said and "streamjobs replay" not in said
    assert command("replay", path, "--input", recordings, "--key", "person", "--score") == 0
    said = capsys.readouterr().out
    assert "Do not rely on these figures: 4,800 of 14,400 samples" in said and "A new person:" not in said
    assert "If these people did, a new person is recognised less well" in said
    assert command("fit", path, "--input", as_csv(tmp_path / "in.csv", list(rows())), "--no-report", "--force") == 0
    assert "--score" in (said := capsys.readouterr().out) and "not in order" not in said
    assert command("replay", path, "--input", recordings.with_name("in.csv"), "--key", "person", "--score") == 0
    assert "Do not rely" not in capsys.readouterr().out

"""What a replay's figures are compared with: predictions without a model, and keys that cannot alarm yet."""

import json
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from algorithms.drift.column_chart import ColumnChart
from streamjobs.core.messages import BatchRows, Report
from streamjobs.job_files import job_from, job_of
from streamjobs.replay.engine import Controls
from streamjobs.replay.warm_up import rows_to_alarm
from streamjobs.settings.load import composition_from
from tests.commands.jobs import command, jsonl
from tests.parts import CHECKOUT

JOB = """
[job]
name = "m"
[broker]
url = "kafka://localhost:9092"
[source]
topic = "m"
fields = ["a", "b"]
time = "ts"
{label}
[learner]
name = "okfeb"
{more}
"""
CLASSES = JOB.format(label='label = "state"', more='role = "head"\n[head]\nname = "rls"\n')
NUMBERS = JOB.format(label='label = "level"', more='role = "head"\n[head]\nname = "rls"\ntask = "regression"\n')
WATCHED = JOB.format(label="", more='[drift]\nwatch = "columns"\nfalse_alarms = "1 per 10000 rows"\n')


def recording(folder: Path, rows: int) -> Path:
    """Two keys of noise; labels that do not depend on it: a state that changes every 40 rows, a level that climbs."""
    random, path = np.random.default_rng(0), folder / "rows.jsonl"
    lines = [
        {"key": key, "ts": 1.7e9 + 60 * n, "a": a, "b": b, "state": "on" if n // 40 % 2 else "off", "level": n / 10}
        for n in range(rows)
        for key, (a, b) in zip("xy", random.normal(size=(2, 2)).tolist(), strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def replayed(folder: Path, text: str, rows: int, *words: str) -> int:
    (folder / "job.toml").write_text(text)
    return command("replay", folder / "job.toml", "--input", recording(folder, rows), "--key", "key", *words)


def test_errors_stand_beside_those_of_the_last_label_and_a_worse_model_is_named(tmp_path: Path, capsys) -> None:
    assert replayed(tmp_path, CLASSES, 200) == 0
    text = capsys.readouterr()
    assert "without a model, on 398 of them: 8 wrong by repeating the key's last label, " in text.out
    assert "warning: the model is wrong more often than a repeat of the key's last label" in text.err
    assert "let labels come later ([labels] delay)." in text.err
    assert 'time = "ts"\n' in CLASSES and replayed(tmp_path, CLASSES.replace('time = "ts"\n', ""), 200) == 0
    assert "repeating it is hard to beat.\n" in capsys.readouterr().err  # [labels] delay needs [source] time
    assert replayed(tmp_path, NUMBERS, 200) == 0
    text = capsys.readouterr()
    assert "root mean square error 0.1 by repeating the key's last label" in text.out
    assert "warning: the model's error is larger than that of a repeat of the key's last label" in text.err
    assert ", 32 had no prediction" in text.out  # from each key's rows while the extractor begins


@pytest.mark.parametrize("far", [6e153, 1e200])
def test_labels_far_out_give_finite_figures_and_no_warning(far: float, tmp_path: Path, capsys) -> None:
    """The squares of some are infinite, of others only their sum is."""
    table = [{"key": "x", "ts": 1.7e9 + n, "a": n % 7, "b": n % 5, "level": [far, -far][n % 2]} for n in range(60)]
    (tmp_path / "job.toml").write_text(NUMBERS)
    words = tmp_path / "job.toml", "--input", jsonl(tmp_path / "far.jsonl", table), "--key", "key", "--json"
    assert command("replay", *words) == 0
    assert "Infinity" not in capsys.readouterr().out
    assert command("compare", *words, "--learners", "job,rls") == 0
    assert "Infinity" not in capsys.readouterr().out


def test_one_of_each_is_no_plural(tmp_path: Path, capsys) -> None:
    (tmp_path / "job.toml").write_text(WATCHED)
    one = tmp_path / "one.jsonl"
    one.write_text('{"key": "x", "ts": 1.7e9, "a": 1.0, "b": 2.0}\n')
    assert command("replay", tmp_path / "job.toml", "--input", one, "--key", "key") == 0
    out = capsys.readouterr().out
    assert out.startswith("1 record of 1 key, 1 sample, 1 row in ") and "0 alarms in 1 row of 1 key" in out


def test_a_label_that_is_learned_later_is_no_help_before() -> None:
    def judged(delay: float) -> dict | None:
        controls = Controls("classification", delay)
        names = ["a", "a", "b", "b", "b", None]
        controls.add(Report(batches=[BatchRows(["k"] * 6, np.arange(6.0), np.zeros(6), names, names)]))
        return controls.summary()

    assert judged(0) == {"judged": 4, "wrong_last_label": 1, "wrong_majority": 3}  # a tie goes to the first class
    assert judged(2) == {"judged": 2, "wrong_last_label": 2, "wrong_majority": 2}
    assert judged(9) is None


def test_keys_that_cannot_alarm_yet_are_counted_with_the_rows_that_they_need(tmp_path: Path, capsys) -> None:
    assert replayed(tmp_path, WATCHED, 300) == 0
    needed = rows_to_alarm(job_of(tmp_path / "job.toml"))
    assert needed is not None and needed > 1000
    note = f"2 of 2 keys cannot alarm yet: a detector first learns what is normal for it, from at least {needed:,} rows"
    assert note in capsys.readouterr().err
    assert replayed(tmp_path, WATCHED, needed - 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["alarms"]["keys_warming_up"] == 2
    assert replayed(tmp_path, WATCHED, needed + 300, "--json") == 0
    assert json.loads(capsys.readouterr().out)["alarms"]["keys_warming_up"] == 0
    assert command("check", tmp_path / "job.toml", "--sample", tmp_path / "rows.jsonl", "--key", "key") == 0
    found = f"a key can alarm after {needed:,} rows at least, and has {needed + 300:,} on average here; "
    assert found + "0 of 2 keys of the sample have fewer" in capsys.readouterr().out
    rows = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text("".join(rows[: 2 * needed - 1]))  # key y lacks its last row
    assert command("check", tmp_path / "job.toml", "--sample", tmp_path / "rows.jsonl", "--key", "key") == 0
    assert "1 of 2 keys of the sample have fewer" in capsys.readouterr().out


def test_check_counts_labels_that_a_worker_refuses_as_dead_letters(tmp_path: Path, capsys) -> None:
    job, rows = tmp_path / "job.toml", tmp_path / "rows.jsonl"
    job.write_text('[source]\ntopic = "t"\nfields = ["a"]\nlabel = "y"\n[learner]\nname = "rls"\n', encoding="utf-8")
    made = [{"key": "k", "a": n, "y": n if n % 4 else "x"} for n in range(8)]
    rows.write_text("".join(f"{json.dumps(one)}\n" for one in made), encoding="utf-8")
    assert command("check", job, "--sample", rows, "--key", "key") == 0
    out = capsys.readouterr().out
    assert "its settings fit together, but 2 of 8 records of the sample are dead letters" in out
    assert "bad_label 2; the first: expected a finite number as the label, got 'x'" in out and "learner: 6" in out
    rows.write_text('{"key": "k", "a": 1, "y": "x"}\n')
    assert command("check", job, "--sample", rows, "--key", "key") == 1
    assert command("replay", job, "--input", rows, "--key", "key") == 1


def test_a_daily_rhythm_needs_days_before_these_rows(tmp_path: Path, capsys) -> None:
    assert replayed(tmp_path, WATCHED + "daily = true\n", 300) == 0
    assert "from at least 2 days and 1," in capsys.readouterr().err
    sample = recording(tmp_path, 2 * 1440 + 900)  # more rows than a key needs, too few of them after two days
    assert command("check", tmp_path / "job.toml", "--sample", sample, "--key", "key") == 0
    out = capsys.readouterr().out
    assert "a key can alarm after 2 days and 1," in out and "2 of 2 keys of the sample have fewer" in out


def test_the_readme_names_the_first_row_that_can_alarm(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", (CHECKOUT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "job.toml").write_text(textwrap.dedent(block))
    assert f"first alarm needs {rows_to_alarm(job_of(tmp_path / 'job.toml')):,} rows" in block


def test_a_key_that_learns_again_after_a_change_is_not_said_to_have_too_few_rows(tmp_path: Path, capsys) -> None:
    random, rows = np.random.default_rng(3), tmp_path / "step.jsonl"
    a, b = random.normal(size=(2, 1900))
    a[1300:] += 6.0
    lines = [{"key": "x", "ts": 1.7e9 + 60 * n, "a": a[n], "b": b[n], "state": "on", "level": 0.0} for n in range(1900)]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "job.toml").write_text(WATCHED)
    assert command("replay", tmp_path / "job.toml", "--input", rows, "--key", "key") == 0
    out, err = capsys.readouterr()
    assert "1 alarm" in out and "1 of 1 key cannot alarm yet: " in err
    assert "from more where rows resemble the rows before them, such as over a day, and again after a change that" in err
    assert "a change that lasts; a key has 1,900 rows on average" in err


SEASON = JOB.format(
    label="", more='[drift]\nwatch = ["columns", "innovations", "rows"]\nfalse_alarms = "1 per 10000 rows"\n'
)


def test_a_watch_that_cannot_alarm_yet_is_named_where_others_can(tmp_path: Path, capsys) -> None:
    """Over a slow wave blocks of rows become long, so that the columns are not judged yet; the errors of a forecast are."""
    random, rows = np.random.default_rng(1), tmp_path / "wave.jsonl"
    a = 3.0 * np.sin(2 * np.pi * np.arange(1400) / 700) + 0.3 * random.normal(size=1400)
    b = random.normal(size=1400)
    lines = [{"key": "x", "ts": 1.7e9 + 60 * n, "a": a[n], "b": b[n], "state": "on", "level": 0.0} for n in range(1400)]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "job.toml").write_text(SEASON)
    assert command("replay", tmp_path / "job.toml", "--input", rows, "--key", "key") == 0
    err = capsys.readouterr().err
    assert "keys cannot alarm yet" not in err
    assert "[drift] watch: 'columns' of 1 of 1 key cannot alarm yet, the others can" in err
    assert command("replay", tmp_path / "job.toml", "--input", rows, "--key", "key", "--json") == 0
    alarms = json.loads(capsys.readouterr().out)["alarms"]
    assert (alarms["keys_warming_up"], alarms["keys_warming_up_by_watch"]) == (0, {"columns": 1})


REFERENCE = 'watch = "columns"\nfalse_alarms = "1 per 10000 rows"\nreference = "first 200 rows"\n'


@pytest.mark.parametrize("drift", ['detector = "page_hinkley"\n', REFERENCE])
def test_where_no_number_of_rows_is_known_none_is_named(tmp_path: Path, drift: str, capsys) -> None:
    assert replayed(tmp_path, JOB.format(label="", more=f"[drift]\n{drift}"), 100) == 0
    text = capsys.readouterr().err
    assert ("from its [drift] reference; a key has 100 rows on average" in text) == ("reference" in drift)
    assert "at least" not in text
    assert rows_to_alarm(job_of(tmp_path / "job.toml")) is None


def test_the_rows_of_warm_up_of_many_columns_are_measured_on_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of 300 fields has 2,400 columns: a row of their chart costs the square of them."""
    fields = [f"f{n}" for n in range(60)]
    table = {"source": {"topic": "t", "fields": fields}, "learner": {"name": "okfeb"}, "drift": {"watch": "columns"}}
    job, widths, run = job_from(composition_from(table)), list[int](), ColumnChart.run
    monkeypatch.setattr(ColumnChart, "run", lambda self, state, X: (widths.append(X.shape[1]), run(self, state, X))[1])
    assert rows_to_alarm(job) == 1129 and set(widths) == {8}
    assert rows_to_alarm(job_from(composition_from({**table, "source": {"topic": "t", "fields": fields[:2]}}))) == 1129

"""`tune` of a job with [forecast]: the table of its forecasts, their experts and the last value on a recording."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands.jobs import command

JOB = """
[job]
name = "temps"

[source]
topic = "temps"
fields = ["temp", "other"]
time = "ts"

[forecast]
fields = ["temp"]
ahead = [1, 4]
every = "1m"
season = 30
"""


def recording(path, rows=500):
    random = np.random.default_rng(3)
    wave = np.sin(2 * np.pi * np.arange(rows) / 30)
    with path.open("w") as file:
        for key in ("a", "b"):
            values = 20 + wave + 0.1 * random.standard_normal(rows)
            for n, value in enumerate(values):
                if key == "b" and 300 <= n < 310:  # missing
                    continue
                one = {"key": key, "ts": 1_700_000_000 + 60 * n, "temp": round(value, 4), "other": 1.0}
                file.write(json.dumps(one) + "\n")


@pytest.fixture
def files(tmp_path):
    job, records = tmp_path / "job.toml", tmp_path / "temps.jsonl"
    job.write_text(JOB)
    recording(records)
    return ["tune", str(job), "--input", str(records), "--key", "key"]


def test_forecasts_are_compared_with_their_experts_and_the_last_value(files, capsys):
    assert command(*files, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    lines = {(line["what"], line["ahead"]): line for line in found["forecasts"]}
    assert len(lines) == 2 * 10
    for ahead in (1, 4):
        assert lines["naive", ahead]["error"] == 1.0
        ours = lines["weighted experts", ahead]
        assert ours["error"] + ours["within"] < 0.9 < lines["mean of 300", ahead]["error"] + 0.5
    assert found["rows"] == 500 + 490 - 4 - 4 - 4  # the latest of both keys, and those whose value is missing
    assert {(one["ahead"], one["stated"]) for one in found["covered"]} == {(1, 0.8), (1, 0.95), (4, 0.8), (4, 0.95)}
    assert all(abs(one["covered"] - one["stated"]) < 0.1 for one in found["covered"])


def test_a_learner_is_compared_with_the_experts_in_its_place(files, capsys):
    job = Path(files[1])
    job.write_text(job.read_text().replace("[forecast]", "[forecast]\nlearner = 'rls'"))
    assert command(*files, "--json") == 0
    lines = json.loads(capsys.readouterr().out)["forecasts"]
    assert [line["what"] for line in lines[:4]] == ["rls", "with cautious = true", "weighted experts", "naive"]
    assert len(lines) == 2 * 11 and lines[3]["error"] == 1.0
    assert lines[0]["error"] < 0.9 and len({line["error"] for line in lines[:3]}) == 3


def test_the_table_says_whether_the_forecasts_are_better_than_the_last_value(files, capsys):
    assert command(*files) == 0
    printed = capsys.readouterr().out
    assert "weighted experts" in printed and "seasonal naive" in printed
    assert "4 ahead: better than the last value by more than chance: 978 judged" in printed
    assert "intervals of 95% contained" in printed and "not_negative" not in printed and "rows come" not in printed


def test_a_few_rows_are_not_compared(files, tmp_path, capsys):
    recording(tmp_path / "temps.jsonl", rows=20)
    assert command(*files) == 0
    printed = capsys.readouterr().out
    assert "1 ahead: 38 judged: too few to compare" in printed and "better" not in printed


def test_an_interval_that_the_job_does_not_name_is_proposed(files, capsys):
    job = Path(files[1])
    job.write_text(JOB.replace('every = "1m"\nseason = 30\n', ""))
    assert command(*files) == 0
    advice = 'rows come every 60 s: with every = "60s" in [forecast], missing rows count, and a day is the season'
    assert advice in capsys.readouterr().out
    job.write_text(JOB.replace('"1m"', '"10m"'))
    assert command(*files) == 0
    assert 'rows come every 60 s, not 600 s as in the job: with every = "60s"' in capsys.readouterr().out


def test_the_table_has_the_errors_of_the_setting_that_it_names(files, capsys):
    assert command(*files, "--json") == 0
    told = {line["ahead"]: line for line in json.loads(capsys.readouterr().out)["forecasts"] if "cautious" in line["what"]}
    job = Path(files[1])
    job.write_text(JOB.replace("[forecast]", "[forecast]\ncautious = true"))
    assert command(*files, "--json") == 0
    lines = json.loads(capsys.readouterr().out)["forecasts"]
    assert all(told[line["ahead"]]["error"] == line["error"] for line in lines if line["what"] == "weighted experts")
    assert lines[1]["what"] == "with cautious = false"


def test_a_field_that_no_record_has_is_named_and_no_table_printed(files, capsys):
    job = Path(files[1])
    job.write_text(JOB.replace('"temp"', '"tmp"'))
    for words in (files, ["drift", *files, "--quiet-until", "2024-01-01"]):
        assert command(*words) == 1
        out, err = capsys.readouterr()
        assert out == "" and "nothing was learned: all 990 records became dead letters. The first: missing_field" in err


def test_a_field_that_is_often_0_and_never_below_is_proposed_for_not_negative(files, capsys):
    records = Path(files[3])
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    records.write_text("".join(json.dumps({**row, "temp": max(0.0, row["temp"] - 20.0)}) + "\n" for row in rows))
    assert command(*files) == 0
    assert 'never below 0, and often there: not_negative = ["temp"] in [forecast]' in capsys.readouterr().out

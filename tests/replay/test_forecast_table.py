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
    assert len(lines) == 2 * 9
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
    assert [line["what"] for line in lines[:3]] == ["rls", "weighted experts", "naive"] and len(lines) == 2 * 10
    assert lines[2]["error"] == 1.0 and lines[0]["error"] < 0.9 and lines[0]["error"] != lines[1]["error"]


def test_the_table_says_how_many_rows_it_needs(files, capsys):
    assert command(*files) == 0
    printed = capsys.readouterr().out
    assert "weighted experts" in printed and "seasonal naive" in printed
    assert "4 ahead: about " in printed and "intervals of 95% contained" in printed and "not_negative" not in printed


def test_a_field_that_is_often_0_and_never_below_is_proposed_for_not_negative(files, capsys):
    records = Path(files[3])
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    records.write_text("".join(json.dumps({**row, "temp": max(0.0, row["temp"] - 20.0)}) + "\n" for row in rows))
    assert command(*files) == 0
    assert 'never below 0, and often there: not_negative = ["temp"] in [forecast]' in capsys.readouterr().out

"""`replay` prints how good forecasts were; `export` writes them, and `Job.replay` gives them as a table."""

import json
from pathlib import Path

import numpy as np
import pytest

from streamjobs import Job
from streamjobs.core.messages import Output
from streamjobs.core.output_records import ID, SCHEMA, schema_name
from streamjobs.job_files import job_of
from streamjobs.outputs.files import Table, parquet
from streamjobs.outputs.schema import lengths
from tests.commands.jobs import command

JOB = """
[source]
topic = "rooms"
fields = ["temp", "wind"]
time = "t"
[forecast]
fields = ["temp"]
ahead = [1, "5m"]
every = "1m"
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "rooms.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for at in range(600):
            temp = 20.0 + float(np.sin(at / 20.0))
            print(json.dumps({"who": "a", "t": 1700000000 + 60 * at, "temp": temp, "wind": at % 7}), file=file)
    return path


def test_replay_prints_the_error_over_naives_and_the_coverage(tmp_path: Path, recording: Path, capsys) -> None:
    job, out = tmp_path / "job.toml", tmp_path / "out"
    job.write_text(JOB, encoding="utf-8")
    assert command("replay", job, "--input", recording, "--key", "who", "--output-dir", out) == 0
    printed = capsys.readouterr().out
    sent = [json.loads(line)["value"] for line in (out / "forecasts.jsonl").read_text(encoding="utf-8").splitlines()]
    for place, (ahead, rows) in enumerate([(1, "1 row"), (5, "5 rows")]):
        of = [one["forecasts"][place] for one in sent]
        now = np.array([one["naive"] for one in of])
        error = np.abs(np.array([one["due"] for one in of[ahead:]]) - now[ahead:]).mean()
        ratio = error / np.abs(now[:-ahead] - now[ahead:]).mean()
        made = [one["intervals"][0] for one in of[:-ahead]]
        inside = [one["low"] <= x <= one["high"] for one, x in zip(made, now[ahead:], strict=True) if one["low"] is not None]
        assert f"forecasts of temp {rows} ahead: {600 - ahead} judged, error {ratio:.3f} of the last value's, " in printed
        assert f"{np.mean(inside):.1%} inside 80%" in printed
    table, headers = Table(job_of(job), "forecasts"), [(SCHEMA, schema_name("forecasts").encode())]
    records = (
        Output("forecasts", b"a", json.dumps(one).encode(), 0, [(ID, b"rooms-0-%d" % n), *headers])
        for n, one in enumerate(sent)
    )
    assert sum(map(len, parquet(table.rows(records), table.fields, lengths(table.fields)))) > 0 and table.count == 600


def test_a_table_has_a_row_for_each_column_and_rows_ahead(tmp_path: Path, recording: Path) -> None:
    job = Job(
        {
            "source": {"topic": "rooms", "fields": ["temp", "wind"], "time": "t"},
            "forecast": {"ahead": [1, 5], "every": "1m"},
        }
    )
    table = job.replay(recording, key="who").forecasts
    assert len(table) == 600 * 4
    one = table[(table["column"] == "temp") & (table["ahead"] == 5)].reset_index()
    assert one["due"][5:].tolist() == one["value"][:-5].tolist()
    assert (one["due_ts"] - one["ts"] == 300).all() and (one["low_80"][100:] <= one["high_80"][100:]).all()
    (judged, *_) = job.replay(recording, key="who").summary["forecasts"]
    assert (judged["column"], judged["ahead"], judged["rows"]) == ("temp", 1, 599) and judged["error_over_naive"] < 1.0

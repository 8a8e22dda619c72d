"""Alarms counted by key and hour, and detectors judged by a time until which nothing changed."""

import json
from pathlib import Path

import numpy as np

from streamjobs.core.messages import Stored
from streamjobs.job_files import job_of
from streamjobs.replay.engine import Replay
from tests.commands.jobs import command
from tests.core.streams import START

ROWS, CHANGE = 900, 700
JOB = """
[source]
topic = "pumps"
fields = ["flow", "rms"]
time = "t"

[learner]
name = "okfeb"
rank = 2
budget = 4

[drift]
watch = "columns"
false_alarms = "1 per 1000 rows"
detector = { name = "column_chart", learn = 200 }
"""


def written(folder: Path) -> tuple[Path, Path]:
    """A job file and a recording of two pumps at 1 Hz; the flow of the first one falls at row CHANGE."""
    random = np.random.default_rng(3)
    job, recording = folder / "job.toml", folder / "pumps.jsonl"
    job.write_text(JOB, encoding="utf-8")
    with recording.open("w", encoding="utf-8") as file:
        for step in range(ROWS):
            for pump in ("a", "b"):
                flow, rms = random.normal(size=2).tolist()
                fallen = 6.0 * (pump == "a" and step >= CHANGE)
                print(json.dumps({"pump": pump, "t": START + step, "flow": 30 + flow - fallen, "rms": rms}), file=file)
    return job, recording


def test_replay_tells_alarms_by_key_and_hour(tmp_path: Path, capsys) -> None:
    job, recording = written(tmp_path)
    assert command("replay", job, "--input", recording, "--key", "pump", "--json") == 0
    told = json.loads(capsys.readouterr().out)["alarms"]
    hours = 2 * (ROWS - 1) / 3600
    assert told["by_key"] == {"a": 1}
    assert (told["total"], told["key_hours"], told["per_key_hour"]) == (1, hours, 1 / hours)


def test_hours_are_those_of_event_time_whenever_the_records_were_written(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    run = Replay(job_of(tmp_path / "job.toml"))
    values = [json.dumps({"t": START + 600 * n, "flow": n, "rms": 1}).encode() for n in range(7)]
    records = [Stored("pumps", 0, n, 2_000_000_000_000, b"a", value) for n, value in enumerate(values)]  # all of one moment
    run.run(records, lambda output: None, lambda tally: None)
    assert run.hours == 1.0


def test_a_pooled_reference_is_that_of_new_keys_and_an_alarm_that_lasts_begins_another(tmp_path: Path, capsys) -> None:
    job, recording = written(tmp_path)
    detector = 'detector = { name = "column_chart", learn = 200 }'
    text = job.read_text(encoding="utf-8").replace(detector, 'reference = "first 200 rows"')
    assert "reference" in text
    job.write_text(text, encoding="utf-8")
    well, new, model = tmp_path / "well.jsonl", tmp_path / "new.toml", tmp_path / "well.state"
    well.write_text("".join(recording.read_text(encoding="utf-8").splitlines(keepends=True)[: 2 * 600]), encoding="utf-8")
    assert command("replay", job, "--input", well, "--key", "pump", "--pool", "--export", model) == 0
    both = f'reference_from = "start_from"\nrelearn_after = "100 rows"\n[state]\nstart_from = "{model}"\n'
    new.write_text(text + both, encoding="utf-8")
    capsys.readouterr()
    assert command("check", new) == 0
    assert (
        f"reference  new keys have the reference of {model}; restarts when an alarm has lasted 100 rows"
        in capsys.readouterr().out
    )
    assert command("replay", new, "--input", recording, "--key", "pump", "--output-dir", tmp_path) == 0
    raised, ended = (json.loads(line)["value"] for line in (tmp_path / "alarms.jsonl").read_text("utf-8").splitlines())
    assert (raised["key"], raised["id"], ended["outcome"]) == ("a", ended["id"], "learned anew")
    assert ended["end"] - raised["start"] == 100.0
    capsys.readouterr()
    until = str(START + CHANGE - 1)
    assert command("drift", "tune", new, "--input", recording, "--key", "pump", "--quiet-until", until, "--json") == 0
    own, *_ = json.loads(capsys.readouterr().out)["ways"]
    assert (own["found"], own["false_alarms"]) == (1, 0), "each key by its own first rows"


def test_rows_of_warm_up_allow_no_false_alarm(tmp_path: Path, capsys) -> None:
    job, recording = written(tmp_path)
    assert command("replay", job, "--input", recording, "--key", "pump", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    warm_up = 328 * found["keys"]
    assert 0 < found["alarms"]["allowed"] <= (found["rows"] - warm_up) / 1000


def test_dead_letters_and_files_without_times_have_no_hours(tmp_path: Path, capsys) -> None:
    job, recording = written(tmp_path)
    rows = recording.read_text().splitlines(keepends=True)
    far = [json.dumps(json.loads(row) | {"t": 1000 * START}) + "\n" for row in rows[-2:]]
    recording.write_text("".join(rows[:200] + far))
    assert command("replay", job, "--input", recording, "--key", "pump") == 0
    assert "0 alarms in 0.1 hours of 2 keys" in capsys.readouterr().out
    job.write_text(JOB.replace('time = "t"\n', ""))
    assert command("replay", job, "--input", recording, "--key-is", "a") == 0
    assert "alarms in 202 rows of 1 key; false_alarms allows 0\n" in capsys.readouterr().out, "all are warm-up"
    stated = 'watch = "columns"\nfalse_alarms = "1 per 1000 rows"\ndetector = { name = "column_chart", learn = 200 }\n'
    job.write_text(JOB.replace('time = "t"\n', "").replace(stated, '[sinks]\nalarms = "alarms"\n'))
    assert command("replay", job, "--input", recording, "--key-is", "a") == 0
    assert "alarms in 202 rows of 1 key\n" in capsys.readouterr().out


def test_drift_tune_judges_each_way_before_and_after_the_quiet_time(tmp_path: Path, capsys) -> None:
    job, recording = written(tmp_path)
    job.write_text(job.read_text() + "[alarms]\nstuck = true\n")  # as init writes it
    arguments = ("--input", recording, "--key", "pump", "--quiet-until", str(START + CHANGE - 1))
    assert command("drift", "tune", job, *arguments, "--json") == 0
    ways = {one["watch"]: one for one in json.loads(capsys.readouterr().out)["ways"]}
    assert list(ways) == [
        "the job's own",
        "columns, innovations, rows",
        "columns, rows",
        "columns",
        "ls_error",
        "ls_error, page_hinkley",
        "ls_error, adwin",
        "ls_error, window_ratio",
    ]
    own = ways["the job's own"]
    assert (own["false_alarms"], own["at_most"], own["found"], own["keys"]) == (0, 2 * CHANGE / 1000, 1, 2)
    assert 0 < own["delay"] < 20
    assert (ways["columns"]["found"], ways["columns"]["false_alarms"]) == (0, 0), "it still learns its first 1000 rows"
    loud = ways["ls_error, page_hinkley"]
    assert loud["false_alarms"] > 10
    assert loud["at_most"] is None
    assert len(loud["alarms"]) >= loud["false_alarms"]

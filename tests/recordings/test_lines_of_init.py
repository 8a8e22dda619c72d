"""What `init` prints about its sample: one line for many columns of a kind, and how many rows [drift] needs."""

import json
import re

import numpy as np

from streamjobs.commands.recordings import drift_trial, trial, tries
from tests.commands.jobs import command


def test_many_columns_of_a_kind_are_one_line(tmp_path, capsys):
    random = np.random.default_rng(5)
    moving = random.normal(size=(400, 5)) + np.sin(np.arange(400) / 9)[:, None]
    lines = []
    for n, row in enumerate(moving):
        columns = {f"s{i}": round(float(value), 6) for i, value in enumerate(np.concatenate([row, 2 * row + 1]))}
        lines.append({"device": "d1", "ts": 1_700_000_000 + 60 * n, **columns, "state": "on" if row[0] > 0 else "off"})
    sample = tmp_path / "many.jsonl"
    sample.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert command("init", str(tmp_path / "plain.toml"), "--sample", str(sample)) == 0
    said = capsys.readouterr().err
    assert "'s5', 's6', 's7', 's8', 's9': in step with another field; an alarm comes" in said
    assert command("init", str(tmp_path / "label.toml"), "--sample", str(sample), "--label", "state") == 0
    said = capsys.readouterr().err
    advice = "If the label does not need these columns, remove them from fields"
    assert f"'s5' follows 's0'; 's6' follows 's1'; 's7' follows 's2'; and 2 more columns. {advice}" in said


def test_one_column_is_not_chosen_for_two_meanings(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("device,ts,a\n" + "".join(f"d{n % 2},{1.7e9 + n},{n % 7}\n" for n in range(40)))
    words = "init", str(tmp_path / "job.toml"), "--sample", str(tmp_path / "a.csv")
    for one, other in (("label", "time"), ("key", "label"), ("key", "time")):
        assert command(*words, f"--{one}", "ts", f"--{other}", "ts") == 2
        assert f"--{one} and --{other} must be different columns; both are 'ts'." in capsys.readouterr().err
    assert command(*words, "--key", "device", "--label", "", "--time", "ts") == 0


def test_what_makes_a_large_state_of_a_key_smaller_is_said(tmp_path, capsys, monkeypatch):
    """Windows of 300 fast fields cost 24 MB a key."""
    random, made = np.random.default_rng(5), []
    for i in range(300):
        made.append({"device": "d1", "ts": 1.7e9 + i / 50, **{f"v{n}": random.normal() for n in range(24)}})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, made)) + "\n")
    words = "init", str(tmp_path / "job.toml"), "--sample", str(tmp_path / "a.jsonl"), "--force"
    assert command(*words) == 0
    assert "the state of a key may have" not in capsys.readouterr().err
    monkeypatch.setattr(tries, "LARGE", 100_000)
    assert command(*words) == 0
    told = capsys.readouterr().err
    said = re.search(r"a key may have ([0-9.]+) KB, 1,000 keys .* MB; with .* a key has ([0-9.]+) KB", told)
    assert said is not None and float(said[1]) > 2 * float(said[2])
    assert command("check", str(tmp_path / "job.toml")) == 0
    assert f"at most {said[1]} KB a key" in capsys.readouterr().out


def test_a_sample_too_short_for_its_drift_says_how_many_rows_it_needs(tmp_path, capsys, monkeypatch):
    random, lines = np.random.default_rng(5), []
    for n in range(600):
        lines.append({"device": "d1", "ts": 1_700_000_000 + 60 * n, "a": random.normal(), "b": random.normal()})
    sample = tmp_path / "long.jsonl"
    sample.write_text("\n".join(map(json.dumps, lines)) + "\n")
    monkeypatch.setattr(trial, "RECORDS", 200)
    assert command("init", str(tmp_path / "job.toml"), "--sample", str(sample)) == 0
    said = capsys.readouterr().err
    assert "no key of the first 200 records of the sample, which are tried, has enough rows for watch = " in said
    assert re.search(r"normal, [0-9,]+ or more; 'streamjobs replay .*' reads all records and counts the alarms", said)


def test_of_fast_samples_whole_keys_are_tried_from_all_of_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trial, "RECORDS", 9000)  # 3,000 of each key would give 599 windows
    monkeypatch.setattr(drift_trial, "IN_WINDOWS", 9000)
    times, said = 1.7e9 + np.repeat(np.arange(8500) / 5, 3), []
    shaken = {
        "machine": np.tile(["m1", "m2", "m3"], 8500),
        "ts": times,
        "a": np.random.default_rng(5).normal(size=len(times)),
    }
    for rows in (3 * 8500, 3 * 2000):
        np.savez(tmp_path / "shaken.npz", **{name: column[:rows] for name, column in shaken.items()})
        assert command("init", tmp_path / "job.toml", "--sample", tmp_path / "shaken.npz", "--yes", "--force") == 0
        said.append(capsys.readouterr().err)
    assert re.search(r'watch = "columns" raised 0 alarms in 0 of 1 key and 5\d\d rows', said[0])
    assert "not tried: the sample has 2,000 samples of its first key, and a detector of these windows needs 2,500" in said[1]

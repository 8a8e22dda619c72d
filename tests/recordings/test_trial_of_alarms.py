"""The [alarms] that `init` tries on rows of numbers: what raised nothing is on, the rest are comments with what they did."""

from collections.abc import Container

import numpy as np
import pytest

from streamjobs.job_files import read_table
from tests.commands.jobs import command


def sheet(folder, keys: int, gap: Container[int] = range(0), rest: range = range(0), quiet: int = 1):
    """1,200 rows of each key, a minute apart; the first keys send nothing in the gap, the first stands still in the rest."""
    random, rows = np.random.default_rng(3), ["time,sensor,flow"]
    for step in range(1200):
        for key in range(keys):
            if key >= quiet or step not in gap:
                flow = 4.0 if not key and step in rest else random.normal()
                rows.append(f"{1_700_000_000 + 60 * step + key},s{key:02},{flow:.4f}")
    file = folder / "Hall 3.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.mark.parametrize(
    ("keys", "gap", "alarms"),
    [
        (3, range(0), {"stuck": True, "silent": "600s"}),
        (3, range(500, 520), {"stuck": True, "silent": "6000s"}),
        (3, range(500, 800), {"stuck": True}),
        (1, range(0), {"stuck": True}),
        (20, range(0), {"stuck": True, "silent": "600s", "group": 0.1}),
    ],
)
def test_lines_are_on_where_the_sample_shows_no_alarm(tmp_path, keys, gap, alarms) -> None:
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sheet(tmp_path, keys, gap), "--yes") == 0
    table = read_table(file)
    assert table["alarms"] == alarms
    assert table["source"]["topic"] == table["job"]["name"] == "Hall-3"
    if "silent" not in alarms and keys > 1:
        assert '# silent = "6000s"  # no sample for 100 usual pauses; it raised 1 alarm, of s00\n' in file.read_text()
    assert command("check", file) == 0


def test_keys_with_paces_of_their_own_are_silent_by_the_slowest(tmp_path, capsys) -> None:
    file, sent = tmp_path / "job.toml", range(0, 1200, 20)
    assert command("init", file, "--sample", sheet(tmp_path, 3, {*range(1200)} - {*sent}), "--yes") == 0
    assert read_table(file)["alarms"] == {"stuck": True, "silent": "12000s"}
    said = "10 usual pauses of the slowest key, s00, with a sample every 1200 s (usual: 60 s); it raised 0 alarms"
    assert said in file.read_text() and f"{said}; all keys have the same setting" in capsys.readouterr().err


def test_a_slow_key_counts_although_only_the_first_keys_are_tried(tmp_path, capsys) -> None:
    file, rows = tmp_path / "job.toml", []
    random = np.random.default_rng(6)
    for minute in range(1100):
        for key in range(22):
            if key < 21 or minute % 30 == 0:
                rows.append(f"s{key:02},{1_700_000_000 + 60 * minute},{random.normal():.3f}\n")
    (tmp_path / "fleet.csv").write_text("device,ts,temp\n" + "".join(rows))
    assert command("init", file, "--sample", tmp_path / "fleet.csv", "--yes") == 0
    assert read_table(file)["alarms"]["silent"] == "18000s"
    assert "of the slowest key, s21, with a sample every 1800 s (usual: 60 s)" in capsys.readouterr().err


def test_stuck_is_a_comment_where_the_sample_stands_still(tmp_path, capsys) -> None:
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sheet(tmp_path, 3, rest=range(500, 560)), "--yes") == 0
    assert read_table(file)["alarms"] == {"silent": "600s"}
    assert "# stuck = true  # a column repeats one number; it raised 1 alarm, of s00\n" in file.read_text()
    said = "off in [alarms]: stuck = true, a column repeats one number; it raised 1 alarm, of s00; if the sample has "
    assert said + "such faults, remove the # before this line" in capsys.readouterr().err


def test_stuck_is_on_where_the_only_key_stood_still_once(tmp_path, capsys) -> None:
    """A recording of one machine with a dead sensor is what the alarm is for, and there are no other keys to judge by."""
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sheet(tmp_path, 1, rest=range(500, 560)), "--yes") == 0
    assert read_table(file)["alarms"] == {"stuck": True}
    assert "on in [alarms]: stuck = true, a column repeats one number; it raised 1 alarm" in capsys.readouterr().err


def test_one_silent_or_stuck_key_of_many_is_an_alarm_worth_having(tmp_path, capsys) -> None:
    file = tmp_path / "job.toml"
    sample = sheet(tmp_path, 20, range(500, 800), rest=range(900, 960))
    assert command("init", file, "--sample", sample, "--yes") == 0
    assert read_table(file)["alarms"] == {"stuck": True, "silent": "6000s", "group": 0.1}
    said = capsys.readouterr().err
    assert (
        "on in [alarms]: stuck = true, a column repeats one number; it raised 1 alarm, of s00; if nothing is wrong" in said
    )
    assert 'on in [alarms]: silent = "6000s", no sample for 100 usual pauses; it raised 1 alarm, of s00; if nothing' in said


def test_a_group_alarm_without_silent_names_what_it_needs(tmp_path, capsys) -> None:
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sheet(tmp_path, 20, range(500, 800), quiet=3), "--yes") == 0
    assert read_table(file)["alarms"] == {"stuck": True}
    said = next(line for line in capsys.readouterr().err.splitlines() if "group = 0.1" in line)
    assert said.endswith("it raised 0 alarms; it needs silent, which is off")


def test_a_daily_square_wave_without_noise_has_no_rows_to_try(tmp_path, capsys) -> None:
    """All its rows repeat those before, so that none is watched."""
    sample, file = tmp_path / "load.csv", tmp_path / "job.toml"
    rows = [f"{1_700_006_400 + 300 * step},{80 if 9 <= step % 288 / 12 < 18 else 20}\n" for step in range(10 * 288)]
    sample.write_text("time,load\n" + "".join(rows))
    assert command("init", file, "--sample", sample, "--yes") == 0
    assert "[drift] was not tried: no key of the sample has enough rows" in capsys.readouterr().err
    assert read_table(file)["drift"]["daily"] is True and command("check", file) == 0

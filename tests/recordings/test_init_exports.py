"""Exports as devices and machines write them: what `init` reads of each, and what it says of the rest."""

import math
import random

import pytest

from tests.commands.jobs import command, jsonl
from tests.recordings.init_told import as_csv

START = 1_770_000_000


@pytest.fixture
def drawn():
    return random.Random(3)


def test_numbers_with_a_unit_and_states_are_named_with_what_to_do(tmp_path, printed, drawn):
    rows = [
        {
            "ts": START + 60 * i,
            "station": "ABC"[i % 3],
            "pressure": round(drawn.gauss(2, 0.1), 3),
            "power": f"{drawn.gauss(12, 1):.1f} kW",
            "humidity": f"{drawn.gauss(50, 1):.1f}%",
            "mixed": f"{i} {'kW' if i % 2 else 'W'}",
            "running": drawn.choice(("yes", "no")),
        }
        for i in range(600)
    ]
    found = printed(as_csv(tmp_path / "a.csv", rows))
    assert found.source["fields"] == ["pressure"]
    assert not found.says("candidates", "humidity") and not found.says("candidates", "power")
    assert found.says("power: numbers with the unit 'kW'; a field needs the number alone")
    assert found.says("humidity: numbers with the unit '%'")
    assert found.says("running: texts of a few kinds, such as yes and no; [source] categories lets fields have them")
    assert found.lines[[line.startswith("left out of x: mixed") for line in found.lines].index(True)].endswith(": texts")


def test_short_lists_and_named_values_next_to_numbers_are_fields(tmp_path, printed, drawn):
    def payload():
        values = [{"n": name, "v": round(drawn.gauss(0, 1), 3)} for name in "xy"]
        return {"values": values, "temp": round(drawn.gauss(40, 1), 2), "fft": [round(drawn.random(), 3) for _ in range(3)]}

    rows = [{"ts": START + i // 4, "device": f"d{i % 4}", "payload": payload(), "qos": 1} for i in range(800)]
    found = printed(jsonl(tmp_path / "mqtt.jsonl", rows))
    lists = [f"payload.fft[{n}]" for n in range(3)]
    assert found.source["fields"] == ["payload.values[n=x].v", "payload.values[n=y].v", "payload.temp", *lists]
    assert "choose" not in found.out


def test_positions_of_what_travels_are_left_out(tmp_path, printed, drawn):
    rows = [
        {
            "ts": START + 10 * (i // 3),
            "vehicle_id": f"truck-{i % 3}",
            "lat": round(48 + math.sin(i / 900), 6),
            "Longitude": round(11 + 0.0004 * i, 6),
            "speed": round(drawn.gauss(60, 5), 1),
            "rpm": round(drawn.gauss(1500, 50)),
        }
        for i in range(3000)
    ]
    found = printed(jsonl(tmp_path / "gps.jsonl", rows))
    assert found.source["fields"] == ["speed", "rpm"]
    assert found.says("left out of x: lat: a position, which each journey changes")


@pytest.mark.parametrize(("columns", "missing"), [(30, "hold"), (6, "skip")])
def test_a_wide_table_with_a_few_gaps_in_each_column_keeps_its_rows(tmp_path, printed, drawn, columns, missing):
    def row(i):
        numbers = {f"c{n}": round(drawn.gauss(0, 1), 3) if drawn.random() > 0.02 else None for n in range(columns)}
        return {"ts": START + 60 * i, "device": f"d{i % 2}", **numbers}

    found = printed(as_csv(tmp_path / "wide.csv", [row(i) for i in range(600)]))
    assert found.source["missing"] == missing


def test_patients_one_after_the_other_with_a_column_of_labels(tmp_path, printed, drawn):
    rows = [
        {
            "patient_id": f"PT-{i // 400}",
            "timestamp_ms": 1000 * (START + i % 400),
            "hr": round(drawn.gauss(70 + 30 * (i // 50 % 2), 3)),
            "labels": ("rest", "walk")[i // 50 % 2],
        }
        for i in range(1200)
    ]
    found = printed(as_csv(tmp_path / "wearable.csv", rows))
    assert found.says("key patient_id", "label labels (classification") and found.source["label"] == "labels"


def test_a_total_below_the_table_does_not_hide_the_times(tmp_path, printed, drawn):
    rows = [
        {
            "Date": f"{1 + i // 48:02}.03.2025 {i // 2 % 24:02}:00",
            "Sensor": "ab"[i % 2],
            "Value": round(drawn.gauss(9, 1), 2),
        }
        for i in range(600)
    ]
    found = printed(as_csv(tmp_path / "report.csv", [*rows, {"Date": "Total", "Sensor": "", "Value": 5400.1}]))
    assert (found.source["time"], found.source["time_format"]) == ("Date", "%d.%m.%Y %H:%M")
    assert found.says("1 of 601 rows have a text in 'Date' that is not a time as the others; they would be dead letters")
    assert found.says("on the sample, watch = ", "of 2 keys")


def test_times_of_two_formats_are_not_read(tmp_path, printed, drawn):
    dates = ("{:02}.03.2025 12:00", "2025-03-{:02} 12:00")
    rows = [{"Date": dates[i % 9 == 0].format(1 + i % 28), "Value": drawn.gauss(9, 1)} for i in range(600)]
    found = printed(as_csv(tmp_path / "report.csv", rows))
    assert found.says("choose: time: 'Date' holds texts", "or with one time_format for all")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            ("--time-zone", "Mars/Base"),
            "--time-zone must be a zone such as 'UTC', '+01:00' or 'Europe/Berlin'; got 'Mars/Base'.",
        ),
        (("--time-format", "%Q"), "--time-format must be a format such as '%d.%m.%Y %H:%M'; got '%Q'."),
        (("--time-format", "12:30"), "--time-format must be a format of a date such as '%d.%m.%Y'"),
    ],
)
def test_a_zone_or_format_that_no_job_may_have_is_refused_before_a_file_is_written(tmp_path, capsys, option, said):
    sample = as_csv(tmp_path / "a.csv", [{"Date": f"{1 + i % 28:02}.03.2025 12:00", "Value": i % 7} for i in range(60)])
    assert command("init", tmp_path / "job.toml", "--sample", sample, "--yes", *option) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "job.toml").exists()


@pytest.mark.parametrize("option", [("--key-is", "anna"), ("--key-from", "file")])
def test_two_options_for_the_key_are_refused(tmp_path, capsys, option):
    sample = as_csv(tmp_path / "a.csv", [{"who": "p1", "ts": START + i, "a": i % 7} for i in range(60)])
    job = tmp_path / "job.toml"
    assert command("init", job, "--sample", sample, "--key", "who", "--yes") == 0
    for words in (("replay", job, "--input", sample), ("check", job, "--sample", sample)):
        assert command(*words, "--key", "who", *option) == 2
        assert f"--key and {option[0]} both set the key; give one of them." in capsys.readouterr().err


def test_a_port_beyond_the_last_is_a_mistake_of_usage(capsys):
    assert command("broker", "start", "--port", "99999") == 2
    assert "less than or equal to 65535" in capsys.readouterr().err

"""Commands on a job of several sensors: check, replay and fit's reader take what phones push, as a file."""

import json
from pathlib import Path

import pytest

from tests.brokers.kafka_job import toml
from tests.commands.jobs import command
from tests.core.phones import JOB, pushes


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(toml({**JOB, "sinks": {"features": "z"}}))
    return path


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    path = tmp_path / "pushed.jsonl"
    path.write_text("".join(record.value.decode() + "\n" for record in pushes(6, keys=2) if record.value))
    return path


def test_messages_as_a_phone_pushes_them_are_replayed_from_a_file(job, messages, tmp_path, capsys):
    assert command("replay", job, "--input", messages, "--key", "deviceId", "--output-dir", tmp_path / "out", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["samples"], told["rows"], told["skipped"], told["dead_lettered"]) == (1512, 18, {"other_sensor": 12}, {})
    assert len((tmp_path / "out" / "features.jsonl").read_text().splitlines()) == 18


def test_check_names_the_sensors_and_decodes_a_sample(job, messages, capsys):
    assert command("check", job, "--sample", messages, "--key", "deviceId", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stages"]["sensors"].startswith("Sensors('accelerometer': 3 at 100 Hz, 'gyroscope': 3 at 25 Hz")
    assert (told["sample"]["samples"], told["sample"]["dead_letters"], told["dim"]) == (1512, {}, 7)


def test_a_table_with_a_row_per_sample_is_one_record_each(tmp_path, capsys):
    """Rows of a file with a column that names the sensor, such as exports of several sensors stacked."""
    table = JOB | {
        "source": {
            "topic": "machines",
            "time": "at",
            "sensors": {
                "name": "what",
                "rate": 4,
                "each": {"motor": {"fields": ["amps", "volts"], "rate": 4}, "oil": {"fields": ["temp"], "rate": 1}},
            },
        }
    }
    del table["window"]
    path, rows = tmp_path / "job.toml", ["machine,what,at,amps,volts,temp"]
    path.write_text(toml(table))
    for n in range(41):
        at = 1_700_000_000 + n / 4
        rows.append(f"m1,motor,{at},{n},{n * 2},")
        if n % 4 == 0:
            rows.append(f"m1,oil,{at},,,{20 + n}")
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    assert command("replay", path, "--input", tmp_path / "rows.csv", "--key", "machine", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["dead_lettered"], told["skipped"]) == (41, {}, {})

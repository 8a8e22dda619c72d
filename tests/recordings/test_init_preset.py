"""A job for what a phone pushes live: from the preset alone, and from records of the topic that it comes on."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamjobs.commands.recordings.topic_sample import TopicSample
from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.job_files import job_of
from streamjobs.recordings.guess.preset import live_preset
from tests.commands.jobs import command, problems
from tests.core.phones import TOPIC, push, readings

LIVE = ("--preset", "sensorlogger_live", "--topic", TOPIC)


def test_init_writes_a_job_that_learns_what_phones_push(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "phones.toml"
    assert command("init", path, *LIVE) == 0
    printed = capsys.readouterr().err
    assert (
        "records will be of Sensor Logger, pushed live" in printed
        and "deviceId" in printed
        and "guessed from" not in printed
    )
    job = job_of(path)
    assert job.dim == 6 and job.settings.source.time_unit == "ns" and job.settings.window is not None
    assert job.settings.window.rate == 100
    assert command("check", path) == 0
    assert "sensors, time, time_unit as it has them" in capsys.readouterr().err
    path.write_text(path.read_text().replace("# features =", "features ="))
    job = job_of(path)
    done = advance(job, Live(job, lambda key: None), [push(n, readings(n, n + 1)) for n in range(30)])
    assert done.report.dead_lettered == {} and set(done.report.skipped) == {"other_sensor"}  # the barometer
    assert len([output for output in done.outputs if output.sink == "features"]) > 20


def test_init_knows_pushes_in_a_topic_and_measures_their_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = [push(n, readings(n, n + 1)[::2]) for n in range(3)]  # every second sample: 50 Hz
    found = TopicSample([json.loads(one.value or b"") for one in pushes], "json", pushes, 0)
    monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.sample_of", lambda *asked: found)
    path = tmp_path / "phones.toml"
    assert command("init", path, "--from-topic", TOPIC) == 0
    assert "guessed from 3 rows: fields accelerometer.x" in capsys.readouterr().err
    text = path.read_text()
    assert 'preset = "sensorlogger_live"' in text and "rate = 50  # Hz" in text
    assert job_of(path).dim == 6
    assert live_preset([{"payload": [{"temperature": 3}]}, {"payload": "x"}, {"x": 1}]) is None


def test_sensors_of_ones_own_take_the_place_of_the_presets(tmp_path: Path) -> None:
    path = tmp_path / "phones.toml"
    own = '[source.sensors]\nname = "name"\nsamples = "payload"\nother = "skip"\n'
    own += '[source.sensors.each.gyroscope]\nfields = ["values.x"]\nrate = 25\n'
    source = f'[source]\ntopic = "{TOPIC}"\npreset = "sensorlogger_live"\n'
    path.write_text(source + own + '[window]\nlength = "1s"\nrate = 25\n[learner]\nname = "okfeb"\n')
    job = job_of(path)
    assert job.dim == 1 and (job.settings.source.time, job.settings.source.time_unit) == ("time", "ns")


def test_what_cannot_be_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command("init", tmp_path / "a.toml", "--preset", "sensorlog") == 2
    assert "--preset must be sensorlogger, sensorlogger_live, " in capsys.readouterr().err
    assert command("init", tmp_path / "a.toml", *LIVE, "--sample", tmp_path / "x.csv") == 2
    assert "with --sample or --from-topic, init recognises the tool" in capsys.readouterr().err
    (one,) = problems({"source": {"topic": "a", "preset": "sensorlogger_live"}, "learner": {"name": "okfeb"}})
    assert "rate" in one


def test_a_newcomers_next_command_runs_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Times that count from 0, no key and no label: what init prints next is taken by replay, and check says what is off."""
    (tmp_path / "noise.csv").write_text("t,a,b\n" + "".join(f"{n / 50},{n * 7 % 11},{n * 5 % 13}\n" for n in range(600)))
    job = tmp_path / "job.toml"
    assert command("init", job, "--sample", tmp_path / "noise.csv") == 0
    first, then = capsys.readouterr().out.splitlines()
    (_, words) = first.rsplit("streamjobs ", 1)
    assert words.endswith("--key-is noise --time t")
    assert command(*words.split()) == 0
    assert then.startswith("then on a broker") and [one.split()[1] for one in then.split("; ")[1:]] == ["produce", "run"]
    assert command("check", job, "--sample", tmp_path / "noise.csv", "--key-is", "me") == 0
    printed = capsys.readouterr().err
    assert (
        "its rows are read as 1 ms apart" in printed
        and "the job sends no predictions, because it has no [head]; features are off" in printed
    )
    assert command("check", job, "--sample", tmp_path / "noise.csv", "--key-is", "me", "--time", "t") == 0
    assert "1 ms apart" not in capsys.readouterr().err
    (tmp_path / "two").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "two" / name).write_bytes((tmp_path / "noise.csv").read_bytes())
    asked = "replay", job, "--input", tmp_path / "two", "--time", "t", "--start", "2026-11-21T12:00"
    assert command(*asked, "--key-is", "me") == 0
    assert "--start: all 2 recordings begin then" in capsys.readouterr().err
    assert command(*asked, "--key-from", "file") == 0
    assert "begin then" not in capsys.readouterr().err


def test_a_topic_that_does_not_exist_names_the_option_and_no_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Empty:
        """A consumer of a broker without topics."""

        def __init__(self, settings: dict) -> None: ...

        def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
            return SimpleNamespace(topics={})

        def close(self) -> None: ...

    monkeypatch.setattr("streamjobs.kafka.reader.Consumer", Empty)
    assert command("init", tmp_path / "job.toml", "--from-topic", "pumps", "--broker", "kafka://127.0.0.1:1") == 3
    said = capsys.readouterr().err
    assert said == "topic pumps: it does not exist on this broker; correct --from-topic or --broker.\n"

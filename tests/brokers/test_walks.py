"""From somebody's files to a running job on a real Kafka, with the commands of the page on recordings as typed there."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streamjobs.core.messages import Stored
from streamjobs.job_files import broker_of, load_job
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.kafka.reader import topic_records
from tests.commands.jobs import command
from tests.docs.named import blocks
from tests.parts import CHECKOUT
from tests.recordings.exports import machine_csv, sensor_logger

MOST = 5  # commands
WITHIN = 300  # seconds; a cold compile cache on a busy machine included
PAGE = "streamjobs/recordings/README.md"


def walk(title: str, which: int = 0) -> list[list[str]]:
    """The commands of a block below a heading of the page: every line is a call of streamjobs."""
    text = (CHECKOUT / PAGE).read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    contents = [contents for language, contents in blocks(text) if language == "sh"][which]
    lines = [line.partition("  #")[0].strip() for line in contents.replace("\\\n", " ").splitlines() if line.strip()]
    calls = [shlex.split(line) for line in lines]
    assert len(calls) <= MOST and all(call[0] == "streamjobs" for call in calls)
    return calls


def typed(calls: list[list[str]], folder: Path, broker: Broker) -> list[str]:
    """What the commands print. The broker is this session's: 'broker start' is the one command that is not run again."""
    environment = {
        **os.environ,
        "STREAMJOBS_BROKER__URL": broker.url,
        "STREAMJOBS_METRICS__PORT": "0",
        "PYTHONPATH": str(CHECKOUT),
    }
    said = []
    for call in calls:
        if call[1:3] == ["broker", "start"]:
            said.append(broker.url)
            continue
        words = [sys.executable, "-m", *call]
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False
        )
        assert done.returncode == 0, (call, done.stderr[-2000:])
        said.append(done.stdout + done.stderr)
    return said


def read(broker: Broker, topic: str) -> list[Stored]:
    return list(topic_records(broker_of(broker.url), topic))


def test_a_phones_folder_becomes_a_running_activity_job(broker: Broker, tmp_path: Path) -> None:
    sensor_logger(tmp_path / "walk-1", seconds=60)  # the head predicts when the learner has as many rows as it stores
    said = typed(walk("A phone's recording"), tmp_path, broker)
    settings = load_job(tmp_path / "walk.toml", {})
    assert settings.source.preset == "sensorlogger" and settings.source.label == "annotation"
    assert re.search(r"[0-9,]+ records in phone, all acknowledged", said[3])
    predictions = [json.loads(record.value) for record in read(broker, "phone.predictions")]
    assert len(predictions) >= 15 and {one["key"] for one in predictions} == {"walk-1"}
    assert {"walk", "stand"} <= {one["true_class"] for one in predictions}
    assert not read(broker, "phone.dlq")
    exported, drawn, states = typed(walk("A phone's recording", 1), tmp_path, broker)
    assert exported.startswith(f"predictions.csv: {len(predictions):,} rows") and "drawn: confusion.png" in drawn
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG") and "walk-1" in states
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 1 + len(predictions)


@pytest.mark.long  # the same commands on another kind of file
def test_a_machines_csv_with_semicolons_and_gaps_becomes_a_running_job(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine_csv(tmp_path / "press.csv", rows=200)
    said = typed(walk("A machine's log"), tmp_path, broker)
    assert "decimal commas" in said[1] and "200 records in press, all acknowledged" in said[3]
    settings = load_job(tmp_path / "press.toml", {})
    assert settings.source.time == "Zeit" and settings.source.missing != "dlq"
    monkeypatch.setenv("STREAMJOBS_BROKER__URL", broker.url)
    capsys.readouterr()
    assert command("state", "list", tmp_path / "press.toml", "--json") == 0
    (state,) = json.loads(capsys.readouterr().out)["states"]
    assert (state["key"], state["rows"]) == ("p1", 192)  # of 8 of 200 rows a number is missing
    assert not read(broker, "press.dlq")

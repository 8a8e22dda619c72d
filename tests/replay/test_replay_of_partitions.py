"""`replay --input topic` has the partitions of the topic, as workers have them."""

import json
from pathlib import Path

from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import murmur2
from tests.commands.jobs import command

START, PARTITIONS = 1_700_000_000, 4
JOB = """
[source]
topic = "air"
fields = ["no2"]
time = "ts"

[learner]
name = "scaling"

[alarms]
silent = "1m"
expected = ["station-0", "station-3", "station-9"]

[sinks]
predictions = ""
"""


def readings() -> list[Stored]:
    """Of stations 0 to 8, each on the partition of its key; station 9 never sends."""
    return [
        Stored("air", place, n, (START + n) * 1000, key, json.dumps({"no2": n % 7, "ts": START + n}).encode())
        for place in range(PARTITIONS)
        for n in range(200)
        for key in (b"station-%d" % (n % 9),)
        if murmur2(key, PARTITIONS) == place
    ]


def test_an_expected_key_is_missing_on_its_own_partition_only(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("streamjobs.kafka.reader.topic_records", lambda *asked, **how: (one for one in readings()))
    monkeypatch.setattr("streamjobs.kafka.topics.connect", lambda *asked: (None, {"air": PARTITIONS}))
    monkeypatch.setattr("streamjobs.kafka.preflight.kept_life", lambda settings, hidden: "")
    (tmp_path / "job.toml").write_text(JOB)
    out = tmp_path / "out"
    assert command("replay", tmp_path / "job.toml", "--input", "topic", "--output-dir", out) == 0, capsys.readouterr().err
    alarms = [json.loads(line) for line in (out / "alarms.jsonl").read_text().splitlines()]
    assert [(one["key"], one["value"]["watch"]) for one in alarms] == [("station-9", "missing")]

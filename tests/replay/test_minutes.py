"""`replay` prints the minutes of each activity and day, the bout under way included."""

import json
from pathlib import Path

from tests.commands.jobs import command

JOB = """
[source]
topic = "rooms"
fields = ["x"]
time = "t"
label = "doing"
[learner]
name = "okfeb"
rank = 2
budget = 3
[head]
name = "rls"
[bouts]
shortest = "5s"
"""


def test_replay_prints_minutes_that_are_those_of_the_recording(tmp_path: Path, capsys) -> None:
    job, recording, out = tmp_path / "job.toml", tmp_path / "rooms.jsonl", tmp_path / "out"
    job.write_text(JOB, encoding="utf-8")
    with recording.open("w", encoding="utf-8") as file:
        for at in range(301):
            doing = "walk" if at <= 120 or at > 240 else "rest"
            print(json.dumps({"who": "a", "t": 1700000000 + at, "x": at % 7, "doing": doing}), file=file)
    assert command("replay", job, "--input", recording, "--key", "who", "--output-dir", out) == 0
    assert "minutes of a on 2023-11-14: walk 3.0, rest 2.0" in capsys.readouterr().out
    sent = [json.loads(line)["value"] for line in (out / "bouts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(one["activity"], one["end"] - one["start"]) for one in sent] == [("walk", 120.0), ("rest", 120.0)]
    assert command("export", job, "bout", "-o", tmp_path / "bouts.csv") != 0

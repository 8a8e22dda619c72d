"""Six people at three activities, each twice, and a job for them, as files."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streamjobs.cli import run

RATE, LENGTH = 10.0, 40  # Hz, seconds of a recording
ACTIVITIES = ("sit", "walk", "run")
JOB = """\
[job]
name = "small"
[source]
topic = "imu"
fields = ["ax", "ay", "az"]
time = "ts"
label = "activity"
[window]
length = "2s"
hop = "1s"
rate = 10.0
[population]
file = "{file}"
[scaling]
clip = 5.0
[learner]
name = "ald"
budget = 20
[head]
name = "rls"
smooth = 0.3
"""


def job_file(folder: Path, text: str = JOB) -> Path:
    path = folder / "job.toml"
    path.write_text(text.replace("{file}", str(folder / "population.state")))
    return path


def rows(people: int = 6, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Samples, recording by recording; a person's recordings are a minute apart, people begin at the same time."""
    for person in range(people):
        random = np.random.default_rng([seed, person])
        for take in range(2):
            for number, activity in enumerate(ACTIVITIES):
                begin = 1_700_000_000.0 + 60.0 * (3 * take + number) + 0.37 * person
                yield from _recording(random, f"p{person + 8}", take * 3 + number, begin, number, activity)


def _recording(
    random: Any, person: str, recording: int, begin: float, speed: int, activity: str
) -> Iterator[dict[str, Any]]:
    strength = random.uniform(0.8, 1.2)
    for i in range(int(LENGTH * RATE)):
        x = strength * speed * np.sin((1 + speed) * i / RATE + np.arange(3)) + random.normal(size=3) * 0.4
        time = round(begin + i / RATE, 3)
        yield {
            "person": person,
            "recording": recording,
            "ts": time,
            **dict(zip(("ax", "ay", "az"), x.round(6).tolist(), strict=True)),
            "activity": activity,
        }


def jsonl(path: Path, table: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def as_csv(path: Path, table: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def command(*words: object) -> int:
    """Run a command line in this process; gives its exit code."""
    return run([str(word) for word in words])

"""Recordings as newcomers have them, and what `init --sample` printed of one."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.job_files import read_table
from tests.commands.jobs import command
from tests.recordings.fleet import START

N = 60  # rows; enough to tell a rate and what only rises


def noise(*names: str, n: int = N) -> list[dict[str, Any]]:
    X = np.random.default_rng(2).normal(size=(n, len(names)))
    return [dict(zip(names, x, strict=True)) for x in X.round(3).tolist()]


def table(n: int = N, **columns: Any) -> list[dict[str, Any]]:
    """Rows with a column for each keyword: a function of the row's number, or one value for all rows."""
    return [{name: made(i) if callable(made) else made for name, made in columns.items()} for i in range(n)]


def random(i: int) -> float:
    return round(float(np.random.default_rng(i + 7).normal()), 3)


def as_csv(path: Path, made: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(made[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(made)
    return path


def columns(n: int, **also: Any) -> list[dict[str, Any]]:
    """n rows of two devices, with noise in `a`; also: a function of the row's number for each other column."""
    random = np.random.default_rng(8)
    return [
        {
            "device": f"d{i % 2}",
            "ts": START + 300 * (i // 2),
            "a": float(random.normal()),
            **{k: v(i) for k, v in also.items()},
        }
        for i in range(n)
    ]


class Told:
    """What `init` of a sample did: its code, its lines and the job file; `then`: what it prints after the first line."""

    def __init__(self, folder: Path, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "job.toml"
        self.code = command("init", self.file, "--sample", sample)
        out, err = capsys.readouterr()
        first, _, self.then = out.partition("\n")
        self.out, self.lines = f"{first}\n", err.splitlines()
        self.text = self.file.read_text() if self.file.exists() else ""

    @property
    def source(self) -> dict[str, Any]:
        """[source] as it is written."""
        source: dict[str, Any] = read_table(self.file)["source"]
        return source

    def says(self, *parts: str) -> bool:
        """Whether one line has all of these parts."""
        return any(all(part in line for part in parts) for line in self.lines)


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda sample: Told(tmp_path, sample, capsys)

"""A setting is read into a learner once, whatever command reads the job file."""

import json
from collections import Counter
from typing import Any

import pytest

import algorithms
from streamjobs import cli
from tests.commands.jobs import job_file

JOB = """
[source]
topic = "in"
fields = ["x", "y", "z"]
time = "ts"
label = "activity"

[learner]
name = "okfeb"
rank = 3
budget = 5

[head]
name = "rls"

[drift]
extractor = { name = "wrkpca", rank = 2, budget = 4 }
beside = ["last_points", "running_mean"]
"""
EACH_ONCE = dict.fromkeys(["scaling", "okfeb", "rls", "wrkpca", "page_hinkley", "last_points", "running_mean"], 1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a table was made into each learner."""
    counted: Counter[str] = Counter()
    build = algorithms.build

    def counting(owner: str, *arguments: Any) -> Any:
        counted[owner] += 1
        return build(owner, *arguments)

    monkeypatch.setattr(algorithms, "build", counting)
    return counted


def test_check_makes_each_learner_once(made: Counter[str], tmp_path) -> None:
    assert cli.run(["check", str(job_file(tmp_path, JOB))]) == 0
    assert made == EACH_ONCE


def test_run_makes_each_learner_once(made: Counter[str], tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = []

    def worker(settings: Any, make_core: Any, **options: Any) -> int:
        cores.append(make_core())
        return 0

    monkeypatch.setattr("streamjobs.worker.run.run", worker)
    assert cli.run(["run", str(job_file(tmp_path, JOB))]) == 0
    assert len(cores) == 1 and made == EACH_ONCE


def test_replay_makes_each_learner_once(made: Counter[str], tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"who": "p", "x": 0.1 * n, "y": -0.2 * n, "z": n % 7, "ts": 1000.0 + n, "activity": "a"} for n in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["replay", str(job_file(tmp_path, JOB)), "--input", str(tmp_path / "rows.jsonl"), "--key", "who", "--json"]
    assert cli.run(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30 and made == EACH_ONCE

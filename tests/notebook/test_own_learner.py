"""A learner of one's own: an installed package names it, and jobs, replays, estimators and checks take it as the others."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from algorithms import LEARNERS
from streamjobs.cli import run
from tests.commands.jobs import jsonl, rows

PACKAGE = Path(__file__).parent / "package"
CHECKOUT = Path(__file__).resolve().parents[2]
JOB = """\
[job]
name = "own"
[source]
topic = "imu"
fields = ["ax", "ay"]
time = "ts"
label = "az"
[learner]
name = "nearest_label"
memory = 20
task = "regression"
"""
USES = """
import json, sys
from streamjobs import Job
from streamjobs.sklearn import NearestLabel
replayed = Job(sys.argv[1]).replay(sys.argv[2], key="person")
model = NearestLabel(memory=2).fit([[0.0], [5.0], [4.0]], [1.0, 2.0, 3.0])
print(json.dumps([replayed.summary["rows"], replayed.rows("predictions")[-1]["model"], model.predict([[4.4]]).tolist()]))
"""

MINE = """\
from dataclasses import dataclass
from tests.checks.steady import Steady

class Objects(Steady):
    __slots__ = ()
    def init(self, **given):
        return Steady.init(self, **given)._replace(seen={})
class Raises(Steady):
    __slots__ = ()
    def loop(self, *given):
        1 / 0  # no learner
from algorithms import Learner
class Undecorated(Learner):
    name = persisted_name = "undecorated"
"""


def python(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """A process in which the package of this folder is installed: it is on the path, with its metadata beside it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(CHECKOUT)])}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


def test_a_job_a_replay_and_estimators_take_it(tmp_path: Path) -> None:
    job, recording = tmp_path / "job.toml", jsonl(tmp_path / "rows.jsonl", rows(60))
    job.write_text(JOB)
    done = python(PACKAGE, "-m", "streamjobs", "replay", job, "--input", recording, "--key", "person", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["labels"], summary["keys"]) == (60, 60, 3)
    used = python(PACKAGE, "-c", USES, job, recording)
    assert used.returncode == 0, used.stderr
    assert json.loads(used.stdout) == [60, "nearest_label", [3.0]]
    assert "nearest_label" not in LEARNERS, "it is installed in those processes alone"


@pytest.mark.slow
def test_it_passes_the_check_suite() -> None:
    words = ("-m", "streamjobs", "check-learner", "nearest_label:NearestLabel", "--set", "memory=50", "--json")
    done = python(PACKAGE, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == {} and found["checks"] > 25


def test_a_faulty_one_is_caught_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["check-learner", "tests.checks.broken:ReturnsColumnsFirst", "--targets", "2"])
    told = capsys.readouterr()
    assert code == 4
    assert "the state is plain arrays and numbers: " in told.out
    assert "FAILED  the state is plain arrays and numbers" in told.err
    assert "tests.checks.broken:ReturnsColumnsFirst: " in told.err and " checks failed." in told.err


def test_one_mistake_is_reported_once_with_its_line(tmp_path: Path) -> None:
    """A state of objects ends the checks at the first; an error that fails many checks is one line of text."""
    (tmp_path / "mine.py").write_text(MINE)
    done = python(tmp_path, "-m", "streamjobs", "check-learner", "mine:Objects")
    assert done.returncode == 4 and "seen is of type dict, expected an array of numbers, an int or a float" in done.stdout
    assert len(done.stdout.splitlines()) == 1 and "the others need it" in done.stderr
    done = python(tmp_path, "-m", "streamjobs", "check-learner", "mine:Raises")
    raised = [
        line for line in done.stdout.splitlines() if line.endswith("ZeroDivisionError: division by zero (mine.py, line 11)")
    ]
    assert len(raised) == 1 and raised[0].startswith("same bits twice, any split gives the same bits, ")
    done = python(tmp_path, "-m", "streamjobs", "check-learner", "mine:Undecorated")
    assert (
        done.returncode == 2 and "expected @dataclass(frozen=True, slots=True, kw_only=True) above the class" in done.stderr
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nearest_label"], "expected MODULE:CLASS such as my_package.nearest:Nearest; got 'nearest_label'."),
        (["no_such_module:X"], "no_such_module:X: module 'no_such_module' cannot be imported"),
        (["json:loads"], "json:loads: expected a class that inherits from algorithms.Learner; got"),
        (
            ["mine/near.py:Near"],
            "expected MODULE:CLASS such as my_package.nearest:Nearest; got 'mine/near.py:Near'; for the file mine/near.py, "
            "set PYTHONPATH=mine and give near:Near.",
        ),
        (
            ["algorithms.heads.rls:RLS"],
            "algorithms.heads.rls:RLS: expected a class that inherits from algorithms.Learner; got None; "
            "algorithms.heads.rls has Rls.",
        ),
        (["algorithms.heads.rls:Rls", "--set", "forgetting=2"], "Rls: forgetting must be in (0, 1]; got 2.0."),
    ],
)
def test_what_is_no_learner_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check-learner", *words]) == 2
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("rls = nearest_label:NearestLabel", "expected the entry point to have the learner's name, 'nearest_label'"),
        ("nearest_label = nearest_label:Missing", "cannot be loaded: AttributeError"),
        (
            "nearest_label = 'nearest_label:NearestLabel'",
            "('nearest_label:NearestLabel'): expected the entry point to be MODULE:CLASS without quotes",
        ),
        ("nearest_label = json:loads", "expected a class that inherits from algorithms.Learner"),
    ],
)
def test_a_package_that_names_it_wrongly_stops_the_job(tmp_path: Path, entry: str, sentence: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "package")
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    (tmp_path / "package/nearest_label-1.0.dist-info/entry_points.txt").write_text(f"[streamjobs.learners]\n{entry}\n")
    done = python(tmp_path / "package", "-m", "streamjobs", "check", job)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr
    assert "of package nearest-label" in done.stderr

"""algorithms/adding.md says how a learner is added; here its steps are followed to the letter, on a copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # compiles a copy of the code

CHECKOUT = Path(__file__).resolve().parents[2]
NEEDED = ("algorithms", "tests/checks", "tests/layers", "tests/reference")  # folders that the checks of a learner need
FILES = ("pyproject.toml", "tests/__init__.py", "tests/learners/__init__.py", "tests/learners/test_persisted_names.py")
STEP = re.compile(
    r"^\d\. [^\n]*?(?:in `(?P<table>\w+)` of )?`(?P<file>[\w/.]+)`:\n\n```(?:python|text)\n(?P<code>.*?)^```$", re.M | re.S
)


def steps() -> list[tuple[str, str | None, str]]:
    """(file, the table in it, what goes there) of every step."""
    text = (CHECKOUT / "algorithms" / "adding.md").read_text(encoding="utf-8")
    section = text.partition("## How to add a learner\n")[2].partition("\n## ")[0]
    every = [(step["file"], step["table"], step["code"]) for step in STEP.finditer(section)]
    assert len(every) == len(re.findall(r"^\d\. ", section, re.M)), "a step without its file and its block"
    return every


def follow(folder: Path) -> None:
    for name, table, code in steps():
        path = folder / name
        if not path.exists():
            path.write_text(code)
            continue
        lines = path.read_text().splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.startswith((f"{table}:", f"{table} ="))]
        assert places, f"{name} has no table {table}"
        lines.insert(places[0] + 1, code)
        path.write_text("".join(lines))


def test_the_steps_are_a_file_a_line_a_reference_an_example_and_a_name() -> None:
    assert [name for name, _, _ in steps()] == [
        "algorithms/adaptive/toy.py",
        "algorithms/__init__.py",
        "tests/reference/toy.py",
        "tests/checks/examples.py",
        "tests/learners/test_persisted_names.py",
    ]
    assert all(code.count("\n") == 1 for name, _, code in steps() if (CHECKOUT / name).exists()), "an edit of several lines"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in NEEDED:
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "learners").mkdir(parents=True)
    for name in FILES:
        shutil.copy(CHECKOUT / name, tmp_path / name)
    return tmp_path


def checked(folder: Path, tests: str = "tests") -> subprocess.CompletedProcess[str]:
    """The check-suite on the learner that was added, in the copy."""
    path = os.pathsep.join([str(folder), str(CHECKOUT)])
    environment = {**os.environ, "PYTHONPATH": path, "STREAMJOBS_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "pytest", "-k", "toy", tests]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_the_learner_of_the_page_passes_every_check(copy: Path) -> None:
    follow(copy)
    done = checked(copy)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 50, done.stdout


@pytest.mark.parametrize(
    ("file", "tests", "sentence"),
    [
        ("tests/reference/toy.py", "tests/checks/test_references.py", "write tests/reference/toy.py"),
        ("tests/learners/test_persisted_names.py", "tests/learners", "KeyError: 'toy'"),
    ],
)
def test_a_step_left_out_is_named(copy: Path, file: str, tests: str, sentence: str) -> None:
    kept = (copy / file).read_text() if (copy / file).exists() else None
    follow(copy)
    (copy / file).unlink()
    if kept is not None:
        (copy / file).write_text(kept)
    done = checked(copy, tests)
    assert done.returncode == 1 and sentence in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]

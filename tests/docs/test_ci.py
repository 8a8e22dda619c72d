"""`.ci/run` runs the README's test command, that line and nothing else."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.parts import CHECKOUT

TOOLS = ("bash", "awk", "dirname", "env", "cat", "mkdir")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of .ci/run beside a README of our own, on a machine whose programs are stand-ins that only say their name."""
    (tmp_path / "checkout" / ".ci").mkdir(parents=True)
    shutil.copy(CHECKOUT / ".ci" / "run", tmp_path / "checkout" / ".ci" / "run")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        where = shutil.which(tool)
        assert where, f"no {tool} on this machine"
        (tmp_path / "bin" / tool).symlink_to(where)
    for tool in ("java", "mvn", "openssl", "chromium", "python3", "apt-get"):
        _stand_in(tmp_path / "bin" / tool)
    return tmp_path / "checkout"


def _stand_in(path: Path, code: int = 0) -> None:
    path.write_text(f'#!/bin/sh\necho "{path.name} $*"\nexit {code}\n')
    path.chmod(0o755)


def _run(checkout: Path, readme: str) -> tuple[int, list[str]]:
    (checkout / "README.md").write_text(readme)
    environment = {**os.environ, "PATH": str(checkout.parent / "bin"), "CI": ""}
    done = subprocess.run(
        ["bash", str(checkout / ".ci" / "run")], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_it_runs_the_first_fenced_line_that_ends_in_the_test_command(checkout: Path) -> None:
    readme = "Run -m tests\n```sh\necho install && echo CI=$CI in $PWD -m tests\n```\n```\necho other -m tests\n```\n"
    code, lines = _run(checkout, readme)
    assert code == 0
    assert lines[-2:] == ["install", f"CI=true in {checkout} -m tests"]
    assert not any(line.startswith("apt-get") for line in lines)


def test_its_exit_code_is_that_of_the_command(checkout: Path) -> None:
    assert _run(checkout, "```\nbash -c 'exit 7' -m tests\n```\n")[0] == 7
    assert _run(checkout, "```\nfalse && echo -m tests\n```\n")[0] != 0


def test_it_fails_where_the_readme_has_no_such_line(checkout: Path) -> None:
    for readme in ("", "echo -m tests\n", "```\necho -m tests --fast\n```\n"):
        code, lines = _run(checkout, readme)
        assert code == 2
        assert "no fenced line" in lines[-1]


def test_it_installs_what_is_missing(checkout: Path) -> None:
    (checkout.parent / "bin" / "java").unlink()
    (checkout.parent / "bin" / "mvn").unlink()
    (checkout.parent / "bin" / "openssl").unlink()
    _stand_in(checkout.parent / "bin" / "python3", code=1)
    code, lines = _run(checkout, "```\necho -m tests\n```\n")
    assert code == 0
    assert "apt-get install -y openjdk-17-jre-headless maven openssl python3-venv" in lines


def test_the_readme_has_the_line_and_it_starts_from_nothing() -> None:
    readme = CHECKOUT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not written yet")
    script = "/^ *```/ { fenced = !fenced; next } fenced && /-m tests *$/ { print; exit }"
    assert script in (CHECKOUT / ".ci" / "run").read_text()
    found = subprocess.run(["awk", script, str(readme)], capture_output=True, text=True, check=True).stdout.strip()
    assert found.startswith("python3 -m venv "), found
    assert "requirements.lock" in found
    assert "'.[dev]'" in found

"""Where compiled loops are kept: a folder of this user alone, and a temporary one where there is no other."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms.common.cache_folder import CacheWarning, cache_root, unusable
from tests.layers.imports import CHECKOUT
from tests.learners.stranger import STRANGER

JOB = """
[source]
topic = "in"
fields = ["a", "b"]
label = "c"
[learner]
name = "lms"
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder that everybody can read, with packages that nobody may write to, a job file, and a folder `tmp`."""
    folder = Path(tempfile.mkdtemp())
    (folder / "job.toml").write_text(JOB)
    installed = folder / "installed"
    for package in ("algorithms", "streamjobs"):
        shutil.copytree(CHECKOUT / package, installed / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    yield folder
    for path in (installed, *installed.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


def run_as_a_stranger(words: list[str], machine: Path) -> subprocess.CompletedProcess[str]:
    """`streamjobs` by a user without a home; by this user, who has none either, where only root can be another one."""
    installed, scratch = machine / "installed", machine / "tmp"
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": str(scratch), "PYTHONPATH": str(installed)}
    program = "import sys, streamjobs.cli as cli; sys.exit(cli.run(sys.argv[1:]))"
    if os.geteuid() == 0:
        env["PYTHONPATH"] = f"{installed}:{CHECKOUT}"
        program = f"from tests.learners.stranger import become_a_stranger; become_a_stranger(); {program}"
    command = [sys.executable, "-B", "-c", program, *words]
    return subprocess.run(command, env=env, cwd=machine, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_without_a_home_and_with_packages_that_cannot_be_written_loops_go_to_a_temporary_folder(machine: Path) -> None:
    done = run_as_a_stranger(["check", "job.toml"], machine)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("streamjobs: compiled loops are kept in ") and "STREAMJOBS_CACHE" in line
    (folder,) = (machine / "tmp").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and str(folder / "loops") in line


def test_a_cache_folder_that_others_may_write_to_or_own_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "one" / "loops"
    assert not unusable(own) and stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o775)
    assert unusable(own) == "others may write to it, its mode is 0775"
    (tmp_path / "link").symlink_to(tmp_path / "one", target_is_directory=True)
    assert unusable(tmp_path / "link") == "it is a link"
    foreign = Path("/usr")
    if os.geteuid() == 0:
        foreign = tmp_path / "foreign"
        foreign.mkdir(0o700)
        os.chown(foreign, STRANGER, STRANGER)
    assert unusable(foreign).startswith(f"it belongs to user {foreign.stat().st_uid}, and this is user")


def test_a_cache_folder_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert not unusable(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_refused_folder_is_replaced_by_a_temporary_one_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "loops").mkdir(parents=True)
    (tmp_path / "cache" / "loops").chmod(0o777)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.warns(
        CacheWarning, match=r"kept in .*, because .* cannot be used \(others may write to it, its mode is 0777"
    ):
        kept = cache_root()
    assert kept == tmp_path / "tmp" / f"streamjobs-{os.geteuid()}" / "loops"
    assert cache_root() == kept  # and no second warning: pytest would fail on one that no block expects

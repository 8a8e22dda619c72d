"""The folder of a job's local stores."""

import os
import stat
from pathlib import Path

from streamjobs.settings.sections import Settings
from streamjobs.worker.app import state_folder


def settings(directory: Path) -> Settings:
    return Settings(
        job={"name": "wrist"}, source={"topic": "in", "dim": 1}, learner={"name": "lms"}, state={"directory": str(directory)}
    )


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = state_folder(settings(tmp_path / "deep" / "state"))
    finally:
        os.umask(before)
    assert folder == tmp_path / "deep" / "state" / "wrist"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder.parent, folder)] == [0o700, 0o700]


def test_a_folder_of_an_earlier_release_becomes_private_and_the_one_around_it_stays(tmp_path: Path) -> None:
    (tmp_path / "wrist").mkdir()
    (tmp_path / "wrist").chmod(0o755)
    tmp_path.chmod(0o755)
    assert stat.S_IMODE(state_folder(settings(tmp_path)).stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755

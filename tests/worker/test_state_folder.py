"""The folder of a job's local stores."""

import multiprocessing
import os
import resource
import signal
import stat
import time
from pathlib import Path

import pytest

from streamjobs.errors import SetupError
from streamjobs.settings.sections import Settings
from streamjobs.worker.state_folder import lock_folder, state_folder


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


def test_a_full_disk_is_named_with_its_folder(tmp_path: Path) -> None:
    state_folder(settings(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # files can be created, but not grow
    try:
        with pytest.raises(
            SetupError, match=rf"^\[state\] directory: {tmp_path}/wrist cannot be written \(File too large\)"
        ):
            lock_folder(settings(tmp_path)).__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def hold(directory: Path, ready: "multiprocessing.synchronize.Event") -> None:
    with lock_folder(settings(directory)):
        ready.set()
        time.sleep(60)


def test_a_second_worker_is_refused_until_the_first_has_ended_even_by_kill(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=hold, args=(tmp_path, ready))
    other.start()
    assert ready.wait(120) and other.pid is not None
    with pytest.raises(SetupError, match=rf"wrist is in use by another worker .*process {other.pid} on .*STATE__DIRECTORY"):
        lock_folder(settings(tmp_path)).__enter__()
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    for _ in range(2):  # it leaves nothing that blocks the next one
        with lock_folder(settings(tmp_path)):
            assert (tmp_path / "wrist" / "WORKER").read_text().startswith(f"process {os.getpid()} on ")

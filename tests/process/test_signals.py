"""Signals that arrive while a command is still being imported, or that Python cannot answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamjobs.process import ENDED_AFTER
from tests.layers.imports import CHECKOUT

# A process with the handlers of a worker. `held` calls functions of the C library without releasing the interpreter's lock.
HANDLED = """
import ctypes, os, signal
from streamjobs.process import exit_at_once_on_signals
exit_at_once_on_signals()
signal.signal(signal.SIGTERM, lambda *_: None)
held = ctypes.PyDLL(None)
stop = lambda: getattr(held, "raise")(signal.SIGTERM)
"""
# Short sleeps: Python does not see a signal that arrives just before the system call of one long sleep until its end.
SLOW_IMPORT = "import time\nprint('importing', flush=True)\nfor _ in range(6000):\n    time.sleep(0.01)\n"


@contextmanager
def importing(tmp_path: Path, *words: str, ignored: signal.Signals | None = None) -> Iterator[subprocess.Popen[str]]:
    """`python -m streamjobs WORDS` in the middle of its first slow import, one that a test planted."""
    (tmp_path / "typer.py").write_text(SLOW_IMPORT)

    inherited = {
        number: signal.SIG_IGN if number == ignored else signal.SIG_DFL for number in (signal.SIGHUP, signal.SIGINT)
    }
    ours = {number: signal.signal(number, handler) for number, handler in inherited.items()}
    try:
        started = subprocess.Popen(
            [sys.executable, "-m", "streamjobs", *words],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
    with started as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "importing\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        (("run", "job.toml"), signal.SIGTERM, 0),
        (("--debug", "run", "job.toml"), signal.SIGHUP, 0),
        (("run", "job.toml"), signal.SIGINT, 0),
        (("check", "job.toml"), signal.SIGINT, 130),
        (("check", "job.toml"), signal.SIGTERM, -signal.SIGTERM),  # 0 would say that it has done its work
    ],
)
def test_a_signal_during_imports_ends_a_command_without_a_traceback(
    tmp_path: Path, words: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    with importing(tmp_path, *words) as process:
        process.send_signal(number)
        assert process.communicate(timeout=120)[1] == ""
        assert process.returncode == code


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    with importing(tmp_path, "run", "job.toml", ignored=signal.SIGHUP) as process:  # as under nohup
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    with importing(tmp_path, "check", "job.toml", ignored=signal.SIGINT) as process:  # as in the background of a script
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == -signal.SIGTERM


def handled(then: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", HANDLED + then]
    return subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels send no signal for a byte in a pipe")
def test_the_kernel_ends_a_worker_that_never_releases_the_interpreters_lock() -> None:
    timed = handled("stop(); print(held.alarm(0))")
    assert 0 < int(timed.stdout) <= ENDED_AFTER
    for_ever = "lock = (ctypes.c_long * 16)(); [held.pthread_mutex_lock(lock) for _ in range(2)]"
    assert handled(f"stop(); held.alarm(0) and held.alarm(1); {for_ever}").returncode == -signal.SIGALRM  # sooner


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels send no signal for a byte in a pipe")
def test_a_signal_to_a_forked_worker_does_not_end_its_parent() -> None:
    fork = """
if child := os.fork():
    os.waitpid(child, 0)
    print("parent", held.alarm(0))
else:
    exit_at_once_on_signals()
    signal.signal(signal.SIGTERM, lambda *_: None)
    stop()
    os.write(1, b"child %d\\n" % (held.alarm(0) > 0))
    os._exit(0)
"""
    assert handled(fork).stdout == "child 1\nparent 0\n"

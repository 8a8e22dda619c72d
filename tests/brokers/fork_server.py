"""A fork server: workers forked from a process that has imported everything start in one second, not four.

A forked worker runs the same code as `streamjobs run`; only the start is cheaper. The suite kills so many workers that
imports would take most of its time.
"""

from streamjobs.process import use_one_thread

use_one_thread()

import faulthandler  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402
from types import TracebackType  # noqa: E402
from typing import Any  # noqa: E402

CHECKOUT = Path(__file__).resolve().parents[2]
STARTS_WITHIN = 300.0  # seconds


class ForkedWorker:
    """A forked worker process; used like a `subprocess.Popen`."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        begin = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - begin > timeout:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.02)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """`with ForkServer(folder, job) as server: server.start(...)`; job: a job file, see `_serve`."""

    def __init__(self, folder: Path, job: Path) -> None:
        self._path, self._job, self._log = str(folder / "fork_server"), job, folder / "fork_server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[str], env: dict[str, str], log: Path) -> ForkedWorker:
        """words: "run" with its flags, "inject FAULT" or "hash" with options of the hash worker, and the job file."""
        return ForkedWorker(self, self.ask({"start": list(words), "env": env, "log": str(log)}))

    def ask(self, request: dict[str, Any]) -> Any:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(STARTS_WITHIN)
            one.connect(self._path)
            one.sendall(json.dumps(request).encode() + b"\n")
            answer = one.makefile().readline()
        return json.loads(answer)

    def __enter__(self) -> "ForkServer":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.brokers.fork_server", self._path, str(self._job)],
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        begin = time.monotonic()
        while True:
            with suppress(OSError):
                self.ask({"poll": 0})
                return self
            late = time.monotonic() - begin > STARTS_WITHIN
            assert self._process.poll() is None and not late, self._log.read_text()[-2000:]
            time.sleep(0.1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def _serve(path: str, job: str) -> None:
    """The loops of the job are compiled before the first worker that has a learner: workers of the hash core need none."""
    from streamjobs.core.job import Job
    from streamjobs.job_files import load_job
    from streamjobs.kafka import preflight  # noqa: F401 - imported here, so that no child has to
    from tests.brokers import fault_injection  # noqa: F401
    from tests.compiling import one_at_a_time
    from tests.worker import hash_worker  # noqa: F401

    codes: dict[int, int] = {}
    compiled = False
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(16)
        while True:
            one, _ = listening.accept()
            with one:
                request = json.loads(one.makefile().readline())
                if "start" in request:
                    if not compiled and request["start"][0] != "hash":
                        with one_at_a_time():
                            Job.from_settings(load_job(Path(job), env={})).compile()
                        compiled = True
                    pid = os.fork()
                    if pid == 0:
                        listening.close()
                        one.close()
                        _child(request)
                    codes.pop(pid, None)  # of an earlier child: numbers come round
                    one.sendall(b"%d\n" % pid)
                else:
                    one.sendall(json.dumps(_code(request["poll"], codes)).encode() + b"\n")


def _code(pid: int, codes: dict[int, int]) -> int | None:
    """Exit code of a child, negative for a signal; None while it lives."""
    if pid and pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            codes[pid] = os.waitstatus_to_exitcode(status)
    return codes.get(pid)


def _child(request: dict[str, Any]) -> None:
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["env"])
    code = 70
    faulthandler.enable()  # SIGABRT shows what each thread does, see `Worker.stop`
    try:
        from streamjobs.job_files import core_from, read_job
        from streamjobs.maintenance.summary import States
        from streamjobs.process import exit_at_once_on_signals
        from streamjobs.worker.run import run
        from tests.brokers import fault_injection
        from tests.worker import hash_worker

        exit_at_once_on_signals()
        *words, job = request["start"]
        if words[0] == "hash":
            os._exit(hash_worker.main([*words[1:], job]))
        if words[0] == "inject":
            fault_injection.inject(words[1])
        composition = read_job(Path(job))
        flags = {name: f"--{name}" in words for name in ("once", "drain", "debug")}
        code = run(composition.settings, lambda: core_from(composition), make_states=States, **flags)
    except BaseException:  # noqa: BLE001 - a child must never go on in its parent's loop
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])

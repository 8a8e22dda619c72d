"""Worker processes under test: started, stopped, killed, frozen and woken, with their log and exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.brokers.fork_server import ForkedWorker, ForkServer
from tests.brokers.kafka_job import KafkaJob, until
from tests.compiling import one_at_a_time
from tests.exit_codes import ExitCode
from tests.running import with_bytecode

RUN = ("-m", "streamjobs", "run")
HASH = ("-m", "tests.worker.hash_worker")
CHECKOUT = Path(__file__).resolve().parents[2]


class Worker:
    """`python -m streamjobs run` for a job's job; every `name` has a state directory and a log of its own.

    env: further environment variables.  program: another program to run instead, with the job file as argument.
    fork_server: where it is forked, instead of started as a new Python process.
    """

    def __init__(
        self,
        job: KafkaJob,
        name: str = "a",
        *,
        program: Sequence[str] = RUN,
        fork_server: ForkServer | None = None,
        **env: str,
    ) -> None:
        self.job, self.name = job, name
        self.state = job.folder / f"{job.name}-{name}-state"
        self.log = job.folder / f"{job.name}-{name}.log"
        self.begins_at = self.log.stat().st_size if self.log.exists() else 0
        variables = {
            "STREAMJOBS_STATE__DIRECTORY": str(self.state),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            **env,
        }
        self.process: subprocess.Popen[bytes] | ForkedWorker
        if fork_server is not None:
            self.log.touch()
            words = (
                program[2:]
                if program[:3] == RUN
                else ("hash", *program[2:])
                if program[:2] == HASH
                else ("inject", program[-1])
            )
            self.process = fork_server.start((*words, str(job.path)), variables, self.log)
            return
        if program[:3] == RUN:
            with one_at_a_time():  # loops that another process compiles now are loaded afterwards
                pass
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, str(job.path)],
                cwd=CHECKOUT,
                env={**with_bytecode(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        """The log of this process."""
        with self.log.open("rb") as log:
            log.seek(self.begins_at)
            return log.read().decode(errors="replace")

    def events(self, event: str) -> list[dict[str, Any]]:
        """The log's lines about an event."""
        whole = [line for line in self.text().splitlines(keepends=True) if line.startswith("{") and line.endswith("}\n")]
        lines = map(json.loads, whole)
        return [line for line in lines if line.get("event") == event]

    def ready(self, within: float = 400.0) -> "Worker":
        """Wait until it has its partitions (a spare worker has none) and fetches."""

        def there() -> bool:
            self.assert_running()
            return bool(self.events("ready"))

        until(there, lambda: f"worker {self.name} ready:\n{self.text()[-2000:]}", within)
        return self

    def assert_running(self) -> None:
        code = self.process.poll()
        assert code is None, f"worker {self.name} ended with code {code}:\n{self.text()[-3000:]}"

    def stop(self, within: float = 90.0) -> ExitCode:
        """SIGTERM; gives the exit code. A worker that does not end is aborted, and shows what its threads do."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return ExitCode(self.process.wait(within), self.text())
        except subprocess.TimeoutExpired:
            tasks = [
                path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{self.pid}/task").glob("*/stat")
            ]
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(30)
            told = f"not ended {within} s after SIGTERM; its threads were {tasks}"
            raise AssertionError(f"worker {self.name}: {told}\n{self.text()[-9000:]}") from None

    def kill(self) -> ExitCode:
        """SIGKILL; gives the exit code, -9."""
        self.process.kill()
        return ExitCode(self.process.wait(), self.text())

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: self._state() == "T", f"worker {self.name} frozen")

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        return cpu_of(self.pid)

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def cpu_of(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_worker(job: KafkaJob, name: str = "a", **options: Any) -> Iterator[Worker]:
    """A worker that is ready; killed at the end where the test has not stopped it."""
    worker = Worker(job, name, **options)
    try:
        yield worker.ready()
    finally:
        worker.end()


def run_until_done(job: KafkaJob, name: str = "a", **options: Any) -> Worker:
    """A worker that has processed the whole input and was stopped in order."""
    with running_worker(job, name, **options) as worker:
        job.wait_until_done([worker])  # by its outputs
        again, applied = "applying records again", "records applied again"
        until(lambda: len(worker.events(applied)) >= len(worker.events(again)), "the states have all records", 120)
        assert worker.stop() == 0
    return worker


def wait_for_exit(worker: Worker, within: float = 300.0) -> tuple[ExitCode, list[str]]:
    """Wait until the worker has ended by itself: its exit code, and the lines it printed beside log events."""
    try:
        code = ExitCode(worker.process.wait(within), worker.text())
    finally:
        worker.end()
    return code, [line for line in worker.text().splitlines() if line and not line.startswith("{")]


def pause(seconds: float) -> None:
    time.sleep(seconds)

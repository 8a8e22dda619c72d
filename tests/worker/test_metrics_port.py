"""Whoever reaches the metrics port cannot take the worker's file descriptors."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from streamjobs.worker.health.server import RESERVE
from tests.worker.flood import LIMIT, flooded

JOB_FILES = 500
SERVER = f"""
import resource, sys, tempfile
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.health import Health
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
print(Server(MetricsSection(port=0), Health(Metrics("in", "okfeb"))).start(), flush=True)
files = []
for line in sys.stdin:
    try:
        while len(files) < int(line):
            files.append(tempfile.TemporaryFile())
    except OSError as problem:
        print(problem, flush=True)
    del files[int(line):]
    print(len(files), flush=True)
"""


class Process:
    """The server in a process whose `ulimit -n` is 1024, with files that a job holds open."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.port = int(self.line())

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def hold(self, files: int) -> str:
        """Open or close files until it holds so many; what it says."""
        assert self.process.stdin
        self.process.stdin.write(f"{files}\n")
        self.process.stdin.flush()
        return self.line()

    def metrics(self) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            page: bytes = answer.read()
        return page


@pytest.fixture
def server() -> Iterator[Process]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


def test_1200_connections_leave_the_job_its_files_and_others_their_metrics(server: Process) -> None:
    with flooded(server.port):
        assert b"streamjobs_build_info" in server.metrics()
        assert server.hold(JOB_FILES) == str(JOB_FILES)


def test_the_last_descriptors_are_the_jobs(server: Process) -> None:
    server.metrics()
    assert server.hold(LIMIT - RESERVE) == str(LIMIT - RESERVE)
    with pytest.raises(OSError):  # closed without an answer
        server.metrics()
    assert "metrics port refuses connections" in server.line()
    assert server.hold(LIMIT - RESERVE + 20) == str(LIMIT - RESERVE + 20)
    assert server.hold(0) == "0"
    assert b"streamjobs_build_info" in server.metrics()

"""Whoever reaches the metrics port cannot take the worker's file descriptors."""

import subprocess
import sys
import urllib.request

from tests.worker.flood import LIMIT, flooded

JOB_FILES = 500
SERVER = f"""
import resource, sys, tempfile
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.health import Health, Server
from streamjobs.worker.metrics import Metrics
print(Server(MetricsSection(port=0), Health(Metrics("in", "okfeb"))).start(), flush=True)
sys.stdin.readline()
files = []
try:
    while len(files) < {JOB_FILES}:
        files.append(tempfile.TemporaryFile())
except OSError as problem:
    print(problem, flush=True)
print(len(files), flush=True)
"""


def test_1200_connections_leave_the_job_its_files_and_others_their_metrics() -> None:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        try:
            port = int(server.stdout.readline())
            with flooded(port):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                    assert b"streamjobs_build_info" in answer.read()
                server.stdin.write("\n")
                server.stdin.flush()
                assert server.stdout.readline().strip() == str(JOB_FILES)
        finally:
            server.kill()

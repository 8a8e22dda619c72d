"""A worker's start leaves out what only a compilation or a traceback needs."""

import subprocess
import sys
from pathlib import Path

JOB = """
[job]
name = "wrist"
[broker]
url = "kafka://localhost:9092"
[source]
topic = "imu"
dim = 4
label = "label"
[learner]
name = "okfeb"
rank = 10
budget = 15
[head]
name = "rls"
[sinks]
features = ""
[state]
store = "memory"
"""
PROGRAM = """
import asyncio, ssl, sys
from pathlib import Path
from streamjobs.process import lean_imports
with lean_imports():
    from streamjobs.job_files import core_from, read_job
    from streamjobs.worker import app, run
from mode.utils import imports
imports.load_extension_class_names = None  # looking for plugins fails
core = core_from(read_job(Path(sys.argv[1])))
core.job.compile()
from streamjobs.worker.metrics import Metrics
async def build():
    app.build(core.job.settings, core, Metrics(), 4)
asyncio.run(build())
left_out = ["rich", "yaml", "cffi", "scipy.linalg", "numba.np.arraymath", "aiohttp", "aiohttp.client"]
loaded = [name for name in left_out if name in sys.modules]
import numba, rich, yaml, aiohttp.client
from streamjobs.schema_registry import lookup
assert lookup.aiohttp is aiohttp and aiohttp.ClientSession, "what uses aiohttp gets the whole of it"
assert numba.njit(lambda x: x.sum() + 1.0)(__import__("numpy").ones(3)) == 4.0, "a loop is compiled as usual"
known = [one.get_ca_certs() for one in (aiohttp.connector._SSL_CONTEXT_VERIFIED, ssl.create_default_context())]
assert known[0] == known[1], "aiohttp knows the certificates of the machine"
print(*loaded)
"""


def test_a_start_with_compiled_loops_imports_nothing_that_only_a_compilation_needs(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    for _ in range(2):  # the first may compile the loops
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "job.toml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        if not done.stdout.split():
            return
    assert done.stdout.split() == []


def test_a_command_without_a_registry_imports_no_http_client() -> None:
    program = "import sys, streamjobs.replay.first_rows; print(*{'aiohttp', 'structlog'} & {*sys.modules})"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == []

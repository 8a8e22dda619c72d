"""Loads the demo's job, and compiles its loops in two processes in parallel: from the first stage on and from the last.

`python -m streamjobs.demo.job first|last` is one of them, until they meet. The worker would compile one loop after the
other, which takes longer than the demo on the first run on a machine.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from algorithms.common.cache_folder import cache_root
from algorithms.common.compiled import loops_digest
from streamjobs.core.job import Job
from streamjobs.job_files import job_from, read_job

FILE = Path(__file__).parent / "job.toml"
HALVES = ("first", "last")  # where each begins; what the other has compiled is read from the cache
LOOK_EVERY = 0.125  # seconds


def demo_job(env: Mapping[str, str]) -> Job:
    return job_from(read_job(FILE, env), str(FILE))


def warm(job: Job, progress: Callable[[], None]) -> None:
    """Compile the job's loops unless the cache has them; calls `progress` while waiting.

    A half that fails is not an error: the worker compiles what is missing, and reports what is wrong.
    """
    folder = cache_root()
    if folder is None:
        return  # what is compiled here would not reach the worker
    mark = folder / f"demo-{job.fingerprint.hex()}-{loops_digest()}"
    if mark.exists():
        return
    halves: list[subprocess.Popen[bytes]] = []
    try:
        for half in HALVES:
            words = [sys.executable, "-m", __name__, half]
            quiet = subprocess.DEVNULL
            halves.append(subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True))
        while any(process.poll() is None for process in halves):
            progress()
            time.sleep(LOOK_EVERY)
    finally:
        for process in halves:
            if process.poll() is None:
                process.kill()
                process.wait()
    if not any(process.returncode for process in halves):
        mark.touch()


if __name__ == "__main__":
    job = demo_job({})
    names = list(job.stages) if sys.argv[1] == "first" else list(reversed(job.stages))
    job._replace(stages={name: job.stages[name] for name in names}).compile()

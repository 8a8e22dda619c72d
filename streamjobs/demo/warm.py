"""Compiles the demo's loops in two processes at once, the learner in one and the rest in the other.

`python -m streamjobs.demo.warm learner|rest` does one half. Without it the worker would compile them one after the
other, on a machine's first run for longer than the demo lasts.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba

from streamjobs.core.job import Job

HALVES = ("learner", "rest")
LOOK_EVERY = 0.125  # seconds


def warm(job: Job, progress: Callable[[], None]) -> None:
    """Fill the cache where this job has not been compiled before; `progress` is called while waiting.

    A half that fails is no error: the worker compiles what it misses, and says what is wrong.
    """
    mark = Path(numba.config.CACHE_DIR) / f"demo-{job.fingerprint.hex()}"
    if mark.exists():
        return
    halves = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, half],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for half in HALVES
    ]
    try:
        while any(half.poll() is None for half in halves):
            progress()
            time.sleep(LOOK_EVERY)
    finally:
        for half in halves:
            if half.poll() is None:
                half.kill()
                half.wait()
    if not any(half.returncode for half in halves):
        mark.touch()


def compile_half(job: Job, half: str) -> None:
    """Compile the loops of the learner, or of every other stage."""
    stages = {name: stage for name, stage in job.stages.items() if (name == "learner") == (half == "learner")}
    job._replace(stages=stages).compile()


if __name__ == "__main__":
    from streamjobs.demo.job import demo_job

    compile_half(demo_job({}), sys.argv[1])

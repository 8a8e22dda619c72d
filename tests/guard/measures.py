"""The counts, each taken in a process of its own: python -m tests.guard.measures MEASURE [PLANTED]; prints JSON.

records  for each job, a record: page faults, calls of Python and C functions, objects that its output and the undo log hold
small    for the full job, a batch of 2 records: calls of Python and C functions
loops    for the full job, a record: calls of functions of `algorithms` while its loops are interpreted, not compiled
check    modules that `check` has imported
worker   modules that a worker has imported before the first record
"""

import contextlib
import ctypes
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
NUMBERS = Path(__file__).with_name("numbers.json")
PYTHON = "{}.{}".format(*sys.version_info[:2])  # versions of Python differ in what is a call
GROWTH = 0.03  # part by which a count may be above its number
# Page faults also depend on the kernel and on where blocks come to lie: fractions of one a record are no loss of speed.
FREE_FAULTS = {"simple": 0.1, "full": 0.1, "frames": 3.0}
FETCHES = 12
THP_DISABLE = 41  # of prctl(2)
SMALL = 2  # records of a small batch
LOOP_RECORDS = 400  # interpreted loops take milliseconds a record
JOB = """
[job]
name = "guard"
[source]
topic = "in"
fields = ["a", "b"]
label = "label"
[learner]
name = "okfeb"
[head]
name = "rls"
max_classes = 2
"""


def limit(name: str, number: float) -> float:
    """The highest count that passes."""
    job, _, what = name.partition(" ")
    return number * (1 + GROWTH) + (FREE_FAULTS[job] if what == "page faults" else 0.0)


def measured(measure: str, planted: str = "") -> dict[str, float]:
    """The counts of one measure, by name. planted: a cause of lost speed to put back, see PLANTED."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    clean |= {"PYTHONHASHSEED": "0"} | ({"NUMBA_DISABLE_JIT": "1"} if measure == "loops" else {})
    command = [sys.executable, "-m", "tests.guard.measures", measure, planted]
    done = subprocess.run(command, cwd=CHECKOUT, env=clean, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"measure {measure!r} ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    counts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return counts


def _records() -> dict[str, float]:
    from streamjobs import process
    from tests.guard.pipeline import NAMES

    process.load_lapack()
    process.return_large_arrays()
    ctypes.CDLL(None).prctl(THP_DISABLE, 1, 0, 0, 0)  # huge pages differ from machine to machine
    gc.disable()
    return {f"{job} {name}": value for job in NAMES for name, value in _of_job(job).items()}


def _of_job(job: str) -> dict[str, float]:
    import resource

    from tests.guard.pipeline import started

    pipeline, data = started(job)
    fetched = list(islice(data, FETCHES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    count = sum(pipeline.take(one) for one in fetched)
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count
    first, second = islice(data, 2)
    calls, count = _counted_calls(lambda: pipeline.take(first))
    before, outputs = sys.getallocatedblocks(), pipeline.apply(second)
    objects = (sys.getallocatedblocks() - before) / pipeline.count
    del outputs
    return {"page faults": faults, "calls": calls / count, "objects": objects}


def _small() -> dict[str, float]:
    from tests.guard.pipeline import started

    pipeline, data = started("full", LOOP_RECORDS, checkpoints=False)
    pipeline.slice = SMALL
    (one,) = islice(data, 1)
    calls, count = _counted_calls(lambda: pipeline.take(one))
    return {"full calls of a small batch": calls / count * SMALL}


def _counted_calls(run: Callable[[], int], only: str = "") -> tuple[int, int]:
    """Calls of functions while it runs, and what it gives. only: calls of Python functions of files in this folder."""
    calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        if event == "call" or (event == "c_call" and not only):
            calls += not only or frame.f_code.co_filename.startswith(only)

    sys.setprofile(count)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return calls, result


def _loops() -> dict[str, float]:
    from tests.guard.pipeline import started

    pipeline, data = started("full", LOOP_RECORDS, checkpoints=False)  # what snapshots call reads memory: never interpreted
    (one,) = islice(data, 1)
    calls, count = _counted_calls(lambda: pipeline.take(one), str(CHECKOUT / "algorithms"))
    return {"full calls of interpreted loops": calls / count}


def _check() -> dict[str, float]:
    from streamjobs.cli import run

    with _job_file() as path, contextlib.redirect_stdout(io.StringIO()):
        assert run(["check", str(path)]) == 0
    return _modules("check")


def _worker() -> dict[str, float]:
    import streamjobs.cli  # noqa: F401 - a worker begins with it
    from streamjobs.process import lean_imports

    with lean_imports():
        from streamjobs.job_files import core_from, read_job
        from streamjobs.maintenance import summary  # noqa: F401 - these are what a worker imports
        from streamjobs.worker import app, run  # noqa: F401

    with _job_file() as path:
        core_from(read_job(path)).job.compile()
    return _modules("worker")


@contextlib.contextmanager
def _job_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_text(JOB)
        yield path


def _modules(command: str) -> dict[str, float]:
    """Modules imported so far: those of the project, and packages that are neither its own nor Python's."""
    ours = [name for name in sys.modules if name.partition(".")[0] in ("algorithms", "streamjobs")]
    tops = {name.partition(".")[0] for name, module in sys.modules.items() if getattr(module, "__file__", None)}
    others = {name for name in tops - sys.stdlib_module_names if not name.startswith("_")}
    return {f"{command} modules": len(ours), f"{command} packages": len(others - {"algorithms", "streamjobs", "tests"})}


def _plant_malloc() -> None:
    """Set glibc's threshold of large arrays alone, which keeps its trim threshold at 128 KiB."""
    from streamjobs import process

    def alone() -> None:
        ctypes.CDLL(None).mallopt(process.M_MMAP_THRESHOLD, process.LARGE)

    process.return_large_arrays = alone


def _plant_order() -> None:
    """Give every learner its rows in record order."""
    from streamjobs.stages import learner

    learner.key_order = lambda slots: None


def _plant_imports() -> None:
    """Import every learner."""
    from algorithms import LEARNERS

    assert list(LEARNERS.values())


MEASURES: dict[str, Callable[[], dict[str, float]]] = {
    "records": _records,
    "small": _small,
    "loops": _loops,
    "check": _check,
    "worker": _worker,
}
PLANTED: dict[str, tuple[str, Callable[[], None]]] = {  # cause -> the measure that notices it
    "malloc": ("records", _plant_malloc),
    "order": ("loops", _plant_order),
    "imports": ("check", _plant_imports),
}


if __name__ == "__main__":
    if sys.argv[2]:
        PLANTED[sys.argv[2]][1]()
    print(json.dumps(MEASURES[sys.argv[1]]()))

"""Settings of the whole process: threads, signals, LAPACK. Nothing heavy is imported here, so call these functions first."""

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import types
from collections.abc import Sequence

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
M_MMAP_THRESHOLD = -3  # of mallopt(3)
LARGE = 1 << 20  # bytes
INTERRUPTED = 130  # exit code
LINALG, LAPACK_MODULES = "scipy.linalg", ("cython_blas", "cython_lapack")


def use_one_thread() -> None:
    """Use one BLAS thread, which the same bits everywhere depend on. Call it before the first import of numpy."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"


def return_large_arrays() -> None:
    """Have glibc give large arrays back to the system when they are freed; other C libraries do as they do.

    By itself it keeps blocks of up to 32 MB for reuse once some have been freed. States of many keys are such arrays: they
    are replaced whenever more keys come, and freed when partitions leave.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a worker to stop: SIGTERM, Ctrl-C, and SIGHUP unless it is ignored, as under nohup."""
    heeded = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if heeded else [])]


def exit_at_once_on_signals() -> None:
    """Let the stop signals end the process at once with code 0, even during imports: there is nothing to save yet.

    A worker's event loop replaces these handlers when it runs.
    """
    for number in stop_signals():
        signal.signal(number, lambda *_: os._exit(0))


def take_signals_early(words: Sequence[str]) -> None:
    """For a command that is about to be imported: `run` and `rekey` end with code 0 on a stop signal, others with 130.

    What an import leaves half done at an interrupt prints tracebacks. words: the command line, without the program.
    """
    command = next((word for word in words if not word.startswith("-")), "")
    if command in ("run", "rekey"):
        exit_at_once_on_signals()
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as of a job in the background
        signal.signal(signal.SIGINT, _interrupted)


def interrupt_as_usual() -> None:
    """Ctrl-C raises KeyboardInterrupt again, after `take_signals_early`."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(*_: object) -> None:
    os._exit(INTERRUPTED)


def load_lapack() -> None:
    """Load LAPACK for compiled loops without the rest of `scipy.linalg`. Call it before a loop is compiled or loaded.

    numba takes the addresses of LAPACK's routines from two extension modules of SciPy. Importing their package would
    import most of SciPy and NumPy's build tools, which costs 0.1 s at every start. A later `import scipy.linalg` works as
    usual.
    """
    from pathlib import Path

    import scipy

    if LINALG in sys.modules:
        return
    bare = types.ModuleType(LINALG)
    bare.__path__ = [str(Path(scipy.__file__).parent / "linalg")]
    sys.modules[LINALG] = bare
    try:
        for name in LAPACK_MODULES:
            importlib.import_module(f"{LINALG}.{name}")
    finally:
        del sys.modules[LINALG]
        vars(scipy).pop("linalg", None)

"""Settings of the whole process: threads, signals, LAPACK. Nothing heavy is imported here, so call these functions first."""

import importlib
import os
import signal
import sys
import types
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
LINALG, LAPACK_MODULES = "scipy.linalg", ("cython_blas", "cython_lapack")


def use_one_thread() -> None:
    """Use one BLAS thread, which the same bits everywhere depend on. Call it before the first import of numpy."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"


def exit_at_once_on_signals() -> None:
    """Let SIGTERM and Ctrl-C end the process at once with code 0, even during imports: there is nothing to save yet.

    A worker's event loop replaces these handlers when it runs.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


def load_lapack() -> None:
    """Load LAPACK for compiled loops without the rest of `scipy.linalg`. Call it before a loop is compiled or loaded.

    numba takes the addresses of LAPACK's routines from two extension modules of SciPy. Importing their package would
    import most of SciPy and NumPy's build tools, which costs 0.1 s at every start. A later `import scipy.linalg` works as
    usual.
    """
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

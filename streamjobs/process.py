"""What a process does before it imports anything heavy; nothing heavy is imported here.

`load` gives compiled loops LAPACK without the whole of `scipy.linalg`: numba takes the addresses of LAPACK's routines
from two extension modules of SciPy, whose package imports most of SciPy and of NumPy's build tools besides (0.1 s of
every start), none of which is used here. Who imports `scipy.linalg` afterwards gets all of it as ever.
"""

import importlib
import os
import signal
import sys
import types
from pathlib import Path

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def one_thread() -> None:
    """One BLAS thread: the same bits everywhere need it. Call it before the first import of numpy."""
    for variable in VARIABLES:
        os.environ[variable] = "1"


def nothing_to_save() -> None:
    """Until a worker's loop takes the signals over, SIGTERM and Ctrl-C end it at once with code 0, also while importing."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


_PACKAGE, _MODULES = "scipy.linalg", ("cython_blas", "cython_lapack")


def load_lapack() -> None:
    """Call it before the first loop is compiled or loaded."""
    import scipy

    if _PACKAGE in sys.modules:
        return
    bare = types.ModuleType(_PACKAGE)
    bare.__path__ = [str(Path(scipy.__file__).parent / "linalg")]
    sys.modules[_PACKAGE] = bare
    try:
        for name in _MODULES:
            importlib.import_module(f"{_PACKAGE}.{name}")
    finally:
        del sys.modules[_PACKAGE]
        vars(scipy).pop("linalg", None)

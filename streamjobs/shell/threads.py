"""One BLAS thread per process, set in the environment before numpy loads (the same bits everywhere need it)."""

import os

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
    """Call it before the first import of numpy; several workers on a machine are several processes."""
    for variable in VARIABLES:
        os.environ[variable] = "1"

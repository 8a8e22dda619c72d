"""What a process does before it imports anything heavy; imports nothing itself."""

import os
import signal

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

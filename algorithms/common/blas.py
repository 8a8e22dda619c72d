"""One BLAS thread while a learner computes: with several, sums are split differently, and the last bits differ.

Loops reach SciPy's BLAS, NumPy's products NumPy's own; both are asked by name in the libraries that the packages load.
Known names are those of OpenBLAS, which the packages of SciPy and NumPy on PyPI bring. Another BLAS is left as it is: set
its environment variable (such as MKL_NUM_THREADS) before NumPy is imported, as the `streamjobs` command does.
"""

import ctypes
import functools
import threading
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

EXTENSIONS = ("scipy.linalg/cython_lapack", "numpy._core/_multiarray_umath")  # the modules that call a BLAS
PREFIXES, SUFFIXES = ("scipy_openblas", "openblas"), ("", "64_")  # as OpenBLAS is built for SciPy, NumPy, and others

Threads = tuple[Callable[[], int], Callable[[int], Any]]  # get and set the number of threads


@functools.cache
def _libraries() -> tuple[Threads, ...]:
    found = []
    for extension in EXTENSIONS:
        package, _, name = extension.partition("/")
        spec = find_spec(package.partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for suffix in EXTENSION_SUFFIXES:
                path = Path(folder).joinpath(*package.split(".")[1:], name + suffix)
                if path.is_file():
                    found.append(_threads_of(ctypes.CDLL(str(path))))  # a name is looked up in what it is linked to, too
    return tuple(one for one in found if one is not None)


def _threads_of(library: ctypes.CDLL) -> Threads | None:
    for prefix in PREFIXES:
        for suffix in SUFFIXES:
            get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            put = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                put.argtypes, put.restype = [ctypes.c_int], None
                return get, put
    return None


class _OneThread:
    """`with ONE_THREAD:` - also in several threads at once: the last one out restores what the first one found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Callable[[int], Any], int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                for get, put in _libraries():
                    threads = get()
                    if threads != 1:
                        put(1)
                        self._before.append((put, threads))
            self._inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before:
                for put, threads in self._before:
                    put(threads)
                self._before.clear()


ONE_THREAD = _OneThread()

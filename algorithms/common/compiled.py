"""The one way compiled loops are made: numba without fast-math, cached on disk, free of the interpreter lock.

The cache folder is named by the sources of `algorithms/common` and the `common*.py` beside learners: numba notices a
change of a loop's own file but not of a helper in another file, and a stale helper would be a silent wrong result.
`STREAMJOBS_CACHE` moves the folder (the package's own folder is often read-only).
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def _cache_folder() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    here = Path(__file__).parent
    for source in sorted([*here.glob("*.py"), *here.parent.glob("*/common*.py")]):
        digest.update(source.read_bytes())
    root = os.environ.get("STREAMJOBS_CACHE") or Path.home() / ".cache" / "streamjobs"
    return str(Path(root) / "compiled" / digest.hexdigest())


numba.config.CACHE_DIR = _cache_folder()


def compiled(loop: Loop) -> Loop:
    """Compile a loop of plain scalar statements; division by zero gives inf or NaN as in C, never an exception."""
    # Imported as a file (python -m doctest okfeb.py) a module has another name, and what it would leave in the cache
    # names a module that nobody else can import.
    cache = "." in loop.__module__
    return numba.njit(cache=cache, nogil=True, fastmath=False, error_model="numpy")(loop)  # type: ignore[no-any-return]

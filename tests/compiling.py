"""Loops are compiled by one process at a time: the others wait, and then load them from the cache."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from algorithms.common.cache_folder import cache_root


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """On a fresh machine two processes would compile the same loops at once: 80 s of processor each."""
    folder = cache_root()
    if folder is None:
        yield
        return
    with (folder / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

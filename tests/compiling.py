"""Loops are compiled by one process at a time: the others wait, and then load them from the cache."""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

_turns: list[TextIO] = []  # of this process: with the lock, where it has it


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """On a fresh machine two processes would compile the same loops at once: 80 s of processor each."""
    from algorithms.common.cache_folder import cache_root  # not at the start of every part

    folder = cache_root()
    if folder is None or _turns:
        yield
        return
    with (folder / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _turns.append(lock)
        try:
            yield
        finally:
            _turns.remove(lock)


def pytest_collection_finish() -> None:
    """Of parts that run beside each other, the first that calls a loop compiles it."""
    if loops := sys.modules.get("algorithms.common.compiled"):
        compile_in_turns(loops.LoopCache)


def compile_in_turns(cache: Any) -> None:
    """A turn begins with the first loop that is not on disk, and ends with the outermost loop that is compiled."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    load, compile_loop = cache.load_overload, Dispatcher.compile
    turn, depth = ExitStack(), 0

    def load_or_begin_turn(self: Any, *of: Any) -> Any:
        found = load(self, *of)
        if found is None and not _turns:
            turn.enter_context(one_at_a_time())
            found = load(self, *of)  # another process may have compiled it meanwhile
        return found

    def compile_to_end_of_turn(self: Any, sig: Any) -> Any:
        nonlocal depth
        with global_compiler_lock:
            depth += 1
            try:
                return compile_loop(self, sig)
            finally:
                depth -= 1
                if not depth:
                    turn.close()

    cache.load_overload, Dispatcher.compile = load_or_begin_turn, compile_to_end_of_turn

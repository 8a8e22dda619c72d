"""Settings of the whole process: threads, signals, LAPACK. Nothing heavy is imported here, so call these functions first."""

import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import os
import resource
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8  # of mallopt(3)
# A fetch of 4 MB passes three buffers of that size. Below their size glibc maps each of them again: a record of 400 bytes
# has .3 page faults, a tenth of its processor time where no learner runs. glibc takes no larger threshold.
LARGE = 32 << 20  # bytes
# A batch of frames and its outputs take up to 80 MB of the heap. Below 128 and 64 MB a frame of 100 samples has 15 page
# faults instead of 3. Larger values save none.
HEAP_KEPT, HEAP_STEP = 128 << 20, 64 << 20  # bytes
INTERRUPTED = 130  # exit code
ENDED_AFTER = 55  # seconds after a stop signal; also the number of a signal that nothing else uses
LINALG, LAPACK_MODULES = "scipy.linalg", ("cython_blas", "cython_lapack")
OURS = ("algorithms", "streamjobs")


def use_one_thread() -> None:
    """Use one BLAS thread, which the same bits everywhere depend on. Call it before the first import of numpy."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"


def collect_rarely() -> None:
    """Look for unreachable cycles after many new objects: a batch is thousands of tuples, and none is part of a cycle."""
    gc.set_threshold(50_000, 20, 50)


def return_large_arrays() -> None:
    """Make glibc return large arrays to the system when they are freed, and keep the heap for reuse.

    States of many keys are such arrays: a worker replaces them when more keys come, and frees them when partitions leave.
    What it frees below the threshold stays in the heap until `return_free_memory`. By default glibc moves both thresholds
    with the sizes that were freed; a fixed threshold of large arrays alone would fix the trim threshold at 128 KB, and the
    heap of every batch would be returned and faulted in again. All threads share one heap, because each heap keeps free
    pages of its own. Other C libraries keep their defaults.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, HEAP_KEPT)
        libc.mallopt(M_TOP_PAD, HEAP_STEP)
        libc.mallopt(M_ARENA_MAX, 1)


def return_free_memory() -> None:
    """Make glibc return the free pages of its heap to the system; takes milliseconds."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def use_all_descriptors() -> None:
    """Raise the soft limit of open files, usually 1,024, to the hard one. 200 partitions have 2,200 open files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a worker to stop: SIGTERM, Ctrl-C, and SIGHUP unless it is ignored, as under nohup."""
    heeded = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if heeded else [])]


def exit_at_once_on_signals() -> None:
    """Let the stop signals end the process at once with code 0, even during imports: there is nothing to save yet.

    A worker replaces these handlers when it runs.
    """
    for number in stop_signals():
        signal.signal(number, lambda *_: os._exit(0))
    _end_hard_after_signals()


def _end_hard_after_signals() -> None:
    """Let the kernel end the process by SIGALRM, ENDED_AFTER seconds after a stop signal, whatever its threads do.

    Python's handlers and timers wait for the interpreter's lock, which a compiled loop or a library may hold for ever. The
    handler in C of each signal that Python handles writes to the wakeup pipe without it. The kernel reports that by signal
    ENDED_AFTER, which calls the C library's `alarm` with its own number as the seconds. Other systems than Linux lack this.
    """
    if sys.platform == "linux":
        reading, writing = _pipe(os.getpid())
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        libc = ctypes.CDLL(None)
        libc.signal(ENDED_AFTER, libc.alarm)
        fcntl.fcntl(reading, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(reading, fcntl.F_SETSIG, ENDED_AFTER)
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)


@functools.cache
def _pipe(_process: int) -> tuple[int, int]:
    """One for each process: a child that shares its parent's would end the parent."""
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


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


def load_loops_alone() -> None:
    """Let our loops be loaded without numba's implementations of Python and NumPy, which take 0.13 s to import.

    Only a compilation needs them, and it imports them itself. Loops of other packages are loaded as usual, because the
    machine code of a dict or a set refers to these modules.
    """
    from numba.core import caching
    from numba.core.runtime import rtsys

    usual = caching.Cache.load_overload

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        if self._py_func.__module__.partition(".")[0] not in OURS:
            return usual(self, sig, target_context)
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    if usual.__name__ != load_overload.__name__ or usual.__module__ != __name__:
        caching.Cache.load_overload = load_overload


@contextlib.contextmanager
def lean_imports() -> Iterator[None]:
    """Import a worker's libraries without what a worker does not use of theirs.

    rich is structlog's, for colours of tracebacks; yaml is numba's, for a file of its settings. Faust needs aiohttp to name
    a type: the import takes 0.15 s, two thirds of it for reading the machine's certificates. What uses aiohttp imports it
    later: call this before there is another thread.
    """
    client = types.ModuleType("aiohttp.client")
    client.ClientSession = object  # type: ignore[attr-defined]
    stand_ins = {} if "aiohttp" in sys.modules else {"aiohttp": types.ModuleType("aiohttp"), "aiohttp.client": client}
    with without_modules("rich", "yaml", **stand_ins):
        yield


@contextlib.contextmanager
def without_modules(*names: str, **stand_ins: types.ModuleType) -> Iterator[None]:
    """Let imports of these modules fail, and give stand-ins in place of others. Other threads meet the same."""
    bare = {**dict.fromkeys(names), **stand_ins}
    known = {name: sys.modules[name] for name in bare if name in sys.modules}
    sys.modules.update(bare)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in bare:
            del sys.modules[name]
        sys.modules.update(known)

"""The folder of a job's local stores: private to its user, and held by one worker."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.settings.sections import Settings

PRIVATE = 0o700  # states say much about whom they are of
HOLDER = "WORKER"  # file that the worker locks; it names the process


def state_folder(settings: Settings) -> Path:
    """The folder of the job's local stores, which this user alone may read. Raises SetupError where it cannot be created."""
    folder = Path(settings.state.directory).absolute() / settings.job.name
    try:
        if not folder.parent.exists():
            folder.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        folder.mkdir(PRIVATE, exist_ok=True)
        with suppress(PermissionError):  # of another owner, who has let this user write to it
            folder.chmod(PRIVATE)  # earlier releases left it to the umask
    except OSError as error:
        raise _unusable(folder, "created", error) from None
    return folder


def holder_of(settings: Settings) -> tuple[int, int] | None:
    """Device and inode of the folder's HOLDER; None if it has none. Raises OSError."""
    with suppress(FileNotFoundError):
        found = os.stat(Path(settings.state.directory).absolute() / settings.job.name / HOLDER)
        return found.st_dev, found.st_ino
    return None


def _unusable(folder: Path, what: str, error: OSError) -> SetupError:
    return SetupError(
        f"[state] directory: {folder} cannot be {what} ({error.strerror}); set it to a folder that can be written, on "
        "a disk with free space."
    )


@contextmanager
def lock_folder(settings: Settings) -> Iterator[None]:
    """Hold the job's folder, so that no second worker uses it; the lock of a process that died does not count.

    Raises SetupError where another worker holds it, or it cannot be created.
    """
    if settings.state.store == "memory":
        yield
        return
    folder = state_folder(settings)
    try:
        file = open(os.open(folder / HOLDER, os.O_RDWR | os.O_CREAT, 0o600), "r+")  # noqa: SIM115 - closed below
    except OSError as error:
        raise _unusable(folder, "written", error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(
                f"[state] directory: {folder} is in use by another worker of this job "
                f"({file.read(200).strip() or 'unknown'}); "
                "stop it, or give this worker a directory of its own: STREAMJOBS_STATE__DIRECTORY=state2."
            ) from None
        except OSError:  # a file system without locks: RocksDB may still refuse
            pass
        try:
            os.truncate(file.fileno(), 0)
            os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            raise _unusable(folder, "written", error) from None
        yield

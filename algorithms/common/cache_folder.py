"""The folder of compiled loops. It belongs to this user alone, because numba unpickles what it finds there.

It is `loops` in $STREAMJOBS_CACHE or ~/.cache/streamjobs. Where that cannot be used (a container with a user without a home,
a read-only disk, a folder of another user), loops are kept in a private folder below the system's temporary folder, and a
warning is printed.
"""

import functools
import os
import stat
import tempfile
import warnings
from pathlib import Path

SETTING = "STREAMJOBS_CACHE"
PRIVATE = 0o700


class CacheWarning(UserWarning):
    """Compiled loops are not kept where they should be; the next start may compile them again."""


def cache_root() -> Path | None:
    """The folder in which every loop has its own; None where loops cannot be kept at all."""
    return _chosen(os.environ.get(SETTING, ""))


@functools.cache
def _chosen(setting: str) -> Path | None:
    try:
        wanted = (Path(setting) if setting else Path.home() / ".cache" / "streamjobs") / "loops"
        problem = unusable(wanted)
    except RuntimeError:  # this user has no home
        wanted, problem = Path("~/.cache/streamjobs"), "this user has no home folder"
    if not problem:
        return wanted
    found = _temporary()
    where = f"kept in {found}" if found else "not kept"
    warnings.warn(
        f"compiled loops are {where}, because {wanted} cannot be used ({problem}); "
        f"set {SETTING} to a folder that only this user can write to, and that outlives the process.",
        CacheWarning,
        stacklevel=2,
    )
    return found


def unusable(folder: Path) -> str:
    """Why loops cannot be kept in this folder, which is created where it is missing; '' if they can.

    Others may not have written to it: what they left there would run as this user.
    """
    try:
        folder.mkdir(PRIVATE, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return "it is a link"
        if found.st_uid != os.geteuid():
            return f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write to it, its mode is {stat.S_IMODE(found.st_mode):04o}"
        if stat.S_IMODE(found.st_mode) != PRIVATE:
            folder.chmod(PRIVATE)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def _temporary() -> Path | None:
    """The same folder at each start, so that loops are compiled once; one of this process if the name is taken."""
    try:
        usual = Path(tempfile.gettempdir()) / f"streamjobs-{os.geteuid()}" / "loops"
        if not unusable(usual.parent) and not unusable(usual):
            return usual
        return Path(tempfile.mkdtemp(prefix="streamjobs-"))
    except OSError:
        return None

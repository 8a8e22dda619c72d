"""Live states of a job that serve one input after the other: making the arrays of all stages takes longer than the input."""

from collections.abc import Iterator
from contextlib import contextmanager

from streamjobs.core.job import Job
from streamjobs.core.state.live import Live


class Lives:
    """By job's fingerprint. What an input raised in is not used again; what one left in the arrays, the next ones find."""

    def __init__(self) -> None:
        self._free: dict[bytes, Live] = {}

    @contextmanager
    def of(self, job: Job, stored: bytes | None, key: bytes = b"p0") -> Iterator[Live]:
        """No key is live; the stored state of `key` is this one, and others have none."""
        live = self._free.pop(job.fingerprint, None) or Live(job, lambda key: None)
        live.job, live.read = job, lambda one: stored if one == key else None
        yield live
        live.snapshots()
        for one in list(live.slot_of):
            live.forget(one)
        self._free[job.fingerprint] = live

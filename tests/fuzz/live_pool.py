"""Live states that serve one input after another: allocating the arrays of all stages takes longer than an input."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Advanced, Record
from tests.fuzz.case import must


class LivePool:
    """By the job's fingerprint. A live state in which an input raised is dropped; else the next input finds what it left."""

    def __init__(self) -> None:
        self._free: dict[bytes, Live] = {}

    @contextmanager
    def of(self, job: Job, stored: bytes | None, key: bytes = b"p0") -> Iterator[Live]:
        """A live state without keys; `stored` is the stored state of `key`, other keys have none."""
        live = self._free.pop(job.fingerprint, None) or Live(job, lambda key: None)
        live.job, live.read = job, lambda one: stored if one == key else None
        yield live
        live.snapshots()
        for one in list(live.slot_of):
            live.forget(one)
        self._free[job.fingerprint] = live


def applied(job: Job, live: Live, records: Sequence[Record]) -> Advanced:
    """`advance`; a record for which a stage raises is a finding here, where a worker makes it a dead letter."""
    made = advance(job, live, records)
    for one in made.report.failures:
        must(False, f"{one.error} of '{one.stage}' at {one.place}")
    return made

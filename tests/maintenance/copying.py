"""Copies of the states of the small job, made without Kafka."""

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.maintenance.copies import Copy, Entry
from tests.core.streams import TOPIC, Worker

WRITTEN = 1_700_000_500_000


def copy_of(job: Job, store: dict[bytes, bytes], offset: int = 0) -> Copy:
    """offset: in the changelog, of the first key."""
    entries = {
        (0, key): Entry(0, key, data, offset + at, WRITTEN + at) for at, (key, data) in enumerate(sorted(store.items()))
    }
    topic = f"{job.settings.job.name}-state-changelog"
    return Copy(job.settings.job.name, topic, job.fingerprint.hex(), WRITTEN, {0: offset + len(store)}, entries)


def stored(job: Job, records: list[Stored], store: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    """What a worker's store holds after these records."""
    worker = Worker(job, dict(store or {}))
    worker.apply(records)
    worker.checkpoint()
    return worker.store


def at(offset: int) -> dict[tuple[str, int], int]:
    return {(TOPIC, 0): offset}

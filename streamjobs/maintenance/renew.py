"""Makes a key's new snapshot: reset, with a new reference, started from an exported model, or restored; and exports models.

Last applied offsets never go back, so a key learns nothing twice. The exception is `without_offsets`, for an input that
was recreated.
"""

from collections.abc import Mapping

from streamjobs.core.job import Job
from streamjobs.core.live.stored import starting_from
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import decode_entry

NOTHING: Mapping[int, int] = {}


def offsets_of(entry: Entry | None) -> Offsets | None:
    """Last applied offsets, also of another job's snapshot; {} without an entry, None if its bytes are damaged."""
    if entry is None:
        return {}
    try:
        return snapshot.decode(entry.data).offsets
    except SnapshotError:
        return None


def reset_snapshot(job: Job, entry: Entry) -> bytes | None:
    """A new key's state with the entry's offsets; None, a tombstone, if they cannot be read."""
    offsets = offsets_of(entry)
    return None if offsets is None else job.encode(job.init(entry.key), job.names(), offsets)


def relearned_snapshot(job: Job, entry: Entry) -> bytes:
    """The entry's state with drift stages that begin, so that the rows to come are normal. Raises SnapshotError.

    The state may be one of another [drift]. The rest stays to the last bit. An open alarm stays in the state: the key's next
    row ends it, as learned anew.
    """
    states, names, offsets = decode_entry(job, entry, drift_anew=True)
    begun = job.normal_of(job.fresh(job.seed_of(entry.key)))
    return job.encode(states | begun, names, offsets)


def without_offsets(data: bytes) -> bytes | None:
    """The same state without offsets, to go on with another input's records; None if it is damaged."""
    try:
        return snapshot.encode(snapshot.decode(data)._replace(offsets={}))
    except SnapshotError:
        return None


def exported_model(job: Job, entry: Entry) -> bytes:
    """The model alone, as [state] start_from reads it: no offsets, and a new signal. Raises SnapshotError."""
    states, names, _ = decode_entry(job, entry)
    return job.encode_model(states, names)


def snapshot_from_model(job: Job, model: bytes, key: bytes, present: Entry | None) -> bytes:
    """A new key's state that starts from an exported model, with the present offsets. Raises SnapshotError."""
    started = starting_from(job, model)
    return job.encode(started.init(key), started.names(), offsets_of(present) or {})


def restored_snapshot(
    job: Job,
    saved: Entry,
    key: bytes,
    present: Entry | None,
    partition: int | None = None,
    foreign: Mapping[int, int] = NOTHING,
) -> bytes:
    """A saved state to the last bit, except for offsets: the present ones are kept where they are higher.

    partition: of the job's input, where the state goes: offsets of any other are left out; None: where it was saved.
    foreign: partition -> a saved offset from this one on is of another topic: no record of the present one may be skipped
    for it, see `changelog_edit.foreign_offsets`.
    Raises SnapshotError.
    """
    decode_entry(job, saved)  # refuses what is damaged or another job's
    saved_state, source = snapshot.decode(saved.data), job.settings.source.topic
    applied = offsets_of(present) or {}
    offsets = {place: max(offset, applied.get(place, -1)) for place, offset in saved_state.offsets.items()}
    if partition is not None:
        offsets = {place: offset for place, offset in offsets.items() if place == (source, partition)}
    for number, bound in foreign.items():
        if saved_state.offsets.get((source, number), -1) >= bound:
            offsets.pop((source, number), None)
    if saved.key != key:
        offsets = {}  # what another key has applied does not matter here
    return snapshot.encode(saved_state._replace(offsets=applied | offsets))

"""A key's snapshot made new: begun anew, begun from an exported model, put back from a copy; and a model taken out.

The last applied offsets stay what they were, or grow: whatever a key has seen, it never learns twice. (But where the
input is another one: `unplaced`.)
"""

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import opened


def offsets_of(entry: Entry | None) -> Offsets | None:
    """Last applied offsets, also of another job's snapshot; none without one, None where the bytes are damaged."""
    if entry is None:
        return {}
    try:
        return snapshot.decode(entry.data).offsets
    except SnapshotError:
        return None


def emptied(job: Job, entry: Entry) -> bytes | None:
    """The state of a new key that knows what it has seen; None, a tombstone, where the offsets cannot be read."""
    offsets = offsets_of(entry)
    return None if offsets is None else job.encode(job.init(entry.key), job.names(), offsets)


def unplaced(entry: Entry) -> bytes | None:
    """The same state without its place in the input: it goes on with another one's records; None where it is damaged."""
    try:
        return snapshot.encode(snapshot.decode(entry.data)._replace(offsets={}))
    except SnapshotError:
        return None


def exported(job: Job, entry: Entry) -> bytes:
    """The model alone, as [state] start_from reads it: no offsets, and a signal that begins anew. Raises SnapshotError."""
    states, names, _ = opened(job, entry)
    return job.encode_model(states, names)


def begun(job: Job, model: bytes, key: bytes, present: Entry | None) -> bytes:
    """The state of a new key that begins from an exported model. Raises SnapshotError."""
    started = job.starting_from(model)
    return job.encode(started.init(key), started.names(), offsets_of(present) or {})


def put_back(job: Job, saved: Entry, key: bytes, present: Entry | None) -> bytes:
    """A saved state to the last bit, but for the offsets: they do not go back behind the present one's.

    Raises SnapshotError.
    """
    opened(job, saved)
    held = snapshot.decode(saved.data)
    further = offsets_of(present) or {}
    offsets = {place: max(offset, further.get(place, -1)) for place, offset in held.offsets.items()}
    if saved.key != key:
        offsets = {}  # what another key has seen says nothing
    return snapshot.encode(held._replace(offsets=further | offsets))

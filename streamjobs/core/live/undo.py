"""How live states return to the states before a record on which a stage failed.

A stage that raises leaves its arrays half changed. Copies of the states before each batch would cost up to as much as the
batch. Therefore nothing is copied while no stage fails. A state is restored from its last stored snapshot, by applying the
records since then (`log`) again, which gives the same bits. While a failure is recent, `keep` takes copies, as snapshots.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from streamjobs.core.live.live import POOLED, Live
from streamjobs.core.live.log import Model
from streamjobs.core.live.slots import shared
from streamjobs.core.messages import Record


class Kept(NamedTuple):
    """States to which some keys can return."""

    snapshots: dict[bytes, bytes | None]  # None: as `live.read` has it
    model: Model | None
    counts: tuple[int, int, int]


def keep(live: Live, keys: Iterable[bytes | None]) -> Kept:
    """Copies of the present states of these keys, and of what they share."""
    known = dict.fromkeys(key for key in keys if key is not None)
    changed = [slot for key in known if (slot := live.slot_of.get(key)) in live.dirty and slot is not None]
    changed = live.writable(changed)
    snapshots: dict[bytes, bytes | None] = {key: live.parked.get(key) for key in known}
    snapshots |= zip([live.key_of[slot] for slot in changed], live.encode(changed), strict=True)
    return Kept(snapshots, live.model, counts_of(live))


def counts_of(live: Live) -> tuple[int, int, int]:
    return live.created, live.left, live.expired


def put_back(live: Live, kept: Kept) -> None:
    """Drop the live states of the kept keys. The next record of a key starts from its kept state."""
    for key, snapshot in kept.snapshots.items():
        live.parked.take(key)
        slot = live.slot_of.get(key)
        if slot is not None:
            live.dirty.discard(slot)
            live.forget(key)
        if snapshot is not None and key not in live.aside:
            live.parked[key] = snapshot
    if kept.model is not None:
        for name, stage in live.job.own.items():
            stage.load(live.work[name], 0, kept.model.states[name])
        live.names[0] = shared(kept.model.names)
    live.created, live.left, live.expired = kept.counts


def rewind(
    live: Live,
    records: Sequence[Record],
    counts: tuple[int, int, int],
    apply: Callable[[Sequence[Record], bool], object],
) -> None:
    """Restore the states that the records' keys had before them. counts: from before; apply: as it was then."""
    keys = None if live.pooled else {record.key for record in records}
    known = {*live.slot_of, *live.parked} - {POOLED} if keys is None else keys
    kept = Kept(dict.fromkeys(key for key in known if key is not None), live.model_stored, counts)
    changed = {live.key_of[slot] for slot in live.dirty} | live.parked.keys()
    live.repeated = changed & kept.snapshots.keys()
    put_back(live, kept)
    for batch, left_out in live.log.of(keys):
        apply(batch, left_out)
    live.repeated = set()
    live.created, live.left, live.expired = counts

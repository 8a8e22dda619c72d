"""Snapshots of many keys at once, of a job in which keys without a label leave out their heads."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.live.columns import Columns
from streamjobs.core.live.slots import LastOffsets
from streamjobs.core.live.stored import check_states
from streamjobs.core.state.untaught import Seen, SeenStage
from streamjobs.core.state.valid import Leaf, leaves_of
from streamjobs.errors import SnapshotError
from streamjobs.stages.names import LEARNER


class Forms:
    """As `Columns`: snapshots of keys with a label, and those without a head."""

    def __init__(self, whole: Columns, without: Columns, heads: HeadRows) -> None:
        self.whole, self.without, self.heads = whole, without, heads

    def look(self) -> None:
        self.whole.look()
        self.without.look()

    def encode(self, slots: Sequence[int], offsets: LastOffsets, names: Sequence[tuple[str, ...]]) -> list[bytes]:
        """Snapshots of these slots. offsets, names: by slot."""
        encoded: list[bytes] = [b""] * len(slots)
        taught = self.heads.taught(slots)
        for columns, kept in ((self.without, np.flatnonzero(~taught)), (self.whole, np.flatnonzero(taught))):
            some = kept.tolist()
            for n, data in zip(some, columns.encode([slots[n] for n in some], offsets, names), strict=True):
                encoded[n] = data
        return encoded

    def writable(self, slots: Sequence[int], known: Sequence[int] | None) -> Array:
        """(k,) bool: `decode` would take what `encode` writes of these slots. known: classes of each; None: numbers."""
        taught, at = self.heads.taught(slots), np.array(slots, np.int64)
        of_key = None if known is None else np.array(known)
        good = np.ones(len(at), np.bool_)
        for columns, kept in ((self.without, ~taught), (self.whole, taught)):
            if kept.any():
                good[kept] = columns.writable(at[kept].tolist(), None if of_key is None else of_key[kept].tolist())
        return good

    def decode(
        self,
        snapshots: Sequence[bytes],
        slots: Sequence[int],
        offsets: LastOffsets,
        names: list[tuple[str, ...]],
        most_names: int | None,
        least: list[str],
        own: Array | None = None,
    ) -> list[bool]:
        decoded = [False] * len(slots)
        short = np.array([data.startswith(self.without.begins) for data in snapshots], np.bool_)
        for columns, kept in ((self.without, np.flatnonzero(short)), (self.whole, np.flatnonzero(~short))):
            some = kept.tolist()
            if not some:
                continue
            into = [slots[n] for n in some]
            if columns is self.without:
                self.heads.release(np.array(into))
            else:
                self.heads.own(into, blank=True)
            checked = None if own is None else own[kept]
            good = columns.decode([snapshots[n] for n in some], into, offsets, names, most_names, least, checked)
            for n, fine in zip(some, good, strict=True):
                decoded[n] = fine
            if columns is self.whole:
                self.heads.taught([slot for slot, fine in zip(into, good, strict=True) if fine])
        return decoded


def codec_of(job: Job, work: dict[str, Any]) -> "Columns | Forms | None":
    """How snapshots enter and leave these workspaces; None: one by one."""
    heads, constant = work[LEARNER], {} if job.untaught is None else job.untaught.constant
    if constant and not isinstance(heads, HeadRows):
        return None
    fields = job.learner.constant(job.template[LEARNER]) if constant else ()
    whole = Columns.of(job.snapshot_heads(constant), job.own, work, job.template, fields)
    if whole is None or not isinstance(heads, HeadRows):
        return whole
    assert job.untaught is not None, "else its heads have no rows"
    leaves: list[Leaf] = []
    for name, stage in job.own.items():
        if name == LEARNER:
            leaves.append(Leaf(name, SeenStage(), heads.seen, Seen(heads.start.seen), stage, True))
        else:
            leaves += leaves_of(name, stage, stage.codec, work[name], job.template[name])
    return Forms(whole, Columns(job.snapshot_heads(job.untaught.left_out), leaves), heads)


class LiveStates(Protocol):
    """What `streamjobs.core.live.live.Live` has of each slot."""

    job: Job
    columns: Columns | Forms | None
    names: list[tuple[str, ...]]

    def states(self, slot: int) -> dict[str, Any]: ...


def unwritable(live: LiveStates, slots: Sequence[int]) -> dict[int, str]:
    """The slots among these with a state that no reader takes back, and the sentence the reader would refuse it with.

    Empty when all is well. Does not change the states.
    """
    doubtful = list(slots)
    if live.columns is not None and doubtful:
        known = None if live.job.most_names is None else [len(live.names[slot]) for slot in doubtful]
        good = live.columns.writable(doubtful, known)
        doubtful = [slot for slot, can in zip(doubtful, good.tolist(), strict=True) if not can]
    wrong = {}
    for slot in doubtful:
        try:
            check_states(live.job, live.states(slot), list(live.names[slot]))
        except SnapshotError as problem:
            wrong[slot] = str(problem)
    return wrong

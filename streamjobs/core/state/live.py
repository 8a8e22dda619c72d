"""Live states of one partition: a slot per key in every stage's workspace, bounded by bytes.

A key's snapshot is read once, when its first record comes; from then on its state lives in the arrays until it is
the least recently used one and room is needed. A changed state that leaves before it was stored is kept as bytes
(`parked`) until the next call of `snapshots`, so nothing applied is ever forgotten.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.job import LEARNER, ORDER, Job
from streamjobs.core.state.live_stats import LatestBySlot, LiveStats, stats_of
from streamjobs.core.state.log import Log, Model
from streamjobs.core.state.snapshot import Offsets, assemble, packers
from streamjobs.errors import SnapshotError
from streamjobs.stages.order import Order

FIRST_SLOTS = 16
POOLED = b""  # the key whose model every key shares in a pooled replay


class Live:
    """The states a partition's rows run through.

    read: gives a key's stored snapshot, or None; what `snapshots` gave counts as stored.
    most_bytes: bound of the arrays (default: the job's [state] cache).
    pooled: all keys share one model (scaling, learner, drift), each keeps its own signal; to learn a start for new keys.
    """

    def __init__(
        self,
        job: Job,
        read: Callable[[bytes], bytes | None],
        *,
        most_bytes: int | None = None,
        pooled: bool = False,
    ) -> None:
        self.job, self.read, self.pooled = job, read, pooled
        self.templates, self.order = job.init(POOLED), job.stage(ORDER, Order)
        self.work: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}  # the population's stages: one slot for all keys, never learned, never stored
        for name, stage in job.own.items():
            self.work[name] = stage.workspace(self.templates[name], slots=FIRST_SLOTS)
        self.slot_bytes = max(1, self.nbytes // FIRST_SLOTS)
        for name, state in job.shared.items():
            self.shared[name] = job.stages[name].workspace(state)
            job.stages[name].load(self.shared[name], 0, state)
        bound = most_bytes if most_bytes is not None else job.settings.state.cache
        self.most_slots = max(FIRST_SLOTS, bound // self.slot_bytes)
        self.slot_of: dict[bytes, int] = {}
        self.key_of: list[bytes] = []
        self.text_of: list[str] = []  # the key as outputs show it
        self.names: list[list[str]] = []  # class names, in the order of their columns
        self.offsets: list[Offsets] = []
        self.free: list[int] = []
        self.used = np.zeros(FIRST_SLOTS, np.int64)  # when each slot was last used
        self.now = 0
        self.dirty: set[int] = set()
        self.parked: dict[bytes, bytes] = {}
        self.created = 0  # keys that began here
        self.left = 0  # keys that left for want of room
        self.expired = 0  # keys that started over after [state] ttl
        self.latest = LatestBySlot(FIRST_SLOTS)
        self.log = Log()  # what was applied since the last `snapshots`
        self.careful = 0  # records still to be applied with care, because a stage failed
        if pooled:
            self.slot(POOLED)
        self.model_stored = self.model  # of a pooled model: what it was at the last `snapshots`

    @property
    def keys(self) -> int:
        return len(self.slot_of)

    @property
    def nbytes(self) -> int:
        return sum(work.nbytes for work in (*self.work.values(), *self.shared.values()))

    @property
    def dirty_bytes(self) -> int:
        """About how many bytes the next `snapshots` gives and lets go: an upper bound, with the records remembered."""
        return len(self.dirty) * self.slot_bytes + sum(map(len, self.parked.values())) + self.log.bytes

    def stats(self, since: int) -> LiveStats:
        """How the live keys stand, those with a record in a batch after the `since`-th; for metrics."""
        mapping = self.job.composition.map
        if mapping is not None:
            share = mapping.budget_used(self.shared["map"], self.job.shared["map"], [0])
        else:
            slots = [0] if self.pooled else list(self.slot_of.values())
            share = self.job.learner.budget_used(self.work[LEARNER], self.templates[LEARNER], slots)
        return stats_of(self.latest, self.used, self.keys, since, share)

    def tick(self) -> None:
        """A new batch begins: slots used from here on are the last to leave."""
        self.now += 1
        if self.pooled:
            self.used[0] = self.now  # the shared model never leaves

    def slot(self, key: bytes) -> int:
        """The key's slot; reads its snapshot, or begins a new state, where it has none. May raise SnapshotError."""
        slot = self.slot_of.get(key)
        if slot is None:
            slot = self._enter(key)
        self.used[slot] = self.now
        return slot

    def touch(self, slots: list[int]) -> None:
        """Keys of the present batch: they do not leave during it."""
        if slots:
            self.used[slots] = self.now

    def fits(self, key: bytes) -> bool:
        """Whether `slot(key)` can be served without moving out a key of the present batch."""
        return (
            key in self.slot_of
            or bool(self.free)
            or len(self.key_of) < self.most_slots
            or bool((self.used[: len(self.key_of)] < self.now).any())
        )

    def _enter(self, key: bytes) -> int:
        if not self.free and len(self.key_of) >= self.most_slots:
            self._make_room()
        parked = self.parked.pop(key, None)
        stored = parked if parked is not None else self.read(key)
        if stored is None:
            states, names, offsets = self.job.init(key), self.job.names(), Offsets()
            self.created += 1
        else:
            states, names, offsets = self.job.decode_snapshot(stored)
        slot = self._take(key, names, offsets)
        try:
            for name, stage in self.job.own.items():
                stage.load(self.work[name], slot, states[name])
        except ValueError as problem:
            raise SnapshotError(f"the stored state contradicts itself: {problem}") from None
        self.slot_of[key] = slot
        if parked is not None:
            self.dirty.add(slot)
        return slot

    @property
    def model(self) -> Model | None:
        """A copy of the model that all keys share, where they do."""
        return Model(self.states(0), list(self.names[0])) if self.pooled else None

    def newest(self, slots: list[int]) -> Array:
        """Event time of the newest applied sample of the keys in these slots, seconds; -inf without one."""
        return self.order.newest(self.work[ORDER], slots)

    def oldest_held(self, slot: int) -> float:
        """Event time of the oldest sample of the key that waits to be put in order, seconds; inf without one."""
        return self.order.oldest_held(self.work[ORDER], slot)

    def start_over(self, slot: int) -> None:
        """The key in this slot starts over, as if it had never been there."""
        states = self.job.init(self.key_of[slot])
        self.names[slot], self.offsets[slot] = self.job.names(), Offsets()
        self.latest.clear(slot)
        for name, stage in self.job.own.items():
            stage.load(self.work[name], slot, states[name])
        self.dirty.add(slot)
        self.created += 1
        self.expired += 1

    def busy(self, key: bytes, since: int) -> bool:
        """Whether the key has changed since the last `snapshots`, or was used in a batch after the `since`-th."""
        slot = self.slot_of.get(key)
        return key in self.parked or (slot is not None and (slot in self.dirty or int(self.used[slot]) > since))

    def forget(self, key: bytes) -> None:
        """A key that is not busy is no more; where it comes again it is read again."""
        slot = self.slot_of.pop(key, None)
        if slot is not None:
            self.free.append(slot)
            self.used[slot] = 0

    def _take(self, key: bytes, names: list[str], offsets: Offsets) -> int:
        text = key.decode("utf-8", "backslashreplace")
        if self.free:
            slot = self.free.pop()
            self.latest.clear(slot)
            self.key_of[slot], self.text_of[slot], self.names[slot], self.offsets[slot] = key, text, names, offsets
            return slot
        slot = len(self.key_of)
        if slot == len(self.used):
            slots = min(max(2 * slot, FIRST_SLOTS), max(self.most_slots, slot + 1))
            for work in self.work.values():
                work.grow(slots)
            self.used = np.concatenate([self.used, np.zeros(slots - slot, np.int64)])
            self.latest.grow(slots)
        self.key_of.append(key)
        self.text_of.append(text)
        self.names.append(names)
        self.offsets.append(offsets)
        return slot

    def _make_room(self) -> None:
        """The least recently used eighth leaves (never a key of the present batch, nor the pooled model)."""
        held = np.array(sorted(self.slot_of.values()))
        if self.pooled:
            held = held[held != 0]
        old = held[self.used[held] < self.now]
        leaving = old[np.argsort(self.used[old], kind="stable")][: max(1, len(held) // 8)]
        assert len(leaving), "advance starts a new batch before room runs out"
        unsaved = [slot for slot in leaving.tolist() if slot in self.dirty]
        self.parked.update(zip([self.key_of[slot] for slot in unsaved], self._encode(unsaved), strict=True))
        self.dirty.difference_update(unsaved)
        for slot in leaving.tolist():
            del self.slot_of[self.key_of[slot]]
            self.free.append(slot)
        self.used[leaving] = 0
        self.left += len(leaving)

    def states(self, slot: int) -> dict[str, Any]:
        return {name: stage.save(self.work[name], slot, self.templates[name]) for name, stage in self.job.own.items()}

    def encoded(self, slots: list[int]) -> list[bytes]:
        """Snapshots of the keys in these slots."""
        return self._encode(slots)

    def _encode(self, slots: list[int]) -> list[bytes]:
        packs = [
            pack
            for name, stage in self.job.own.items()
            for pack in packers(stage.codec, self.work[name], self.templates[name])
        ]
        begin, encoded = self.job.snapshot_head, []
        for slot in slots:
            parts: list[bytes] = []
            for pack in packs:
                pack(parts, slot)
            encoded.append(assemble(begin, self.offsets[slot], self.names[slot], parts))
        return encoded

    def snapshots(self) -> list[tuple[bytes, bytes]]:
        """(key, snapshot) of every key changed since the last call; after it they count as stored."""
        changed = list(self.parked.items())
        slots = sorted(self.dirty)
        changed += zip([self.key_of[slot] for slot in slots], self._encode(slots), strict=True)
        self.parked.clear()
        self.dirty.clear()
        self.log.clear()
        self.model_stored = self.model
        return changed

    def export(self, key: bytes | None = None) -> bytes:
        """A key's model as the start of new keys ([state] start_from): no offsets, and a fresh signal.

        Without a key: the pooled model.
        """
        slot = self.slot(POOLED if key is None else key)
        return self.job.encode_model(self.states(slot), self.names[slot])

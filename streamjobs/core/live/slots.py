"""Which key has which slot of the workspaces, and how many there may be.

Also which keys leave when room is needed, and how the states of new keys begin.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.live.live_stats import LatestBySlot
from streamjobs.core.state.snapshot import Offsets

FIRST_SLOTS = 16
GROWS = 4  # room grows by a quarter: what is copied is little, what stays empty is memory
NONE = np.iinfo(np.int64).min
SEEDS = 0, 1, (1 << 62) - 1  # the last one tells exclusive-or from a sum


def shared(names: Sequence[str]) -> tuple[str, ...]:
    """The same object for the same names: most keys of a job have the same ones."""
    return _same(tuple(names))


@lru_cache(maxsize=4096)
def _same(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


class Slots:
    """`used` has for each slot the batch that used it last; `now` is the present batch. `_leave` says what leaving means.

    work, shared: workspaces by stage, with FIRST_SLOTS slots, and those that all keys share.
    heads: rows of heads, where keys without a label have none.
    most_bytes: bound of the workspaces. pooled: slot 0 has the model of all keys, and never leaves.
    """

    def __init__(
        self, work: dict[str, Any], shared: dict[str, Any], heads: HeadRows | None, most_bytes: int, *, pooled: bool
    ) -> None:
        self.work, self.shared, self.heads, self.most_bytes, self.pooled = work, shared, heads, most_bytes, pooled
        head, all_heads = (0, 0) if heads is None else (heads.row_bytes, int(heads.rows.nbytes))
        own = sum(one.nbytes for one in work.values())
        self.untaught_bytes = max(1, (own - all_heads) // FIRST_SLOTS)  # of a key without a label
        self.slot_bytes = self.untaught_bytes + head
        self.slot_of: dict[bytes, int] = {}
        self.key_of: list[bytes] = []
        self.text_of: list[str] = []  # the key as outputs show it
        self.names: list[tuple[str, ...]] = []  # class names, in the order of their columns
        self.offsets = LastOffsets(FIRST_SLOTS)
        self.free: list[int] = []
        self.used = np.zeros(FIRST_SLOTS, np.int64)
        self.now = 0
        self.latest = LatestBySlot(FIRST_SLOTS)
        if heads is not None:
            heads.most, heads.evict = self._most_heads, self._evict_heads

    @property
    def keys(self) -> int:
        return len(self.slot_of)

    @property
    def nbytes(self) -> int:
        return sum(work.nbytes for work in (*self.work.values(), *self.shared.values()))

    def live_slots(self) -> Array:
        """Slots of live keys, ascending; as an array, since a scrape looks through all of them."""
        if self.pooled:
            return np.zeros(1, np.int64)
        taken = np.ones(len(self.key_of), np.bool_)
        taken[self.free] = False
        return np.flatnonzero(taken)

    def tick(self) -> None:
        """A new batch begins: slots used from here on are the last to leave."""
        self.now += 1
        if self.pooled:
            self.used[0] = self.now  # the shared model never leaves

    def touch(self, slots: list[int] | Array) -> None:
        """Keys of the present batch: they do not leave during it."""
        if len(slots):
            self.used[slots] = self.now

    @property
    def most_slots(self) -> int:
        """Half of the bytes stays for heads, which all keys may come to need."""
        fit = max(FIRST_SLOTS, self.most_bytes // self.slot_bytes)
        if self.heads is None:
            return fit
        left = (self.most_bytes - int(self.heads.rows.nbytes)) // self.untaught_bytes
        return max(len(self.used), min(left, max(fit, self.most_bytes // 2 // self.untaught_bytes)))

    @property
    def most_keys(self) -> int:
        """How many keys may be live together, each with a head."""
        return max(FIRST_SLOTS, self.most_bytes // self.slot_bytes) - self.pooled

    def room(self) -> int:
        """How many more keys can be entered without moving out one of the present batch."""
        old = int((self.used[: len(self.key_of)] < self.now).sum())  # a free slot was used at 0
        room = self.most_slots - len(self.key_of) + old
        return room if self.heads is None else min(room, self.most_keys + self.pooled - len(self.key_of) + old)

    def _release(self, slots: list[int]) -> None:
        self.free += slots
        if self.heads is not None:
            self.heads.release(np.array(slots, np.int64))

    def _take(self, keys: Sequence[bytes]) -> list[int]:
        slots = self.free[: -len(keys) - 1 : -1]
        del self.free[len(self.free) - len(slots) :]
        self.latest.clear(slots)
        for slot, key in zip(slots, keys, strict=False):
            self.key_of[slot], self.text_of[slot] = key, key.decode("utf-8", "backslashreplace")
        for key in keys[len(slots) :]:
            slot = len(self.key_of)
            if slot == len(self.used):
                room = min(slot + max(slot // GROWS, FIRST_SLOTS), max(self.most_slots, slot + 1))
                for work in self.work.values():
                    work.grow(room)
                self.used = np.concatenate([self.used, np.zeros(room - slot, np.int64)])
                self.latest.grow(room)
                self.offsets.grow(room)
            self.key_of.append(key)
            self.text_of.append(key.decode("utf-8", "backslashreplace"))
            self.names.append(())
            slots.append(slot)
        return slots

    def _make_room(self, wanted: int) -> None:
        """The least recently used eighth leaves, or more (never a key of the present batch, nor the pooled model)."""
        held = self._held()
        leaving = self._oldest(held)[: max(wanted, len(held) // 8)]
        assert len(leaving) >= wanted, "advance starts a new batch before room runs out"
        self._leave(leaving)

    def _most_heads(self) -> int:
        """How many rows of heads, the new keys' own among them, have room next to the slots."""
        assert self.heads is not None
        return max(FIRST_SLOTS, (self.most_bytes - len(self.used) * self.untaught_bytes) // self.heads.row_bytes)

    def _evict_heads(self, wanted: int) -> None:
        """The least recently used eighth of the keys with a head leaves, or more (never a key of the present batch)."""
        assert self.heads is not None
        held = self._held()
        held = held[self.heads.row_of[held] > 0]
        self._leave(self._oldest(held)[: max(wanted, len(held) // 8)])

    def _held(self) -> Array:
        """Slots of keys, ascending."""
        held = np.fromiter(self.slot_of.values(), np.int64, len(self.slot_of))
        held.sort()
        return held[held != 0] if self.pooled else held

    def _oldest(self, held: Array) -> Array:
        """Those of these slots that were not used in the present batch, the least recently used first."""
        old = held[self.used[held] < self.now]
        leaving: Array = old[np.argsort(self.used[old], kind="stable")]
        return leaving

    def _leave(self, leaving: Array) -> None:
        """The keys in these slots are not live any more."""
        raise NotImplementedError


class LastOffsets:
    """Offsets by slot. Those of the partition that records come from are in an array.

    A dict and a number for each key would lie between the objects of a batch, and keep their memory from the system.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._last: dict[tuple[str, int], Array] = {}  # by source (topic, partition), then by slot
        self._others: dict[int, Offsets] = {}  # by slot, of keys with several or other sources; their order counts

    def of(self, source: tuple[str, int]) -> Array:
        """By slot, less than 0 without one. The array may be written to until slots are added."""
        if source not in self._last:
            self._last[source] = np.full(self._slots, NONE)
            for slot in list(self._others):
                self[slot] = self[slot]
        return self._last[source]

    def __getitem__(self, slot: int) -> Offsets:
        own = {source: int(last[slot]) for source, last in self._last.items() if last[slot] > NONE}
        return self._others.get(slot, {}) | own

    def __setitem__(self, slot: int, offsets: Offsets) -> None:
        for source, last in self._last.items():
            last[slot] = offsets.get(source, NONE)
        self._others.pop(slot, None)
        if len(offsets) > 1 or offsets.keys() - self._last.keys():
            self._others[slot] = offsets

    def clear(self, slots: Sequence[int] | Array) -> None:
        for last in self._last.values():
            last[slots] = NONE
        for slot in slots if self._others else ():
            self._others.pop(int(slot), None)

    def put(self, source: tuple[str, int], slots: Array, last: Array) -> None:
        """The keys in these slots have offsets of this source alone."""
        self.clear(slots)
        if source in self._last:
            self._last[source][slots] = last
        else:
            offsets: list[int] = last.tolist()
            self._others |= {slot: {source: offset} for slot, offset in zip(slots.tolist(), offsets, strict=True)}

    def alone(self, slots: Array) -> tuple[tuple[str, int], Array] | None:
        """The source of all these slots and its offsets, if none of them has another source."""
        if self._others and not self._others.keys().isdisjoint(slots.tolist()):
            return None
        of_source = {source: last[slots] for source, last in self._last.items()}
        known = {source: last for source, last in of_source.items() if np.any(last > NONE)}
        return next(((source, last) for source, last in known.items() if len(known) == 1 and np.all(last > NONE)), None)

    def grow(self, slots: int) -> None:
        more = np.full(slots - self._slots, NONE)
        self._last = {source: np.concatenate([last, more]) for source, last in self._last.items()}
        self._slots = slots


class NewKeys(NamedTuple):
    """What every slot of a new key holds, array by array, and of which arrays it is the exclusive-or with its seed.

    Keys begin alike but for their seed, so a state made once is copied to the slots of many new keys at once.
    """

    arrays: dict[str, list[tuple[Array, bool]]]  # of a stage: (the array of one slot with seed 0, the seed changes it)

    @classmethod
    def of(cls, job: Job, work: dict[str, Any]) -> "NewKeys | None":
        """None where a seed decides more than numbers of its own: such states are made one by one."""
        of_seeds = []
        for states in map(job.init_from, SEEDS):
            of_seeds.append({name: stage.holding(states[name]).arrays for name, stage in job.own.items()})
        first, second, third = of_seeds
        arrays: dict[str, list[tuple[Array, bool]]] = {}
        for name in first:
            if isinstance(work[name], HeadRows):
                continue
            arrays[name] = []
            for one, two, three in zip(first[name], second[name], third[name], strict=True):
                same = one.tobytes() == two.tobytes() == three.tobytes()
                if not same and not _exclusive_or(one, [two, three]):
                    return None
                arrays[name].append((one, not same))
            if any(mine[0].shape[1:] != of.shape[1:] for mine, of in zip(arrays[name], work[name].arrays, strict=True)):
                return None
        return cls(arrays)

    def begin(self, work: dict[str, Any], slots: Sequence[int], seeds: Sequence[int]) -> None:
        at, numbers = np.array(slots, np.int64), np.array(seeds, np.int64)
        for one in work.values():
            if isinstance(one, HeadRows):
                one.begin(at)
        for name, arrays in self.arrays.items():
            for (one, is_seed), array in zip(arrays, work[name].arrays, strict=True):
                array[at] = one ^ numbers.reshape(-1, *[1] * (one.ndim - 1)) if is_seed else one


def _exclusive_or(one: Array, others: list[Array]) -> bool:
    """Whether the arrays with the other seeds are the one with seed 0, exclusive-or the seed."""
    of_seeds = zip(SEEDS[1:], others, strict=True)
    return one.dtype == np.int64 and all(np.array_equal(other, one ^ seed) for seed, other in of_seeds)

"""Last applied offsets of the keys in slots."""

from collections.abc import Sequence

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.state.snapshot import Offsets

NONE = np.iinfo(np.int64).min


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
        """New keys have these slots."""
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

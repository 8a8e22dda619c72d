"""Last applied offsets of the keys in slots."""

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

    def grow(self, slots: int) -> None:
        more = np.full(slots - self._slots, NONE)
        self._last = {source: np.concatenate([last, more]) for source, last in self._last.items()}
        self._slots = slots

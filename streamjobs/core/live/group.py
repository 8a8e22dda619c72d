"""Keys of a partition that alarm together: at least a share of all its known keys, within a stated time of its clock.

A group opens with the alarm that makes it large enough. It ends when fewer keys have alarmed within the time. Each key
stores the clock of its newest alarm, and the group to which the alarm belongs. Therefore the open group follows from the
stored states of all keys: the number of known keys only grows and only alarms add to a group, so only alarms open one.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from streamjobs.stages.events.group import Alarmed

LEAST = 5  # keys of a group


class Turn(NamedTuple):
    """A group opens, or ends."""

    start: float
    over: bool
    keys: list[bytes]  # that alarmed in it


class Group:
    """share: of the known keys; within: seconds of the partition's clock."""

    def __init__(self, share: float, within: float) -> None:
        self.share, self.within, self.start = share, within, 0.0  # start: of the group that is open; 0: none is
        self.alarmed: dict[bytes, Alarmed] = {}  # the newest alarm of each key
        self.changed: dict[bytes, None] = {}  # keys with states to be written
        self.depends = False  # the group now depends on more than the newest alarm of each key before, see `alarm`
        self._recent: deque[tuple[float, bytes]] = deque()  # alarms within the time, by clock
        self._members: dict[bytes, float] = {}

    def meet(self, stored: Mapping[bytes, Alarmed], clock: float, known: int) -> None:
        """The stored alarms of keys, before anything else; again where the clock has passed records without an alarm."""
        self.start = 0.0
        self.alarmed |= stored
        self._recent = deque(sorted((one.clock, key) for key, one in self.alarmed.items()))
        self._members = {key: at for at, key in self._recent}
        self._forget(clock)
        if len(self._members) >= self._least(known):
            self.start = max((one.clock, one.start) for one in map(self.alarmed.__getitem__, self._members))[1]

    def alarm(self, key: bytes, clock: float, time: float, known: int) -> Turn | None:
        """A key alarms at this clock and event time of the partition; known: keys of the partition.

        A state has its key's newest alarm alone. Where the alarm before still counts, or the group is open, the states as of
        different records do not say what the group was: `depends`.
        """
        self._forget(clock)
        self.depends |= key in self._members or bool(self.start)
        self._members[key] = clock
        self._recent.append((clock, key))
        self.alarmed[key] = Alarmed(clock, self.start)
        self.changed[key] = None
        if self.start or len(self._members) < self._least(known):
            return None
        self.start, self.depends = time, True
        for member, at in self._members.items():
            self.alarmed[member] = Alarmed(at, time)
            self.changed[member] = None
        return Turn(time, False, self.keys())

    def remember(self, key: bytes, clock: float) -> Alarmed:
        """A key alarms again before the group continues (`Silence.group_at`); no group was open then."""
        self.depends |= clock - self.alarmed.get(key, Alarmed(-math.inf, 0.0)).clock < self.within
        self.alarmed[key], self.changed[key] = Alarmed(clock, 0.0), None
        return self.alarmed[key]

    def tick(self, clock: float, known: int) -> Turn | None:
        """The clock goes on, or a key is new, while a group is open: whether it ends."""
        self._forget(clock)
        if len(self._members) >= self._least(known):
            return None
        over = Turn(self.start, True, self.keys())
        self.start = 0.0
        return over

    def keys(self) -> list[bytes]:
        """The keys that alarmed in the open group, by the time of their alarms."""
        return [key for _, key in sorted((one.clock, key) for key, one in self.alarmed.items() if one.start == self.start)]

    def _least(self, known: int) -> int:
        return max(LEAST, math.ceil(self.share * known))

    def _forget(self, clock: float) -> None:
        while self._recent and self._recent[0][0] <= clock - self.within:
            at, key = self._recent.popleft()
            if self._members.get(key) == at:
                del self._members[key]

"""Which batches of a partition came lately: batches are counted by the core, which has no clock."""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import SnapshotError

LATELY = 300.0  # seconds
STEP = 1.0  # seconds between two marks


class Recent:
    """Marks of (moment, batches so far), a second apart."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._last = (float("-inf"), 0)

    def note(self, moment: float, batches: int) -> None:
        """So many batches have been applied at this moment, in seconds of a clock that never goes back."""
        self._last = moment, batches
        if not self._marks or moment - self._marks[-1][0] >= STEP:
            self._marks.append(self._last)
            while len(self._marks) > 1 and self._marks[1][0] <= moment - LATELY:
                self._marks.popleft()

    def before(self, moment: float) -> int:
        """Batches that are longer ago than LATELY, to a second."""
        begin = moment - LATELY
        if self._last[0] <= begin:
            return self._last[1]
        return max((batches for marked, batches in list(self._marks) if marked <= begin), default=0)


AT_ONCE = 100  # stored keys looked at in a checkpoint
REST = 100  # a pass over all keys begins no sooner than this part of ttl after the one before

Scan = Callable[[bytes | None, int], list[tuple[bytes, bytes]]]  # after this key, so many: keys with their snapshots


class LiveLike(Protocol):
    def busy(self, key: bytes, since: int) -> bool: ...


class Expiry:
    """Of one partition. heard: newest event time and applied offsets of a snapshot."""

    def __init__(self, ttl: float, scan: Scan, heard: Callable[[bytes], tuple[float, Offsets]]) -> None:
        self._ttl, self._scan, self._heard = ttl, scan, heard
        self._after: bytes | None = None  # the key the pass has come to, None: it has not begun
        self._began = float("-inf")

    def found(self, newest: float, live: LiveLike, since: int, committed: Callable[[Offsets], bool]) -> list[bytes]:
        """Some keys whose states are to be removed. newest: event time of the partition, seconds.

        Not those that are busy (see `Live.busy`), nor those with an applied offset that is not committed: after a crash
        their records would come again, and find no state that knows it has applied them.
        """
        now = min(newest, time.time())
        if now == float("-inf"):  # nothing was applied here
            return []
        if self._after is None:
            if now - self._began < self._ttl / REST:
                return []
            self._began, self._after = now, b""
        some = self._scan(self._after or None, AT_ONCE)
        self._after = some[-1][0] if len(some) == AT_ONCE else None
        return [key for key, data in some if not live.busy(key, since) and self._idle(data, now, committed)]

    def _idle(self, data: bytes, now: float, committed: Callable[[Offsets], bool]) -> bool:
        try:
            newest, offsets = self._heard(data)
        except SnapshotError:
            return False  # told when the key comes
        return now - newest > self._ttl and newest > float("-inf") and committed(offsets)

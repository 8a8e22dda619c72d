"""Idle keys: which batches of a partition are recent, and which stored keys have been idle longer than [state] ttl."""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from streamjobs.core.interface import Scan
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import SnapshotError

RECENT_SECONDS = 300.0
MARK_EVERY = 1.0  # seconds between two marks of `RecentBatches`
KEYS_PER_CHECKPOINT = 100  # stored keys examined in a checkpoint
PASSES_PER_TTL = 100  # a pass over all keys starts no sooner than ttl / 100 after the previous one


class LiveLike(Protocol):
    def busy(self, key: bytes, since: int) -> bool: ...


class RecentBatches:
    """Translates time into batch counts: the core counts batches, because it has no clock.

    Holds marks (moment, batches so far), at least MARK_EVERY seconds apart.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._last = (float("-inf"), 0)

    def add(self, moment: float, batches: int) -> None:
        """Note how many batches have been applied at this moment, in seconds of a monotonic clock."""
        self._last = moment, batches
        if not self._marks or moment - self._marks[-1][0] >= MARK_EVERY:
            self._marks.append(self._last)
            while len(self._marks) > 1 and self._marks[1][0] <= moment - RECENT_SECONDS:
                self._marks.popleft()

    def count_before(self, moment: float) -> int:
        """Batches applied more than RECENT_SECONDS before the moment, to a second."""
        begin = moment - RECENT_SECONDS
        if self._last[0] <= begin:
            return self._last[1]
        return max((batches for marked, batches in list(self._marks) if marked <= begin), default=0)


class Expiry:
    """Finds the idle keys of one partition, a few stored keys at each checkpoint.

    ttl: seconds of event time; scan: reads the local store; last_event: newest event time and applied offsets of a
    snapshot, raises SnapshotError.
    """

    def __init__(self, ttl: float, scan: Scan, last_event: Callable[[bytes], tuple[float, Offsets]]) -> None:
        self._ttl, self._scan, self._last_event = ttl, scan, last_event
        self._after: bytes | None = None  # the last key of the pass under way, None between passes
        self._pass_began = float("-inf")

    def idle_keys(self, newest: float, live: LiveLike, since: int, committed: Callable[[Offsets], bool]) -> list[bytes]:
        """Some keys with states to be removed. newest: event time of the partition, seconds.

        Leaves out keys that are busy (see `Live.busy`), and keys with an applied offset that is not committed: after a
        crash their records would come again, and no state would know that it has applied them.
        """
        now = min(newest, time.time())
        if now == float("-inf"):  # nothing was applied here
            return []
        if self._after is None:
            if now - self._pass_began < self._ttl / PASSES_PER_TTL:
                return []
            self._pass_began, self._after = now, b""
        some = self._scan(self._after or None, KEYS_PER_CHECKPOINT)
        self._after = some[-1][0] if len(some) == KEYS_PER_CHECKPOINT else None
        return [key for key, data in some if not live.busy(key, since) and self._is_idle(data, now, committed)]

    def _is_idle(self, data: bytes, now: float, committed: Callable[[Offsets], bool]) -> bool:
        try:
            newest, offsets = self._last_event(data)
        except SnapshotError:
            return False  # reported when the key's next record comes
        return now - newest > self._ttl and newest > float("-inf") and committed(offsets)

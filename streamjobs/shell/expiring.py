"""States of keys nothing has come of for [state] ttl, found a few at a time among a partition's stored ones.

That such a key begins anew when it comes back is the core's (streamjobs.core.expiry); here only the bytes go. Time is the
partition's own, the newest event time applied, and never ahead of the wall clock: neither old recordings nor a clock that
is wrong end anything too soon. A partition nothing comes of stands still.
"""

import time
from collections.abc import Callable
from typing import Protocol

from streamjobs.core.snapshot import Offsets
from streamjobs.errors import SnapshotError

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

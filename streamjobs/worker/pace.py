"""When changed states are written: every key's at its own pace, because a takeover can compute them again from the input.

P, the progress, is the offset up to which outputs are safe. R, where a takeover begins to apply, is the smallest offset with
an effect that is in no snapshot. The group's offset is R, and P is in its metadata. [state] replay bounds the time between.
`tests/worker/two_clocks.py` has the protocol, and what a crash after each of its steps leaves.
"""

import time
from collections.abc import Collection
from itertools import filterfalse, islice, takewhile
from typing import NamedTuple

import cramjam

from streamjobs.core.messages import Codec

LONGEST = 240.0  # seconds that a changed state waits at most
LEAST, MOST = 0.125, 0.5  # of [state] cache, for remembered records: if live states fill it, and if they are few

TIGHT = 0.25  # of the cache, left by live states: compressing records costs less than writing their states more often
ZSTD: Codec = (lambda data: bytes(cramjam.zstd.compress(data, 1)), lambda data: bytes(cramjam.zstd.decompress(data)))


class Applied:
    """What the partitions of a worker have applied together: the worker that takes them over applies it again."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.bytes = 0  # of the records that the core remembers, see `core.live.log`


class Since(NamedTuple):
    """A moment before a key's first change that is in no snapshot."""

    offset: int  # of the input
    spent: float  # of the clock
    seconds: float  # of applying
    moment: str  # of the partition's keys, see `core.live.live`


class Pace:
    """The changed keys of a partition, in the order in which their states are due.

    replay: seconds of applying, and cache: bytes, both for all partitions of the worker together.
    at_end: keys that a checkpoint writes at least when all are to be written.
    """

    def __init__(self, start: int, applied: Applied, *, replay: float, cache: int, at_end: int, moment: str = "") -> None:
        self.applied, self._replay, self._cache = applied, replay, cache
        self._at_end, self.all = at_end, False  # all: the partition is to be released
        self._unwritten: dict[bytes, Since] = {}  # in the order of their values
        self._spent = 0.0  # 1 means that a bound is reached
        self._owed = 0.0  # keys, less than one
        self.least = 0  # keys of the first cut that has any
        self.codec: Codec | None = None  # for records to be remembered
        self._bytes, self._measured, self._most_bytes = applied.bytes, time.monotonic(), room(cache, 1.0)
        self._since = self._front = Since(start, 0.0, applied.seconds, moment)  # the last cut; the first of `_unwritten`
        self._committed = self._front  # of the last checkpoint that is complete

    def cut(
        self,
        position: int,
        changed: Collection[bytes],
        parked: Collection[bytes],
        *,
        whole: bool = False,
        free: float = 1.0,
        moment: str = "",
    ) -> list[bytes]:
        """The keys to write now. The states of the parked keys are written in any case.

        position: the next offset to apply, and moment: of the keys there. changed: keys that are live. whole: write all of
        them. free: the part of the cache that live states leave to the records remembered.
        """
        passed, self.codec = self._pass_time(room(self._cache, free)), ZSTD if free < TIGHT else None
        unwritten = self._unwritten
        unwritten.update(dict.fromkeys(filterfalse(unwritten.__contains__, changed), self._since))
        for key in parked:
            unwritten.pop(key, None)
        self._since = Since(position, self._spent, self.applied.seconds, moment)
        self._owed += passed * len(unwritten)
        late = sum(1 for _ in takewhile(lambda since: self._spent - since.spent >= 1.0, unwritten.values()))
        count = len(unwritten) if whole else max(int(self._owed), late, self._at_end if self.all else self.least)
        self._owed = max(0.0, self._owed - count)
        keys = list(islice(unwritten, count))
        for key in keys:
            del unwritten[key]
            self.least = 0
        self._front = next(iter(unwritten.values()), self._since)
        return keys

    def _passed(self) -> float:
        """The part of the bounds that was used up since the last cut."""
        return max(
            (self.applied.seconds - self._since.seconds) / self._replay,
            (self.applied.bytes - self._bytes) / self._most_bytes,
            (time.monotonic() - self._measured) / LONGEST,
        )

    def _pass_time(self, most_bytes: float) -> float:
        """The same, which counts as spent. most_bytes: of remembered records."""
        self._most_bytes = most_bytes
        passed = self._passed()
        self._bytes, self._measured = self.applied.bytes, time.monotonic()
        self._spent += passed
        return passed

    def mark_committed(self) -> None:
        """The checkpoint of the last cut is complete: a takeover begins at its R."""
        self._committed = self._front

    @property
    def replay_from(self) -> int:
        """R, after a cut."""
        return self._front.offset

    @property
    def moment(self) -> str:
        """Of the keys at R."""
        return self._front.moment

    @property
    def used(self) -> float:
        """The part of the bounds that is used up by now, more than 1 where checkpoints cannot follow."""
        return self._spent + self._passed() - self._committed.spent

    @property
    def seconds(self) -> float:
        """About how long applying again takes after a crash now."""
        return self.applied.seconds - self._committed.seconds


def room(cache: int, free: float) -> float:
    """Bytes for remembered records, where this part of the cache is free.

    >>> room(1000, 0.3), room(1000, 0.9), room(1000, 0.0)
    (300.0, 500.0, 125.0)
    """
    return cache * min(MOST, max(LEAST, free))

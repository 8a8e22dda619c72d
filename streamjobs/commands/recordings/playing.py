"""Several recordings as one stream in time: people at once, each from the first record of its own recording."""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamjobs.core.messages import Stored
from streamjobs.kafka.send import UNREAD


class Played(NamedTuple):
    """A record, and when it plays."""

    seconds: float  # after the start of all
    record: Stored


def together(recordings: Iterable[Iterator[Stored]]) -> tuple[Iterator[Played], int, int]:
    """Records in the order of time, and how many recordings and keys there are; recordings of one key follow each other.

    The key of a recording is that of its first record.
    """
    by_key: dict[bytes | None, list[Iterator[Stored]]] = {}
    for records in recordings:
        for first in itertools.islice(records, 1):
            by_key.setdefault(first.key, []).append(itertools.chain([first], records))
    tracks = [_in_turn(records) for records in by_key.values()]
    return heapq.merge(*tracks, key=lambda played: played.seconds), sum(map(len, by_key.values())), len(by_key)


def _in_turn(recordings: Iterable[Iterator[Stored]]) -> Iterator[Played]:
    seconds = 0.0
    for records in recordings:
        begin, first = seconds, None
        for record in records:
            if record.timestamp != UNREAD:
                first = record.timestamp if first is None else first
                seconds = max(seconds, begin + (record.timestamp - first) / 1000)
            yield Played(seconds, record)

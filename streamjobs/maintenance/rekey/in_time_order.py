"""Records of several partitions in the order of their timestamps, as far as they are there: what `rekey` copies next.

A partition of a backlog is read in large pieces, so a key's records from four partitions would lie minutes or days apart in
the copy, and its learner would skip them as late. A partition keeps its own order, whatever its timestamps say: a record
counts as no older than the one before it.
"""

from collections import deque
from collections.abc import Collection, Sequence
from operator import itemgetter

from streamjobs.core.messages import Record

_TIME = itemgetter(0)


class InTimeOrder:
    """Records that were read and wait, by partition.

    >>> from streamjobs.core.messages import Stored
    >>> waiting = InTimeOrder()
    >>> for partition, times in ((0, (1, 5, 9)), (1, (2, 3))):
    ...     waiting.add(partition, [Stored("imu", partition, at, at, b"", b"", ()) for at in times])
    >>> [record.timestamp for record in waiting.take(unread={0, 1})]
    [1, 2, 3]
    >>> waiting.take(unread={1}), waiting.first(0), len(waiting.take(unread=()))
    ([], 5, 2)
    """

    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, Record]]] = {}
        self._latest: dict[int, int] = {}  # timestamp so far, of each partition

    def clear(self) -> None:
        self._waiting.clear()
        self._latest.clear()

    def add(self, partition: int, records: Sequence[Record]) -> None:
        queue, latest = self._waiting.setdefault(partition, deque()), self._latest.get(partition, -1)
        for record in records:
            latest = max(latest, record.timestamp)
            queue.append((latest, record))
        self._latest[partition] = latest

    def count(self, partition: int) -> int:
        return len(self._waiting.get(partition, ()))

    def first(self, partition: int) -> int | None:
        """Offset of the first record that waits."""
        queue = self._waiting.get(partition)
        return queue[0][1].offset if queue else None

    def take(self, unread: Collection[int]) -> list[Record]:
        """All that no older record can come before. unread: partitions that have more, perhaps older than the others'."""
        if any(not self._waiting.get(partition) for partition in unread):
            return []
        until = min((self._waiting[partition][-1][0] for partition in unread), default=None)
        taken: list[tuple[int, Record]] = []
        for _, queue in sorted(self._waiting.items()):
            while queue and (until is None or queue[0][0] <= until):
                taken.append(queue.popleft())
        taken.sort(key=_TIME)
        return [record for _, record in taken]

"""Bounds on what is in flight: fetching waits while too much is queued or sent and not yet acknowledged."""

import asyncio

MOST_RECORDS = 20_000  # queued, and as many outputs unacknowledged
MOST_BYTES = 64 << 20  # of each


class Room:
    """Counts over all partitions of a worker; `free` is set while there is room."""

    def __init__(self, most_records: int = MOST_RECORDS, most_bytes: int = MOST_BYTES) -> None:
        self.most_records, self.most_bytes = most_records, most_bytes
        self.queued = self.queued_bytes = self.sent = self.sent_bytes = 0
        self.free = asyncio.Event()
        self.free.set()

    def queue(self, records: int, size: int) -> None:
        """Records were fetched (or, negative, taken from the queue)."""
        self.queued += records
        self.queued_bytes += size
        self._look()

    def send(self, records: int, size: int) -> None:
        """Outputs were handed to the producer (or, negative, acknowledged or refused)."""
        self.sent += records
        self.sent_bytes += size
        self._look()

    def _look(self) -> None:
        if max(self.queued, self.sent) > self.most_records or max(self.queued_bytes, self.sent_bytes) > self.most_bytes:
            self.free.clear()
        else:
            self.free.set()

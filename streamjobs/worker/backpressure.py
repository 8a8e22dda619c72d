"""Limits on work in flight: fetching pauses while too much is queued or waits for its acknowledgement."""

import asyncio

MAX_RECORDS = 20_000  # queued input records, and as many unacknowledged outputs
MAX_BYTES = 64 << 20  # of each


class Backpressure:
    """Counts over all partitions of a worker. `may_fetch` is set while both counts are below their limits."""

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self.max_records, self.max_bytes = max_records, max_bytes
        self.queued = self.queued_bytes = self.unacknowledged = self.unacknowledged_bytes = 0
        self.may_fetch = asyncio.Event()
        self.may_fetch.set()

    def add_queued(self, records: int, size: int) -> None:
        """Count fetched records; negative numbers count records taken from the queue."""
        self.queued += records
        self.queued_bytes += size
        self._update()

    def add_unacknowledged(self, records: int, size: int) -> None:
        """Count outputs handed to the producer; negative numbers count outputs acknowledged or refused."""
        self.unacknowledged += records
        self.unacknowledged_bytes += size
        self._update()

    def _update(self) -> None:
        records = max(self.queued, self.unacknowledged)
        size = max(self.queued_bytes, self.unacknowledged_bytes)
        if records > self.max_records or size > self.max_bytes:
            self.may_fetch.clear()
        else:
            self.may_fetch.set()

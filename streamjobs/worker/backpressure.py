"""Limits on work in flight, on time without a turn of the event loop, and how long the broker may hold a fetch.

Fetching pauses while too much is queued or waits for its acknowledgement. The partitions of a worker together keep the event
loop for some milliseconds, then everything else gets a turn.
"""

import asyncio
import math
import time
from types import TracebackType
from typing import Any

MAX_RECORDS = 10_000  # queued input records, and as many unacknowledged outputs
MAX_BYTES = 64 << 20  # of each
TURN = 0.02  # seconds of calls of `advance` after which the event loop turns
CALL = 0.15  # seconds of one call, which the number of its records follows; with 0.06 a sample of a frame costs 11 % more
ASKED_TURN = 0.003  # the same while the page asks for keys: smaller calls cost more per record
ASKED_FOR = 5.0  # seconds after a question in which another one is expected
FETCH_WAIT_MS = 100  # an empty fetch stays at the broker this long
HELD_BYTES = 64 << 10  # a larger fetch is not held; less than the least that one partition may give, or a backlog would wait
HELD_MS = 16  # at most, without [source] linger
LEAST_MS = 2.0  # less is not held
SPARE = 0.4  # of the time; more costs less processor, and records come later


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


class Turns:
    """`async with` it around each call of `advance`; one for all partitions, which get it in the order they come."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.again = asyncio.Lock()  # of a partition that applies records again, while it has some: the first sends soon
        self._asked = float("-inf")  # time.monotonic() of the newest question
        self._spent = 0.0  # seconds of calls in this turn of the event loop
        self._began = self.ended = 0.0  # time.perf_counter() of the newest call
        self.trimmed_at = 0.0  # time.monotonic() when the heap was last returned to the system

    def expect_questions(self) -> None:
        """Keep turns short for a while: a viewer waits for the event loop."""
        self._asked = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long calls of `advance` may keep the event loop."""
        return ASKED_TURN if self._are_expected else TURN

    @property
    def call_seconds(self) -> float:
        """How long one call of `advance` may take."""
        return ASKED_TURN if self._are_expected else CALL

    @property
    def _are_expected(self) -> bool:
        return time.monotonic() - self._asked <= ASKED_FOR

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._began = time.perf_counter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if not self._spent:
                asyncio.get_running_loop().call_soon(self._renew)
            self.ended = time.perf_counter()
            self._spent += self.ended - self._began
            if self._spent > self.seconds / 2 and error is None:  # another call would make this turn too long
                await asyncio.sleep(0)
        finally:
            self._lock.release()

    def _renew(self) -> None:
        self._spent = 0.0


class Hold:
    """How long the broker may hold the next fetch: so long that the worker has SPARE of its time to wait for it.

    A fetch, a call of `advance` and a request with outputs cost about the same for one record as for ten, together more than
    1 ms. With many partitions a fetch is there before the calls for the last one are done, and all time goes into fetches of
    few records, which queue. If records wait at the broker, one fetch has all of them. Where the worker waits for records
    anyway, a fetch is not held: it would only be late. [source] linger holds every fetch.
    """

    def __init__(self, linger: float) -> None:
        """linger: seconds, 0 without it."""
        self._linger_ms = round(1000 * linger)
        self._wanted_ms, self._at = 0.0, time.perf_counter()  # when the last fetch came
        self.patience = math.inf  # seconds without a record after which `choose` is to be called, because none may come

    def choose(self, fetcher: Any, records: int, since: float) -> None:
        """Set longest wait and least bytes of the next fetch of aiokafka's fetcher or consumer.

        records: of the last one; since: time.perf_counter() from which the worker had nothing to do but to wait for it.
        """
        now = time.perf_counter()
        lacking_ms = min(HELD_MS, 1000 * (SPARE * (now - self._at) - max(0.0, now - since)))
        self._at = now
        self._wanted_ms = min(HELD_MS, max(0.0, self._wanted_ms + lacking_ms / 8)) if records else 0.0
        held_ms = round(self._wanted_ms) if self._wanted_ms >= LEAST_MS and not self._linger_ms else 0
        self.patience = 4 * held_ms / 1000 if held_ms else math.inf
        wait_ms = self._linger_ms or held_ms
        fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes = (wait_ms, HELD_BYTES) if wait_ms else (FETCH_WAIT_MS, 1)

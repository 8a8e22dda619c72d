"""How long the partitions of a worker keep the event loop: together a few milliseconds, then everything else gets a turn."""

import asyncio
import time
from types import TracebackType

TURN = 0.02  # seconds of calls of `advance` after which the event loop turns; the number of a call's records follows
ASKED_TURN = 0.003  # the same while somebody asks for keys: smaller calls cost more per record
ASKED_FOR = 5.0  # seconds after a question in which another one is expected


class Turns:
    """`async with` it around each call of `advance`; one for all partitions, which get it in the order they come."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._asked = float("-inf")  # time.monotonic() of the newest question
        self._spent = 0.0  # seconds of calls in this turn of the event loop
        self._began = 0.0

    def expect_questions(self) -> None:
        """Keep turns short for a while: somebody waits for the event loop."""
        self._asked = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long a call of `advance` may take."""
        return TURN if time.monotonic() - self._asked > ASKED_FOR else ASKED_TURN

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._began = time.perf_counter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if not self._spent:
                asyncio.get_running_loop().call_soon(self._renew)
            self._spent += time.perf_counter() - self._began
            if self._spent > self.seconds / 2 and error is None:  # another call would make this turn too long
                await asyncio.sleep(0)
        finally:
            self._lock.release()

    def _renew(self) -> None:
        self._spent = 0.0

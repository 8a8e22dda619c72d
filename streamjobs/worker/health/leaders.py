"""Partitions of a worker that wait for a leader: of the input, or of the same partition of the changelog or of an output.

A topic with one replica has partitions without a leader while a broker is down. They are not fenced, restored or read, and
the worker's other partitions go on. When leaders are back, the worker joins its group again.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Any

import structlog

from streamjobs.settings.types import many

log = structlog.get_logger("streamjobs")

ELECTED_WITHIN = 5.0  # seconds; an election takes less where another broker has a replica
LOOK_EVERY = 5.0  # seconds between two looks for the leaders of waiting partitions
RETRY_EVERY = 0.5  # seconds


class Leaders:
    """Of a `WorkerApp`. waiting: of the partitions assigned last, with the topics in which each has no leader."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.waiting: dict[int, set[str]] = {}
        self._watching: asyncio.Future[None] | None = None

    @property
    def reason(self) -> str:
        """For /ready; "" if none waits."""
        topics = sorted(set().union(*self.waiting.values()))
        return f"{many(len(self.waiting), 'partition')} without a leader in {', '.join(topics)}" if topics else ""

    async def able(self, numbers: Collection[int]) -> set[int]:
        """Those of the assigned partitions that have leaders; the others wait. A new election is waited for."""
        self.close()
        started, before = time.monotonic(), self.waiting.keys()
        while (found := await self._look(numbers)) and found.keys() - before:
            if time.monotonic() - started > ELECTED_WITHIN:
                break
            await asyncio.sleep(RETRY_EVERY)
        self.waiting = found or {}  # without an answer, the next question raises an error
        if self.waiting:
            log.warning("partitions wait for a leader", partitions=sorted(self.waiting), reason=self.reason)
            self._watching = asyncio.ensure_future(self._watch())
            self._watching.add_done_callback(self._ended)
        return {number for number in numbers if number not in self.waiting}

    async def _watch(self) -> None:
        while (found := await self._look(self.waiting)) is None or found.keys() == self.waiting.keys():
            await asyncio.sleep(LOOK_EVERY)
        log.info("leaders are back", partitions=sorted(self.waiting.keys() - found.keys()))
        self._app.consumer.rejoin()

    async def _look(self, numbers: Collection[int]) -> dict[int, set[str]] | None:
        """As `waiting`, now; None where no broker tells."""
        app = self._app
        without = await app.consumer.without_leader([app.source, app.changelog, *app.delivery.topics.values()])
        if without is None:
            return None
        found = {number: {topic for topic, one in without if one == number} for number in numbers}
        return {number: topics for number, topics in found.items() if topics}

    def _ended(self, watching: "asyncio.Future[None]") -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            self._app.delivery.fail(error)

    def close(self) -> None:
        """Stop looking."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

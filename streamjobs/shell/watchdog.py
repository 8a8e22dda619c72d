"""A worker that waits for its partitions, and nothing moves: it says so and ends, for whoever runs it to start it anew.

Joining a group, fencing and restoring each end by themselves, or in an error. What a library swallowed instead would
leave a worker that looks alive and never reads a record.
"""

import asyncio
import time
from typing import Any

import structlog

from streamjobs.config import Settings
from streamjobs.errors import SetupError
from streamjobs.shell import topics
from streamjobs.shell.failures import DeliveryError

log = structlog.get_logger("streamjobs")

STUCK = 120.0  # seconds barred without a sign of progress; a rebalance takes at most a third of it


class Watchdog:
    """Looks at delivery's barrier and at what moves while it is down: epochs (rebalances) and restored records."""

    def __init__(self, settings: Settings, delivery: Any, metrics: Any, *, patience: float | None = None) -> None:
        rebalance = 2 * settings.broker.session_timeout
        self.patience = patience if patience is not None else max(STUCK, 3 * rebalance)
        self._servers = topics.bootstrap(settings.broker.url)
        self._delivery, self._metrics = delivery, metrics
        self._sign: tuple[Any, ...] = ()
        self._since = time.monotonic()

    async def look(self) -> None:
        """Raises DeliveryError when the broker answers and still nothing has moved for `patience` seconds."""
        now, delivery = time.monotonic(), self._delivery
        sign = (delivery.barrier, delivery.epoch, self._metrics.remaining)
        if not delivery.barrier or sign != self._sign:
            self._sign, self._since = sign, now
        elif now - self._since > self.patience:
            waited, self._since = now - self._since, now
            try:
                await asyncio.to_thread(topics._connect, self._servers)
            except SetupError as error:
                log.warning("waiting for the broker", seconds=round(waited), error=str(error))
                return
            raise DeliveryError(
                f"no partitions for {waited:.0f} s: the broker answers, but joining the group, fencing or restoring does "
                "not go on. Nothing is lost: a restart continues from the last checkpoint."
            )

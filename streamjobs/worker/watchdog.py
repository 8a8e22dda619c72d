"""Ends a worker that would otherwise look alive and do nothing, so that whoever runs it can start it again.

Joining a group, fencing and recovery each finish by themselves or raise an error. If a library swallows that error, the
worker never reads a record again. The watchdog also ends a worker whose credentials are refused for good, and one whose
input topic was deleted and recreated, or has new partitions: a consumer does not notice, or goes on in the middle.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka.admin import AdminClient

from streamjobs.errors import SetupError, StreamjobsError
from streamjobs.kafka import client, topics
from streamjobs.kafka.handshake import refusal
from streamjobs.kafka.layout import require_same_count
from streamjobs.kafka.patches.connections import LastAnswer, Refusals
from streamjobs.kafka.topic_id import require_same_topic, topic_id
from streamjobs.settings.sections import Settings
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.health import STALLED

log = structlog.get_logger("streamjobs")

INPUT_EVERY = 20.0  # seconds between two requests for the input topic's id and partitions
REFUSED_FOR = 60.0  # seconds; a password is changed at the broker and in the worker's file one after the other
TAKEN_OVER_FOR = 60.0  # seconds; a dead connection to the group's coordinator is noticed in a quarter of it
STUCK_FOR = 120.0  # seconds behind the barrier without progress; a rebalance takes at most a third of it


class Watchdog:
    """Checks delivery's barrier, and while it is up what should move: epochs (rebalances) and recovered records."""

    def __init__(
        self,
        settings: Settings,
        delivery: Any,
        metrics: Any,
        *,
        patience: float | None = None,
        input_id: str = "",
        partitions: int = 0,
    ) -> None:
        rebalance = 2 * settings.broker.session_timeout
        self.patience = patience if patience is not None else max(STUCK_FOR, 3 * rebalance)
        self._delivery, self._metrics = delivery, metrics
        self._progress: tuple[Any, ...] = ()
        self._progress_at = self._input_asked_at = time.monotonic()
        self._broker, self._topic, self._input_id = settings.broker, settings.source.topic, input_id
        self._partitions = partitions  # of the input, 0: not watched
        self._partitions_now: int | None = None
        self._asking: asyncio.Future[str] | None = None
        self._silent = False

    async def check(self) -> None:
        """Raises what should end the worker; returns at once otherwise.

        DeliveryError: the broker answers, and still nothing has moved for `patience` seconds; or for TAKEN_OVER_FOR seconds
        the group has not revoked a partition that another worker writes.
        SetupError: for REFUSED_FOR seconds every connection was refused for TLS or credentials, or the input is another
        topic than it was, or has more partitions.
        """
        self._check_credentials()
        now, delivery = time.monotonic(), self._delivery
        self._check_silence(now)
        self._check_input(now)
        for taken_over in delivery.taken_over.values():
            if now - taken_over.since > TAKEN_OVER_FOR:
                raise taken_over.error
        progress = (delivery.barrier, delivery.epoch, self._metrics.remaining)
        if not delivery.barrier or progress != self._progress:
            self._progress, self._progress_at = progress, now
        elif now - self._progress_at > self.patience:
            waited, self._progress_at = now - self._progress_at, now
            try:
                await asyncio.to_thread(topics.connect, self._broker)
            except SetupError as error:
                log.warning("waiting for the broker", seconds=round(waited), error=str(error))
                return
            raise DeliveryError(
                f"the worker has had no partitions for {waited:.0f} s: the broker answers, but joining the group, fencing "
                "or recovery is stuck. Start the worker again; it continues from the last checkpoint."
            )

    def _check_silence(self, now: float) -> None:
        """Log once that no broker answers, and once that one does again: the libraries retry without a word."""
        silent = LastAnswer.at > 0 and now - LastAnswer.at > STALLED
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            log.warning("no broker answers", seconds=round(now - LastAnswer.at), action="retrying until one does")
        else:
            log.info("a broker answers again")

    def _check_credentials(self) -> None:
        since, error = Refusals.since, Refusals.error
        if since is None or error is None or time.monotonic() - since < REFUSED_FOR:
            return
        sentence = refusal(self._broker, Refusals.server, error) or f"broker {Refusals.server}: {error}"
        raise SetupError(
            f"{sentence} Every connection was refused for {time.monotonic() - since:.0f} s; nothing is lost, a restart "
            "continues from the last checkpoint."
        )

    def _check_input(self, now: float) -> None:
        """Never waits: an answer is checked when it is there."""
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking.result(), None
            require_same_topic(self._topic, self._input_id, answer)
            require_same_count(self._topic, self._partitions, self._partitions_now)
        if (self._input_id or self._partitions) and self._asking is None and now - self._input_asked_at > INPUT_EVERY:
            self._input_asked_at = now
            self._asking = asyncio.ensure_future(asyncio.to_thread(self._ask_input_id))

    def _ask_input_id(self) -> str:
        with suppress(StreamjobsError):  # a password file that is just being replaced: asked again later
            admin = AdminClient(client.for_confluent(self._broker))
            if self._partitions:
                self._partitions_now = topics.count_partitions(admin, self._topic)
            return topic_id(admin, self._topic)
        return ""

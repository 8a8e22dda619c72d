"""A worker that waits for its partitions, and nothing moves: it says so and ends, for whoever runs it to start it anew.

Joining a group, fencing and restoring each end by themselves, or in an error. What a library swallowed instead would
leave a worker that looks alive and never reads a record.

It also asks now and then whether the input is still the topic it was: of one that is deleted and made anew under it, a
consumer notices nothing, or goes on in the middle.
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
from streamjobs.kafka.patches.connections import Answered, Refused
from streamjobs.kafka.topic_id import refuse_another, topic_id
from streamjobs.settings.sections import Settings
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.health import STALLED

log = structlog.get_logger("streamjobs")

INPUT_EVERY = 20.0  # seconds between two questions for the input's id
REFUSED = 60.0  # seconds; a password is changed at the broker and in the worker's file one after the other
LOST = 60.0  # seconds; a dead connection to the group's coordinator is noticed in a quarter of it
STUCK = 120.0  # seconds barred without a sign of progress; a rebalance takes at most a third of it


class Watchdog:
    """Looks at delivery's barrier and at what moves while it is down: epochs (rebalances) and restored records."""

    def __init__(
        self, settings: Settings, delivery: Any, metrics: Any, *, patience: float | None = None, input_id: str = ""
    ) -> None:
        rebalance = 2 * settings.broker.session_timeout
        self.patience = patience if patience is not None else max(STUCK, 3 * rebalance)
        self._delivery, self._metrics = delivery, metrics
        self._sign: tuple[Any, ...] = ()
        self._since = self._asked = time.monotonic()
        self._broker, self._topic, self._input_id = settings.broker, settings.source.topic, input_id
        self._asking: asyncio.Future[str] | None = None
        self._silent = False

    async def look(self) -> None:
        """Raises DeliveryError when the broker answers and still nothing has moved for `patience` seconds, or when the group
        has left a partition here for LOST seconds that another worker writes.

        Raises SetupError when every connection of the last REFUSED seconds was refused for TLS or credentials, or when the
        input is another topic than it was.
        """
        self._look_at_credentials()
        now, delivery = time.monotonic(), self._delivery
        self._look_at_silence(now)
        self._look_at_the_input(now)
        for lost in delivery.lost.values():
            if now - lost.since > LOST:
                raise lost.error
        sign = (delivery.barrier, delivery.epoch, self._metrics.remaining)
        if not delivery.barrier or sign != self._sign:
            self._sign, self._since = sign, now
        elif now - self._since > self.patience:
            waited, self._since = now - self._since, now
            try:
                await asyncio.to_thread(topics.connect, self._broker)
            except SetupError as error:
                log.warning("waiting for the broker", seconds=round(waited), error=str(error))
                return
            raise DeliveryError(
                f"no partitions for {waited:.0f} s: the broker answers, but joining the group, fencing or restoring does "
                "not go on. Nothing is lost: a restart continues from the last checkpoint."
            )

    def _look_at_silence(self, now: float) -> None:
        """A library goes on asking and says nothing; whoever reads the log is told once, and once that it is over."""
        silent = Answered.at > 0 and now - Answered.at > STALLED
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            log.warning("no broker answers; it goes on by itself when one does", seconds=round(now - Answered.at))
        else:
            log.info("a broker answers again")

    def _look_at_credentials(self) -> None:
        since, error = Refused.since, Refused.error
        if since is None or error is None or time.monotonic() - since < REFUSED:
            return
        sentence = refusal(self._broker, Refused.server, error) or f"broker {Refused.server}: {error}"
        raise SetupError(
            f"{sentence} Refused for {time.monotonic() - since:.0f} s; nothing is lost, a restart continues from the last "
            "checkpoint."
        )

    def _look_at_the_input(self, now: float) -> None:
        """Never waits: an answer is looked at when it is there."""
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking.result(), None
            refuse_another(self._topic, self._input_id, answer)
        if self._input_id and self._asking is None and now - self._asked > INPUT_EVERY:
            self._asked = now
            self._asking = asyncio.ensure_future(asyncio.to_thread(self._ask))

    def _ask(self) -> str:
        with suppress(StreamjobsError):  # a file with a password that is being replaced: asked again
            return topic_id(AdminClient(client.for_confluent(self._broker)), self._topic)
        return ""

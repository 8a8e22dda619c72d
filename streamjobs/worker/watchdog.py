"""Ends a worker that would otherwise look alive and do nothing, so that whoever runs it can start it again.

Joining a group, fencing and recovery each finish by themselves or raise an error. If a library swallows that error, the
worker never reads a record again. The watchdog also ends a worker whose credentials are refused for good, and one whose
input or changelog topic was deleted and recreated: a consumer does not notice, or goes on in the middle, and a producer
writes to the new topic, which lacks all older states. The same for an input that has new partitions.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import structlog

from streamjobs.errors import SetupError
from streamjobs.kafka import topics
from streamjobs.kafka.handshake import refusal
from streamjobs.kafka.layout import require_same_count
from streamjobs.kafka.patches.connections import LastAnswer, Refusals
from streamjobs.kafka.topic_id import MISSING, Origin, present_ids, require_same_changelog, require_same_input
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import NO_ORIGIN
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.health import STALLED

log = structlog.get_logger("streamjobs")

IDS_EVERY = 20.0  # seconds between two requests for the ids of input and changelog, and the input's partitions
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
        origin: Origin = NO_ORIGIN,
        partitions: int = 0,
    ) -> None:
        rebalance = 2 * settings.broker.session_timeout
        self.patience = patience if patience is not None else max(STUCK_FOR, 3 * rebalance)
        self._delivery, self._metrics = delivery, metrics
        self._progress: tuple[Any, ...] = ()
        self._progress_at = self._ids_asked_at = time.monotonic()
        self._broker, self._job, self._origin = settings.broker, settings.job.name, origin
        self._changelog, self._changelog_missing = topics.changelog(settings), False
        self._source, self._partitions = settings.source.topic, partitions  # 0: not watched
        self._asking: asyncio.Future[tuple[dict[str, str], int | None]] | None = None
        self._silent = False

    async def check(self) -> None:
        """Raises what should end the worker; returns at once otherwise.

        DeliveryError: the broker answers, and still nothing has moved for `patience` seconds; or for TAKEN_OVER_FOR seconds
        the group has not revoked a partition that another worker writes.
        SetupError: for REFUSED_FOR seconds every connection was refused for TLS or credentials, or the input or
        the changelog is another topic than it was, or the input has more partitions.
        """
        self._check_credentials()
        now, delivery = time.monotonic(), self._delivery
        self._check_silence(now)
        self._check_ids(now)
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

    def _check_ids(self, now: float) -> None:
        """Never waits: an answer is checked when it is there."""
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking.result(), None
            ids, partitions = answer
            self._require_same_topics(ids)
            require_same_count(self._source, self._partitions, partitions)
        known = self._origin.input_id or self._origin.changelog_id or self._partitions
        if known and self._asking is None and now - self._ids_asked_at > IDS_EVERY:
            self._ids_asked_at = now
            self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> tuple[dict[str, str], int | None]:
        count = asyncio.to_thread(topics.count_partitions, self._broker, self._source) if self._partitions else None
        return await self._ask_ids(), await count if count is not None else None

    async def _ask_ids(self) -> dict[str, str]:
        return await asyncio.to_thread(present_ids, self._broker, [self._origin.topic, self._changelog])

    def _require_same_topics(self, ids: Mapping[str, str]) -> None:
        """Raises SetupError if they differ. One answer without the changelog may be a node's that is behind."""
        input_id, changelog_id = ids[self._origin.topic], ids[self._changelog]
        if input_id != MISSING:
            require_same_input(self._job, Origin(self._origin.topic, input_id), self._origin)
        missing, self._changelog_missing = self._changelog_missing, changelog_id == MISSING
        if missing or not self._changelog_missing:
            require_same_changelog(self._changelog, self._origin.changelog_id, changelog_id)

    async def cause_of(self, failure: BaseException) -> BaseException:
        """What a worker's failure comes from: a recreated topic, where there is one, or the failure itself."""
        if not isinstance(failure, DeliveryError):
            return failure
        try:
            self._require_same_topics(await self._ask_ids())
        except SetupError as error:
            return error
        return failure

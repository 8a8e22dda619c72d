"""Ends a worker that would otherwise look alive and do nothing, so that its supervisor can start it again.

Joining a group, fencing and recovery each finish by themselves or raise an error. If a library swallows that error, the
worker never reads a record again. The watchdog also ends a worker with permanently refused credentials, one that lost a
topic or its [state] directory, and one with an input or changelog topic that was deleted and recreated: a consumer does not
notice, or goes on in the middle, and a producer writes to the new topic, which lacks all older states. The same for an
input that has new partitions. It logs a changelog that the broker may delete states of.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog

from streamjobs.errors import SetupError
from streamjobs.kafka import topic_id, topics
from streamjobs.kafka.handshake import refusal
from streamjobs.kafka.layout import require_same_count
from streamjobs.kafka.patches.connections import LastAnswer, Refusals, UnknownTopic
from streamjobs.kafka.patches.instances import TakenInstance
from streamjobs.kafka.preflight import lacking
from streamjobs.kafka.topic_id import present_ids
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import NO_ORIGIN
from streamjobs.worker.failures import REFUSED, DeliveryError
from streamjobs.worker.health import STALLED
from streamjobs.worker.state_folder import holder_of

log = structlog.get_logger("streamjobs")

IDS_EVERY = 20.0  # seconds between two requests for the ids of the job's topics, and the input's partitions
POLICY_EVERY = 300.0  # seconds between two requests for the changelog's cleanup.policy
FOLDER_EVERY = 5.0  # seconds between two looks for [state] directory; a look takes some microseconds
IDS_AGAIN = 1.0  # the same, after an answer or a client's metadata lacked a topic
GONE_FOR = 2.0  # seconds; one answer without a topic may be that of a node that is behind
REFUSED_FOR = 60.0  # seconds; a password is changed at the broker and in the worker's file one after the other
FROZEN_FOR = 10.0  # seconds without a check: the worker did not run, and what waits for others gets its time again
TAKEN_OVER_FOR = 60.0  # seconds; a dead connection to the group's coordinator is noticed in a quarter of it
STUCK_FOR = 120.0  # seconds behind the barrier without progress; a rebalance takes at most a third of it
FROZEN = (
    "the process was stopped, got no processor time, or one step took this long; it continues with the partitions that its "
    "group assigns to it"
)


class Watchdog:
    """Checks delivery's barrier, and while it is up what should move: epochs (rebalances) and recovered records."""

    def __init__(
        self,
        settings: Settings,
        delivery: Any,
        metrics: Any,
        *,
        patience: float | None = None,
        origin: topic_id.Origin = NO_ORIGIN,
        partitions: int = 0,
    ) -> None:
        rebalance = 2 * settings.broker.session_timeout
        self.patience = patience if patience is not None else max(STUCK_FOR, 3 * rebalance)
        self._delivery, self._metrics = delivery, metrics
        self._progress: tuple[Any, ...] = ()
        self._progress_at = self._ids_asked_at = self._checked_at = time.monotonic()
        self._woke_at = 0.0  # time.monotonic() of the last check after the worker did not run
        self._settings, self._broker, self._job, self._origin = settings, settings.broker, settings.job.name, origin
        self._changelog = topics.changelog(settings)
        self._output_ids: dict[str, str] = {}
        self._missing: dict[str, float] = {}  # topics that the newest answer lacks, since time.monotonic()
        self._source, self._partitions = settings.source.topic, partitions  # 0: not watched
        self._asking: asyncio.Future[tuple[dict[str, str], int | None]] | None = None
        self._silent = False
        self._policy_at, self._deleting = self._progress_at, False
        self._holder, self._folder_at = None if settings.state.store == "memory" else holder_of(settings), self._progress_at

    async def check(self) -> None:
        """Raises what should end the worker; returns at once otherwise.

        DeliveryError: the broker answers, and still nothing has moved for `patience` seconds; or for TAKEN_OVER_FOR seconds
        the group has not revoked a partition that another worker writes.
        SetupError: for REFUSED_FOR seconds every connection was refused for TLS or credentials, or a topic of the job was
        deleted, or the input or the changelog is another topic than it was, or the input has more partitions, or another
        worker has this one's instance id, or [state] directory was removed.
        """
        now, delivery = time.monotonic(), self._delivery
        self._check_frozen(now)
        self._check_credentials()
        self._check_instance()
        self._check_silence(now)
        self._check_folder(now)
        self._check_ids(now)
        for taken_over in delivery.taken_over.values():
            if now - max(taken_over.since, self._woke_at) > TAKEN_OVER_FOR:
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
                self._checked_at = time.monotonic()
                return
            raise DeliveryError(
                f"the worker has had no partitions for {waited:.0f} s: the broker answers, but joining the group, fencing "
                "or recovery is stuck, such as on a partition without a leader ('streamjobs check JOB --online' names it). "
                "Start the worker again; it continues from the last checkpoint."
            )

    def _check_frozen(self, now: float) -> None:
        """Begin all waits again after a pause of the process: meanwhile nothing could move, and no answer could be read."""
        stood, self._checked_at = now - self._checked_at, now
        if stood > FROZEN_FOR:
            self._woke_at = self._progress_at = now
            self._missing.clear()
            log.warning("the worker did not run", seconds=round(stood), reason=FROZEN)

    def _check_silence(self, now: float) -> None:
        """Log once that no broker answers, and once that one does again: the libraries retry without a word."""
        answered = LastAnswer.at if self._silent else max(LastAnswer.at, self._woke_at)
        silent = LastAnswer.at > 0 and now - answered > STALLED
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            log.warning("no broker answers", seconds=round(now - answered), action="retrying until one does")
        else:
            log.info("a broker answers again")

    def _check_instance(self) -> None:
        if TakenInstance.name:
            raise SetupError(
                f"[broker] instance_id: another worker of job {self._job} has started with {TakenInstance.name!r}, and its "
                "group has given it this worker's partitions. Nothing is lost. Give each worker an id of its own: "
                "STREAMJOBS_BROKER__INSTANCE_ID."
            )

    def _check_folder(self, now: float) -> None:
        """Open files outlive their names: a worker would go on, and another one could take the folder."""
        if self._holder is None or now - self._folder_at < FOLDER_EVERY:
            return
        self._folder_at = now
        with suppress(OSError):  # asked again
            if holder_of(self._settings) != self._holder:
                raise SetupError(
                    f"[state] directory: the folder of job {self._job} in {self._settings.state.directory} was removed or "
                    "replaced under this worker. Nothing is lost: start it again, and it restores the states from the "
                    "changelog."
                )

    def _check_credentials(self) -> None:
        since, error = Refusals.since, Refusals.error
        if since is None or error is None or time.monotonic() - max(since, self._woke_at) < REFUSED_FOR:
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
            self._require_same_topics(ids, now - GONE_FOR)
            require_same_count(self._source, self._partitions, partitions)
        known = self._origin.input_id or self._origin.changelog_id or self._partitions
        every = IDS_AGAIN if self._missing or UnknownTopic.at > self._ids_asked_at else IDS_EVERY
        if known and self._asking is None and now - self._ids_asked_at > min(every, IDS_EVERY):
            self._ids_asked_at = now
            self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> tuple[dict[str, str], int | None]:
        if time.monotonic() - self._policy_at > POLICY_EVERY:
            self._policy_at = time.monotonic()
            await asyncio.to_thread(self._check_policy)
        ids = await self._ask_ids()
        if not self._partitions:
            return ids, None
        return ids, await asyncio.to_thread(topics.count_partitions, self._broker, self._source)

    def _check_policy(self) -> None:
        """Log once that the broker may delete states, while this worker's local store still has all of them."""
        with suppress(SetupError):  # no answer: asked again
            problem = topics.deleting(self._settings, topics.connect(self._broker)[0])
            if problem and not self._deleting:
                log.error("states will be lost", reason=problem)
            self._deleting = bool(problem)

    async def _ask_ids(self) -> dict[str, str]:
        names = [self._origin.topic, self._changelog, *self._delivery.topics.values()]
        return await asyncio.to_thread(present_ids, self._broker, names)

    def _require_same_topics(self, ids: Mapping[str, str], gone_since: float) -> None:
        """Raises SetupError if they differ, or if one has been missing since `gone_since` (time.monotonic()) or earlier."""
        now, source, changelog = time.monotonic(), self._origin.topic, self._changelog
        self._missing = {name: self._missing.get(name, now) for name, one in ids.items() if one == topic_id.MISSING}
        gone = {name for name, since in self._missing.items() if since < gone_since}
        if source in gone:
            raise SetupError(topic_id.deleted_input(source))
        if source not in self._missing:
            topic_id.require_same_input(self._job, topic_id.Origin(source, ids[source]), self._origin)
        if changelog in gone or changelog not in self._missing:
            topic_id.require_same_changelog(changelog, self._origin.changelog_id, ids[changelog])
        for role, name in self._delivery.topics.items():
            if name in gone:
                raise SetupError(topic_id.deleted_output(name, role))
            present = ids.get(name, "")
            if present not in ("", topic_id.MISSING) and self._output_ids.setdefault(name, present) != present:
                self._output_ids[name] = present
                log.warning("an output topic was recreated", topic=name, meaning="its former records are gone")

    async def cause_of(self, failure: BaseException) -> BaseException:
        """What a worker's failure comes from: a topic that was deleted or recreated, a right, or the failure itself.

        The first answer to a write may name neither: in a transaction it is InvalidTxnState.
        """
        if not isinstance(failure, (DeliveryError, *REFUSED)):
            return failure
        ids = await self._ask_ids()
        try:
            self._require_same_topics(ids, math.inf)
        except SetupError as error:
            return error
        missing = await asyncio.to_thread(lacking, self._settings, self._delivery.core.job) if any(ids.values()) else []
        if not missing:
            return failure
        named = DeliveryError(f"{missing[0]} Nothing is lost: a restart continues from the last checkpoint.")
        named.__cause__ = failure  # for --debug
        return named

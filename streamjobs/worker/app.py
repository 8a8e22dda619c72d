"""The Faust app of a job: one input topic, one table with its changelog."""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import faust
import structlog
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP
from mode.utils.imports import FactoryMapping

from streamjobs.core.interface import Core
from streamjobs.kafka import client, layout, patches, topics
from streamjobs.kafka.patches import decompression
from streamjobs.kafka.topic_id import MISSING, Origin, present_ids, require_same_changelog
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings
from streamjobs.worker import recovery
from streamjobs.worker.changelog import NO_ORIGIN, Changelog
from streamjobs.worker.consumer import NO_LEADER, Transport
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.failures import DeliveryError, is_passing
from streamjobs.worker.health.leaders import Leaders
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.outbox import Producer
from streamjobs.worker.state_folder import state_folder
from streamjobs.worker.store import MemoryStore, RocksStore, Store

if TYPE_CHECKING:
    from streamjobs.schema_registry.lookup import Lookup

log = structlog.get_logger("streamjobs")

REQUEST_TIMEOUT = 30.0  # seconds, at least; joining a group waits for the others' rebalance
REBALANCE_TIMEOUT = 20.0  # seconds, at least: revoked partitions take their last checkpoint within it


class WorkerTransport(Transport):
    Producer = Producer


class WorkerApp(faust.App):  # type: ignore[misc]
    """Made by `build`, which sets these attributes."""

    delivery: Delivery
    source: str  # input topic
    changelog: str
    store: Store
    metrics: Metrics
    client: Mapping[str, Any]  # for aiokafka
    broker_section: BrokerSection
    lookup: "Lookup | None"  # of schemas
    linger: float  # seconds, [source] linger
    waiting: frozenset[int]  # input partitions that are not processed here, see `build`
    leaders: Leaders | None = None  # None: every partition is needed

    @property
    def idle(self) -> Collection[int]:
        """Input partitions that are not read here now."""
        return self.waiting.union(self.leaders.waiting) if self.leaders is not None else self.waiting

    async def fence_and_restore(self, partitions: set[int]) -> bool:
        """Fence and restore those of these partitions that have leaders; False on failure, or if the worker is stopping.

        Raises an error that passes, see `failures.is_passing`.
        """
        try:
            if self.leaders is not None:
                partitions = await self.leaders.able(partitions)
            asking = asyncio.to_thread(present_ids, self.broker_section, [self.changelog])
            fenced, present = await asyncio.gather(self.delivery.fence(sorted(partitions)), asking)
            await self._require_same_changelog(partitions, present[self.changelog])
            tps = [TP(self.changelog, partition) for partition in partitions]
            if tps:
                ends = await self.consumer.highwaters(*tps)
                first = await self.consumer.earliest_offsets(*tps)
                bounds = {tp.partition: (first[tp], ends[tp]) for tp in tps}
                of_changelog = self.delivery.origin.changelog_id, self.delivery.limits.tombstones
                for partition, (_, end) in bounds.items():
                    fenced[partition].end = end
                await recovery.restore(self.client, self.changelog, bounds, self.store, self.metrics, *of_changelog)
            lives = {Origin.of(self.store.marks(number)).life for number in partitions}
            self.delivery.mark_restored(fenced, max(lives, default=""))
        except Exception as error:  # raised, all but a passing one would end a Faust service and leave the worker idle
            if self.delivery.stopping:  # it closes what is being opened here
                return False
            if is_passing(error):
                raise
            if isinstance(error, KafkaTimeoutError):
                error = DeliveryError(NO_LEADER.format(self.changelog, error))
            self.delivery.fail(error)
            return False
        return True

    async def _require_same_changelog(self, partitions: set[int], asked: str) -> None:
        """Before recovery: it would mix the stores with a changelog that was recreated meanwhile. asked: its id now.

        Raises SetupError, unless the group's offsets were committed with the present changelog: then its states are known
        to be whole, and a store of a former one, or of an older release, is only an old copy. It begins empty.
        """
        present = self.delivery.origin.changelog_id
        if asked != MISSING:  # which a node that is behind may say: the watchdog asks again
            require_same_changelog(self.changelog, present, asked)
        holding = [number for number in sorted(partitions) if self.store.reached(number) is not None]
        known = {number: Origin.of(self.store.marks(number)).changelog_id for number in holding}
        others = {number: changelog_id for number, changelog_id in known.items() if changelog_id != present}
        if not present or not others:
            return
        committed = await self.consumer.committed_changelogs(others)
        for number, changelog_id in others.items():
            if committed.get(number) == present:
                why = "it belongs to a former changelog" if changelog_id else "an older release wrote it"
                log.warning("rebuilding the local store from the changelog", partition=number, why=why)
                self.store.clear(number)
            else:
                require_same_changelog(self.changelog, changelog_id, present)

    async def on_stop(self) -> None:
        """Take the last checkpoints before the consumer leaves its group."""
        self.delivery.stopping = True
        if self.leaders is not None:
            self.leaders.close()
        self.delivery.raise_barrier()
        await self.delivery.revoke("stop")
        self.delivery.released.set()
        if self.lookup is not None:
            await self.lookup.close()
        await super().on_stop()


class AppKafka:
    """The `KafkaPort` of a running app."""

    def __init__(self, app: WorkerApp, name: str) -> None:
        self._app, self._name = app, name

    def producer(self) -> Any:
        return self._app.producer._ensure_producer()

    def changelog(self, partition: int) -> Changelog:
        app = self._app
        of_app = app.client, self._name, app.changelog
        return Changelog(*of_app, partition, app.delivery.origin, batch_bytes=app.delivery.limits.batch_bytes)

    async def commit(self, partition: int, offset: int, progress: int, moment: str) -> bool:
        accepted: bool = await self._app.consumer.commit_offset(partition, offset, progress, moment)
        return accepted


def build(
    settings: Settings,
    core: Core,
    metrics: Metrics,
    partitions: int,
    origin: Origin = NO_ORIGIN,
    drained: layout.Growth | None = None,
    limits: topics.Limits = topics.NO_LIMITS,
) -> WorkerApp:
    """The app, ready to be started in the running event loop. partitions: of the input, and of every other topic.

    drained: process only the partitions of an input that has grown that states have still to leave.
    Raises SetupError where [state] directory cannot be created.
    """
    patches.apply()
    FactoryMapping._finalized = True  # no plugins of Faust: looking for them reads what all installed packages say of them
    decompression.set_limit(settings.source.max_bytes)
    name, broker, folder = settings.job.name, settings.broker, state_folder(settings)
    in_memory = settings.state.store == "memory"
    app = WorkerApp(
        name,
        **client.for_faust(broker),
        store="memory://" if in_memory else "rocksdb://",
        datadir=folder,
        autodiscover=False,
        web_enabled=False,
        HttpClient=object,  # Faust's own is aiohttp's, see `lean_imports`
        topic_partitions=partitions,
        topic_allow_declare=False,  # kafka/topics.py creates them
        topic_disable_leader=True,
        TableManager=recovery.Tables,
        table_standby_replicas=0,
        stream_wait_empty=False,  # events are never acknowledged to Faust: it would wait for ever
        stream_recovery_delay=0,
        broker_session_timeout=broker.session_timeout,
        broker_heartbeat_interval=broker.session_timeout / 6,
        broker_request_timeout=max(REQUEST_TIMEOUT, 3 * broker.session_timeout),
        broker_rebalance_timeout=max(REBALANCE_TIMEOUT, 2 * broker.session_timeout),
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=broker.instance_id,
        producer_max_batch_size=limits.batch_bytes,
        producer_linger=0.0,
    )
    app.boot_strategy.enable_sensors = False  # our own metrics instead
    app.transport = app.producer_transport = WorkerTransport(app.conf.broker_consumer, app)
    app.source, app.changelog, app.metrics = settings.source.topic, topics.changelog(settings), metrics
    app.client, app.broker_section, app.linger = client.for_aiokafka(broker), broker, settings.source.linger
    app.waiting = frozenset() if drained is None else frozenset(range(partitions)) - drained.waiting

    raw = faust.Schema(key_type=bytes, value_type=bytes)
    source = app.topic(app.source, schema=raw, partitions=partitions)
    table = app.Table("state", partitions=partitions, key_type=bytes, value_type=bytes, schema=raw)
    assert table.changelog_topic.get_topic_name() == app.changelog
    app.store = MemoryStore() if in_memory else RocksStore(table.data)
    app.lookup = None
    if settings.registry is not None:
        from streamjobs.schema_registry.lookup import lookup_of  # imports an HTTP client

        app.lookup = lookup_of(settings, core.schemas, partial(metrics.count, "schema_registry_requests_total", 1))
    app.delivery = Delivery(
        core,
        settings.state,
        app.store,
        AppKafka(app, name),
        metrics,
        exactly_once=settings.job.guarantee == "exactly_once",
        origin=origin,
        ready=app.lookup.ready if app.lookup is not None else None,
        limits=limits,
    )
    metrics.lookup = app.lookup

    def end_of(partition: int) -> int | None:  # app.consumer is made when it starts
        end: int | None = app.consumer.end_of(partition)
        return end

    metrics.end_of = end_of

    _subscribe(app, source)
    return app


def _subscribe(app: WorkerApp, source: Any) -> None:
    """Faust subscribes to the topics of its agents; the consumer keeps the records.

    Not with `app.agent`: it looks for its caller in every loaded module, 70 ms of a start.
    """

    async def subscribe(stream: Any) -> None:
        async for _ in stream.noack().events():
            pass

    app.agents["subscribe"] = app.conf.Agent(
        subscribe, name="subscribe", app=app, channel=source, on_error=app._on_agent_error
    )

"""A recovery that takes longer than tombstones are kept, on a real broker that compacts one away meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as Place
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.worker import recovery
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.store import MemoryStore
from tests.brokers.kafka_job import KafkaJob, until

HOUR = 3_600_000  # milliseconds
SEGMENT = 1 << 20  # bytes
FILLER = 100_000  # bytes of a record
FILLERS = 3 * SEGMENT // FILLER
KEPT = 3.0  # seconds that tombstones are kept


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> Iterator[str]:
    """The broker of all tests looks for something to compact all the time, while these run."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def look(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=operation)
        node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([node])[node].result(10)

    look(AlterConfigOpType.SET)
    yield broker.bootstrap
    look(AlterConfigOpType.DELETE)


def changelog(bootstrap: str, name: str) -> AdminClient:
    """b"ended" has a state in the first segment and a tombstone in the second; b"alive" has the same state.

    Records of the first segments are an hour old: `min.compaction.lag.ms` decides up to where the broker compacts.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT),
        "min.cleanable.dirty.ratio": "0",
        "min.compaction.lag.ms": str(24 * HOUR),  # nothing is compacted yet
        "delete.retention.ms": str(round(1000 * KEPT)),
    }
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1, "log_level": 0})
    now = round(time.time() * 1000)

    def fill(kind: str, at: int) -> None:
        for number in range(FILLERS):
            producer.produce(name, key=b"%s%d" % (kind.encode(), number), value=bytes(FILLER), timestamp=at)

    for key in (b"ended", b"alive"):
        producer.produce(name, key=key, value=b"state", timestamp=now - HOUR)
    fill("old", now - HOUR)
    producer.produce(name, key=b"ended", value=None, timestamp=now - HOUR)
    fill("old", now - HOUR)
    fill("new", now)
    fill("new", now)
    assert producer.flush(30) == 0
    return admin


def records_of(bootstrap: str, topic: str, key: bytes) -> list[bytes | None]:
    """Values of the key that a reader from the beginning finds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        if message.key() == key:
            found.append(message.value())
    consumer.close()
    return found


class Pausing(AIOKafkaConsumer):  # type: ignore[misc]
    """Once it has read the first states, it goes on when the broker has compacted all of the key's records away."""

    bootstrap = topic = ""
    admin: AdminClient
    paused = False

    async def getmany(self, *arguments: object, **named: object) -> object:
        found = await super().getmany(*arguments, **named)
        if found and not self.paused:
            self.paused = True
            assert len(next(iter(found.values()))) < 10
            await asyncio.to_thread(self.compact)
        return found

    def compact(self) -> None:
        alter = partial(KafkaJob.alter, self)  # type: ignore[arg-type]
        alter(self.topic, "min.compaction.lag.ms", str(HOUR // 2))
        until(lambda: records_of(self.bootstrap, self.topic, b"ended") == [None], "the key's state compacted away", 60)
        time.sleep(KEPT)
        alter(self.topic, "min.compaction.lag.ms", "0")
        until(lambda: records_of(self.bootstrap, self.topic, b"ended") == [], "its tombstone compacted away", 60)

    def topic_setting(self, topic: str, setting: str) -> str:
        return KafkaJob.topic_setting(self, topic, setting)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["empty", "local"])
def test_a_key_whose_tombstone_goes_while_a_worker_recovers_does_not_come_back(
    name: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """local: the local store has the states of a moment ago."""
    topic = f"slow-{name}"
    monkeypatch.setattr(Pausing, "admin", changelog(bootstrap, topic), raising=False)
    monkeypatch.setattr(Pausing, "bootstrap", bootstrap)
    monkeypatch.setattr(Pausing, "topic", topic)
    monkeypatch.setattr(recovery, "AIOKafkaConsumer", Pausing)
    monkeypatch.setattr(recovery, "PARTITION_BYTES", 1000)
    store = MemoryStore()
    if name == "local":
        held = [(b"ended", b"state"), (b"alive", b"state"), (b"old0", bytes(FILLER))]
        store.write(0, held, 2, marks={"changelog": "id", "whole": f"{time.time():.0f}"})
    asyncio.run(restore(bootstrap, topic, store))
    keys = {key for key, _ in store.scan(0, None, 1000)}
    assert keys == {b"alive"} | {b"%s%d" % (kind, number) for kind in (b"old", b"new") for number in range(FILLERS)}


async def restore(bootstrap: str, topic: str, store: MemoryStore) -> None:
    asked = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await asked.start()
    (end,) = (await asked.end_offsets([Place(topic, 0)])).values()
    await asked.stop()
    metrics = Metrics("slow")
    await recovery.restore({"bootstrap_servers": bootstrap}, topic, {0: (0, end)}, store, metrics, "id", KEPT)

"""A recovery that takes longer than tombstones are kept, on a real broker that compacts one away meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as Place
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.worker import recovery
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.store import MemoryStore
from tests.brokers.fixtures import LEARNING
from tests.brokers.kafka_job import KafkaJob, create, until

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


def make_changelog(job: KafkaJob, name: str) -> None:
    """b"ended" has a state in the first segment and a tombstone in the second; b"alive" has the same state.

    Records of the first segments are an hour old: `min.compaction.lag.ms` decides up to where the broker compacts.
    """
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT),
        "min.cleanable.dirty.ratio": "0",
        "min.compaction.lag.ms": str(24 * HOUR),  # nothing is compacted yet
        "delete.retention.ms": str(round(1000 * KEPT)),
    }
    create(job.admin, NewTopic(name, 1, 1, config=config))
    producer = Producer({"bootstrap.servers": job.bootstrap, "batch.num.messages": 1, "log_level": 0})
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
    assert producer.flush(60) == 0


class Pausing(AIOKafkaConsumer):  # type: ignore[misc]
    """Once it has read the first states, it goes on when the broker has compacted all of the key's records away."""

    job: KafkaJob
    topic = ""
    paused = False

    async def getmany(self, *arguments: object, **named: object) -> object:
        found = await super().getmany(*arguments, **named)
        if found and not self.paused:
            self.paused = True
            assert len(next(iter(found.values()))) < 10
            await asyncio.to_thread(self.compact)
        return found

    def compact(self) -> None:
        def found() -> list[bytes | None]:
            return [message.value() for message in self.job.read(self.topic) if message.key() == b"ended"]

        self.job.alter(self.topic, "min.compaction.lag.ms", str(HOUR // 2))
        until(lambda: found() == [None], "the key's state compacted away")
        time.sleep(KEPT)
        self.job.alter(self.topic, "min.compaction.lag.ms", "0")
        until(lambda: found() == [], "its tombstone compacted away")


@pytest.mark.parametrize("name", ["empty", "local"])
def test_a_key_whose_tombstone_goes_while_a_worker_recovers_does_not_come_back(
    name: str, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """local: the local store has the states of a moment ago."""
    topic = f"slow-{name}"
    job = KafkaJob(bootstrap, tmp_path, topic, make=False, **LEARNING)
    make_changelog(job, topic)
    monkeypatch.setattr(Pausing, "job", job, raising=False)
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

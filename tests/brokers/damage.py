"""Damages the stored state of a key: in the changelog, or in the local stores of stopped workers."""

from pathlib import Path

import rocksdict
from confluent_kafka import Producer

from streamjobs.worker.store import KEY_PREFIX
from tests.brokers.kafka_job import KafkaJob

CHECKSUM = "snapshot is damaged: its checksum does not fit its bytes."


def flipped(data: bytes) -> bytes:
    """The bytes with one bit that is different, in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]


def damage_changelog(job: KafkaJob, partition: int, key: bytes, data: bytes) -> None:
    """Write these bytes over the newest state of a key."""
    producer = Producer({"bootstrap.servers": job.bootstrap, "log_level": 0})
    producer.produce(job.changelog, key=key, value=data, partition=partition)
    assert producer.flush(30) == 0, "the changelog did not take the damaged state"


def damage_stores(state: Path, key: bytes) -> int:
    """Flip a bit of the key's state in every local store below a [state] directory; gives how many there were."""
    count = 0
    for path in state.rglob("*.db"):
        store = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        try:
            data = store.get(KEY_PREFIX + key)
            if data is not None:
                store[KEY_PREFIX + key] = flipped(data)
                count += 1
        finally:
            store.close()
    return count

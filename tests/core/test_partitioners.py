"""Our partitioners are those of the clients they are named for."""

import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import Producer

from streamjobs.core.partitioners import PARTITIONERS, misplaced

KEYS = [b"", b"p", *(f"person-{number}".encode() for number in range(200)), *(bytes([number]) * 7 for number in range(256))]


@pytest.mark.parametrize("partitions", [2, 3, 4, 7, 1000])
def test_murmur2_is_that_of_aiokafka(partitions: int) -> None:
    ours = [PARTITIONERS["murmur2"](key, partitions) for key in KEYS]
    assert ours == [(murmur2(key) & 0x7FFFFFFF) % partitions for key in KEYS]


@pytest.mark.parametrize(
    ("setting", "name"), [("consistent_random", "crc32"), ("murmur2_random", "murmur2"), ("fnv1a_random", "fnv1a")]
)
def test_each_is_that_of_librdkafka(setting: str, name: str) -> None:
    """Its own mock broker answers with the partition its producer chose."""
    settings = {"bootstrap.servers": "mock:1", "test.mock.num.brokers": 1, "log_level": 0}
    producer = Producer({**settings, "partitioner": setting, "linger.ms": 20})
    chosen = {}

    def delivered(error: object, message: object) -> None:
        assert error is None
        chosen[message.key()] = message.partition()  # type: ignore[attr-defined]

    keys = [key for key in KEYS if key]  # an empty one goes anywhere
    for key in keys:
        producer.produce("topic", b"x", key=key, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert len(set(chosen.values())) > 1
    assert chosen == {key: PARTITIONERS[name](key, 4) for key in keys}


def test_keys_tell_one_partitioner_from_another() -> None:
    placed: dict[int, list[bytes]] = {0: [], 1: []}
    for key in KEYS:
        placed[PARTITIONERS["crc32"](key, 2)].append(key)
    wrong = {name: misplaced(partitioner, placed, 2) for name, partitioner in PARTITIONERS.items()}
    assert wrong["crc32"] == 0 and min(wrong["murmur2"], wrong["fnv1a"]) > len(KEYS) // 4

"""How producers choose the partition of a key, and which of these choices explains where keys are.

`murmur2` is the default of the Java client, kafka-python and aiokafka (librdkafka: `murmur2_random`); `crc32` that of
librdkafka and what is built on it (`consistent_random`); `fnv1a` that of sarama (Go), and librdkafka's `fnv1a`.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping

Partitioner = Callable[[bytes, int], int]  # key, number of partitions -> partition

MOST_ELSEWHERE = 0.01  # of the keys may be where the partitioner does not put them; they stay there

_MASK = 0xFFFFFFFF


def murmur2(key: bytes, partitions: int) -> int:
    """As the Java client.

    >>> [murmur2(key, 1000) for key in (b"21", b"foobar", b"a-little-bit-long-string")]
    [340, 166, 112]
    """
    length, m = len(key), 0x5BD1E995
    h = (0x9747B28C ^ length) & _MASK
    for at in range(0, length - 3, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & _MASK
        k = (k ^ (k >> 24)) * m & _MASK
        h = (h * m & _MASK) ^ k
    rest = key[length - length % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & _MASK
    h = (h ^ (h >> 13)) * m & _MASK
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % partitions


def crc32(key: bytes, partitions: int) -> int:
    """As librdkafka's `consistent_random`."""
    return zlib.crc32(key) % partitions


def fnv1a(key: bytes, partitions: int) -> int:
    """As sarama's hash partitioner."""
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & _MASK
    return (h if h < 1 << 31 else (1 << 32) - h) % partitions


PARTITIONERS: Mapping[str, Partitioner] = {"murmur2": murmur2, "crc32": crc32, "fnv1a": fnv1a}


def misplaced(partitioner: Partitioner, keys: Mapping[int, Iterable[bytes]], partitions: int) -> int:
    """How many keys are not in the partition that it chooses. keys: by the partition they are in."""
    return sum(partitioner(key, partitions) != number for number, held in keys.items() for key in held)

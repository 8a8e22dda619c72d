"""Record batches of the present format made by hand: packed by any codec, with any payload."""

import gzip
from collections.abc import Callable, Sequence

from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.util import calc_crc32c

from streamjobs.kafka.patches.batches import HEAD, LENGTH_AT

CRC_FROM = 21  # what the checksum is of begins behind it
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "snappy": snappy_encode,
    "lz4": lambda data: lz4_encode(data, 1),
    "zstd": lambda data: zstd_encode(data, 1),
}
CODEC = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte.

    >>> varint(0), varint(-1), varint(300)
    (b'\\x00', b'\\x01', b'\\xd8\\x04')
    """
    number = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def records(values: Sequence[bytes], key: bytes) -> bytes:
    parts = []
    for delta, value in enumerate(values):
        head = b"\0" + varint(0) + varint(delta) + varint(len(key)) + key + varint(len(value))
        parts += [varint(len(head) + len(value) + 1), head, value, b"\0"]
    return b"".join(parts)


def batch(payload: bytes, count: int, codec: str, *, base: int = 0, time: int = 1_000) -> bytes:
    """payload: of `count` records, packed already."""
    rest = HEAD.pack(0, 0, 0, 0, 0, CODEC[codec], count - 1, time, time, -1, -1, -1, count)[CRC_FROM:] + payload
    head = HEAD.pack(base, len(rest) + CRC_FROM - LENGTH_AT - 4, 0, 2, calc_crc32c(rest), *[0] * 8)[:CRC_FROM]
    return head + rest


def packed(values: Sequence[bytes], codec: str, *, key: bytes = b"p1", base: int = 0, time: int = 1_000) -> bytes:
    """A batch of records with these values."""
    data = records(values, key)
    return batch(PACK[codec](data) if codec in PACK else data, len(values), codec, base=base, time=time)

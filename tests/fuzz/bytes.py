"""Valid inputs bent out of shape: bit flips, cuts, splices, lengths that lie, numbers no format was made for."""

import struct
from collections.abc import Callable
from random import Random

EDGES = (
    0,
    1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**63 - 1,
    2**63,
)
REALS = (0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 0.1, 1e9, 1e15, 1e300, 1.8e308, float("inf"), float("-inf"), float("nan"))
MOST = 1 << 16  # bytes of an input that grew

Bend = Callable[[bytearray, Random], None]


def flip(data: bytearray, rnd: Random) -> None:
    at = rnd.randrange(len(data))
    data[at] ^= 1 << rnd.randrange(8)


def replace(data: bytearray, rnd: Random) -> None:
    data[rnd.randrange(len(data))] = rnd.choice((0, 1, 0x7F, 0x80, 0xC1, 0xFE, 0xFF, rnd.randrange(256)))


def cut(data: bytearray, rnd: Random) -> None:
    del data[rnd.randrange(len(data)) :]


def remove(data: bytearray, rnd: Random) -> None:
    at = rnd.randrange(len(data))
    del data[at : at + rnd.choice((1, 2, 4, 8, 1 + rnd.randrange(64)))]


def insert(data: bytearray, rnd: Random) -> None:
    at = rnd.randrange(len(data) + 1)
    data[at:at] = rnd.randbytes(rnd.choice((1, 1, 2, 4, 8, rnd.randrange(64))))


def double(data: bytearray, rnd: Random) -> None:
    """A piece again, somewhere else or many times in a row."""
    begin = rnd.randrange(len(data))
    piece = data[begin : begin + 1 + rnd.randrange(32)]
    at = rnd.randrange(len(data) + 1)
    data[at:at] = piece * rnd.choice((1, 1, 1, 2, 50))


def length(data: bytearray, rnd: Random) -> None:
    """What may be a length, a count or a number tells something else."""
    form = rnd.choice(("<H", "<I", "<Q", ">H", ">I", ">Q"))
    size = struct.calcsize(form)
    if len(data) >= size:
        at = rnd.randrange(len(data) - size + 1)
        (old,) = struct.unpack_from(form, data, at)
        new = rnd.choice((rnd.choice(EDGES), old + 1, old - 1, old * 2, len(data), len(data) + 1))
        struct.pack_into(form, data, at, new % (1 << 8 * size))


def real(data: bytearray, rnd: Random) -> None:
    form = rnd.choice(("<d", "<d", "<f", ">d"))
    if len(data) >= struct.calcsize(form):
        at = rnd.randrange(len(data) - struct.calcsize(form) + 1)
        value = rnd.choice(REALS)
        struct.pack_into(form, data, at, value if form != "<f" or not abs(value) > 3e38 else float("inf"))


BENDS: tuple[Bend, ...] = (flip, flip, replace, replace, cut, remove, insert, double, length, length, real)


def bent(data: bytes, rnd: Random, other: bytes = b"", bends: tuple[Bend, ...] = BENDS) -> bytes:
    """One to four things done to it; sometimes its end is that of `other`."""
    made = bytearray(data)
    if other and rnd.random() < 0.1:
        made[rnd.randrange(len(made) + 1) :] = other[rnd.randrange(len(other)) :]
    for _ in range(rnd.choice((1, 1, 1, 2, 2, 3, 4))):
        if not made:
            break
        rnd.choice(bends)(made, rnd)
    return bytes(made[:MOST])


def smallest(data: bytes, fails: Callable[[bytes], bool], tries: int = 2000) -> bytes:
    """The input with all pieces left out, from large to small, that are not needed to fail; then plain bytes."""
    size = max(1, len(data) // 2)
    while tries > 0:
        at, shorter = 0, False
        while at < len(data) and tries > 0:
            tries -= 1
            without = data[:at] + data[at + size :]
            if fails(without):
                data, shorter = without, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    for at in range(len(data)):
        tries -= 1
        plain = data[:at] + b"0" + data[at + 1 :]
        if tries > 0 and data[at] != 48 and fails(plain):
            data = plain
    return data

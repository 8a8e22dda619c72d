"""A copy of all states as a file."""

import struct
import zlib

import pytest

from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import MAGIC, VERSION, Copy, Entry, decode, encode, printable

ENTRIES = [
    Entry(0, b"p1", b"first", 4, 1_000),
    Entry(0, "p é".encode(), b"", 5, 1_001),
    Entry(3, b"p1", b"x" * 300, 1 << 40, 1 << 41),
    Entry(1, b"\xff\x00", b"odd", 7, 0),
]
COPY = Copy("wrist", "wrist-state-changelog", "00ff", 1_234, {0: 6, 1: 8, 3: 9}, {(e.partition, e.key): e for e in ENTRIES})


def test_a_copy_comes_back_from_its_file():
    assert decode(b"".join(encode(COPY))) == COPY
    empty = COPY._replace(entries={}, ends={})
    assert decode(b"".join(encode(empty))) == empty


def test_a_changed_or_cut_file_is_refused_at_every_byte():
    data = b"".join(encode(COPY))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x41
        for damaged in (bytes(broken), data[:at]):
            with pytest.raises(SnapshotError):
                decode(damaged)


def test_a_key_is_found_by_its_text_or_by_how_it_is_shown():
    assert [entry.partition for entry in COPY.of("p1")] == [0, 3]
    assert [entry.key for entry in COPY.of("p é")] == ["p é".encode()]
    assert [entry.key for entry in COPY.of(printable(b"\xff\x00"))] == [b"\xff\x00"]
    assert COPY.of("p2") == []


@pytest.mark.parametrize(
    "about",
    [b"[" * 60_000, b'{"a":' * 10_000, b'{"job": "j", "topic": "t", "fingerprint": "f", "taken": 1e999, "ends": {}}'],
)
def test_a_copy_that_tells_nonsense_about_itself_is_refused(about: bytes):
    body = struct.pack("<6sHI", MAGIC, VERSION, len(about)) + about + bytes(8)
    with pytest.raises(SnapshotError, match="although its checksum matches"):
        decode(body + struct.pack("<I", zlib.crc32(body)))

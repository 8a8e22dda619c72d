"""A copy of all states: the newest snapshot of every key as one value, and as a file.

Layout of the file, little-endian:

    magic "SJCOPY" | version u16
    about: u32 length, JSON with job, topic, fingerprint, taken, ends and inputs (absent before 2026-11-28)
    count u64, then each: partition i32, offset i64, timestamp i64, u32 length, key, u32 length, snapshot
    crc32 of all before it
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streamjobs.errors import SnapshotError
from streamjobs.kafka.topic_id import Origin
from streamjobs.settings.types import shortened

MAGIC, VERSION = b"SJCOPY", 1
_HEAD, _ENTRY = struct.Struct("<6sH"), struct.Struct("<iqq")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

Place = tuple[int, bytes]  # partition and key; a key in two partitions has two states


class Entry(NamedTuple):
    """A key's newest snapshot, as it is in the changelog."""

    partition: int
    key: bytes
    data: bytes
    offset: int  # in the changelog
    timestamp: int  # when it was written, milliseconds since 1970


class Copy(NamedTuple):
    job: str
    topic: str  # the changelog
    fingerprint: str  # of the job that took the copy, hexadecimal
    taken: int  # when, milliseconds since 1970
    ends: dict[int, int]  # end offsets of the changelog's partitions at that time
    entries: dict[Place, Entry]
    inputs: Mapping[int, Origin] = MappingProxyType({})  # partition -> the input of its states, if known; a file has the ids

    def of(self, text: str) -> list[Entry]:
        """The entries of a key given as text, by its UTF-8 bytes, or else by its `printable` form. Sorted by partition."""
        exact = text.encode("utf-8", "surrogateescape")
        entries = [entry for entry in self.entries.values() if entry.key == exact]
        entries = entries or [entry for entry in self.entries.values() if printable(entry.key) == text]
        return sorted(entries)


def printable(key: bytes | None) -> str:
    r"""A key as text for a terminal; control characters and bytes that are not UTF-8 are escaped.

    >>> printable("p7 é".encode()), printable(b"\xff\x1b[2J")
    ('p7 é', '\\xff\\x1b[2J')
    """
    text = "" if key is None else key.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def short_key(key: bytes | None) -> str:
    """As `printable`, but short: for tables and sentences."""
    return shortened(printable(key))


def is_copy(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC


def encode(copy: Copy) -> Iterator[bytes]:
    """The bytes of the file, in pieces."""
    about = {**copy._asdict(), "inputs": {number: one.input_id for number, one in copy.inputs.items()}}
    del about["entries"]
    text = json.dumps(about).encode()
    pieces = [_HEAD.pack(MAGIC, VERSION), _U32.pack(len(text)), text, _U64.pack(len(copy.entries))]
    checksum = 0
    for entry in copy.entries.values():
        pieces += (_ENTRY.pack(entry.partition, entry.offset, entry.timestamp), _U32.pack(len(entry.key)), entry.key)
        pieces += (_U32.pack(len(entry.data)), entry.data)
        piece = b"".join(pieces)
        pieces.clear()
        checksum = zlib.crc32(piece, checksum)
        yield piece
    last = b"".join(pieces)
    yield last + _U32.pack(zlib.crc32(last, checksum))


def decode(data: bytes) -> Copy:
    """The copy in a file's bytes. Raises SnapshotError for anything that `encode` did not write."""
    if len(data) < _HEAD.size + 4 or not is_copy(data):
        raise SnapshotError(f"expected a file of 'state export --all', got {len(data)} other bytes.")
    version = _HEAD.unpack_from(data)[1]
    if version != VERSION:
        raise SnapshotError(
            f"the copy has version {version}, this release reads version {VERSION}; use the release that wrote it."
        )
    if zlib.crc32(memoryview(data)[:-4]) != _U32.unpack_from(data, len(data) - 4)[0]:
        raise SnapshotError("the copy is damaged: its checksum does not match.")
    try:
        return _decoded(data)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise SnapshotError(f"the copy is damaged although its checksum matches: {problem}.") from problem


def _decoded(data: bytes) -> Copy:
    at = _HEAD.size

    def text() -> bytes:
        nonlocal at
        (length,) = _U32.unpack_from(data, at)
        at += _U32.size + length
        if at > len(data) - 4:
            raise ValueError("a field runs past the end")
        return data[at - length : at]

    about = json.loads(text())
    (count,) = _U64.unpack_from(data, at)
    at += _U64.size
    entries: dict[Place, Entry] = {}
    for _ in range(count):
        partition, offset, timestamp = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        key, snapshot = text(), text()
        entries[partition, key] = Entry(partition, key, snapshot, offset, timestamp)
    if at != len(data) - 4:
        raise ValueError(f"{len(data) - 4 - at} bytes too many")
    ends = {int(number): int(end) for number, end in about["ends"].items()}
    inputs = {int(number): Origin(input_id=str(name)) for number, name in about.get("inputs", {}).items()}
    named = str(about["job"]), str(about["topic"]), str(about["fingerprint"])
    return Copy(*named, int(about["taken"]), ends, entries, inputs)

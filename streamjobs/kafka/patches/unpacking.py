"""Batches unpacked within bounds: aiokafka 0.14.0 unpacks whatever a few bytes promise, a megabyte of zstd to 20 gigabytes.

A broker takes such a batch: it looks at packed sizes only. One of them would end the worker for want of memory, and
again at each restart. Here a batch that grows beyond `most` is given up on the way, with all memory that it took.
"""

import threading
import zlib
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.legacy_records
import cramjam
import numpy as np
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.record._crecords import default_records, legacy_records

LEAST = 64 << 20  # bytes a batch may always have
VALUES = 4  # times [source] max_bytes it may have as well
USUAL = 8  # times its packed size: what is tried first
ROOM = 64 << 10  # bytes, beside
GZIP = b"\x1f\x8b"  # begins a member
XERIAL = b"\x82SNAPPY\x00"  # begins snappy's framing by Java clients; then two numbers, then blocks with their sizes
XERIAL_HEAD = 16  # bytes

_fetched = Fetcher.fetched_records


class Unpackable(Exception):
    """A batch that is damaged, or larger than `most`; says which, without who and where."""


class _Bounds(threading.local):
    """most: bytes of a batch, for the whole process.  unpacked: by this thread, since it was last set to 0."""

    most = LEAST
    unpacked = 0


here = _Bounds()


def bound(max_bytes: int) -> None:
    """Sets the most a batch may unpack to. max_bytes: most a record's value may have."""
    _Bounds.most = max(LEAST, VALUES * max_bytes)


def _beyond() -> Unpackable:
    return _refused(f"it unpacks to more than {here.most} bytes")


def _damaged(error: object) -> Unpackable:
    return _refused(f"it is damaged: {str(error).rstrip('.')}")


def _refused(text: str) -> Unpackable:
    here.unpacked += here.most  # that much work at most
    return Unpackable(text)


def gzip_decode(payload: Any) -> bytes:
    """Members one after another, and as the broker does nothing of what follows them. Raises Unpackable."""
    parts: list[bytes] = []
    rest: Any = payload
    left = here.most
    while not parts or rest[:2] == GZIP:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, left + 1)
        except zlib.error as error:
            raise _damaged(f"gzip: {error}") from None
        left -= len(part)
        if left < 0:
            raise _beyond()
        if not member.eof:
            raise _damaged("gzip: it ends too early")
        parts.append(part)
        rest = member.unused_data
    here.unpacked += here.most - left
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _into(decompress: Callable[[Any, Any], int], name: str) -> Callable[[Any], memoryview]:
    """Into a buffer of the usual size, and where that does not do into the largest there may be: used, it takes memory."""

    def decode(payload: Any) -> memoryview:
        for size in sorted({min(here.most, USUAL * len(payload) + ROOM), here.most}):
            buffer = np.empty(size, np.uint8)
            try:
                count = decompress(payload, buffer)
            except (cramjam.DecompressionError, OSError) as error:
                if "write whole buffer" not in str(error):
                    raise _damaged(f"{name}: {error}") from None
            else:
                here.unpacked += count
                return buffer[:count].data
        raise _beyond()

    return decode


def snappy_decode(payload: Any) -> bytes:
    """Blocks in Java's framing, or one alone; each states its size, which is looked at before. Raises Unpackable."""
    blocks = _blocks(memoryview(payload))
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > here.most:
            raise _beyond()
        parts = [bytes(cramjam.snappy.decompress_raw(block)) for block in blocks]
    except (cramjam.DecompressionError, OSError) as error:
        raise _damaged(error) from None
    here.unpacked += sum(sizes)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _blocks(payload: memoryview) -> list[memoryview]:
    if payload[: len(XERIAL)] != XERIAL:
        return [payload]
    found, at = [], XERIAL_HEAD
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        at += 4
        if not 0 < size <= len(payload) - at:
            raise _damaged(f"snappy: a block of {size} bytes where {max(0, len(payload) - at)} are left")
        found.append(payload[at : at + size])
        at += size
    return found


lz4_decode = _into(cramjam.lz4.decompress_into, "lz4")
zstd_decode = _into(cramjam.zstd.decompress_into, "zstd")
_DECODERS = (gzip_decode, snappy_decode, lz4_decode, zstd_decode)


def _getall(self: Any, max_records: int | None = None) -> list[Any]:
    """As aiokafka's own, which knows no portions; what raises is fetched again."""
    if not self.has_more() or not self.check_assignment(self._topic_partition):
        return []
    records, self._partition_records = self._partition_records, None
    records._records.portioned = True
    found = list(islice(records._records_iterator, max_records))
    self._partition_records = records
    self._update_position()
    if len(found) != max_records:  # the iterator has ended: what is left needs another one
        if records._records.has_more():
            records._records_iterator = records._unpack_records()
        else:
            self._partition_records = None
    return found


async def _fetched_records(self: Any, *arguments: Any, **named: Any) -> Mapping[Any, list[Any]]:
    here.unpacked = 0
    found: Mapping[Any, list[Any]] = await _fetched(self, *arguments, **named)
    return found


def apply() -> None:
    """In all of aiokafka's readers, those written in C included: they look these names up in their modules."""
    names = ("gzip_decode", "snappy_decode", "lz4_decode", "zstd_decode")
    modules = (default_records, legacy_records, aiokafka.record.default_records, aiokafka.record.legacy_records)
    for module in modules:
        for name, decoder in zip(names, _DECODERS, strict=True):
            if hasattr(module, name):
                setattr(module, name, decoder)
    FetchResult.getall = _getall
    Fetcher.fetched_records = _fetched_records

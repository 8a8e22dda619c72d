"""Decompression of record batches within a limit.

aiokafka 0.14.0 allocates whatever a few bytes promise: a megabyte of zstd can become 20 gigabytes. A broker accepts such a
batch, because it looks at compressed sizes only. One of them would end the worker for want of memory, and again at each
restart. Here a batch that grows beyond the limit is abandoned on the way, and its memory freed.
"""

import threading
from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.legacy_records
import cramjam
import numpy as np
from aiokafka.record._crecords import default_records, legacy_records

from streamjobs.core.decoding.gunzip import GzipError, GzipTooLarge, gunzip

MIN_LIMIT = 64 << 20  # bytes any batch may decompress to
VALUES = 4  # a batch may also hold this many values of [source] max_bytes
USUAL_RATIO = 8  # times the compressed size: the buffer tried first
BUFFER_EXTRA = 64 << 10  # bytes, added to it
XERIAL = b"\x82SNAPPY\x00"  # begins snappy's framing by Java clients; then two numbers, then blocks with their sizes
XERIAL_HEAD = 16  # bytes


class DecompressionError(Exception):
    """A batch that is damaged, or larger than the limit; the message says which, the caller adds topic and offsets."""


class _Budget(threading.local):
    """limit: bytes of a batch, for the whole process.  used: bytes decompressed by this thread since it was set to 0."""

    limit = MIN_LIMIT
    used = 0


budget = _Budget()


def set_limit(max_bytes: int) -> None:
    """Set the most a batch may decompress to. max_bytes: the most a record's value may have."""
    _Budget.limit = max(MIN_LIMIT, VALUES * max_bytes)


# These texts are part of dead letters: they stay as they are.
def _too_large() -> DecompressionError:
    return _refused(f"it unpacks to more than {budget.limit} bytes")


def _damaged(error: object) -> DecompressionError:
    return _refused(f"it is damaged: {str(error).rstrip('.')}")


def _refused(text: str) -> DecompressionError:
    budget.used += budget.limit  # the most work it can have been
    return DecompressionError(text)


def gzip_decode(payload: Any) -> bytes:
    """All members one after another; like the broker, ignores what follows them. Raises DecompressionError."""
    try:
        unpacked = gunzip(payload, budget.limit)
    except GzipTooLarge:
        raise _too_large() from None
    except GzipError as error:
        raise _damaged(f"gzip: {error}") from None
    budget.used += len(unpacked)
    return unpacked


def _into_buffer(decompress: Callable[[Any, Any], int], name: str) -> Callable[[Any], memoryview]:
    """A decoder into a buffer of the usual size, or of the limit where that is too small; unused pages take no memory."""

    def decode(payload: Any) -> memoryview:
        for size in sorted({min(budget.limit, USUAL_RATIO * len(payload) + BUFFER_EXTRA), budget.limit}):
            buffer = np.empty(size, np.uint8)
            try:
                count = decompress(payload, buffer)
            except (cramjam.DecompressionError, OSError) as error:
                if "write whole buffer" not in str(error):
                    raise _damaged(f"{name}: {error}") from None
            else:
                budget.used += count
                return buffer[:count].data
        raise _too_large()

    return decode


def snappy_decode(payload: Any) -> bytes:
    """Blocks in Java's framing, or a single one; each states its size, which is checked first. Raises DecompressionError."""
    blocks = _snappy_blocks(memoryview(payload))
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > budget.limit:
            raise _too_large()
        parts = [bytes(cramjam.snappy.decompress_raw(block)) for block in blocks]
    except (cramjam.DecompressionError, OSError) as error:
        raise _damaged(error) from None
    budget.used += sum(sizes)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_blocks(payload: memoryview) -> list[memoryview]:
    if payload[: len(XERIAL)] != XERIAL:
        return [payload]
    blocks, at = [], XERIAL_HEAD
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        at += 4
        if not 0 < size <= len(payload) - at:
            left = max(0, len(payload) - at)
            raise _damaged(f"snappy: expected a block within the {left} bytes that are left, got one of {size}")
        blocks.append(payload[at : at + size])
        at += size
    return blocks


lz4_decode = _into_buffer(cramjam.lz4.decompress_into, "lz4")
zstd_decode = _into_buffer(cramjam.zstd.decompress_into, "zstd")
DECODERS = {"gzip_decode": gzip_decode, "snappy_decode": snappy_decode, "lz4_decode": lz4_decode, "zstd_decode": zstd_decode}


def apply() -> None:
    """Replace the decoders in all of aiokafka's readers, those written in C included: they look the names up in modules."""
    modules = (default_records, legacy_records, aiokafka.record.default_records, aiokafka.record.legacy_records)
    for module in modules:
        for name, decoder in DECODERS.items():
            if hasattr(module, name):
                setattr(module, name, decoder)

"""Unpacks gzip within a limit."""

import zlib
from typing import Any

GZIP = b"\x1f\x8b"  # begins a member
PIECE = 8 << 20  # bytes that zlib unpacks at once; it doubles its buffer, so more would take twice the limit


class GzipError(Exception):
    """Bytes that are not gzip, or damaged; the message is the end of a sentence."""


class GzipTooLarge(GzipError):
    """Bytes that unpack to more than the limit."""


def gunzip(payload: Any, most: int) -> bytes:
    """All members one after another; what follows them is ignored, as by Kafka's brokers.

    most: bytes that they may unpack to. Raises GzipError, GzipTooLarge as soon as there are more.
    """
    parts: list[bytes] = []
    rest: Any = payload
    left = most
    while not parts or rest[:2] == GZIP:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            try:
                part = member.decompress(rest, min(PIECE, left + 1))
            except zlib.error as error:
                raise GzipError(str(error)) from None
            left -= len(part)
            if left < 0:
                raise GzipTooLarge(f"it unpacks to more than {most} bytes")
            if not part and not member.eof:
                raise GzipError("it ends too early")
            parts.append(part)
            rest = member.unconsumed_tail
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)

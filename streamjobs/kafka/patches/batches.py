"""Batches of records that Kafka takes from any producer and that aiokafka 0.14.0 raises on.

That would end the worker, and again at each restart: one producer could hold a partition up for ever.

- A header name that is not UTF-8: the fetch is read once more by aiokafka's slower Python code, names decoded as far as
  they go ("\\xff" stands for the byte); the record is then one like all others.
- A batch that does not unpack, or to more than it may (`unpacking`), or holds no records where they should be: one
  record in place of all that cannot be read, with the batch's bytes as its value. The core makes a dead letter of it.

A batch whose checksum does not fit is no such: it may come unharmed next time.
"""

import struct
from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from streamjobs.core.messages import Unread
from streamjobs.kafka.patches.unpacking import Unpackable, here

_unpacked = PartitionRecords._unpack_records
LENGTH_AT = 8  # place of a batch's length, which counts from byte 12 on
MAGIC_AT = 16
HEAD = struct.Struct(">qiibIhiqqqhii")  # of a batch of the present format, magic 2
OLD = struct.Struct(">qiIbbq")  # of one before it, magic 1: the offset is its last record's
CODECS = ("not packed", "gzip", "snappy", "lz4", "zstd")
OFFSETS = "streamjobs-batch"  # header: first and last offset of what could not be read
PORTION = 16 << 20  # bytes: when a fetch has unpacked to more, its next batch waits until these records were taken


class _Names(bytearray):
    """A batch's bytes; slices of it decode whatever they hold."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Names(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return bytes(self).decode(encoding, errors)


class _Lenient(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch of the present format."""

    def __iter__(self) -> Any:
        self._maybe_uncompress()
        self._buffer: Any = _Names(self._buffer)  # type: ignore[has-type]
        return self


class Fetched:
    """What a fetch brought of a partition, as aiokafka's own class reads it; `leniently` reads its last batch again."""

    def __init__(self, data: bytes) -> None:
        self._data, self._read = data, MemoryRecords(data)
        self._begin = self._end = 0  # of the batch given last
        self._again: _Lenient | None = None
        self.portioned = False  # whether it ends where a portion is full, see `portions`

    def size_in_bytes(self) -> int:
        return len(self._data)

    def has_more(self) -> bool:
        return self._again is not None or bool(self._read.has_next())

    def has_next(self) -> bool:
        return self.has_more() and not (self.portioned and here.unpacked >= PORTION)

    def next_batch(self) -> Any:
        if self._again is not None:
            batch, self._again = self._again, None
            return batch
        begin = self._end
        self._begin = begin
        self._end = begin + 12 + int.from_bytes(self._data[begin + LENGTH_AT : begin + LENGTH_AT + 4], "big")
        return self._read.next_batch()

    def leniently(self) -> None:
        """The next batch is the last one once more."""
        self._again = _Lenient(bytearray(self._data[self._begin : self._end]))

    def unread(self, topic: str, partition: int, first: int, why: Exception) -> Unread | None:
        """What stands for the records of the last batch from offset `first` on; None where there are none."""
        data = self._data[self._begin : self._end]
        if (magic := data[MAGIC_AT]) < 2:
            last, _, _, _, attributes, stamp = OLD.unpack_from(data)
            stamp *= magic  # the first format had none
        else:
            base, _, _, _, _, attributes, more, _, stamp, *_ = HEAD.unpack_from(data)
            last, first = base + more, max(base, first)
        if last < first:
            return None
        codec = CODECS[attributes & 7] if attributes & 7 < len(CODECS) else "unknown"
        text = str(why).rstrip(".")
        found = Unread(topic, partition, last, max(0, stamp), None, data, ((OFFSETS, b"%d-%d" % (first, last)),))
        found.problem = f"expected records, got a batch ({codec}) that gives none for offsets {first} to {last}: {text}"
        return found


def _unpacked_whatever_comes(self: Any) -> Iterator[Any]:
    records: Fetched = self._records
    while True:
        try:
            yield from _unpacked(self)
            return
        except UnicodeDecodeError:  # records before it have moved next_fetch_offset on, and are passed over
            records.leniently()
        except (Unpackable, CorruptRecordException) as error:
            if _checksum(error) or records._end - records._begin < HEAD.size:
                raise
            one = records.unread(self._tp.topic, self._tp.partition, self.next_fetch_offset, error)
            if one is not None:
                self.next_fetch_offset = one.offset + 1
                yield one


def _checksum(error: Exception) -> bool:
    return isinstance(error, CorruptRecordException) and "Invalid CRC" in str(error)


def apply() -> None:
    fetcher.MemoryRecords = Fetched
    PartitionRecords._unpack_records = _unpacked_whatever_comes

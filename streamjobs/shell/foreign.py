"""Records whose header names are not UTF-8: Kafka takes them from any producer, aiokafka 0.14.0 raises on them.

That would end the worker, and again at each restart: one producer could hold a partition up for ever. Such a fetch is
read once more by aiokafka's slower Python code, names decoded as far as they go ("\\xff" stands for the byte); the record
is then one like all others.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_unpacked = PartitionRecords._unpack_records
LENGTH_AT = 8  # place of a batch's length, which counts from byte 12 on


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

    def size_in_bytes(self) -> int:
        return len(self._data)

    def has_next(self) -> bool:
        return self._again is not None or bool(self._read.has_next())

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


def _unpacked_whatever_names(self: Any) -> Iterator[Any]:
    while True:
        try:
            yield from _unpacked(self)
            return
        except UnicodeDecodeError:  # records before it have moved next_fetch_offset on, and are passed over
            self._records.leniently()


def apply() -> None:
    fetcher.MemoryRecords = Fetched
    PartitionRecords._unpack_records = _unpacked_whatever_names

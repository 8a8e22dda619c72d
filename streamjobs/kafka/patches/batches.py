"""Record batches that Kafka accepts from any producer and that aiokafka 0.14.0 raises on.

The exception would end the worker, and again at each restart: one producer could block a partition for ever.

- A header name that is not UTF-8: the batch is read again by aiokafka's slower Python code. Names are decoded as far as
  possible ("\\xff" stands for the byte), and the record is then like any other.
- A batch that cannot be decompressed within the limit (see `decompression`), or holds no records where they should be: one
  `Unread` record stands for all that cannot be read, with the batch's bytes as its value. The core makes a dead letter.

A batch with a wrong checksum still raises: it may arrive intact next time.

A fetch is also handed over in portions, so that its batches are not all decompressed at once. And a batch gives its records
as lists of the core's own tuples: aiokafka's loop, with a data class for each record, takes twice the time.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from streamjobs.core.messages import Stored, Unread
from streamjobs.kafka.patches.decompression import DecompressionError, budget

EPOCH_AT = 12  # place of the epoch of the leader that took a batch, up to MAGIC_AT
LENGTH_AT = 8  # place of a batch's length, which counts from byte 12 on
MAGIC_AT = 16
HEAD = struct.Struct(">qiibIhiqqqhii")  # of a batch of the present format, magic 2
OLD_HEAD = struct.Struct(">qiIbbq")  # of a batch of magic 0 or 1: the offset is its last record's
CODECS = ("not packed", "gzip", "snappy", "lz4", "zstd")
OFFSETS = "streamjobs-batch"  # header of an `Unread`: first and last offset that it stands for
AT_ONCE = 5_000  # records of a chunk: a small batch may hold millions
PORTION = 16 << 20  # bytes: once a fetch has decompressed to more, its next batch waits until these records are taken

_stored = partial(tuple.__new__, Stored)  # of a tuple of its fields; faster than Stored(...)
_unpack_records = PartitionRecords._unpack_records
_fetched_records = Fetcher.fetched_records


class LeaderEpochs:
    """By topic and partition. newest: of the batch read last, as it stands there. safe: the log still has what was read."""

    newest: ClassVar[dict[tuple[str, int], bytes]] = {}
    safe: ClassVar[dict[tuple[str, int], int]] = {}


class _LenientBytes(bytearray):
    """A batch's bytes; slices of it decode whatever they hold."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return _LenientBytes(part) if isinstance(at, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return bytes(self).decode(encoding, errors)


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch of the present format with any bytes as header names."""

    def __iter__(self) -> Any:
        self._maybe_uncompress()
        self._buffer: Any = _LenientBytes(self._buffer)  # type: ignore[has-type]
        return self


class Chunk(list[Stored]):
    """Records of one batch, in order; to aiokafka they are one record, with the last one's offset."""

    @property
    def offset(self) -> int:
        return self[-1].offset


class _InChunks:
    """A batch of aiokafka's that gives its records, from the partition's next offset on, as chunks."""

    def __init__(self, batch: Any, of: Any) -> None:
        self._batch, self._of = batch, of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:  # of a control batch
        return next(self._batch)

    def __iter__(self) -> Iterator[Chunk]:
        """An error in the batch is raised after what precedes it was taken."""
        (topic, partition), rest = self._of._tp, chain(self._batch)  # its own iterator begins once
        problem: Exception | None = None
        count = AT_ONCE
        while problem is None and count == AT_ONCE:
            chunk, first = Chunk(), self._of.next_fetch_offset
            try:
                for one in islice(rest, AT_ONCE):
                    chunk.append(_stored((topic, partition, one.offset, one.timestamp, one.key, one.value, one.headers)))
            except (UnicodeDecodeError, DecompressionError, CorruptRecordException) as error:
                problem = error.with_traceback(None)  # its frames hold what was unpacked so far
                problem.__context__ = None
            count = len(chunk)
            if chunk and chunk[0].offset < first:  # a fetch may begin within a batch
                chunk[:] = [record for record in chunk if record.offset >= first]
            if chunk:
                yield chunk
        if problem is not None:
            try:
                raise problem
            finally:
                del problem  # else this frame and the problem hold each other until cycles are collected


class FetchedBatches:
    """The batches a fetch brought of a partition, with the interface of aiokafka's MemoryRecords."""

    def __init__(self, data: bytes) -> None:
        self._data, self._read = data, MemoryRecords(data)
        self._begin = self._end = 0  # of the batch given last
        self._again: _LenientBatch | None = None
        self.owner: Any = None  # aiokafka's PartitionRecords
        self.portioned = False  # whether it pauses when a portion is full, see `_getall`

    def size_in_bytes(self) -> int:
        return len(self._data)

    def has_more(self) -> bool:
        return self._again is not None or bool(self._read.has_next())

    def has_next(self) -> bool:
        return self.has_more() and not (self.portioned and budget.used >= PORTION)

    def next_batch(self) -> Any:
        if self._again is not None:
            batch, self._again = self._again, None
            return _InChunks(batch, self.owner)
        begin = self._end
        self._begin = begin
        if self._data[begin + MAGIC_AT] >= 2:
            LeaderEpochs.newest[self.owner._tp] = self._data[begin + EPOCH_AT : begin + MAGIC_AT]
        self._end = begin + 12 + int.from_bytes(self._data[begin + LENGTH_AT : begin + LENGTH_AT + 4], "big")
        return _InChunks(self._read.next_batch(), self.owner)

    def last_batch_bytes(self) -> bytes:
        return self._data[self._begin : self._end]

    def repeat_leniently(self) -> None:
        """Make `next_batch` give the last batch once more, with header names of any bytes."""
        self._again = _LenientBatch(bytearray(self.last_batch_bytes()))

    def unread(self, topic: str, partition: int, first: int, why: Exception) -> Unread | None:
        """The record that stands for those of the last batch from offset `first` on; None where there are none."""
        data = self.last_batch_bytes()
        if (magic := data[MAGIC_AT]) < 2:
            last, _, _, _, attributes, stamp = OLD_HEAD.unpack_from(data)
            stamp *= magic  # the first format had none
        else:
            base, _, _, _, _, attributes, more, _, stamp, *_ = HEAD.unpack_from(data)
            last, first = base + more, max(base, first)
        if last < first:
            return None
        codec = CODECS[attributes & 7] if attributes & 7 < len(CODECS) else "unknown"
        text = str(why).rstrip(".")
        unread = Unread(topic, partition, last, max(0, stamp), None, data, ((OFFSETS, b"%d-%d" % (first, last)),))
        # Part of a dead letter: this text stays as it is.
        unread.problem = f"expected records, got a batch ({codec}) that gives none for offsets {first} to {last}: {text}"
        return unread


def _unpack_whatever_comes(self: Any) -> Iterator[Any]:
    records: FetchedBatches = self._records
    records.owner = self
    while True:
        try:
            yield from _unpack_records(self)
            records.owner = None  # else the fetch lives until cycles are collected
            return
        except UnicodeDecodeError:  # the records before it have moved next_fetch_offset on, and are skipped now
            records.repeat_leniently()
        except (DecompressionError, CorruptRecordException) as error:
            checksum = isinstance(error, CorruptRecordException) and "Invalid CRC" in str(error)
            if checksum or records._end - records._begin < HEAD.size:
                raise
            unread = records.unread(self._tp.topic, self._tp.partition, self.next_fetch_offset, error)
            if unread is not None:
                self.next_fetch_offset = unread.offset + 1
                yield Chunk([unread])


def _getall(self: Any, max_records: int | None = None) -> list[Any]:
    """Like aiokafka's own, and returns when a portion is full; what raises is fetched again."""
    if not self.has_more() or not self.check_assignment(self._topic_partition):
        return []
    records, self._partition_records = self._partition_records, None
    records._records.portioned = True
    taken, ended = list(records.left), False
    if taken:
        records.next_fetch_offset = taken[-1].offset + 1  # where the iterator stands
    while not ended and (max_records is None or len(taken) < max_records):
        chunk = next(records._records_iterator, None)
        ended = chunk is None
        taken += chunk or ()
    records.left = taken[max_records:] if max_records is not None else ()
    if records.left:
        del taken[max_records:]
        records.next_fetch_offset = records.left[0].offset
    self._partition_records = records
    self._update_position()
    if ended:  # what is left needs another iterator
        if records._records.has_more():
            records._records_iterator = records._unpack_records()
        else:
            self._partition_records = None
    return taken


async def _begin_portion(self: Any, *arguments: Any, **named: Any) -> Mapping[Any, list[Any]]:
    budget.used = 0
    records: Mapping[Any, list[Any]] = await _fetched_records(self, *arguments, **named)
    return records


def apply() -> None:
    fetcher.MemoryRecords = FetchedBatches
    PartitionRecords._unpack_records = _unpack_whatever_comes
    PartitionRecords._consumer_record = lambda self, tp, chunk: chunk  # in place of a copy of each record
    PartitionRecords.left = ()  # of the last chunk, beyond what was asked for
    FetchResult.getall = _getall
    Fetcher.fetched_records = _begin_portion

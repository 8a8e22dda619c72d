"""The local store of snapshots: one RocksDB per partition, opened by Faust's table, or dicts in memory.

The changelog is the truth, and the store a copy of its beginning. A write contains the snapshots and the changelog offset
they reach, so both are there or neither is. Writes without the write-ahead log (recovery) break that at the next logged
write: call `flush` in between, or a crash would keep the newer offset and lose the restored snapshots. Marks say which
topics the snapshots belong to.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import rocksdict
import structlog
from faust.stores.rocksdb import RocksDBOptions
from faust.stores.rocksdb import Store as FaustStore

from streamjobs.errors import StreamjobsError

log = structlog.get_logger("streamjobs")

Items = Iterable[tuple[bytes, bytes | None]]  # key, snapshot; None deletes

KEY_PREFIX = b"k"  # before every record key, so that none can be a mark or Faust's key of the offset
# Keys: the input's id (so named since 0.1.0), its name, the changelog's id, the input's life, and the offset from which on
# records are to be applied again, where states were written at their own pace. "whole": seconds since 1970 when nothing
# was missing, or when reading from the changelog's beginning began.
MARKS = ("source", "topic", "changelog", "life", "replay", "whole")
NO_MARKS: Mapping[str, str | None] = {}
EVERY_KEY = b"\0", b"\xff"  # all keys of a store begin with a letter or "_"
BLOCK_CACHE = 64 << 20  # bytes, shared by all partitions; Faust's default is 2 GiB for each
WRITE_BUFFER = 16 << 20  # bytes of a partition
ALL_WRITE_BUFFERS = 16 << 20  # bytes of all partitions together
# Bytes that a buffer grows by, and that count as used. With RocksDB's 1 MB a few states in each of 16 partitions fill
# ALL_WRITE_BUFFERS, and then each checkpoint writes a file of its own: ten times the processor of 64 KB.
BUFFER_STEP = 64 << 10
OPEN_FILES = 256  # of a partition
CORRUPT = "Corruption"  # in RocksDB's messages about damaged files
LOCKED = "While lock file"  # in RocksDB's message when another process has the store open; Faust waits on "lock" in it
DAMAGED = "DAMAGED"  # name of a file that marks a store found damaged while in use


class Store(Protocol):
    def get(self, partition: int, key: bytes) -> bytes | None: ...
    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def write(
        self, partition: int, items: Items, offset: int, *, logged: bool = True, marks: Mapping[str, str | None] = NO_MARKS
    ) -> None: ...  # marks: new values of some; None removes
    def flush(self, partition: int) -> None: ...
    def reached(self, partition: int) -> int | None: ...  # changelog offset of the last write, None: empty
    def marks(self, partition: int) -> dict[str, str]: ...
    def clear(self, partition: int) -> None: ...
    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]: ...  # in key order
    def keep(self, partitions: Sequence[int]) -> None: ...  # forget all others


class MemoryStore:
    """Dicts: for tests, and for jobs that read their whole changelog at each start instead of keeping a disk."""

    def __init__(self) -> None:
        self.data: dict[int, dict[bytes, bytes]] = {}
        self.offsets: dict[int, int] = {}
        self.marked: dict[int, dict[str, str]] = {}

    def get(self, partition: int, key: bytes) -> bytes | None:
        return self.data.get(partition, {}).get(key)

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        table = self.data.get(partition, {})
        return [table.get(key) for key in keys]

    def write(
        self, partition: int, items: Items, offset: int, *, logged: bool = True, marks: Mapping[str, str | None] = NO_MARKS
    ) -> None:
        table = self.data.setdefault(partition, {})
        for key, snapshot in items:
            if snapshot is None:
                table.pop(key, None)
            else:
                table[key] = snapshot
        self.offsets[partition] = offset
        marked = {**self.marks(partition), **marks}
        self.marked[partition] = {name: value for name, value in marked.items() if value is not None}

    def flush(self, partition: int) -> None:
        """Nothing is buffered."""

    def reached(self, partition: int) -> int | None:
        return self.offsets.get(partition)

    def marks(self, partition: int) -> dict[str, str]:
        return self.marked.get(partition, {})

    def clear(self, partition: int) -> None:
        self.keep([number for number in self.offsets if number != partition])

    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        table = self.data.get(partition, {})
        return [(key, table[key]) for key in sorted(table) if after is None or key > after][:count]

    def keep(self, partitions: Sequence[int]) -> None:
        self.data = {partition: table for partition, table in self.data.items() if partition in partitions}
        self.offsets = {partition: offset for partition, offset in self.offsets.items() if partition in partitions}
        self.marked = {partition: marked for partition, marked in self.marked.items() if partition in partitions}


class StoreError(StreamjobsError):
    """The local disk failed; nothing is acknowledged after it, and the changelog has everything."""


class RocksStore:
    """Faust's RocksDB store of a table. The table itself is bypassed, because it takes the partition from the current event.

    A handle is fetched for every use and never kept: one that outlives a revoked partition would keep its lock.
    """

    def __init__(self, faust_store: Any) -> None:
        self._faust = faust_store
        faust_store.rocksdb_options = SharedOptions()

    def get(self, partition: int, key: bytes) -> bytes | None:
        with self._translated_errors(partition):
            value: bytes | None = self._faust._db_for_partition(partition).get(KEY_PREFIX + key)
        return value

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._translated_errors(partition):
            return self._faust._db_for_partition(partition).get([KEY_PREFIX + key for key in keys])  # type: ignore[no-any-return]

    def write(
        self, partition: int, items: Items, offset: int, *, logged: bool = True, marks: Mapping[str, str | None] = NO_MARKS
    ) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, snapshot in items:
            if snapshot is None:
                batch.delete(KEY_PREFIX + key)
            else:
                batch.put(KEY_PREFIX + key, snapshot)
        batch.put(self._faust.offset_key, b"%d" % offset)
        for name, mark in marks.items():
            if mark is None:
                batch.delete(name.encode())
            else:
                batch.put(name.encode(), mark.encode())
        options = rocksdict.WriteOptions()
        options.disable_wal = not logged
        with self._translated_errors(partition):
            database, large = self._faust._db_for_partition(partition), batch.size_in_bytes() > WRITE_BUFFER
            database.write(batch, options)
            if logged and large:
                database.flush(wait=False)  # a batch stays in one buffer, which RocksDB would keep until the next write

    def flush(self, partition: int) -> None:
        with self._translated_errors(partition):
            self._faust._db_for_partition(partition).flush(wait=True)

    def reached(self, partition: int) -> int | None:
        with self._translated_errors(partition):
            value = self._faust._db_for_partition(partition).get(self._faust.offset_key)
        return None if value is None else int(value)

    def marks(self, partition: int) -> dict[str, str]:
        with self._translated_errors(partition):
            return _marks_of(self._faust._db_for_partition(partition))

    def clear(self, partition: int) -> None:
        """Remove everything at once; what a crash leaves is all or nothing."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.delete_range(*EVERY_KEY)
        with self._translated_errors(partition):
            self._faust._db_for_partition(partition).write(batch)

    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        begin = KEY_PREFIX + (after or b"")
        entries: list[tuple[bytes, bytes]] = []
        with self._translated_errors(partition):
            for key, snapshot in self._faust._db_for_partition(partition).items(from_key=begin):
                if not key.startswith(KEY_PREFIX) or len(entries) == count:
                    break
                if after is None or key != begin:
                    entries.append((key[len(KEY_PREFIX) :], snapshot))
        return entries

    @contextmanager
    def _translated_errors(self, partition: int) -> Iterator[None]:
        """Turn RocksDB's plain exceptions into errors that say what to do. A damaged store is rebuilt at the next start."""
        try:
            yield
        except StoreError:  # raised by `SharedOptions.open`
            raise
        except Exception as error:
            text = str(error).partition("\n")[0]
            if CORRUPT in text:
                (self._faust.partition_path(partition) / DAMAGED).touch()
                raise StoreError(
                    f"local store of partition {partition}: damaged ({text}). "
                    "Start again: it is rebuilt from the changelog, which has everything."
                ) from error
            raise StoreError(f"local store of partition {partition}: cannot be used {_remedy(text)}") from error

    def keep(self, partitions: Sequence[int]) -> None:
        """Faust closes the stores of revoked partitions."""


class SharedOptions(RocksDBOptions):  # type: ignore[misc]
    """One block cache and one limit of write buffers for all partitions."""

    def __init__(self) -> None:
        super().__init__(max_open_files=OPEN_FILES, write_buffer_size=WRITE_BUFFER)
        self._cache = rocksdict.Cache(BLOCK_CACHE)
        self._buffers = rocksdict.WriteBufferManager(ALL_WRITE_BUFFERS, False)

    def open(self, path: Path, *, read_only: bool = False) -> Any:
        """Open a store. A damaged one is removed and begins empty: it is a copy, and recovery fills it again."""
        if (path / DAMAGED).exists():
            shutil.rmtree(path)
        try:
            return rocksdict.Rdict(str(path), options=self.as_options())
        except Exception as error:
            text = str(error).partition("\n")[0]
            if LOCKED in text:
                raise StoreError(
                    f"local store {path}: another process has it open ({LOCKED} {path.name}/LOCK). Give each worker on "
                    "this machine a [state] directory of its own, or stop the other one."
                ) from error
            if CORRUPT not in text:
                raise StoreError(f"local store {path}: cannot be opened {_remedy(text)}") from error
            log.warning("local store damaged, rebuilding it from the changelog", store=path.name)
            shutil.rmtree(path)
            return rocksdict.Rdict(str(path), options=self.as_options())

    def as_options(self) -> Any:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_max_open_files(self.max_open_files)
        options.set_write_buffer_size(self.write_buffer_size)
        options.set_write_buffer_manager(self._buffers)
        options.set_arena_block_size(BUFFER_STEP)
        options.set_keep_log_file_num(2)
        options.set_compression_type(rocksdict.DBCompressionType.none())  # snapshots are floats: it costs and gives nothing
        table = rocksdict.BlockBasedOptions()
        table.set_bloom_filter(10, block_based=False)
        table.set_block_cache(self._cache)
        options.set_block_based_table_factory(table)
        return options


def _marks_of(database: Any) -> dict[str, str]:
    values = {name: database.get(name.encode()) for name in MARKS}
    return {name: bytes(value).decode() for name, value in values.items() if value is not None}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class LocalCopy:
    """A store on disk that no worker has open, for reading only."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError if it cannot be opened."""
        try:
            self._database = rocksdict.Rdict(
                str(path), options=rocksdict.Options(raw_mode=True), access_type=rocksdict.AccessType.read_only()
            )
        except Exception as error:
            raise StoreError(f"local store {path}: cannot be opened ({_first_line(error)}).") from error
        self.path, self.marks = path, _marks_of(self._database)
        reached = self._database.get(FaustStore.offset_key)
        self.reached = -1 if reached is None else int(reached)  # changelog offset of the last write

    @classmethod
    def all_below(cls, folder: Path) -> Iterator[tuple[int, "LocalCopy"]]:
        """The stores of a job, with their partitions. folder: the job's, in a [state] directory."""
        for path in sorted(folder.rglob("*.db")):
            number = path.stem.rpartition("-")[2]
            if number.isdecimal():
                yield int(number), cls(path)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._database.get(KEY_PREFIX + key)
        return value

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and snapshots, in key order. Raises StoreError where the files are damaged."""
        try:
            for key, snapshot in self._database.items(from_key=KEY_PREFIX):
                if not key.startswith(KEY_PREFIX):
                    return
                yield key[len(KEY_PREFIX) :], snapshot
        except Exception as error:
            raise StoreError(f"local store {self.path}: cannot be read ({_first_line(error)}).") from error

    def close(self) -> None:
        self._database.close()


def _remedy(text: str) -> str:
    files = "Too many open files" in text
    todo = "raise its ulimit -n" if files else "check that the disk of [state] directory has space and can be written"
    return f"({text}). Nothing is lost, the changelog has everything; {todo}, then start again."

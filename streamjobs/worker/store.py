"""The local store of snapshots: a RocksDB per partition opened by Faust's table, or dicts in memory.

The changelog is the truth, the store a copy of its beginning: a write holds the snapshots and the changelog offset
they reach, so both are there or neither is. Without the write-ahead log (restoring) that holds until the next logged
write; `flush` must come in between, or a crash would keep the newer offset and lose the restored snapshots.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import rocksdict
import structlog
from faust.stores.rocksdb import RocksDBOptions

from streamjobs.errors import StreamjobsError

log = structlog.get_logger("streamjobs")

Items = Iterable[tuple[bytes, bytes | None]]  # key, snapshot; None deletes

PREFIX = b"k"  # before every key: no key can be the one the offset is kept under, nor
SOURCE = b"source"  # the one of the id of the topic the states learned from
BLOCK_CACHE = 64 << 20  # bytes, shared by all partitions; Faust's default is 2 GiB for each
WRITE_BUFFER = 16 << 20  # bytes of a partition
WRITE_BUFFERS = 64 << 20  # bytes of all partitions together
OPEN_FILES = 256  # of a partition
CORRUPT = "Corruption"  # what RocksDB's messages about damaged files begin with
LOCKED = "While lock file"  # what they have where another process has the store open; Faust looks for "lock" and waits
DAMAGED = "DAMAGED"  # a file in a store that was found damaged while in use


class Store(Protocol):
    def get(self, partition: int, key: bytes) -> bytes | None: ...
    def write(
        self, partition: int, items: Items, offset: int, *, logged: bool = True, source: str | None = None
    ) -> None: ...  # source: id of the topic they learned from, None: as before
    def flush(self, partition: int) -> None: ...
    def reached(self, partition: int) -> int | None: ...  # changelog offset of the last write, None: empty
    def source(self, partition: int) -> str | None: ...
    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]: ...  # in key order
    def keep(self, partitions: Sequence[int]) -> None: ...  # forget all others


class MemoryStore:
    """Dicts: for tests, and jobs that rather read their changelog than own a disk."""

    def __init__(self) -> None:
        self.data: dict[int, dict[bytes, bytes]] = {}
        self.offsets: dict[int, int] = {}
        self.sources: dict[int, str] = {}

    def get(self, partition: int, key: bytes) -> bytes | None:
        return self.data.get(partition, {}).get(key)

    def write(self, partition: int, items: Items, offset: int, *, logged: bool = True, source: str | None = None) -> None:
        table = self.data.setdefault(partition, {})
        for key, snapshot in items:
            if snapshot is None:
                table.pop(key, None)
            else:
                table[key] = snapshot
        self.offsets[partition] = offset
        if source:
            self.sources[partition] = source

    def flush(self, partition: int) -> None:
        """Nothing is held back."""

    def reached(self, partition: int) -> int | None:
        return self.offsets.get(partition)

    def source(self, partition: int) -> str | None:
        return self.sources.get(partition)

    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        table = self.data.get(partition, {})
        return [(key, table[key]) for key in sorted(table) if after is None or key > after][:count]

    def keep(self, partitions: Sequence[int]) -> None:
        self.data = {partition: table for partition, table in self.data.items() if partition in partitions}
        self.offsets = {partition: offset for partition, offset in self.offsets.items() if partition in partitions}
        self.sources = {partition: source for partition, source in self.sources.items() if partition in partitions}


class StoreError(StreamjobsError):
    """The disk does not do what it has to; nothing is acknowledged after it, and the changelog has everything."""


class RocksStore:
    """Faust's RocksDB store of a table, used below the table: the table finds the partition by the current event.

    A handle is fetched for every use and never kept: one that outlives a revoked partition keeps its lock.
    """

    def __init__(self, faust_store: Any) -> None:
        self._faust = faust_store
        faust_store.rocksdb_options = SharedOptions()

    def get(self, partition: int, key: bytes) -> bytes | None:
        with self._told(partition):
            found: bytes | None = self._faust._db_for_partition(partition).get(PREFIX + key)
        return found

    def write(self, partition: int, items: Items, offset: int, *, logged: bool = True, source: str | None = None) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, snapshot in items:
            if snapshot is None:
                batch.delete(PREFIX + key)
            else:
                batch.put(PREFIX + key, snapshot)
        batch.put(self._faust.offset_key, b"%d" % offset)
        if source:
            batch.put(SOURCE, source.encode())
        options = rocksdict.WriteOptions()
        options.disable_wal = not logged
        with self._told(partition):
            self._faust._db_for_partition(partition).write(batch, options)

    def flush(self, partition: int) -> None:
        with self._told(partition):
            self._faust._db_for_partition(partition).flush(wait=True)

    def reached(self, partition: int) -> int | None:
        with self._told(partition):
            found = self._faust._db_for_partition(partition).get(self._faust.offset_key)
        return None if found is None else int(found)

    def source(self, partition: int) -> str | None:
        with self._told(partition):
            found = self._faust._db_for_partition(partition).get(SOURCE)
        return None if found is None else bytes(found).decode()

    def scan(self, partition: int, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        begin = PREFIX + (after or b"")
        found: list[tuple[bytes, bytes]] = []
        with self._told(partition):
            for key, snapshot in self._faust._db_for_partition(partition).items(from_key=begin):
                if not key.startswith(PREFIX) or len(found) == count:
                    break
                if after is None or key != begin:
                    found.append((key[len(PREFIX) :], snapshot))
        return found

    @contextmanager
    def _told(self, partition: int) -> Iterator[None]:
        """RocksDB's plain exceptions as errors that say what to do. One found damaged is opened anew at the next start."""
        try:
            yield
        except StoreError:  # of opening it
            raise
        except Exception as error:
            text = str(error).partition("\n")[0]
            if CORRUPT in text:
                (self._faust.partition_path(partition) / DAMAGED).touch()
                raise StoreError(
                    f"local store of partition {partition}: damaged ({text}). "
                    "Start again: it is then rebuilt from the changelog, which has everything."
                ) from error
            raise StoreError(
                f"local store of partition {partition}: cannot be used ({text}). Nothing is lost, the changelog has "
                "everything; see that the disk of [state] directory has room and may be written, then start again."
            ) from error

    def keep(self, partitions: Sequence[int]) -> None:
        """Faust closes what is revoked."""


class SharedOptions(RocksDBOptions):  # type: ignore[misc]
    """One block cache and one bound of write buffers for all partitions."""

    def __init__(self) -> None:
        super().__init__(max_open_files=OPEN_FILES, write_buffer_size=WRITE_BUFFER)
        self._cache = rocksdict.Cache(BLOCK_CACHE)
        self._buffers = rocksdict.WriteBufferManager(WRITE_BUFFERS, False)

    def open(self, path: Path, *, read_only: bool = False) -> Any:
        """A store that is damaged is removed and begins empty: it is a copy, and restoring fills it again."""
        if (path / DAMAGED).exists():
            shutil.rmtree(path)
        try:
            return rocksdict.Rdict(str(path), options=self.as_options())
        except Exception as error:
            text = str(error).partition("\n")[0]
            if LOCKED in text:
                raise StoreError(
                    f"local store {path}: another process has it open ({LOCKED} {path.name}/LOCK). Give each worker on "
                    "this machine a [state] directory of its own, or end the other one."
                ) from error
            if CORRUPT not in text:
                raise StoreError(
                    f"local store {path}: cannot be opened ({text}). Nothing is lost, the changelog has everything; see "
                    "that the disk of [state] directory has room and may be written, then start again."
                ) from error
            log.warning("local store damaged: rebuilt from the changelog", store=path.name)
            shutil.rmtree(path)
            return rocksdict.Rdict(str(path), options=self.as_options())

    def as_options(self) -> Any:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_max_open_files(self.max_open_files)
        options.set_write_buffer_size(self.write_buffer_size)
        options.set_write_buffer_manager(self._buffers)
        options.set_keep_log_file_num(2)
        options.set_compression_type(rocksdict.DBCompressionType.none())  # snapshots are floats: it costs and gives nothing
        table = rocksdict.BlockBasedOptions()
        table.set_bloom_filter(10, block_based=False)
        table.set_block_cache(self._cache)
        options.set_block_based_table_factory(table)
        return options

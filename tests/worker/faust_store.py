"""Faust's table store, as far as the local store uses it; also for processes that a test starts."""

from pathlib import Path

from streamjobs.worker.store import RocksStore, StoreError

__all__ = ["OFFSET_KEY", "FaustStore", "RocksStore", "StoreError", "filled"]

OFFSET_KEY = b"__faust\0offset__"


class FaustStore:
    """What our store uses of Faust's."""

    offset_key = OFFSET_KEY

    def __init__(self, folder):
        self.folder, self.handles, self.rocksdb_options = folder, {}, None

    def partition_path(self, partition):
        return self.folder / f"{partition}.db"

    def _db_for_partition(self, partition):
        if partition not in self.handles:
            self.handles[partition] = self.rocksdb_options.open(self.partition_path(partition))
        return self.handles[partition]


def filled(folder: Path) -> RocksStore:
    store = RocksStore(FaustStore(folder))
    store.write(0, [(b"%d" % number, bytes(1000)) for number in range(100)], 7)
    store.flush(0)
    return store

"""The local store: data and offset together or not at all, in memory and on disk."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamjobs.worker.store import ALL_WRITE_BUFFERS, LocalCopy, MemoryStore, RocksStore, SharedOptions, StoreError
from tests.sizes import first_fast
from tests.worker.faust_store import OFFSET_KEY, FaustStore, filled


@pytest.fixture(params=["memory", "rocksdb"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else RocksStore(FaustStore(tmp_path))


def test_a_write_is_read_back_with_the_offset_it_reaches(store):
    assert store.reached(0) is None and store.get(0, b"a") is None
    store.write(0, [(b"a", b"1"), (b"b", b"2")], 7)
    store.write(0, [(b"a", b"3"), (b"b", None)], 9)
    assert (store.get(0, b"a"), store.get(0, b"b"), store.reached(0)) == (b"3", None, 9)


def test_many_are_read_at_once_in_the_order_asked_for(store):
    store.write(0, [(b"%d" % n, b"x" * n) for n in range(1, 2000)], 7)
    asked = [b"7", b"none", *(b"%d" % n for n in range(1999, 0, -1)), b"7"]
    assert store.get_many(0, asked) == [store.get(0, key) for key in asked]
    assert store.get_many(0, []) == []


def test_partitions_do_not_see_each_other(store):
    store.write(0, [(b"a", b"1")], 7)
    assert store.get(1, b"a") is None and store.reached(1) is None


def test_no_record_key_can_overwrite_the_offset(store):
    store.write(0, [(OFFSET_KEY, b"hostile")], 7)
    assert store.reached(0) == 7 and store.get(0, OFFSET_KEY) == b"hostile"


def test_marks_are_kept_until_they_are_replaced_or_removed(store):
    assert store.marks(0) == {}
    store.write(0, [], 7, marks={"source": "i1", "topic": "in", "changelog": "c1"})
    store.write(0, [(b"a", b"1")], 8)
    store.write(0, [], 9, marks={"source": "i2", "topic": None})
    assert store.marks(0) == {"source": "i2", "changelog": "c1"} and store.marks(1) == {}


def test_no_record_key_can_overwrite_a_mark(store):
    store.write(0, [(b"changelog", b"hostile")], 7, marks={"changelog": "c1"})
    assert store.marks(0) == {"changelog": "c1"} and store.scan(0, None, 5) == [(b"changelog", b"hostile")]


def test_keys_alone_are_scanned_in_order_and_from_behind_a_key_on(store):
    store.write(0, [(b"b", b"2"), (b"a", b"1"), (b"", b"0"), (b"c", b"3")], 7, marks={"source": "i1", "changelog": "c1"})
    every = [(b"", b"0"), (b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert [store.scan(0, after, 9) for after in (None, b"", b"a", b"c")] == [every, every[1:], every[2:], []]
    assert store.scan(0, b"", 2) == every[1:3]


def test_a_cleared_partition_begins_empty_and_others_stay(store):
    for partition in (0, 1):
        store.write(partition, [(b"", b"1"), (b"\xff" * 9, b"2")], 7, marks={"changelog": "c1"})
    store.clear(0)
    assert (store.reached(0), store.marks(0), store.scan(0, None, 5)) == (None, {}, [])
    assert (store.reached(1), store.marks(1), len(store.scan(1, None, 5))) == (7, {"changelog": "c1"}, 2)


def test_a_store_is_read_without_changing_it_also_after_a_kill(tmp_path):
    died = subprocess.run([sys.executable, "-c", RESTORE_THEN_CRASH, str(tmp_path), "flushed"], check=False)
    assert died.returncode == -9
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ((number, copy),) = LocalCopy.all_below(tmp_path)
    assert (number, copy.reached, copy.marks) == (0, 6, {"source": "i1"})
    assert list(copy.items()) == [(b"checkpoint", b"2"), (b"restored", b"1")]
    assert copy.get(b"restored") == b"1" and copy.get(b"other") is None
    copy.close()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path in before} == before


def test_a_store_that_was_never_written_reaches_nothing(tmp_path):
    store = RocksStore(FaustStore(tmp_path))
    assert store.reached(0) is None
    store._faust.handles.pop(0).close()
    ((_, copy),) = LocalCopy.all_below(tmp_path)
    assert (copy.reached, copy.marks, list(copy.items())) == (-1, {}, [])
    copy.close()


def test_memory_forgets_partitions_that_went_elsewhere():
    store = MemoryStore()
    store.write(0, [(b"a", b"1")], 7)
    store.write(1, [(b"a", b"1")], 7)
    store.keep([1])
    assert store.reached(0) is None and store.get(0, b"a") is None and store.reached(1) == 7


def test_a_store_with_a_truncated_table_begins_empty_to_be_restored(tmp_path):
    filled(tmp_path)._faust.handles.pop(0).close()
    (table,) = tmp_path.rglob("*.sst")
    with table.open("r+b") as file:
        file.truncate(table.stat().st_size // 2)
    store = RocksStore(FaustStore(tmp_path))
    assert store.reached(0) is None and store.get(0, b"1") is None
    store.write(0, [(b"1", b"again")], 9)
    assert (store.get(0, b"1"), store.reached(0)) == (b"again", 9)


@pytest.mark.parametrize("read", [lambda store: store.get(0, b"1"), lambda store: store.get_many(0, [b"none", b"1"])])
def test_a_store_found_damaged_in_use_says_so_and_is_rebuilt_at_the_next_start(tmp_path, read):
    filled(tmp_path)._faust.handles.pop(0).close()
    (table,) = tmp_path.rglob("*.sst")
    data = bytearray(table.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)  # its size is right, its blocks are not
    table.write_bytes(data)
    store = RocksStore(FaustStore(tmp_path))
    with pytest.raises(StoreError, match=r"partition 0: damaged .*Start again"):
        read(store)
    store._faust.handles.pop(0).close()
    assert RocksStore(FaustStore(tmp_path)).reached(0) is None


def test_a_store_that_another_process_has_open_says_so(tmp_path):
    holding = filled(tmp_path)
    code = (
        "import sys; from pathlib import Path; from tests.worker.faust_store import *\n"
        "try: RocksStore(FaustStore(Path(sys.argv[1]))).reached(0)\n"
        "except StoreError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "0.db: another process has it open" in told.stdout and "a [state] directory of its own" in told.stdout
    assert holding.reached(0) == 7
    assert "lock" in told.stdout  # what Faust looks for before it waits for the other one to close it


def test_a_full_disk_is_said_with_what_to_do(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from tests.worker.faust_store import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try: filled(Path(sys.argv[1]))\n"
        "except StoreError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "partition 0: cannot be used" in told.stdout and "File too large" in told.stdout and "has space" in told.stdout


def test_all_partitions_share_one_block_cache(tmp_path):
    options = SharedOptions()
    before = options._cache.get_usage()
    stores = SimpleNamespace(a=options.open(tmp_path / "a"), b=options.open(tmp_path / "b"))
    for db in (stores.a, stores.b):
        for number in range(200):
            db.put(b"%d" % number, bytes(4000))
        db.flush(wait=True)
        for number in range(200):
            assert db.get(b"%d" % number) == bytes(4000)
    assert options._cache.get_usage() > before


def test_a_few_states_of_many_partitions_stay_in_the_buffers_that_they_share(tmp_path):
    store = RocksStore(faust := FaustStore(tmp_path))
    for offset in range(4):
        for partition in range(24):
            store.write(partition, [(b"%d" % offset, bytes(3000))], offset)
    buffered = [int(db.property_value("rocksdb.size-all-mem-tables")) for db in faust.handles.values()]
    assert sum(buffered) < ALL_WRITE_BUFFERS / 4 and not list(tmp_path.rglob("*.sst")), buffered


RESTORE_THEN_CRASH = """
import os, sys
from pathlib import Path
from streamjobs.worker.store import RocksStore
from tests.worker.faust_store import FaustStore
store = RocksStore(FaustStore(Path(sys.argv[1])))
store.write(0, [(b"restored", b"1")], 5, logged=False)
if sys.argv[2] == "flushed":
    store.flush(0)
store.write(0, [(b"checkpoint", b"2")], 6, marks={"source": "i1"})
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", first_fast(["flushed", "not flushed"]))
def test_restored_snapshots_outlive_a_crash_after_the_next_checkpoint_because_they_are_flushed(tmp_path, how):
    """Not flushed, the crash keeps the newer offset and loses what was restored: a silent hole, shown beside."""
    checkout = Path(__file__).resolve().parents[2]
    died = subprocess.run(
        [sys.executable, "-c", RESTORE_THEN_CRASH, str(tmp_path), how], cwd=checkout, capture_output=True, check=False
    )
    assert died.returncode == -9, died.stderr.decode()
    store = RocksStore(FaustStore(tmp_path))
    assert (store.reached(0), store.get(0, b"checkpoint")) == (6, b"2")
    assert store.get(0, b"restored") == (b"1" if how == "flushed" else None)


def test_too_few_open_files_are_said_with_what_to_do(tmp_path, monkeypatch):
    def refuse(*_arguments, **_named):
        raise OSError("IO error: While open a file for appending: 0.db/MANIFEST-000005: Too many open files")

    monkeypatch.setattr("streamjobs.worker.store.rocksdict.Rdict", refuse)
    with pytest.raises(StoreError, match=r"cannot be opened .*Too many open files.* raise its ulimit -n, then start again"):
        SharedOptions().open(tmp_path / "0.db")

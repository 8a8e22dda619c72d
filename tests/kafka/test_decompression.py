"""No batch unpacks beyond its bound, whatever packed it and however damaged it is; all others are read as before."""

import gc
import gzip
import random
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import cramjam
import pytest
from aiokafka import codec as aiokafkas
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.structs import TopicPartition

from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import Unread
from streamjobs.errors import SnapshotError
from streamjobs.kafka import patches
from streamjobs.kafka.patches import batches, decompression
from streamjobs.kafka.patches.batches import PORTION, FetchedBatches
from streamjobs.kafka.patches.decompression import DecompressionError, gzip_decode, lz4_decode, snappy_decode, zstd_decode
from streamjobs.kafka.reader import readable
from streamjobs.settings.source import SourceSection
from tests.kafka.batches import PACK, batch, packed, records

PLACE = TopicPartition("imu", 3)
DECODE = {"gzip": gzip_decode, "snappy": snappy_decode, "lz4": lz4_decode, "zstd": zstd_decode}
MOST = 1 << 20
GOOD = [b'{"x": [1.0], "ts": 1.0}' * n for n in range(1, 6)]
UNFRAMED = {  # what other clients write
    "snappy": cramjam.snappy.compress_raw,
    "lz4": cramjam.lz4.compress,
    "zstd": cramjam.zstd.compress,
    "gzip": gzip.compress,
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    patches.apply()
    decompression.budget.used = 0
    monkeypatch.setattr(decompression._Budget, "limit", MOST)
    yield
    decompression.budget.used = 0


def read(data: bytes, begin: int = 0) -> list[Any]:
    chunks = PartitionRecords(PLACE, FetchedBatches(data), [], begin, None, None, True, READ_COMMITTED)
    return [record for chunk in chunks for record in chunk]


@pytest.mark.parametrize("codec", PACK)
def test_what_was_packed_comes_out_up_to_the_bound_and_nothing_beyond_it(codec: str) -> None:
    rnd = random.Random(1)
    for size in (1, 100, 40_000, MOST):
        data = rnd.randbytes(size // 2) + bytes(size - size // 2)
        decompression.budget.used = 0
        assert bytes(DECODE[codec](PACK[codec](data))) == data
        assert bytes(DECODE[codec](memoryview(bytes(UNFRAMED[codec](data))))) == data
        assert decompression.budget.used == 2 * size
    for size in (MOST + 1, 50 * MOST):
        for pack in (PACK[codec], UNFRAMED[codec]):
            with pytest.raises(DecompressionError, match=f"more than {MOST} bytes"):
                DECODE[codec](bytes(pack(bytes(size))))


def test_pieces_one_after_another_are_one_batch_and_have_one_bound() -> None:
    for codec in ("gzip", "zstd", "lz4"):
        piece = PACK[codec](bytes(MOST // 4))
        assert bytes(DECODE[codec](4 * piece)) == bytes(MOST)
        with pytest.raises(DecompressionError, match="more than"):
            DECODE[codec](5 * piece)


def test_a_size_that_is_only_claimed_takes_no_memory() -> None:
    with pytest.raises(DecompressionError, match="more than"):
        snappy_decode(b"\xff\xff\xff\xff\x0f" + b"abc")  # 4 GB
    with pytest.raises(DecompressionError, match="got one of -5"):
        snappy_decode(PACK["snappy"](b"abc")[:16] + b"\xff\xff\xff\xfb" + b"abc")


@pytest.mark.parametrize("codec", PACK)
def test_damage_is_reported_and_nothing_else_is_raised(codec: str) -> None:
    rnd = random.Random(2)
    good = PACK[codec](b"".join(GOOD) + rnd.randbytes(200))
    told = 0
    for _ in range(1_000):
        data = bytearray(good)
        for _ in range(rnd.choice((1, 3, 30))):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
        cut = rnd.choice((len(data), rnd.randrange(len(data))))
        try:
            DECODE[codec](bytes(data[:cut]))
        except DecompressionError as error:
            told += 1
            assert "\n" not in str(error) and len(str(error)) < 200
    assert told > 100


@pytest.mark.parametrize("codec", PACK)
def test_a_bomb_gives_one_record_for_all_its_offsets_and_its_neighbours_are_read(codec: str) -> None:
    bomb = packed([b"1", bytes(20 * MOST), b"3"], codec, base=5, time=77)
    behind = packed(GOOD, "none", base=8) + bomb[:4] + b"\0\0\0\x10" + bomb[8:]
    for begin, data in ((0, packed(GOOD, codec) + bomb + behind), (6, bomb + behind), (7, bomb + behind)):
        found = read(data, begin)
        offsets = [record.offset for record in found]
        assert offsets == [*range(begin, 5), 7, *range(8, 13), 18]
        one = found[offsets.index(7)]
        assert isinstance(one, Unread) and one.key is None and one.value == bomb and one.timestamp == 77
        first = max(5, begin)
        assert one.headers == (("streamjobs-batch", b"%d-7" % first),)
        assert one.problem == (
            f"expected records, got a batch ({codec}) that gives none for offsets {first} to 7: it unpacks to more than "
            f"{MOST} bytes"
        )
        assert begin or [record.value for record in found[:5]] == GOOD


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])  # snappy states a size
def test_of_many_bombs_only_one_is_held_at_a_time(codec: str) -> None:
    data = b"".join(packed([bytes(4 * MOST)], codec, base=n) for n in range(12))
    gc.disable()  # what is in no cycle needs no collection
    tracemalloc.start()
    try:
        assert len(read(data)) == 12
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert most < 4 * MOST


def test_what_is_no_record_after_good_ones_takes_the_place_of_the_rest_only() -> None:
    body = records(GOOD, b"p1")
    at = len(records(GOOD[:2], b"p1"))
    broken = body[:at] + b"\x7f\xff" + body[at + 2 :]
    for codec in PACK:
        found = read(batch(PACK[codec](broken), 5, codec) + packed(GOOD, codec, base=5))
        assert [record.offset for record in found] == [0, 1, 4, 5, 6, 7, 8, 9]
        assert isinstance(found[2], Unread) and dict(found[2].headers)["streamjobs-batch"] == b"2-4"


def test_a_batch_damaged_on_its_way_is_not_taken_for_what_was_sent() -> None:
    data = bytearray(packed(GOOD, "zstd"))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordException, match="Invalid CRC"):
        read(bytes(data))


def test_what_cannot_be_read_is_a_dead_letter_of_its_own_reason_and_no_snapshot() -> None:
    (one,) = read(packed([bytes(2 * MOST)], "gzip"))
    for timed in (None, "ts"):
        ((at, error),) = decoder(SourceSection(topic="imu", dim=1, time=timed), 1)([one]).errors
        assert at == 0 and error.reason == "batch"
        assert str(error).startswith("topic imu[3] offset 0: expected records, got a batch (gzip)")
    with pytest.raises(SnapshotError, match=r"imu\[3\]: expected records"):
        readable(one)


def taken(data: bytes, most: int | None = None) -> list[list[Any]]:
    """What call after call of getall gives, each a call of its own to the consumer."""
    state = SimpleNamespace(paused=False, position=0)
    state.consumed_to = lambda offset: setattr(state, "position", offset)
    assignment: Any = SimpleNamespace(active=True, state_value=lambda tp: state)
    found = PartitionRecords(PLACE, FetchedBatches(data), [], 0, None, None, True, READ_COMMITTED)
    result = FetchResult(PLACE, assignment=assignment, partition_records=found, backoff=0)
    calls = []
    while result.has_more():
        decompression.budget.used = 0
        calls.append(result.getall(most))
        assert state.position == (calls[-1][-1].offset + 1 if calls[-1] else state.position)
        assert len(calls) < 1000
    return calls


def test_a_fetch_of_much_is_handed_over_in_portions_and_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression._Budget, "limit", PORTION)
    big = [packed([bytes(PORTION // 2), b"x"], "zstd", base=2 * n) for n in range(7)]
    calls = taken(b"".join(big))
    assert [[record.offset for record in call] for call in calls] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13]]
    calls = taken(b"".join(packed(GOOD, "lz4", base=5 * n) for n in range(10)), 7)
    assert [len(call) for call in calls] == [7] * 7 + [1]
    assert [record.offset for call in calls for record in call] == list(range(50))
    assert [len(call) for call in taken(packed(GOOD, "none"), 5)] == [5, 0]


def test_a_batch_of_many_records_is_handed_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 3)
    many = packed([b"%d" % n for n in range(20)], "none")
    chunks = PartitionRecords(PLACE, FetchedBatches(many), [], 4, None, None, True, READ_COMMITTED)
    assert [len(chunk) for chunk in chunks] == [2, 3, 3, 3, 3, 2]
    for most in (1, 4, 7, 20, None):
        calls = taken(many + packed(GOOD, "gzip", base=20), most)
        assert [record.offset for call in calls for record in call] == list(range(25))
        assert all(len(call) == most for call in calls[: 25 // most]) if most else len(calls) == 1


def test_a_fetch_that_comes_when_a_portion_is_full_is_kept() -> None:
    decompression.budget.used = PORTION
    assert FetchedBatches(packed(GOOD, "zstd")).has_next()  # aiokafka takes one without for a record too large, and skips it


def test_without_the_patch_aiokafka_decompresses_whatever_there_is() -> None:
    """When this fails, the patch can be removed."""
    for codec in PACK:
        decode = getattr(aiokafkas, f"{codec}_decode")
        assert len(decode(PACK[codec](bytes(10 * MOST)))) == 10 * MOST

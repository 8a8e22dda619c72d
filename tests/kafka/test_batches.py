"""A header name of any bytes ends no worker: its record comes out, between those before and behind it, each once."""

import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from streamjobs.kafka import patches
from streamjobs.kafka.patches.batches import FetchedBatches

PLACE = TopicPartition("imu", 0)
NAME, FOREIGN = b"name-with-marks", b"name-\xff\xfe\xfd-marks!"


def batch(base: int, *, foreign: int | None = None, compressed: int = 0) -> bytes:
    """Five records from this offset on; the header of record `foreign` is named in no known letters."""
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compressed,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        batch_size=1 << 16,
    )
    for n in range(5):
        name = NAME.decode() if n == foreign else "trace"
        made.append(n, timestamp=1000 + n, key=b"p1", value=b"%d" % (base + n), headers=[(name, b"v")])
    data = bytearray(made.build())
    if foreign is not None:
        assert NAME in data
        at = data.index(NAME)
        data[at : at + len(NAME)] = FOREIGN
    data[0:8] = base.to_bytes(8, "big")
    return bytes(data)


def read(data: bytes, begin: int = 0) -> list:
    patches.apply()
    chunks = PartitionRecords(PLACE, FetchedBatches(data), [], begin, None, None, False, READ_COMMITTED)
    return [record for chunk in chunks for record in chunk]


@pytest.mark.parametrize("foreign", [0, 2, 4])
def test_all_records_come_once_and_in_order_around_a_header_name_that_is_not_text(foreign):
    found = read(batch(0) + batch(5, foreign=foreign) + batch(10) + batch(15, foreign=foreign))
    assert [record.offset for record in found] == list(range(20))
    assert [record.value for record in found] == [b"%d" % n for n in range(20)]
    assert [record.timestamp for record in found] == [1000 + n % 5 for n in range(20)]
    odd = [record for record in found if record.headers[0][0] != "trace"]
    assert [record.offset for record in odd] == [5 + foreign, 15 + foreign]
    assert odd[0].headers == [(FOREIGN.decode(errors="backslashreplace"), b"v")]
    odd[0].headers[0][0].encode()  # it can be written to the dead letters


def test_a_fetch_that_begins_within_such_a_batch_gives_what_is_from_there_on():
    assert [record.offset for record in read(batch(0, foreign=1) + batch(5), 3)] == [3, 4, 5, 6, 7, 8, 9]


def test_without_the_patch_aiokafka_raises():
    """When this fails, the patch can be removed."""
    from aiokafka.record.memory_records import MemoryRecords

    with pytest.raises(UnicodeDecodeError):
        records = MemoryRecords(batch(0, foreign=1))
        list(records.next_batch())

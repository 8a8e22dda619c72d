"""Which records commands read: those of a span of times or offsets, and no others."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from streamjobs.demo.mock import MockBroker
from streamjobs.job_files import broker_of
from streamjobs.kafka import client, reader
from streamjobs.kafka.patches import decompression

STAMPS = {0: {3: 100, 4: 200, 5: 300}, 1: {7: 50}, 2: {}}  # partition -> offset -> timestamp, after retention


class Consumer:
    """librdkafka's, of a topic with these partitions."""

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return min(STAMPS[place.partition], default=9), max(STAMPS[place.partition], default=8) + 1

    def offsets_for_times(self, places: list[Any], timeout: float) -> list[Any]:
        (place,) = places
        later = [offset for offset, stamp in STAMPS[place.partition].items() if stamp >= place.offset]
        return [SimpleNamespace(offset=min(later, default=-1))]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (None, None, {0: (3, 6), 1: (7, 8), 2: (9, 9)}),
        (0, 1_000, {0: (3, 6), 1: (7, 8), 2: (9, 9)}),
        (100, 300, {0: (3, 5), 1: (8, 8), 2: (9, 9)}),
        (101, None, {0: (4, 6), 1: (8, 8), 2: (9, 9)}),
        (None, 50, {0: (3, 3), 1: (7, 7), 2: (9, 9)}),
        (301, 400, {0: (6, 6), 1: (8, 8), 2: (9, 9)}),
    ],
)
def test_a_span_of_times_is_a_range_of_offsets(
    monkeypatch: pytest.MonkeyPatch, begin: int | None, end: int | None, expected: dict[int, Any]
) -> None:
    monkeypatch.setattr(client, "partitions_of", lambda *_: list(STAMPS))
    assert reader._ranges(Consumer(), "imu", begin, end, "") == expected


@pytest.mark.parametrize(("max_bytes", "limit"), [(0, 100 << 20), (30 << 20, 120 << 20)])
def test_records_of_a_range_are_read_and_none_of_the_same_batch_beyond_it(
    max_bytes: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that reads its changelog keeps the limit of its input's batches."""
    monkeypatch.setattr(decompression._Budget, "limit", 100 << 20)
    with MockBroker() as broker:
        broker.create(["imu"])
        producer = Producer({"bootstrap.servers": broker.url.removeprefix("kafka://"), "linger.ms": 50})
        for number in range(20):
            producer.produce("imu", b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        found = list(reader.read(broker_of(broker.url), "imu", {0: (2, 7), 1: (9, None)}, in_turn=True, max_bytes=max_bytes))
    assert [(one.partition, one.offset) for one in found] == [*((0, offset) for offset in range(2, 7)), (1, 9)]
    assert decompression.budget.limit == limit

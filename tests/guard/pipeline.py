"""A partition without Kafka: from fetched bytes to batches of the producer, for the three jobs of the benchmark."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.kafka import patches
from streamjobs.settings.load import settings_from
from streamjobs.worker.outbox import BATCH_BYTES, send_records
from streamjobs.worker.partition import SLICE
from tests.bench.programs import SimpleJob, SimpleLive, simple_advance
from tests.bench.worker import DIM, FRAME, FULL, PARTITIONS, Sent, frames, singles

NAMES = ("simple", "full", "frames")
PLACE = TopicPartition("in", 0)
FETCH_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16
FRAMES_AT_ONCE = 30  # of a call of `advance`, about as many as fit into a turn of the event loop
WARM_UP = 3  # fetches: workspaces have grown, and every key is past its seed


def settings_of(name: str) -> Any:
    source = {"dim": DIM, "format": "raw"} if name == "frames" else FULL["source"]
    return settings_from({**FULL, "job": {"name": "guard"}, "source": {**source, "topic": PLACE.topic}})


def sent(name: str) -> Iterator[Sent]:
    """The records of partition 0."""
    every = frames(1 << 20) if name == "frames" else singles(1 << 20)
    return (one for one in every if one.partition == 0)


def fetches(records: Iterable[Sent], most_records: int | None = None) -> Iterator[bytes]:
    """What fetches bring: batches of the producer, each of almost a megabyte or of so many records."""
    records, base = iter(records), 0
    left: list[Sent] = []
    while True:
        batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, FETCH_BYTES - 4096)
        count = 0
        for one in chain(left, islice(records, most_records)):
            left = []
            if batch.append(count, one.timestamp, key=one.key, value=one.value, headers=list(one.headers)) is None:
                left = [one]
                break
            count += 1
        data = bytearray(batch.build())
        data[:8] = base.to_bytes(8, "big")
        base += count
        yield bytes(data)


def received(data: bytes) -> bytes:
    """A response as asyncio's reader gives it: gathered in a buffer, then copied from the buffer."""
    buffer = bytearray()
    for at in range(0, len(data), CHUNK_BYTES):
        buffer.extend(data[at : at + CHUNK_BYTES])
    return bytes(memoryview(buffer))


class Producer:
    """Takes batches as aiokafka's producer does, and packs them."""

    def __init__(self) -> None:
        self.packed = 0  # bytes

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(BATCH_BYTES, 0)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> None:
        batch._build()
        self.packed += len(batch._buffer)


class Pipeline:
    """The live states of a partition, and what its records pass. checkpoints: each fetch ends with one."""

    def __init__(self, name: str, checkpoints: bool = True) -> None:
        patches.apply()
        self.checkpoints = checkpoints
        settings = settings_of(name)
        self.per = FRAME if name == "frames" else 1  # samples of a record
        self.slice = FRAMES_AT_ONCE if name == "frames" else SLICE
        self.advance: Any = simple_advance if name == "simple" else advance
        self.job: Any = SimpleJob(settings) if name == "simple" else Job.from_settings(settings)
        self.job.compile()
        self.live: Any = SimpleLive(lambda key: None) if name == "simple" else Live(self.job, lambda key: None)
        self.producer, self.offset, self.count = Producer(), 0, 0  # count: records of the last fetch

    def apply(self, data: bytes) -> list[Any]:
        """The outputs of a fetch."""
        fetched = patches.batches.FetchedBatches(received(data))
        way = PartitionRecords(PLACE, fetched, [], self.offset, None, None, False, READ_COMMITTED)
        records = [record for chunk in way for record in chunk]
        self.offset = records[-1].offset + 1
        outputs: list[Any] = []
        for at in range(0, len(records), self.slice):
            outputs += self.advance(self.job, self.live, records[at : at + self.slice]).outputs
        self.count = len(records)
        return outputs

    def take(self, data: bytes) -> int:
        """Apply a fetch, pack the outputs, and take the snapshots of a checkpoint; gives the number of records."""
        sending = send_records(self.producer, "out", 0, self.apply(data))
        try:
            sending.send(None)
            raise AssertionError("the producer waits for nothing")
        except StopIteration:
            pass
        if self.checkpoints:
            self.live.snapshots()
        return self.count


def started(name: str, most_records: int | None = None, *, checkpoints: bool = True) -> tuple[Pipeline, Iterator[bytes]]:
    """A pipeline that has warmed up, and what it fetches next. most_records: of a fetch."""
    assert PARTITIONS == 4, "the keys of partition 0 are every fourth one"
    pipeline, data = Pipeline(name, checkpoints), fetches(sent(name), most_records)
    for one in islice(data, WARM_UP):
        pipeline.take(one)
    return pipeline, data

"""Programs beside the worker: python -m tests.bench.programs simple|faust JOB.toml.

simple  the worker itself around a state of 8 KB without a learner: what the engine costs
faust   a stock Faust agent with a table, calling the same core for each record: the usual way to write such a job
"""

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core, ReadMany
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live, LiveStats
from streamjobs.core.messages import Advanced, Output, Record, Report, Stored
from streamjobs.job_files import load_job
from streamjobs.settings.sections import Settings
from streamjobs.worker.run import run
from tests.bench.peers.programs.simple_job import CELLS, COUNT_AT, SIZE, Answer, cell, counter, decode, encode

OFFSET_AT = 8 * CELLS + 8


class SimpleJob:
    """40 floats of JSON in; a state of 1,024 cells, one of which each record changes; one answer of 10 floats out."""

    fingerprint, model, state_bytes = b"simple", "simple", SIZE

    def __init__(self, settings: Settings) -> None:
        self.sinks = {"predictions": f"{settings.source.topic}.predictions", "dlq": f"{settings.source.topic}.dlq"}

    @property
    def sections(self) -> dict[str, str]:
        return {}  # none that may be added

    def compile(self) -> None:
        """Nothing is compiled."""


class SimpleLive:
    def __init__(self, read: Callable[[bytes], bytes | None]) -> None:
        self.read, self.dirty = read, set[bytes]()
        self.states: dict[bytes, bytearray] = {}

    keys = property(lambda self: len(self.states))
    nbytes = property(lambda self: SIZE * len(self.states))
    dirty_bytes = property(lambda self: SIZE * len(self.dirty))
    now = 0
    aside: tuple[bytes, ...] = ()
    moment = reported = ""

    def owed(self) -> Advanced:
        return Advanced([], Report())

    def stats(self, since: int) -> LiveStats:
        return LiveStats(keys=len(self.states))

    def snapshots(self) -> list[tuple[bytes, bytes]]:
        taken = [(key, bytes(self.states[key])) for key in self.dirty]
        self.dirty.clear()
        return taken


def simple_advance(job: SimpleJob, live: SimpleLive, records: Sequence[Record]) -> Advanced:
    outputs, report, states = [], Report(records=len(records)), live.states
    for record in records:
        key = record.key
        state = states.get(key)
        if state is None:
            stored = live.read(key)
            state = bytearray(stored) if stored else bytearray(SIZE)
            if not stored:
                counter.pack_into(state, OFFSET_AT, -1)
            states[key] = state
        if record.offset <= counter.unpack_from(state, OFFSET_AT)[0]:
            report.redelivered += 1
            continue
        sample = decode(record.value)  # as `simple_job.apply`, without a call for each record
        count = counter.unpack_from(state, COUNT_AT)[0] + 1
        at = 8 * (count % CELLS)
        total = cell.unpack_from(state, at)[0] + sample.x[0]
        cell.pack_into(state, at, total)
        counter.pack_into(state, COUNT_AT, count)
        counter.pack_into(state, OFFSET_AT, record.offset)
        live.dirty.add(key)
        name = f"{record.topic}-{record.partition}-{record.offset}".encode()
        value = encode(Answer([float(count), total, *sample.x[2:10]], sample.ts))
        outputs.append(Output("predictions", key, value, round(sample.ts * 1000), [("streamjobs-id", name)]))
    report.rows = report.samples = len(outputs)
    return Advanced(outputs, report)


def simple(settings: Settings) -> int:
    def make_live(job: SimpleJob, read_many: ReadMany, most: int) -> SimpleLive:
        return SimpleLive(lambda key: read_many([key])[0])

    core = Core(SimpleJob(settings), make_live, simple_advance, lambda job, data: (float("-inf"), {}))
    return run(settings, lambda: core)


def faust(settings: Settings) -> int:
    """A stock agent at its best: no web, no sensors, raw bytes, no waiting for each send; states stay decoded in memory,
    and its table (RocksDB and changelog) gets each record's snapshot, as tables do."""
    import faust as stock

    logging.basicConfig(level=logging.ERROR)
    job = Job.from_settings(settings)
    job.compile()
    name, source = settings.job.name, settings.source.topic
    app = stock.App(
        name,
        broker=settings.broker.url,
        store="rocksdb://",
        datadir=settings.state.directory,
        web_enabled=False,
        topic_partitions=4,
        topic_disable_leader=True,
        stream_wait_empty=False,
        stream_buffer_maxsize=16_384,
        producer_linger=0.005,
        producer_max_batch_size=1_000_000,
        consumer_auto_offset_reset="earliest",
        broker_max_poll_records=5_000,
    )
    app.boot_strategy.enable_sensors = False
    raw = stock.Schema(key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    topic = app.topic(source, schema=raw)
    sinks = {sink: app.topic(name, schema=raw) for sink, name in job.sinks.items()}
    table = app.Table("stock", partitions=4, key_type=bytes, value_type=bytes, schema=raw)
    lives: dict[int, Live] = {}

    async def agent(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            partition = message.partition
            live = lives.get(partition)
            if live is None:
                live = lives[partition] = Live(job, table.get)
            at = round(message.timestamp * 1000)
            record = Stored(source, partition, message.offset, at, message.key, message.value)
            for output in advance(job, live, [record]).outputs:
                await sinks[output.sink].send(
                    key=output.key,
                    value=output.value,
                    partition=partition,
                    timestamp=output.timestamp / 1000,
                    headers=output.headers,
                )
            for key, snapshot in live.snapshots():
                table[key] = snapshot

    app.agent(topic)(agent)
    stock.Worker(app, loglevel="ERROR").execute_from_commandline()
    return 0


if __name__ == "__main__":
    program = {"simple": simple, "faust": faust}[sys.argv[1]]
    sys.exit(program(load_job(sys.argv[2])))

"""An input that gets partitions under load: its producer, and what must come of each key's whole sequence of records.

As a program, `state repartition` that dies or has a bug: python -m tests.brokers.growth FAULT[:N] JOB.toml

crash             SIGKILL right after the Nth step it takes: snapshots sent, an offset joined, a transaction committed.
tombstones-first  states leave their old partitions before they are copied, and it dies in between.
"""

import asyncio
import itertools
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from aiokafka.partitioner import murmur2
from confluent_kafka.admin import NewPartitions

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.job_files import read_job
from streamjobs.maintenance import repartition
from streamjobs.worker.changelog import Changelog
from tests.brokers.fault_injection import crash
from tests.brokers.kafka_job import ANSWER, KafkaJob, Sent, new_producer, send, until
from tests.brokers.load import samples
from tests.brokers.verification import AT_ONCE, identity

BEFORE, AFTER = 2, 4  # partitions


def place(key: bytes | None, partitions: int) -> int:
    """Where a Java client, or aiokafka, sends a key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def grow_input(job: KafkaJob, partitions: int = AFTER) -> None:
    grow_topic(job, job.input, partitions)


def grow_topic(job: KafkaJob, name: str, partitions: int = AFTER) -> None:
    job.admin.create_partitions([NewPartitions(name, partitions)])[name].result(ANSWER)
    until(lambda: len(job.ends(name)) == partitions, f"{name} with {partitions} partitions")


class GrowingLoad(threading.Thread):
    """Sends `samples` by murmur2 at `rate` a second; `go_to` changes what its producers know.

    before: all of them know of the old partitions only. grown: a fifth does not know of the new ones yet. settled: a seventh
    is silent, all others know. woken: that seventh has sent what it held back, to the old partitions. all: all know.
    """

    STAGES = ("before", "grown", "settled", "woken", "all")

    def __init__(self, job: KafkaJob, rate: float) -> None:
        super().__init__(daemon=True)
        self.job, self.rate = job, rate
        self.sent: dict[bytes, list[bytes]] = defaultdict(list)  # the values of each key, in order
        self.refused: list[str] = []
        self._wanted = self._at = "before"
        self._held: list[Sent] = []
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        self._producer = new_producer(self.job.bootstrap, **{"linger.ms": 2, "topic.metadata.refresh.interval.ms": 500})
        start = time.monotonic()
        for number, record in enumerate(samples(None)):
            if self._at != self._wanted:
                self._change()
            self._route(record)
            ahead = start + number / self.rate - time.monotonic()
            if ahead > 0.01:
                time.sleep(ahead)
            if self._enough.is_set():
                break
        self._release(AFTER)
        self._producer.flush(60)

    def _change(self) -> None:
        if self._wanted in ("woken", "all"):
            self._release(BEFORE if self._wanted == "woken" else AFTER)
        self._producer.flush(60)
        self._at = self._wanted

    def _release(self, partitions: int) -> None:
        for record in self._held:
            self._send(record, partitions)
        self._held = []

    def _route(self, record: Sent) -> None:
        key = int((record.key or b"").rpartition(b"-")[2])
        knows = self._at == "all" or (self._at != "before" and key % 7 > 0 and (self._at != "grown" or key % 5 > 0))
        if key % 7 == 0 and self._at in ("settled", "woken"):
            self._held.append(record)
        else:
            self._send(record, AFTER if knows else BEFORE)

    def _send(self, record: Sent, partitions: int) -> None:
        assert record.key is not None and record.value is not None
        self.sent[record.key].append(record.value)
        send(self._producer, self.job.input, record._replace(partition=place(record.key, partitions)), self._acknowledged)

    def _acknowledged(self, error: Any, _: Any) -> None:
        if error is not None:
            self.refused.append(str(error))

    def go_to(self, stage: str) -> None:
        self._wanted = stage
        until(lambda: self._at == stage or not self.is_alive(), f"the load is {stage}")

    def finish(self) -> int:
        self._enough.set()
        self.join(90)
        assert not self.is_alive() and not self.refused, f"not delivered: {self.refused[:1]}"
        return sum(map(len, self.sent.values()))


def sequences(job: KafkaJob) -> dict[bytes, list[Stored]]:
    """Every key's records: those of its old partition, then those of its new one."""
    found: dict[bytes, list[Stored]] = defaultdict(list)
    for record in sorted(job.inputs(), key=lambda one: (one.partition, one.offset)):
        found[record.key or b""].append(record)
    return found


def verify_sequences(job: KafkaJob, sent: dict[bytes, list[bytes]], *, repeats: bool) -> dict[str, int]:
    """Outputs and states of every key equal those of one worker that reads its whole sequence from one partition.

    Returns how many outputs each sink has. repeats: outputs may come again with the same bytes.
    """
    keys = sequences(job)
    assert {key: [record.value for record in records] for key, records in keys.items()} == dict(sent)
    offsets, live = itertools.count(), Live(job.core, lambda key: None)
    wanted: dict[str, dict[bytes, list[bytes | None]]] = defaultdict(lambda: defaultdict(list))
    records = [one._replace(partition=0, offset=next(offsets)) for sequence in keys.values() for one in sequence]
    for at in range(0, len(records), AT_ONCE):
        for output in advance(job.core, live, records[at : at + AT_ONCE]).outputs:
            wanted[output.sink][output.key or b""].append(output.value)
    counts = {}
    for sink in job.core.sinks:
        got = _values(job.sink(sink, committed_only=not repeats), repeats)
        differing = [key for key in wanted[sink].keys() | got.keys() if wanted[sink].get(key) != got.get(key)]
        assert not differing, f"{sink}: the outputs of {len(differing)} of {len(wanted[sink])} keys differ"
        counts[sink] = sum(map(len, got.values()))
    _verify_states(job, dict(live.snapshots()))
    return counts


def _values(messages: Sequence[Any], repeats: bool) -> dict[bytes, list[bytes | None]]:
    """The values of each key, in the order of its input; each id once."""
    seen: dict[bytes, bytes | None] = {}
    values: dict[bytes, list[bytes | None]] = defaultdict(list)
    for message in sorted(messages, key=lambda one: (one.partition(), one.offset())):
        name, value = identity(message.headers()), message.value()
        if name in seen:
            assert repeats and seen[name] == value, f"output {name!r} came again{' with other bytes' if repeats else ''}"
            continue
        seen[name] = value
        values[message.key()].append(value)
    return dict(values)


def _verify_states(job: KafkaJob, wanted: dict[bytes, bytes]) -> None:
    stored = {place_of: data for place_of, data in job.snapshots().items() if data is not None}
    assert sorted(stored) == sorted((place(key, AFTER), key) for key in wanted), (
        "a key's state is missing, twice or elsewhere"
    )
    differing = [key for (_, key), data in stored.items() if without_offsets(data) != without_offsets(wanted[key])]
    assert not differing, f"{len(differing)} of {len(wanted)} states differ from those of their whole sequences"


def without_offsets(data: bytes) -> bytes:
    return snapshot.encode(snapshot.decode(data)._replace(offsets={}))


def program(fault: str, count: int = 1) -> tuple[str, ...]:
    return ("-m", "tests.brokers.growth", f"{fault}:{count}")


def crash_after(count: int) -> None:
    left = [count]

    def counted(name: str) -> None:
        real = getattr(Changelog, name)

        async def step(self: Any, *arguments: Any) -> Any:
            done = await real(self, *arguments)
            left[0] -= 1
            if not left[0]:
                crash()
            return done

        setattr(Changelog, name, step)

    for name in ("send", "join", "commit"):
        counted(name)


def tombstones_first(_: int) -> None:
    work = repartition._Work

    async def copy(self: Any, writers: Any) -> Any:
        waiting = sorted(self.pending.waiting)
        await self._leave(writers, {number: list(await asyncio.to_thread(self._moving, number)) for number in waiting})
        crash()

    work._copy = copy  # type: ignore[method-assign]


FAULTS = {"crash": crash_after, "tombstones-first": tombstones_first}


if __name__ == "__main__":
    fault, _, number = sys.argv[1].partition(":")
    FAULTS[fault](int(number))
    settings = read_job(sys.argv[2]).settings  # type: ignore[arg-type]
    repartition.repartition(settings)

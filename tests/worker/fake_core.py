"""A tiny core with the interface of the real one: a state that remembers the order of everything it was given.

`hash_core` has a state of 1 KB per key (count and a hash that any loss, repeat or swap changes); the answer to a
record is b"seq,count,hash". `state_bytes` pads the snapshot. Values that are no number become dead letters.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamjobs.core.interface import Core, ReadMany
from streamjobs.core.live.live import LiveStats, Parked
from streamjobs.core.live.log import Log
from streamjobs.core.messages import Advanced, Output, Record, Report
from streamjobs.errors import SnapshotError

MASK = (1 << 64) - 1
STATE = struct.Struct("<4sqQQ")  # magic, last applied offset, count, hash
MAGIC = b"hash"


@dataclass(frozen=True)
class HashJob:
    sinks: Mapping[str, str]
    state_bytes: int = 1024
    fingerprint: bytes = b"hash-job"
    model: str = "hash"
    compiled: list[int] = field(default_factory=list)
    sections: Mapping[str, str] = field(default_factory=dict)

    def keyed(self, records: Sequence[Record]) -> Sequence[Record]:
        return records

    def compile(self) -> None:
        self.compiled.append(1)


def last_event(job: Any, data: bytes) -> tuple[float, dict[tuple[str, int], int]]:
    """An hour of event time for every record of the key: the state holds no time."""
    _, offset, count, _ = STATE.unpack_from(data)
    return 3600.0 * count, {("in", 0): offset}


class HashLive:
    """Live states as lists; at most `most_keys` clean ones stay (the oldest leave first)."""

    def __init__(self, job: HashJob, read: Callable[[bytes], bytes | None], most_keys: int = 1_000_000) -> None:
        self.job, self.read, self.most_keys = job, read, most_keys
        self.states: dict[bytes, list[int]] = {}
        self.dirty: set[bytes] = set()
        self.now = 0
        self.aside: list[bytes] = []
        self.moment = self.reported = ""
        self.parked, self.log = Parked(), Log()  # the first stays empty

    def changed(self) -> set[bytes]:
        return self.dirty

    def owed(self) -> Advanced:
        return Advanced([], Report())

    def stats(self, since: int) -> LiveStats:
        return LiveStats(active=len(self.states) if self.now > since else 0, keys=len(self.states))

    def busy(self, key: bytes, since: int) -> bool:
        return key in self.dirty

    def forget(self, key: bytes) -> None:
        self.states.pop(key, None)

    @property
    def keys(self) -> int:
        return len(self.states)

    @property
    def nbytes(self) -> int:
        return len(self.states) * self.job.state_bytes

    @property
    def dirty_bytes(self) -> int:
        return len(self.dirty) * self.job.state_bytes

    def state(self, key: bytes) -> list[int]:
        found = self.states.get(key)
        if found is None:
            stored = self.read(key)
            if stored is None:
                found = [-1, 0, 0]
            else:
                magic, *found = STATE.unpack_from(stored)
                if magic != MAGIC:
                    raise SnapshotError("the snapshot's magic is not 'hash'; reset the state.")
            self._make_room()
            self.states[key] = found
        return found

    def _make_room(self) -> None:
        if len(self.states) >= self.most_keys:
            for key in [key for key in self.states if key not in self.dirty]:
                del self.states[key]

    def snapshots(self, keys: Iterable[bytes] | None = None) -> list[tuple[bytes, bytes]]:
        pad = bytes(max(0, self.job.state_bytes - STATE.size))
        some = sorted(self.dirty if keys is None else self.dirty.intersection(keys))
        if keys is None:
            self.log.clear()
        self.dirty.difference_update(some)
        return [(key, STATE.pack(MAGIC, *self.states[key]) + pad) for key in some]


def fold(state: list[int], seq: int) -> bytes:
    """One step of the order-sensitive state; gives the answer."""
    state[1] += 1
    state[2] = ((state[2] * 1000003) ^ (seq + 1) * 0x9E3779B97F4A7C15) & MASK
    return b"%d,%d,%d" % (seq, state[1], state[2])


def advance(job: HashJob, live: HashLive, records: Sequence[Record]) -> Advanced:
    outputs, report, bad = [], Report(records=len(records)), 0
    live.now += 1
    for record in records:
        header = [("streamjobs-id", b"%s-%d-%d" % (record.topic.encode(), record.partition, record.offset))]
        report.bytes += len(record.value or b"")
        if record.key is None or record.value is None or not record.value.isdigit():
            bad += 1
            outputs.append(Output("dlq", record.key, record.value, record.timestamp, header))
            continue
        state = live.state(record.key)
        if record.offset <= state[0]:
            report.redelivered += 1
            continue
        answer = fold(state, int(record.value))
        state[0] = record.offset
        live.dirty.add(record.key)
        outputs.append(Output("predictions", record.key, answer, record.timestamp, header))
    live.log.add(records, report.bytes)
    report.rows = report.samples = sum(output.sink == "predictions" for output in outputs)
    if bad:
        report.dead_lettered["malformed"] = bad
    return Advanced(outputs, report)


def hash_core(topic: str, *, state_bytes: int = 1024, most_keys: int = 1_000_000) -> Core:
    job = HashJob({"predictions": f"{topic}.predictions", "dlq": f"{topic}.dlq"}, state_bytes)

    def make_live(job: Any, read_many: ReadMany, most_bytes: int) -> HashLive:
        return HashLive(job, lambda key: read_many([key])[0], most_keys)

    return Core(job, make_live, advance, last_event)

"""The topics of a job whose input grows, and its group, as `topics grow` and `state repartition` see them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import murmur2
from streamjobs.core.state import snapshot
from streamjobs.kafka import client, layout, preflight, reader, topics
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin
from streamjobs.maintenance import changelog_edit, grow, repartition
from tests.core.streams import TOPIC, settings

SETTINGS = settings()
CHANGELOG = topics.changelog(SETTINGS)
SINKS = {"features": "imu.features"}
ORIGIN = Origin(TOPIC, "i1", "c1", time_unit="ms", life="5f0c81d2", settings="5e77", sections="bouts.77d2c1", fields="f1e1")
MOMENT = "9.5,2.5,1.0,0.0", 3, 7  # clock, epoch of the leader and end of the changelog, in the commits of old partitions


class Crash(BaseException):
    """The process is killed."""


class Writer:
    """A partition's transactional producer: what it sends counts with its commit, and only while it was opened last."""

    def __init__(self, cluster: "Cluster", number: int, origin: Origin) -> None:
        self.cluster, self.number, self.origin = cluster, number, origin
        self.pending, self.offset, self.end = list[Any](), None, 0

    async def open(self) -> None:
        self.cluster.step(f"open {self.number}")
        self.cluster.settle()
        self.cluster.owners[self.number] = self

    async def send(self, states: Any) -> int:
        self.cluster.step(f"send {self.number}")
        self.pending += states
        return -1

    async def join(self, offset: int, progress: int = 0, moment: str = "", epoch: int | None = None) -> None:
        self.cluster.step(f"join {self.number}")
        self.offset = Commit(offset, self.origin.metadata_of(offset, progress, moment, epoch, self.end))

    async def commit(self) -> None:
        assert self.cluster.owners[self.number] is self, "written without a fence"
        try:
            self.cluster.step(f"commit {self.number}")
        except Crash:
            if self.cluster.markers_late:
                self.cluster.late = self
            raise
        self.count()

    def count(self) -> None:
        self.cluster.changelog[self.number] += self.pending
        if self.offset is not None:
            self.cluster.commits[self.number] = self.offset
        self.pending, self.offset = [], None

    async def write(self, states: Any) -> int:
        await self.send(states)
        await self.commit()
        return -1

    async def close(self) -> None:
        """What is open is aborted by the next one."""


class Cluster:
    """Keys are where murmur2 puts them; each has one record in its input, which its state has applied, and more later."""

    def __init__(self, before: int, keys: int, patch: pytest.MonkeyPatch, *, marked: bool = True) -> None:
        self.before = self.partitions = before
        self.counts = {TOPIC: before, CHANGELOG: before, "imu.features": before, "imu.dlq": before}
        self.input: dict[int, list[bytes]] = {number: [] for number in range(before)}
        self.changelog: dict[int, list[Any]] = {number: [] for number in range(before)}
        self.commits: dict[int, Commit] = {}
        self.owners: dict[int, Writer] = {}
        self.truth: dict[bytes, int] = {}  # what each key's state has to be
        self.left, self.steps = -1, list[str]()
        self.markers_late = False  # whether a commit counts that is asked for by a process that is killed then, but later
        self.late: Writer | None = None
        self.on_step: Callable[[str], None] = lambda name: None
        origin = ORIGIN._replace(partitions=before if marked else 0)
        for number in range(before):
            self.commits[number] = Commit(0, origin.metadata_of(0, 0, *MOMENT))
        for n in range(keys):
            self.learn(b"k%d" % n)
        self._patch(patch)

    def learn(self, key: bytes) -> None:
        """A worker applies a record of the key in its old partition, and takes a checkpoint."""
        number = murmur2(key, self.before)
        self.input[number].append(key)
        offset, self.truth[key] = len(self.input[number]), self.truth.get(key, 0) + 1
        self.changelog[number].append((key, state(self.truth[key], {(TOPIC, number): offset - 1})))
        self.commits[number] = Commit(offset, self.commits[number].metadata)

    def forget(self, key: bytes) -> None:
        del self.truth[key]
        self.changelog[murmur2(key, self.before)].append((key, None))

    def grow(self, partitions: int) -> None:
        """The input gets partitions, and the next record of each key that moves comes there."""
        self.partitions = self.counts[TOPIC] = partitions
        for number in range(self.before, partitions):
            self.input[number] = [key for key in self.truth if murmur2(key, partitions) == number]

    def step(self, name: str) -> None:
        if not self.left:
            raise Crash
        self.left -= 1
        self.steps.append(name)
        self.on_step(name)

    def settle(self) -> None:
        """The broker ends a killed process's transaction before it lets the next writer open."""
        late, self.late = self.late, None
        if late is not None:
            late.count()

    def states(self) -> dict[tuple[int, bytes], bytes]:
        newest = {(number, key): data for number, records in self.changelog.items() for key, data in records}
        return {place: data for place, data in newest.items() if data is not None}

    def counted(self) -> dict[tuple[int, bytes], bytes]:
        """The states that count: in an old partition that has not been left, or in a new one whose old one has."""
        pending = layout.growth(self.commits, self.partitions)
        waiting = frozenset[int]() if pending is None else pending.waiting
        return {
            (number, key): data
            for (number, key), data in self.states().items()
            if (number < self.before) or murmur2(key, self.before) not in waiting
        }

    def wanted(self) -> dict[tuple[int, bytes], bytes]:
        """Those that have to count."""
        pending = layout.growth(self.commits, self.partitions)
        found = {}
        for key, version in self.truth.items():
            number = murmur2(key, self.before)
            if pending is None or number not in pending.waiting:
                number = murmur2(key, self.partitions)
            offsets = {(TOPIC, number): max(n for n, one in enumerate(self.input[number]) if one == key)}
            found[number, key] = state(version, offsets if number < self.before else {})
        return found

    def create_partitions(self, wanted: Any, **_: Any) -> dict[str, Any]:
        (one,) = wanted
        self.step(f"grow {one.topic}")
        self.counts[one.topic] = one.new_total_count
        for number in range(one.new_total_count if one.topic == CHANGELOG else 0):
            self.changelog.setdefault(number, [])
        return {one.topic: SimpleNamespace(result=lambda within: None)}

    def read(self, broker: Any, topic: str, ranges: Mapping[int, Any], **_: Any) -> Iterator[Stored]:
        for number, (begin, _end) in ranges.items():
            records: list[Any] = self.changelog[number] if topic == CHANGELOG else [(key, b"") for key in self.input[number]]
            for offset, (key, value) in list(enumerate(records))[begin:]:
                headers = tuple(ORIGIN.headers) if topic == CHANGELOG else ()
                yield Stored(topic, number, offset, 0, key, value, headers)

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        def writer(kafka: Any, name: str, topic: str, number: int, origin: Origin = ORIGIN) -> Writer:
            return Writer(self, number, origin)

        def commits(_: Any, numbers: Any) -> dict[int, Commit]:
            return {number: self.commits[number] for number in numbers if number in self.commits}

        for module in (repartition, grow):
            patch.setattr(module, "Changelog", writer)
        patch.setattr(changelog_edit, "require_changeable", lambda settings, **_: None)
        patch.setattr(changelog_edit, "begin", lambda settings: self.settle())
        patch.setattr(changelog_edit, "require_no_workers", lambda settings: None)
        patch.setattr(changelog_edit, "commits", commits)
        patch.setattr(changelog_edit, "admin_of", lambda settings: self)
        patch.setattr(changelog_edit, "end_offsets", lambda *_, **__: {n: len(one) for n, one in self.changelog.items()})
        patch.setattr(changelog_edit, "MARKERS_WITHIN", -1.0)
        patch.setattr(preflight, "origin_of", lambda *_: ORIGIN._replace(life="", time_unit="", settings="", fields=""))
        patch.setattr(preflight, "kept_life", lambda _: ORIGIN.life)
        patch.setattr(topics, "connect", lambda *_: (None, dict(self.counts)))
        patch.setattr(topics, "await_leaders", lambda *_: None)
        patch.setattr(client, "for_aiokafka", lambda _: {})
        patch.setattr(reader, "read", self.read)
        patch.setattr(asyncio, "to_thread", _at_once)


async def _at_once(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def state(version: int, offsets: snapshot.Offsets) -> bytes:
    return snapshot.encode(snapshot.Snapshot(b"f" * 16, "{}", offsets, [], [np.array([float(version)])]))

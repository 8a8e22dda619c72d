"""Stored states: a key's snapshot, an exported model that new keys begin from, a copy of all that `state import` takes.

Nothing but a SnapshotError may come of any bytes. What is read is written to the same bytes again, and a key whose
state was read goes on with good records.
"""

import contextlib
import json
import zlib
from random import Random
from typing import Any

import numpy as np
import pytest

from streamjobs.core import snapshot
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.snapshot import Snapshot
from streamjobs.errors import SnapshotError
from streamjobs.state import copies
from streamjobs.state.copies import Copy, Entry
from streamjobs.state.reading import details
from streamjobs.state.renewing import begun, emptied, exported, put_back
from tests.fuzz.bytes import EDGES, REALS, bent
from tests.fuzz.case import Case, Family, must
from tests.fuzz.grammar import TEXTS
from tests.fuzz.jobs import REPLACES, good, record, stateful, trained

LEARNED, OPENED = 64, 8  # one of so many states that were read goes on, or is shown
DEEP = ("[" * 60_000, '{"a":' * 10_000, "[" * 500 + "]" * 500, "9" * 5000, "", "{}", "null", "\x00")


def sealed(body: bytes) -> bytes:
    """With the checksum that fits."""
    return body + zlib.crc32(body).to_bytes(4, "little")


class Snapshots(Family):
    name = "snapshot"

    def __init__(self, most: int = REPLACES + 1) -> None:
        self.jobs = [stateful(which) for which in range(most)]
        self.valid = [trained(("state", which)) for which in range(most)]
        self.after = [_after(job) for job in self.jobs]

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.jobs))
        return Case(which, self.state(which, rnd))

    def state(self, which: int, rnd: Random) -> bytes:
        data = self.valid[which]
        kind = rnd.random()
        if kind < 0.05:
            return bent(data, rnd)
        if kind < 0.4:
            return sealed(bent(data[:-4], rnd, rnd.choice(self.valid)[:-4]))
        return spoiled(snapshot.decode(data), rnd)

    def attempt(self, case: Case) -> str:
        job, data = self.jobs[case.which], case.data
        try:
            held = snapshot.decode(data)
        except SnapshotError:
            return "SnapshotError of the codec"
        must(snapshot.encode(held) == data, "it is written to other bytes than it was read from")
        snapshot.described_by(data)
        with contextlib.suppress(SnapshotError):
            job.heard(data)
        chance = zlib.crc32(data)
        entry = Entry(0, b"p0", data, 7, 1_700_000_000_000)
        try:
            job.decode_snapshot(data)
        except SnapshotError:
            if chance % OPENED == 0:
                emptied(job, entry)
            return "SnapshotError of the job"
        if chance % OPENED == 0:
            try:
                json.dumps(details(job, entry), allow_nan=False)
            except SnapshotError:
                with pytest.raises(SnapshotError):
                    advance(job, Live(job, lambda key: data), self.after[case.which])
                return "SnapshotError of a stage"
            if chance % LEARNED == 0:
                go_on(job, data, self.after[case.which])
        return "decoded"


class Starts(Snapshots):
    name = "start"

    def attempt(self, case: Case) -> str:
        job, data = self.jobs[case.which], case.data
        try:
            started = job.starting_from(data)
        except SnapshotError:
            return "SnapshotError"
        if zlib.crc32(data) % LEARNED == 0:
            begins = begun(job, data, b"p0", None)
            must(snapshot.decode(begins).offsets == {}, "a new key has offsets")
            go_on(started, None, self.after[case.which])
        return "decoded"


class Copies(Snapshots):
    """Files of `state export --all`; those of one key are the family `start`."""

    name = "copy"

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.jobs))
        data = self.state(which, rnd) if rnd.random() < 0.5 else self.valid[which]
        entries = [Entry(n, b"p%d" % n, data, n, 1_700_000_000_000) for n in range(rnd.choice((0, 1, 1, 2)))]
        held = Copy("job", "job-states", "ab" * 16, 5, {0: 5, 1: 9}, {(one.partition, one.key): one for one in entries})
        whole = b"".join(copies.encode(held))
        if rnd.random() < 0.6:
            whole = sealed(bent(whole[:-4], rnd))
        elif rnd.random() < 0.3:
            (length,) = np.frombuffer(whole, "<u4", 1, 8).tolist()
            about = _about(rnd)
            whole = sealed(whole[:8] + len(about).to_bytes(4, "little") + about + whole[12 + length : -4])
        elif rnd.random() < 0.3:
            whole = bent(whole, rnd)
        return Case(which, whole)

    def attempt(self, case: Case) -> str:
        job = self.jobs[case.which]
        try:
            held = copies.decode(case.data)
        except SnapshotError:
            return "SnapshotError of the copy"
        must(copies.decode(b"".join(copies.encode(held))) == held, "it comes back otherwise")
        outcome = "decoded"
        for entry in held.entries.values():
            copies.shown(entry.key).encode()
            try:
                put_back(job, entry, b"p0", None)
                exported(job, entry)
            except SnapshotError:
                outcome = "SnapshotError of a state in it"
        return outcome


def _about(rnd: Random) -> bytes:
    said: dict[str, Any] = {"job": "job", "topic": "t", "fingerprint": "ab", "taken": 5, "ends": {"0": 5}}
    name = rnd.choice(list(said))
    said[name] = rnd.choice(
        (None, 1e308, float("inf"), float("nan"), "9" * 5000, [], {}, {"x": 1}, {"1": "y"}, {"0": 1e999}, -1)
    )
    text = json.dumps(said)
    return (rnd.choice(DEEP) if rnd.random() < 0.2 else text).encode()


def _after(job: Job) -> list[Stored]:
    if job.population is not None or job.settings.source.fields is None:
        return [one._replace(offset=one.offset + 400) for one in good(job, 61, 75)]
    return [one._replace(offset=one.offset + 400) for one in good(job, 61, 75)] + [record(b"{}", 999)]


def go_on(job: Job, stored: bytes | None, records: list[Stored]) -> None:
    """The key's state is loaded, learns, and can be read again."""
    live = Live(job, lambda key: stored)
    advance(job, live, records)
    for _, data in live.snapshots():
        job.decode_snapshot(data)


def spoiled(held: Snapshot, rnd: Random, kinds: int = 12) -> bytes:
    """Written well, with other contents: arrays of other numbers, shapes and types, offsets, names, a description."""
    arrays, names, offsets = list(held.arrays), list(held.names), dict(held.offsets)
    description, fingerprint = held.description, held.fingerprint
    for _ in range(rnd.choice((1, 1, 1, 2, 3))):
        kind = rnd.randrange(kinds)
        if kind < 9 and arrays:
            at = rnd.randrange(len(arrays))
            if kind == 8:
                arrays[at : at + 1] = rnd.choice(([], [arrays[at]] * 2, [rnd.choice(arrays)]))
            else:
                arrays[at] = _other(arrays[at], rnd)
        elif kind == 9:
            names = rnd.choice((names[:-1], [*names, rnd.choice(TEXTS)], names * 2, [rnd.choice(TEXTS)] * 2000, []))
        elif kind == 10:
            offsets = rnd.choice(({}, {("imu", 0): -(2**63)}, {("imu", n): 2**63 - 1 for n in (-(2**31), 7)}, {("", 0): -1}))
        else:
            description, fingerprint = rnd.choice(DEEP), rnd.choice((fingerprint, bytes(16)))
    return snapshot.encode(Snapshot(fingerprint, description, offsets, names, arrays))


def _other(array: Any, rnd: Random) -> Any:
    kind = rnd.randrange(8)
    if kind < 5:
        changed = array.copy()
        flat = changed.reshape(-1)
        for _ in range(min(flat.size, rnd.choice((1, 1, 3, flat.size)))):
            with np.errstate(all="ignore"):
                value = rnd.choice(REALS) if array.dtype.kind == "f" else rnd.choice(EDGES) * rnd.choice((1, -1))
                flat[rnd.randrange(flat.size)] = np.array([value % 2**64 if array.dtype.kind != "f" else value]).astype(
                    array.dtype
                )[0]
        return changed
    if kind == 5 and array.ndim:
        return np.ascontiguousarray(np.repeat(array, 2, axis=rnd.randrange(array.ndim)))
    if kind == 6 and array.ndim:
        return np.ascontiguousarray(
            array[: rnd.randrange(len(array) + 1)]
            if len(array)
            else np.zeros(
                (1000, *array.shape[1:]) if array.size < 10**6 and np.prod(array.shape[1:]) < 1000 else 5, array.dtype
            )
        )
    with np.errstate(invalid="ignore"):
        return rnd.choice(
            (
                array.reshape(-1),
                array.reshape(1, *array.shape),
                array.astype("<i8" if array.dtype.kind == "f" else "<f8"),
                np.zeros((0, 2**20, 2**20)),
            )
        )

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

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, last_event, load_snapshot, starting_from
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.errors import SnapshotError
from streamjobs.maintenance import copies
from streamjobs.maintenance.copies import Copy, Entry
from streamjobs.maintenance.renew import exported_model, reset_snapshot, restored_snapshot, snapshot_from_model
from streamjobs.maintenance.summary import details
from tests.fuzz.bytes import bent
from tests.fuzz.case import Case, Family, chance, must
from tests.fuzz.jobs import REPLACES, STANDS_ON, good, moments, record, stateful
from tests.fuzz.live_pool import LivePool, applied
from tests.fuzz.mutation import DEEP, mutate_arrays, mutate_stages

LEARNED, OPENED, TOGETHER = 32, 8, 4  # one of so many states goes on, is shown, or is read as one of many


def sealed(body: bytes) -> bytes:
    """With the checksum that fits."""
    return body + zlib.crc32(body).to_bytes(4, "little")


class Snapshots(Family):
    name = "snapshot"

    def __init__(self, most: int = REPLACES + 1) -> None:
        self.jobs = [stateful(which) for which in range(most)]
        self.valid = [moments("state", which) for which in range(most)]
        self.held = [[snapshot.decode(data) for data in valid] for valid in self.valid]
        self.writers = [self.jobs[min(which, STANDS_ON)] for which in range(most)]
        self.states = [
            [decode_snapshot(job, data) for data in valid] for job, valid in zip(self.writers, self.valid, strict=True)
        ]
        self.after = [_after(job) for job in self.jobs]
        self.pool = LivePool()
        self.lives = [Live(job) for job in self.jobs]
        for live in self.lives:
            live.slot(b"p0")

    def taken_with_others(self, which: int, data: bytes) -> bool:
        """Whether the way that reads many states together takes this one."""
        job, live = self.jobs[which], self.lives[which]
        must(live.columns is not None, "its states are all read alone")
        assert live.columns is not None
        return live.columns.decode([data], [0], live.offsets, live.names, job.most_names, job.given_names)[0]

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.jobs))
        return Case(which, self.state(which, rnd))

    def state(self, which: int, rnd: Random) -> bytes:
        kind = rnd.random()
        if kind < 0.45:
            return mutate_stages(self.writers[which], self.states[which], rnd)
        if kind < 0.65:
            return mutate_arrays(rnd.choice(self.held[which]), rnd)
        data = rnd.choice(self.valid[which])
        if kind < 0.7:
            return bent(data, rnd)
        return sealed(bent(data[:-4], rnd, rnd.choice(rnd.choice(self.valid))[:-4]))

    def attempt(self, case: Case) -> str:
        job, data = self.jobs[case.which], case.data
        try:
            held = snapshot.decode(data)
        except SnapshotError:
            return "SnapshotError of the codec"
        must(snapshot.encode(held) == data, "it is written to other bytes than it was read from")
        snapshot.table_of(held.description)
        picked = chance(data)
        if picked % OPENED == 1:
            snapshot.described_by(data)
            with contextlib.suppress(SnapshotError):
                last_event(job, data)
        entry = Entry(0, b"p0", data, 7, 1_700_000_000_000)
        together = picked % TOGETHER == 2 and self.taken_with_others(case.which, data)
        try:
            (load_snapshot if together else decode_snapshot)(job, data)
        except SnapshotError:
            must(not together, "with others it is taken, alone it is refused")
            if picked % OPENED == 0:
                reset_snapshot(job, entry)
            return "SnapshotError of the job"
        if picked % OPENED == 0:
            try:
                json.dumps(details(job, entry), allow_nan=False)
            except SnapshotError:
                live = Live(job, lambda key: data)
                applied(job, live, self.after[case.which])
                must(bool(len(live.aside)), "it is refused where it is shown, and taken where it is learned from")
                return "SnapshotError of a stage"
        if picked % LEARNED == LEARNED // 2:
            try:
                load_snapshot(job, data)
            except SnapshotError:
                return "SnapshotError of a stage"
            go_on(self.pool, job, data, self.after[case.which])
        return "decoded"


class Starts(Snapshots):
    name = "start"

    def attempt(self, case: Case) -> str:
        job, data = self.jobs[case.which], case.data
        try:
            started = starting_from(job, data)
        except SnapshotError:
            return "SnapshotError"
        if chance(data) % LEARNED == 0:
            begins = snapshot_from_model(job, data, b"p0", None)
            must(snapshot.decode(begins).offsets == {}, "a new key has offsets")
            go_on(self.pool, started, None, self.after[case.which])
        return "decoded"


class Copies(Snapshots):
    """Files of `state export --all`; those of one key are the family `start`."""

    name = "copy"

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.jobs))
        data = self.state(which, rnd) if rnd.random() < 0.5 else rnd.choice(self.valid[which])
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
            copies.printable(entry.key).encode()
            try:
                restored_snapshot(job, entry, b"p0", None)
                exported_model(job, entry)
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


def go_on(pool: LivePool, job: Job, stored: bytes | None, records: list[Stored]) -> None:
    """The key's state is loaded, learns, and can be read again."""
    with pool.of(job, stored) as live:
        applied(job, live, records)
        for _, data in live.snapshots():
            decode_snapshot(job, data)

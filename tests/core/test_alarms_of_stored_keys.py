"""Keys in alarm that are not live, after a restart or for want of room, are counted and shown as live ones are."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from streamjobs.core.events.away import read_open
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.job_files import core_from
from streamjobs.maintenance.summary import States
from tests.core.alarm_jobs import DRIFT, NAMES, Fleet, job
from tests.core.streams import START, Worker, record
from tests.worker import fakes

Open = tuple[int, set[tuple[str, str, str]]]


def stream(n: int = 400) -> list[Stored]:
    """In the last 60 samples ay of p0 stands still and az of p1 is 9 units higher; p2 has ended 10 samples before."""
    random = np.random.default_rng(11)
    records: list[Stored] = []
    for step in range(n):
        for key in range(3):
            x, last = random.normal(size=3), step >= n - 60
            x[1] = 2.5 if key == 0 and last else x[1]
            x[2] += 9.0 if key == 1 and last else 0.0
            if key != 2 or step < n - 70:
                body = dict(zip(NAMES, x.tolist(), strict=True), ts=START + step)
                records.append(record(len(records), f"p{key}".encode(), body))
    return records


def scan_of(store: dict[bytes, bytes]) -> Callable[[bytes | None, int], list[tuple[bytes, bytes]]]:
    return lambda after, count: [(key, store[key]) for key in sorted(store) if after is None or key > after][:count]


def opened(one: Job, worker: Worker) -> Open:
    keys, shown = States(one).open_alarms(worker.live, 100)
    assert worker.live.stats(0).in_alarm == keys
    return keys, {(alarm.key, alarm.watch, alarm.id) for alarm in shown}


@pytest.mark.parametrize(
    ("sections", "kinds"),
    [
        ({}, {("p0", "stuck")}),
        ({"drift": DRIFT, "alarms": None}, {("p0", "columns"), ("p1", "columns")}),
        (
            {"drift": DRIFT, "alarms": {"stuck": True, "silent": "60s"}},
            {("p0", "stuck"), ("p0", "columns"), ("p1", "columns"), ("p2", "silent")},
        ),
    ],
)
def test_after_a_restart_keys_are_in_alarm_without_another_record(sections: dict, kinds: set) -> None:
    one = job(**sections)
    worker = Fleet(one)
    worker.apply(stream())
    worker.checkpoint()
    before = opened(one, worker)
    assert before[0] == len({key for key, _ in kinds}) and {(key, kind) for key, kind, _ in before[1]} == kinds
    worker.crash()
    reading = read_open(one, worker.live, scan_of(worker.store))
    while next(reading):
        pass
    assert opened(one, worker) == before
    body = {**dict.fromkeys(NAMES, 0.5), "ts": START + 400}
    worker.apply([record(5000, b"p0", body), record(5001, b"p1", body)])
    assert "stuck" not in {kind for _, kind, _ in opened(one, worker)[1]}, "the alarm of a live key is read from its state"


def test_a_key_that_leaves_for_want_of_room_stays_in_alarm() -> None:
    one = job(drift=DRIFT)
    worker = Worker(one, most_bytes=0)
    worker.apply(stream())
    before = opened(one, worker)
    assert before[0] == 2
    others = [record(9000 + at, b"other%d" % at, {**dict.fromkeys(NAMES, 0.5), "ts": START + 500}) for at in range(40)]
    for some in others:
        worker.apply([some])
    assert not {b"p0", b"p1"} & worker.live.slot_of.keys() and opened(one, worker)[0] == 2
    reading = read_open(one, worker.live, scan_of({}))
    next(reading)
    assert opened(one, worker) == before, "from states that are not stored yet"
    worker.checkpoint()
    assert len(worker.live.away) == 2
    worker.live.forget(b"p0")
    assert opened(one, worker)[0] == 1, "its state was removed, because it was idle"


def test_a_worker_reads_them_with_its_checkpoints() -> None:
    one = job()

    async def in_alarm(broker: fakes.Broker, records: list[Stored]) -> tuple[int, int]:
        worker = fakes.Worker(broker, core=core_from(one.composition))
        delivery = await worker.begin(0)
        worker.fetch(0, records)
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        partition = delivery.partitions[0]
        await delivery.revoke("end")
        return partition.live.keys, partition.live.stats(0).in_alarm

    broker = fakes.Broker()
    assert asyncio.run(in_alarm(broker, stream())) == (3, 1)
    assert asyncio.run(in_alarm(broker, [])) == (0, 1)

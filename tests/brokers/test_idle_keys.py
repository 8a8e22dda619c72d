"""[state] ttl on a real broker: idle keys leave changelog and store, and begin anew when they come back, as in a replay."""

import json
from collections.abc import Iterable

from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import Sent
from tests.brokers.load import samples
from tests.brokers.verification import verify
from tests.brokers.workers import Worker, run_until_done
from tests.faults.audit import opened

HOUR = 3600.0


def later(records: Iterable[Sent], hours: int) -> list[Sent]:
    moved = []
    for record in records:
        body = json.loads(record.value or b"")
        body["ts"] += hours * HOUR
        moved.append(record._replace(value=json.dumps(body).encode(), timestamp=round(body["ts"] * 1000)))
    return moved


def removed(worker: Worker) -> int:
    return sum(event["keys"] for event in worker.events("states of idle keys removed"))


def test_idle_keys_leave_changelog_and_store_and_start_over_when_they_come_back(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("idle", **LEARNING, state={"ttl": "1h"})
    everybody = list(samples(800, keys=40))
    some = [record for record in samples(400, keys=40, seed=2) if int((record.key or b"").rpartition(b"-")[2]) < 20]
    job.produce(everybody)
    assert removed(run_until_done(job, fork_server=fork_server)) == 0
    before = job.snapshots()

    job.produce(later(some, 2))
    present = {record.key for record in some}
    worker = run_until_done(job, fork_server=fork_server)
    assert removed(worker) == len(before) - len(present) > 0
    held = {place: data for place, data in job.snapshots().items() if data is not None}
    assert {key for _, key in held} == present
    stored = {(number, key): data for number, (_, keys, _) in opened(worker.state).items() for key, data in keys.items()}
    assert stored == held

    job.produce(later(everybody, 4))
    assert removed(run_until_done(job, fork_server=fork_server)) == 0
    verify(job, repeats=False)

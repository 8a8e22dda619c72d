"""[state] ttl on a real broker: idle keys leave changelog and store, and begin anew when they come back, as in a replay."""

import json
from collections.abc import Iterable

from tests.brokers.bed import Sent
from tests.brokers.fixtures import LEARNING, MakeBed
from tests.brokers.load import samples
from tests.brokers.nursery import Nursery
from tests.brokers.truth import verify
from tests.brokers.workers import Worker, done_by
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


def test_idle_keys_leave_changelog_and_store_and_begin_anew_when_they_come_back(make_bed: MakeBed, nursery: Nursery) -> None:
    bed = make_bed("idle", **LEARNING, state={"ttl": "1h"})
    everybody = list(samples(800, keys=40))
    some = [record for record in samples(400, keys=40, seed=2) if int((record.key or b"").rpartition(b"-")[2]) < 20]
    bed.produce(everybody)
    assert removed(done_by(bed, nursery=nursery)) == 0
    before = bed.snapshots()

    bed.produce(later(some, 2))
    present = {record.key for record in some}
    worker = done_by(bed, nursery=nursery)
    assert removed(worker) == len(before) - len(present) > 0
    held = {place: data for place, data in bed.snapshots().items() if data is not None}
    assert {key for _, key in held} == present
    stored = {(number, key): data for number, (_, keys) in opened(worker.state).items() for key, data in keys.items()}
    assert stored == held

    bed.produce(later(everybody, 4))
    assert removed(done_by(bed, nursery=nursery)) == 0
    verify(bed, repeats=False)

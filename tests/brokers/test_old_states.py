"""A worker over the changelog of an earlier commit, on a real Kafka: it goes on, or stops and leaves everything as it is."""

from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.state.live import Live
from tests.brokers.bed import Bed, Sent, new_producer, send
from tests.brokers.fixtures import MakeBed
from tests.brokers.truth import identity
from tests.brokers.workers import Worker, ended, working
from tests.faults.audit import opened
from tests.golden.old import Old, later_version, stored

COMMIT = "04aad75"


def _bed(make_bed: MakeBed, name: str, states: dict[bytes, bytes], old: Old) -> Bed:
    """The old job's topics: the states in its changelog, every record in partition 0 of its input."""
    sections: dict[str, Any] = {section: values for section, values in old.table.items() if section != "population"}
    bed = make_bed(f"old-{name}", population=old.population, **sections)
    producer = new_producer(bed.bootstrap)
    for key, data in states.items():
        send(producer, bed.changelog, Sent(key, data, 0, 1_700_000_000_000), lambda error, _: None)
    assert producer.flush(30) == 0
    bed.produce(Sent(one.key, one.value, 0, one.timestamp) for one in old.records)
    return bed


@pytest.mark.parametrize("name", ["activity", "people"])
def test_a_worker_goes_on_from_the_states_of_an_earlier_commit(make_bed: MakeBed, name: str) -> None:
    old = stored(COMMIT, name)
    bed = _bed(make_bed, name, old.half, old)
    with working(bed) as worker:
        bed.until_done([worker])
        assert worker.stop() == 0
    live = Live(bed.job, old.half.get)
    due = {identity(one.headers) for one in advance(bed.job, live, old.rest).outputs if one.sink == "predictions"}
    assert bed.snapshots() == {(0, key): data for key, data in live.snapshots()}
    assert {identity(message.headers()) for message in bed.sink("predictions")} == due  # none of the first half again


def test_a_state_of_a_later_release_stops_the_worker_and_stays_where_it_is(make_bed: MakeBed) -> None:
    old = stored(COMMIT, "okfeb")
    states = {key: later_version(data) if key == b"p1" else data for key, data in old.half.items()}
    bed = _bed(make_bed, "later", states, old)
    for _ in range(2):  # the second time it has a local store of its own
        worker = Worker(bed)
        code, lines = ended(worker)
        assert code == 1 and len(lines) == 1, lines
        assert "snapshot version 2 is unknown to this release, which reads version 1" in lines[0]
        assert bed.snapshots() == {(0, key): data for key, data in states.items()}
        assert bed.ends(bed.changelog)[0] == len(states) and sum(bed.committed().values()) == 0
        assert opened(worker.state)[0] == (len(states) - 1, states)  # the offset of the last, and all of them

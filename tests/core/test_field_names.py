"""A state belongs to the fields that its columns learned from, in their order."""

import json
from typing import Any

import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot, load_snapshot, starting_from
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.errors import ConfigError, ForeignStateError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import reset_snapshot
from tests.core.streams import TOPIC, Worker, samples, settings


def job(**source: Any) -> Job:
    given = {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"} | source
    return Job.from_settings(settings(source={name: value for name, value in given.items() if value is not None}))


@pytest.fixture(scope="module")
def states() -> dict[bytes, bytes]:
    worker = Worker(job())
    worker.apply(samples(60))
    worker.checkpoint()
    return worker.store


def coded(*valve: str) -> Job:
    return job(categories={"az": list(valve)}, categories_as="codes")


SENTENCE = "column 1 was 'az' and is 'ax' now, column 3 was 'ax' and is 'az' now. Restore"
OTHERS = [
    ({"fields": ["ay", "ax", "az"]}, "column 1 was 'ax' and is 'ay' now, column 2 was 'ay' and is 'ax' now. Restore"),
    ({"fields": ["ax", "gx", "az"]}, "column 2 was another field and is 'gx' now. Restore"),
    ({"fields": ["bx", "by", "bz"], "renamed": {"bx": "ax", "by": "az", "bz": "ay"}}, "column 2 was 'ay' and is 'az' now"),
    ({"label": "other"}, "label 1 was another field and is 'other' now"),
]


@pytest.mark.parametrize(("source", "sentence"), OTHERS)
def test_a_state_of_other_fields_is_refused(states: dict[bytes, bytes], source: dict[str, Any], sentence: str) -> None:
    other = job(**source)
    for data in states.values():
        with pytest.raises(ForeignStateError, match=sentence):
            decode_snapshot(other, data)
        with pytest.raises(ForeignStateError, match=sentence):
            starting_from(other, data)
    with pytest.raises(ForeignStateError, match=sentence):
        Worker(other, dict(states)).live.meet(lambda after, most: sorted(states.items())[:most])


def test_a_state_of_other_fields_can_be_reset(states: dict[bytes, bytes]) -> None:
    other = job(fields=["az", "ay", "ax"])
    (key, data), *_ = states.items()
    _, _, offsets = load_snapshot(other, reset_snapshot(other, Entry(0, key, data, 0, 0)))
    assert offsets == snapshot.decode(data).offsets


@pytest.mark.parametrize(
    "source",
    [
        {"label": None},
        {"fields": ["acc.x", "ay", "az"], "renamed": {"acc.x": "ax"}},
        {"label": "what", "renamed": {"what": "activity"}},
        {"fields": None, "x": "x", "dim": 3},
    ],
)
def test_a_state_is_read_where_only_names_differ(states: dict[bytes, bytes], source: dict[str, Any]) -> None:
    before, now = job(), job(**source)
    if "label" in source and source["label"] is None:
        before, now = now, before  # a label can be added
        worker = Worker(before)
        worker.apply(samples(60))
        worker.checkpoint()
        states = worker.store
    for data in states.values():
        held, read = load_snapshot(before, data), load_snapshot(now, data)
        assert snapshot.decode(now.encode(*read)).arrays[0] == snapshot.decode(before.encode(*held)).arrays[0]
        assert read[1:] == held[1:]


def test_categories_can_be_added_at_the_end_of_their_codes_only() -> None:
    data = coded("open", "shut").encode(coded("open", "shut").init(b"k"), [], {})
    load_snapshot(coded("open", "shut", "half"), data)
    with pytest.raises(ForeignStateError, match=r"category of az 1 was \"'open'\" and is \"'shut'\" now"):
        decode_snapshot(coded("shut", "open"), data)


def test_a_turn_of_an_angle_cannot_change() -> None:
    def job_of(turn: float) -> Job:
        return job(angles={"az": turn}, dim=4)

    data = job_of(360).encode(job_of(360).init(b"k"), [], {})
    load_snapshot(job_of(360.0), data)
    with pytest.raises(ForeignStateError, match=r"turn of az 1 was another turn and is '6\.28' now\. Restore"):
        decode_snapshot(job_of(6.28), data)
    written = snapshot.table_of(snapshot.decode(data).description)
    before = written | {"fields": written["fields"].rpartition(":")[0]}  # as releases wrote it that did not compare turns
    held = snapshot.decode(data)._replace(fingerprint=bytes(16), description=json.dumps(before))
    load_snapshot(job_of(6.28), snapshot.encode(held))


def test_a_state_without_names_of_fields_is_read(states: dict[bytes, bytes]) -> None:
    now = job()
    former = {name: text for name, text in now.described.items() if name != "fields"}
    for data in states.values():
        held = snapshot.decode(data)
        old = snapshot.encode(Snapshot(bytes(16), json.dumps(former), *held[2:]))
        assert now.encode(*load_snapshot(now, old)) == data


def test_a_field_that_is_not_there_cannot_have_a_former_name() -> None:
    with pytest.raises(ConfigError, match="renamed: 'bx' is not one of fields"):
        job(renamed={"bx": "ax"})

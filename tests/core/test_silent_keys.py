"""Alarms of keys that are silent or never come: raised and ended once, by the time of the others, whatever crashes."""

import json

import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Output
from streamjobs.core.partitioners import murmur2
from streamjobs.core.sensor_alarms import open_now
from streamjobs.errors import ConfigError, SetupError
from streamjobs.settings.load import composition_from
from streamjobs.stages.events.silent import Heard
from streamjobs.stages.events.stuck import StuckSensors
from tests.core.alarm_jobs import DRIFT, EXPECTED, SILENT, Fleet, alarms, around, fleet, job, of_missing, rows_of
from tests.core.streams import START, record


def changes(outputs: list[Output]) -> list[tuple[str, bool, float]]:
    return [(one["key"], one["open"], round((one["end"] or one["start"]) - START)) for one in alarms(outputs)]


def test_a_key_that_is_silent_alarms_by_the_time_of_the_others_and_comes_back() -> None:
    outputs = Fleet(job(alarms=SILENT)).apply(fleet())
    by_key = {key: [one for one in changes(outputs) if one[0] == key] for key in ("s1", "s2", "s3", "s4")}
    assert sum(map(len, by_key.values())) == len(changes(outputs)) == 10
    assert [state for _, state, _ in by_key["s1"]] == [True, False, True, False]
    assert by_key["s1"][0][2] == pytest.approx(360, abs=6) and by_key["s1"][1][2] == pytest.approx(502, abs=6)
    assert [state for _, state, _ in by_key["s3"]] == [True], "it never comes back"
    assert [state for _, state, _ in by_key["s4"]] == [True], "samples older than its own do not end it"
    first = alarms(outputs)[0]
    assert (first["watch"], first["outcome"], first["columns"]) == ("silent", None, [])
    assert first["start"] - first["since"] == pytest.approx(60, abs=5)
    assert {one.key for one in outputs if one.sink == "alarms"} == {b"s1", b"s2", b"s3", b"s4"}


def missing(outputs: list[Output]) -> list[dict]:
    return [one for one in alarms(outputs) if one["watch"] == "missing"]


def test_a_key_that_is_expected_and_does_not_come_is_missing() -> None:
    worker = Fleet(job(alarms=EXPECTED))
    outputs = worker.apply(of_missing())
    raised = missing(outputs)[:2]
    assert [(one["key"], one["open"], one["since"], one["end"]) for one in raised] == [
        ("s10", True, None, None),
        ("s9", True, None, None),
    ]
    first = json.loads(of_missing()[0].value)["ts"]
    assert first + 60 <= raised[0]["start"] == raised[1]["start"] < first + 64
    (ended,) = missing(outputs)[2:]
    assert (ended["id"], ended["start"]) == (raised[1]["id"], raised[1]["start"])
    assert (ended["outcome"], ended["end"]) == ("recovered", START + 100)
    assert {one.key for one in outputs if b'"missing"' in one.value} == {b"s9", b"s10"}
    shown = [one for one in open_now(job(alarms=EXPECTED), worker.live, 20)[1] if one.watch == "missing"]
    assert [(one.key, one.id) for one in shown] == [("s10", raised[0]["id"])]
    silent = [one["key"] for one in alarms(outputs) if one["watch"] == "silent"]
    assert silent.count("s9") == silent.count("s8") == 1 and "s10" not in silent


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_partition_looks_for_its_own_keys(partitions: int) -> None:
    """Kafka has four; a recording has one, whatever its number."""
    several = job(alarms=SILENT | {"expected": ["x0", "x1", "x2", "x3", "x4", "x5"]})
    records = [one._replace(partition=2) for one in fleet()]
    found = missing(Fleet(several.on_partitions(partitions)).apply(records))
    own = [key for key in several.settings.alarms.expected if partitions == 1 or murmur2(key.encode(), partitions) == 2]
    assert len(own) > 0 and (partitions == 1 or len(own) < 6)
    assert [one["key"] for one in found] == own


def test_an_expected_key_on_another_partition_stops_the_worker() -> None:
    place = murmur2(b"s3", 4)
    one = job(alarms=SILENT | {"expected": ["s3"]}).on_partitions(4)
    assert Fleet(one).apply([each._replace(partition=place) for each in fleet()])
    with pytest.raises(
        SetupError, match=r"one of \[alarms\] expected.*With murmur2 it belongs in partition \d of 4.*\[source\] partitioner"
    ):
        Fleet(one).apply([each._replace(partition=(place + 1) % 4) for each in fleet()])


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"drift": DRIFT, "alarms": SILENT | {"stuck": True}},
        {"alarms": EXPECTED | {"stuck": True}},
        {"alarms": SILENT | {"group": 0.3}, "forecast": {"ahead": [1]}},
    ],
)
def test_who_is_silent_follows_from_the_stored_states(sections: dict) -> None:
    """A crash after each of the records around an alarm, and batches of any size, change no byte."""
    one = job(**({"alarms": SILENT} | sections))
    records = of_missing() if one.settings.alarms.expected else fleet()
    whole = Fleet(one)
    expected = rows_of(whole.apply(records))
    whole.checkpoint()
    assert len(expected) >= 10 and (b"s10" in whole.store) == bool(one.settings.alarms.expected)
    crashes = {*range(0, len(records), 16), *around(expected, 8)}
    worker, got = Fleet(one), []
    for number, single in enumerate(records):
        got += rows_of(worker.apply([single]))
        if number in crashes:
            worker.checkpoint()
            worker.crash()
    worker.checkpoint()
    assert got == expected
    assert worker.store == whole.store
    worker.crash()
    assert not worker.apply(records), "redelivered records send nothing"
    assert worker.live.silence is not None and whole.live.silence is not None
    for what in ("clock", "quiet", "missing"):
        assert getattr(worker.live.silence, what) == getattr(whole.live.silence, what)


def test_a_crash_before_a_checkpoint_repeats_the_same_alarms() -> None:
    one = job(alarms=SILENT)
    records = fleet()
    expected = rows_of(Fleet(one).apply(records))
    worker, got = Fleet(one), []
    for at in range(0, len(records), 50):
        lost = rows_of(worker.apply(records[at : at + 37]))
        worker.crash()
        again = rows_of(worker.apply(records[at : at + 50]))
        assert again[: len(lost)] == lost
        got += again
        worker.checkpoint()
    assert got == expected


def test_a_pause_of_the_whole_partition_makes_no_key_silent() -> None:
    records = fleet()[:300]
    late = [json.loads(one.value) for one in records]
    more = [
        record(300 + at, one.key, body | {"ts": body["ts"] + 40_000.0})
        for at, (one, body) in enumerate(zip(records, late, strict=True))
    ]
    assert changes(Fleet(job(alarms=SILENT)).apply([*records, *more])) == []


def test_a_stage_that_fails_for_one_record_changes_nothing_of_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of its batch are made again from stored ones, in which the keys were heard of earlier."""
    one = job(alarms=SILENT | {"stuck": True})
    records = fleet()
    whole, real = Fleet(one), StuckSensors.advance
    expected = rows_of(whole.apply(records))
    whole.checkpoint()

    def advance_(self, work, slots, times, X, learn):
        if np.any(times == bad):
            raise RuntimeError("a bug")
        return real(self, work, slots, times, X, learn)

    bad = json.loads(records[700].value)["ts"]
    monkeypatch.setattr(StuckSensors, "advance", advance_)
    worker, got = Fleet(one), []
    for at in range(0, len(records), 90):
        made = advance(one, worker.live, records[at : at + 90])
        got += rows_of(made.outputs)
        if at % 180 == 0:
            worker.checkpoint()
    worker.checkpoint()
    assert [row for row in got if b"silent" in row[2]] == [row for row in expected if b"silent" in row[2]]
    assert worker.live.silence is not None and whole.live.silence is not None
    assert worker.live.silence.heard.keys() == whole.live.silence.heard.keys()
    for key, data in worker.store.items():
        assert Heard(*decode_snapshot(one, data)[0]["silent"]) == worker.live.silence.heard[key]


def test_silent_keys_are_open_alarms_until_they_come_back() -> None:
    one = job(alarms=SILENT)
    worker = Fleet(one)
    worker.apply([body for body in fleet() if json.loads(body.value)["ts"] < START + 450])
    worker.checkpoint()
    worker.crash()
    keys, shown = open_now(one, worker.live, 10)
    assert (keys, sorted(alarm.key for alarm in shown)) == (2, ["s1", "s2"])
    assert worker.live.stats(0).in_alarm == 2


def test_silent_needs_the_states_of_all_keys() -> None:
    table = {"source": {"topic": "imu", "fields": ["ax"]}, "learner": {"name": "okfeb"}, "alarms": SILENT}
    table["state"] = {"ttl": "1d"}
    with pytest.raises(ConfigError, match=r"silent cannot be used with .* needs the states of all keys"):
        composition_from(table)


class Unwalked(dict):
    """Answers for single keys alone."""

    def _refuse(self, *_: object) -> None:
        raise AssertionError("all known keys were looked through")

    __iter__ = __or__ = __ror__ = keys = items = values = copy = _refuse  # type: ignore[assignment]


def test_a_batch_costs_the_same_whatever_the_number_of_known_keys() -> None:
    """Except where a group opens or grows."""
    worker = Fleet(job(alarms=EXPECTED | {"group": 0.3}))
    records = of_missing()
    worker.apply(records[:40])
    assert worker.live.silence is not None
    worker.live.silence.heard = Unwalked(worker.live.silence.heard)
    assert [one["watch"] for one in alarms(worker.apply(records[40:200]))].count("missing") == 3

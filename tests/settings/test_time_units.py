"""time_unit = "auto": the first number in a unit's range decides for all records, however they come in batches."""

import itertools
import json

import msgspec
import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.decoding.time_units import UndecidedDecoder
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka.topic_id import Origin, decided_time_unit, time_unit_of
from streamjobs.settings.load import settings_from
from streamjobs.settings.types import JUDGED, TIME_UNITS, unit_of
from tests.core.streams import samples, settings

SOURCE = {"topic": "imu", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"}
AUTO = SOURCE | {"time_unit": "auto"}


def in_unit(record: Stored, unit: str) -> Stored:
    body = json.loads(record.value or b"")
    body["ts"] = round(body["ts"] * 1000) * TIME_UNITS[unit] / 1000
    return record._replace(value=json.dumps(body).encode())


def at(time: object) -> Stored:
    return Stored("imu", 0, 0, 1_700_000_000_000, b"p", json.dumps({"ax": 1, "ay": 2, "az": 3, "ts": time}).encode())


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_the_ranges_of_the_units_are_one_range_of_times_and_do_not_meet(unit: str) -> None:
    first, end = (edge * TIME_UNITS[unit] for edge in JUDGED)
    assert unit_of(first) == unit_of(np.nextafter(end, 0).item()) == unit and unit_of(end) != unit


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_states_and_outputs_are_those_of_the_named_unit(unit: str) -> None:
    records = [in_unit(one, unit) for one in samples(300)]
    named, auto = (Job.from_settings(settings(source=SOURCE | {"time_unit": one})) for one in (unit, "auto"))
    assert named.fingerprint == auto.fingerprint
    expected, live = Live(named, lambda key: None), Live(auto, lambda key: None)
    outputs = advance(named, expected, records).outputs
    assert outputs and not any(one.sink == "dlq" for one in outputs)
    in_batches = [one for n in range(0, 300, 7) for one in advance(auto, live, records[n : n + 7]).outputs]
    assert sorted(in_batches, key=lambda one: one.sink) == sorted(outputs, key=lambda one: one.sink)
    assert dict(live.snapshots()) == dict(expected.snapshots())
    assert isinstance(auto.decode, UndecidedDecoder) and auto.decode.unit == unit


def test_any_batches_decide_the_same_and_a_number_of_another_unit_is_a_bad_time() -> None:
    stream = [at(one) for one in (12.5, None, "2023-11-14T22:13:20Z", 1_700_000_000_123, 1_700_000_000, 1_700_000_000_223)]
    results = []
    for cuts in itertools.chain.from_iterable(itertools.combinations(range(1, 6), n) for n in range(6)):
        decode = Job.from_settings(settings(source=AUTO)).decode
        parts = [decode(stream[begin:end]) for begin, end in itertools.pairwise((0, *cuts, 6))]
        times = [time for part in parts for time in part.times.tolist()]
        results.append((times, [(error.reason, str(error)) for part in parts for _, error in part.errors]))
    times, errors = results[0]
    assert times == [1_700_000_000.0, 1_700_000_000.123, 1_700_000_000.223]
    assert [reason for reason, _ in errors] == ["bad_time"] * 3
    assert "expected a time from 1973 to 5138 in milliseconds, the unit of the first time, got 1.7e+06 s" in errors[2][1]
    assert all(result[0] == times and [reason for reason, _ in result[1]] == ["bad_time"] * 3 for result in results)


def test_the_times_of_frames_decide_too_also_as_bytes() -> None:
    body = {"ax": [1, 2], "ay": [1, 2], "az": [1, 2]}
    as_bytes = np.array([1.7e15, 1.7e15 + 1e6]).tobytes()
    for form, encode, times in (
        ("json", msgspec.json.encode, [1.7e15, 1.7e15 + 1e6]),
        ("msgpack", msgspec.msgpack.encode, as_bytes),
    ):
        job = Job.from_settings(settings(source=AUTO | {"format": form}))
        record = at(0)._replace(value=encode(body | {"ts": times}))
        assert job.time_unit_of(record) == "us" and job.decode([record]).times.tolist() == [1.7e9, 1.7e9 + 1]


def test_a_decided_job_keeps_its_unit_whatever_comes_first() -> None:
    decided = Job.from_settings(settings(source=AUTO)).in_time_unit("ms")
    assert decided.decode([at(1_700_000_000)]).errors[0][1].reason == "bad_time"
    assert decided.decode([at(1_700_000_000_000)]).times.tolist() == [1.7e9]


def test_the_unit_travels_with_the_group_s_offsets_and_a_contradiction_is_refused() -> None:
    origin = Origin("imu", "a", "b", 4, "ms")
    assert origin.metadata == "changelog=b partitions=4 time-unit=ms" and time_unit_of(origin.metadata) == "ms"
    assert Origin("imu", "a", "b", 4).metadata == "changelog=b partitions=4", "as before"
    assert decided_time_unit("imu", ["changelog=b", origin.metadata, None]) == "ms" and decided_time_unit("imu", [""]) == ""
    with pytest.raises(SetupError, match=r"different units .*\(ms, s\)"):
        decided_time_unit("imu", [origin.metadata], "s")


def test_auto_needs_the_field_with_the_time() -> None:
    table = {"source": {"topic": "imu", "dim": 3, "time_unit": "auto"}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
    with pytest.raises(ConfigError, match="time_unit = 'auto' needs the field with the event time"):
        settings_from(table, {})

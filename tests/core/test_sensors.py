"""[source.sensors]: several sensors in one topic, through the whole core."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, last_event
from streamjobs.core.messages import Stored
from streamjobs.core.unlearned import Taken
from streamjobs.errors import SnapshotError
from streamjobs.settings.load import settings_from
from streamjobs.stages.names import SENSORS
from tests.commands.jobs import problems
from tests.core.phones import AXES, JOB, START, TOPIC, push, pushes, readings, signal
from tests.core.phones import SENSORS as PHONE
from tests.core.sensor_jobs import ACC, PLAIN, job, letter, plain, record, run
from tests.core.streams import Worker, values
from tests.sizes import examples

PAGE = Path(__file__).parents[2] / "streamjobs" / "stages" / "README.md"


def windows_of(made: Job, records: list[Stored]) -> tuple[np.ndarray, np.ndarray]:
    """Times and statistics of the windows, as the learner gets them."""
    decoded, live = made.decode(records), Live(made)
    assert not decoded.errors
    slots = np.full(len(decoded.owner), live.slot(b"p"))
    L = np.full((len(slots), 1), np.nan)
    rows = slots, decoded.times, decoded.X, L, decoded.owner
    if SENSORS in made.stages:
        rows = made.stages[SENSORS].advance(live.work[SENSORS], *rows)[:5]
    out = made.stages["windows"].advance(live.work["windows"], *rows, np.full(len(rows[0]), 3, np.int8))
    return out.times, out.X


def together(columns: list[tuple[str, str]], rate: int, seconds: int) -> list[Stored]:
    """The same signals, sampled at once by all sensors."""
    records = []
    for n in range(seconds * rate):
        at = n * 10**9 // rate
        body = {f"{name} {axis}": signal(name, at / 1e9)[axis] for name, axis in columns}
        records.append(record(n, {**body, "time": START * 10**9 + at}))
    return records


COLUMNS = [(name, axis) for name in ("accelerometer", "gyroscope") for axis in "xyz"]


def joint(rate: int, columns: list[tuple[str, str]]) -> Job:
    source = {"topic": TOPIC, "time": "time", "time_unit": "ns", "fields": [f"{name} {axis}" for name, axis in columns]}
    window = {"length": "1s", "hop": "500ms", "rate": rate}
    return Job.from_settings(settings_from({**JOB, "source": source, "window": window}))


def test_windows_are_those_of_signals_sampled_together_within_the_error_of_a_line_between_samples():
    """100 Hz, 25 Hz and 1 Hz in one topic. sin(3 t) between samples 40 ms apart is off a line by 9/8 0.04^2 = 0.0018."""
    linear = {"each": {**PHONE["each"], "barometer": {"fields": ["values.pressure"], "rate": 1}}}
    columns = [*COLUMNS, ("barometer", "pressure")]
    times, X = windows_of(job(linear), pushes(20))
    wanted_times, wanted = windows_of(joint(100, columns), together(columns, 100, 20))
    n = len(times)
    assert n >= 36 and np.array_equal(times, wanted_times[:n])
    names = job(linear).composition.columns
    level = [at for at, name in enumerate(names) if name.endswith(("_mean", "quartile"))]
    of_accelerometer = [at for at, name in enumerate(names) if name.startswith("accelerometer")]
    assert np.array_equal(X[:, of_accelerometer], wanted[:n, of_accelerometer]), "sample times coincide: the same bits"
    of_others = sorted(set(level) - set(of_accelerometer))
    assert np.abs(X - wanted[:n])[:, of_others].max() < 0.008  # 1/25 s^2 at 1 Hz: 0.005 of the pressure's sin(t / 5)
    assert np.abs(X - wanted[:n])[:, of_others].max() > 0, "the slower sensors are between samples"


def test_where_sample_times_coincide_windows_are_the_same_to_the_bit():
    """Rows at the rate of the slower sensor: each is at a sample of both."""
    two = {name: PHONE["each"][name] for name in ("accelerometer", "gyroscope")}
    window = {"length": "1s", "hop": "500ms", "rate": 25}
    times, X = windows_of(job({"each": two}, window=window), pushes(12))
    wanted_times, wanted = windows_of(joint(25, COLUMNS), together(COLUMNS, 25, 12))
    assert len(times) >= 21 and np.array_equal(times, wanted_times[: len(times)])
    assert np.array_equal(X, wanted[: len(X)])


def test_what_sensor_logger_pushes_is_read_as_it_comes():
    made, _ = run(job(), pushes(6, keys=2))
    assert made.report.dead_lettered == {} and made.report.skipped == {"other_sensor": 12}
    assert made.report.sensor_samples == {"accelerometer": 1200, "gyroscope": 300, "barometer": 12}
    assert made.report.rows == 2 * 9 and made.report.sensor_gaps == {}  # up to second 5: rows wait for the next pressure
    assert [name for name in job().composition.columns if name.endswith("_mean")] == [
        *(f"accelerometer.{axis}_mean" for axis in "xyz"),
        *(f"gyroscope.{axis}_mean" for axis in "xyz"),
        "barometer.pressure_mean",
    ]


def test_the_key_may_be_the_device_of_the_message():
    without = [one._replace(key=None) for one in pushes(4, keys=2)]
    made, _ = run(job(source={"key": "deviceId"}), without)
    wanted, _ = run(job(), pushes(4, keys=2))
    assert values(made.outputs) == values(wanted.outputs) and made.report.keys_created == 2


def test_the_example_of_the_page_is_a_job_and_a_record():
    section = PAGE.read_text().partition("## Several sensors")[2].partition("\n## ")[0]
    table, body = re.findall(r"```(?:toml|json)\n(.*?)```", section, re.DOTALL)
    made = Job.from_settings(settings_from(tomllib.loads(table)))
    decoded = made.decode([record(0, json.loads(body))])
    nan = np.nan
    assert not decoded.errors and decoded.skipped == {"other_sensor": 1} and decoded.times.tolist()[1] == START + 0.01
    np.testing.assert_array_equal(
        decoded.X,
        [
            [0.01, -0.02, 0.98, nan, nan, nan, nan],
            [0.02, -0.02, 0.97, nan, nan, nan, nan],
            [nan, nan, nan, 0.1, 0.0, 0.2, nan],
            [nan, nan, nan, nan, nan, nan, 1013.2],
        ],
    )


def stream(n: int = 60) -> list[Stored]:
    """Samples of two keys and two sensors, one a record, some as frames, some out of order, with a gap of one sensor."""
    bodies: list[tuple[bytes, Any]] = []
    for step in range(n):
        for key in (b"p", b"q"):
            at = START + step / 10
            bodies.append((key, {"sensor": "acc", "t": at, "x": np.sin(at), "y": step, "l": "ab"[step // 20 % 2]}))
            if step % 5 == 0 and not 20 <= step < 40:
                bodies.append((key, {"sensor": "temp", "t": at, "deg": step / 5}))
    bodies[5:5] = [(b"p", {"sensor": "acc", "t": [START + 0.05, START + 0.07], "x": [1.0, 2.0], "y": [0, 1]})]
    bodies[9], bodies[14] = bodies[14], bodies[9]
    return [record(offset, body, key) for offset, (key, body) in enumerate(bodies)]


HEAD = {"head": {"name": "rls"}}


@settings(derandomize=True, deadline=None, max_examples=examples(12))
@given(data=st.data())
def test_any_batches_and_a_crash_after_any_record_give_the_same_bits(data):
    made = plain({"label": "l", "lateness": "300ms"}, **HEAD)
    records = stream()
    whole = Worker(made)
    wanted = values(whole.apply(records))
    whole.checkpoint()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(records) - 1), max_size=6)))
    crashes = data.draw(st.sets(st.sampled_from([0, *cuts]), max_size=4))
    worker, got, begin = Worker(made), {}, 0
    for end in [*cuts, len(records)]:
        if begin in crashes:  # what came since the checkpoint comes again
            worker.apply(records[begin:end])
            worker.crash()
        for one in values(worker.apply(records[begin:end])):
            got[one[0], dict(one[4])["streamjobs-id"]] = one
        worker.checkpoint()
        begin = end
    assert list(got.values()) == wanted or sorted(got.values()) == sorted(wanted)
    assert worker.store == whole.store
    assert len(wanted) > 60


def test_replays_of_a_redelivered_record_change_nothing():
    made, records = plain(), stream()
    worker = Worker(made)
    worker.apply(records)
    worker.checkpoint()
    before = dict(worker.store)
    assert worker.apply(records) == [] and worker.store == before


def test_a_sensor_that_stops_is_a_gap_of_the_window_and_is_reported_by_name():
    payload = [readings(second, second + 1) for second in range(12)]
    for second in range(4, 8):
        payload[second] = [one for one in payload[second] if one["name"] != "gyroscope"]
    made, _ = run(job(), [push(n, one) for n, one in enumerate(payload)])
    assert made.report.sensor_gaps == {"gyroscope": 1} and made.report.skipped["gap"] == 1
    assert made.report.skipped["unpaired"] in range(400 - 3, 400 + 9)
    taken = Taken()
    taken.add(made.report)
    (told,) = [one for one in taken.much_skipped() if one.reason == "unpaired"]
    assert told.advice.endswith("(gaps: gyroscope 1)")


def test_a_sensor_that_never_comes_is_named_where_nothing_is_learned():
    payload = [[one for one in readings(n, n + 1) if one["name"] != "gyroscope"] for n in range(8)]
    made, _ = run(job(), [push(n, one) for n, one in enumerate(payload)])
    assert made.report.rows == 0 and made.report.sensor_gaps == {"gyroscope": 1}
    taken = Taken()
    taken.add(made.report)
    assert "samples are skipped as unpaired" in (taken.nothing_learned() or "")
    assert (taken.nothing_learned() or "").endswith("(gaps: gyroscope 1).")


def test_a_late_sample_is_a_dead_letter_where_the_job_says_so():
    records = [*stream(30), record(200, {"sensor": "acc", "t": START + 0.5, "x": 0, "y": 0}, b"q")]
    made, _ = run(plain(), records)
    assert made.report.skipped["late"] == 2 and made.report.dead_lettered == {}
    made, _ = run(plain({"late": "dlq"}), records)
    assert made.report.dead_lettered == {"late": 2}


def test_labels_come_with_samples_with_their_record_or_alone():
    of_record = job({"wait": "5s"}, {"label": "activity"}, head={"name": "rls"})
    body = json.loads(push(0, readings(0, 4)).value)
    made, _ = run(of_record, [record(0, {**body, "activity": "row"})])
    assert made.report.labels == made.report.rows > 2
    alone = plain({"label": "l"}, head={"name": "rls"}, labels={"wait": "1m"})
    bodies = [json.loads(one.value) for one in stream(20) if one.key == b"p"]
    samples = [record(n, {name: of for name, of in body.items() if name != "l"}) for n, body in enumerate(bodies)]
    late = record(500, {"t": START + 0.5, "l": "z"})
    made, _ = run(alone, [*samples, late])
    assert made.report.dead_lettered == {}, made.outputs
    assert made.report.labels >= 1
    assert letter(alone, {"x": 5})[1].endswith("expected the name of a sensor in field 'sensor', got nothing.")


def test_texts_of_times_and_numbers_are_read_as_elsewhere():
    """As an export of Sensor Logger writes them: all texts, and the name in `sensor`."""
    made = plain({"numbers": "lenient", "time_unit": "ns", "time": "time"})
    one = {"sensor": "acc", "time": "1700000000500000000", "x": "0.5", "y": "-1.25"}
    decoded = made.decode([record(0, one)])
    assert decoded.times.tolist() == [START + 0.5] and decoded.X[0, :2].tolist() == [0.5, -1.25]


def test_a_key_of_which_a_sensor_never_comes_expires_all_the_same():
    made = plain(state={"ttl": "1m"})
    records = [record(n, {**ACC, "t": START + at}) for n, at in enumerate((0, 1, 2, 3, 4, 5, 30, 99, 100))]
    worker = Worker(made)
    worker.apply(records)
    worker.checkpoint()
    assert last_event(made, worker.store[b"p"])[0] == START + 100
    assert worker.live.expired == 1
    one_by_one = Worker(made)
    for one in records:
        one_by_one.apply([one])
    one_by_one.checkpoint()
    assert one_by_one.store == worker.store


def test_a_state_of_other_sensors_is_refused_by_name():
    worker = Worker(plain())
    worker.apply(stream(20))
    worker.checkpoint()
    other = plain({"sensors": {**PLAIN, "rate": 10, "wait": "5s"}})
    with pytest.raises(SnapshotError, match=r"sensors.*wait=2\.0"):
        decode_snapshot(other, worker.store[b"p"])


BASE = {"topic": TOPIC, "time": "t", "sensors": {**PLAIN, "rate": 10}}


@pytest.mark.parametrize(
    ("source", "window", "words"),
    [
        ({"time": None}, None, "time must name the field with a sample's event time"),
        ({"format": "raw"}, None, "format must be one of json, msgpack, avro, protobuf with sensors"),
        ({"fields": ["x"]}, None, "fields has no meaning with sensors"),
        ({"missing": "hold"}, None, "missing must be 'dlq' or 'skip' with sensors"),
        ({"duplicates": "learn"}, None, "duplicates must be 'drop' with sensors"),
        ({"late": "predict_only"}, None, "late must be 'learn', 'drop' or 'dlq'"),
        ({"sensors": PLAIN}, None, "sensors: set rate, the rows a second, or add a [window]"),
        ({}, {"length": "1s", "rate": 10}, "sensors: rate has no meaning with a [window]"),
        ({"sensors": {**PLAIN, "rate": 10, "each": {}}}, None, "each must name at least one sensor"),
        ({"sensors": {**PLAIN, "rate": 10, "wait": 0.2}}, None, "wait must be at least the sample period of temp (0.5 s)"),
        ({"sensors": {**PLAIN, "rate": 10, "wait": "2h"}}, None, "samples of a key may wait"),
        (
            {"sensors": {**PLAIN, "rate": 10, "each": {"a": {"fields": ["x"]}}}},
            None,
            "sensors: each.a: setting 'rate' is missing",
        ),
        (
            {"sensors": {**PLAIN, "rate": 10, "each": {"a": {"fields": ["x"], "rate": 1, "gapp": 2}}}},
            None,
            "did you mean 'gap'?",
        ),
        ({"sensors": {**PLAIN, "rate": 10, "each": {"a": {"fields": ["x", "x"], "rate": 1}}}}, None, "'x' is named 2 times"),
        ({"sensors": {**PLAIN, "rate": 10, "each": {"a": {"fields": ["t"], "rate": 1}}}}, None, "'t' has another meaning"),
        ({"dim": 2}, None, "dim must be the number of columns of all sensors (3)"),
    ],
)
def test_contradictions_are_said(source, window, words):
    table = {"source": {**BASE, **source}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
    table["source"] = {name: value for name, value in table["source"].items() if value is not None}
    told = problems(table | ({"window": window} if window else {}))
    assert any(words in one for one in told), told


def test_columns_are_named_by_sensor_and_field():
    fields = {"fields": ["a.x", "b.x"], "rate": 5}
    each = {"acc": {"fields": AXES, "rate": 10}, "my.sensor": {"fields": ["v[0]", "v[1]"], "rate": 5}, "two": fields}
    made = plain({"sensors": {**PLAIN, "rate": 10, "each": each}})
    assert made.composition.columns == (
        *("acc.x", "acc.y", "acc.z", '"my.sensor".v[0]', '"my.sensor".v[1]', "two.a.x", "two.b.x"),
    )

"""What becomes of records and samples that [source.sensors] cannot use."""

import numpy as np
import pytest

from streamjobs.core.unlearned import Taken
from tests.core.phones import START, push, pushes, reading
from tests.core.sensor_jobs import ACC, job, letter, plain, record, run


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ({**ACC, "sensor": "lidar"}, "unknown_sensor", "expected one of the sensors 'acc', 'temp' in field 'sensor'"),
        ({**ACC, "sensor": 7}, "wrong_value", "expected the name of a sensor in field 'sensor', got a number"),
        ({"t": START, "x": 1.0, "y": 2.0}, "missing_field", "expected the name of a sensor in field 'sensor', got nothing"),
        (
            {"sensor": "acc", "t": START, "x": 1.0},
            "missing_field",
            "expected a number in field 'y', got nothing (sensor 'acc')",
        ),
        ({**ACC, "y": None}, "missing_field", "expected a number in field 'y', got null (sensor 'acc')"),
        ({**ACC, "y": "2"}, "wrong_value", "expected a number in field 'y', got a text (sensor 'acc')"),
        ({**ACC, "y": 1e12}, "out_of_range", "at index 1 (acc.y)"),
        ({"sensor": "acc", "x": 1.0, "y": 2.0}, "bad_time", "field 't', got nothing (sensor 'acc')"),
        ({**ACC, "t": "noon"}, "bad_time", "in field 't', got another text (sensor 'acc')"),
        ({**ACC, "t": -5}, "bad_time", "expected a time from 1970"),
        ({**ACC, "x": [1.0, 2.0], "y": [1.0]}, "wrong_dimension", "field 'y'"),
        (b"[1, 2]", "malformed", "expected json"),
    ],
)
def test_poison_is_a_dead_letter_that_names_the_field(body, reason, words):
    got, message = letter(plain(), body)
    assert got == reason and words in message


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ({"payload": {}}, "wrong_value", "expected a list of samples in field 'payload', got an object"),
        ({"messageId": 1}, "missing_field", "expected a list of samples in field 'payload', got nothing"),
        ({"payload": [[1]]}, "wrong_value", "expected an object in each place of field 'payload', got a list"),
        ({"payload": []}, "malformed", "expected at least one sample in field 'payload'"),
        ({"payload": [0] * 10**6}, "too_large", "expected at most 10000 samples in field 'payload', got 1000000"),
        (
            {"payload": [reading("gyroscope", 0), {"name": "gyroscope", "time": 1, "values": {"x": 1}}]},
            "missing_field",
            "'values.y'",
        ),
    ],
)
def test_poison_in_a_list_is_a_dead_letter_that_names_the_field(body, reason, words):
    got, message = letter(job(source={"max_bytes": "8MB"}), body)
    assert got == reason and words in message


def test_samples_of_a_record_that_is_a_dead_letter_are_not_counted_as_left_out():
    far = reading("gyroscope", 0)
    far["values"]["x"] = 1e12
    other = {"name": "magnetometer", "time": far["time"], "values": {}}
    made, _ = run(job(), [record(0, {"payload": [other, far]}), record(1, {"payload": [other, reading("gyroscope", 0)]})])
    assert made.report.dead_lettered == {"out_of_range": 1} and made.report.skipped == {"other_sensor": 1}


def test_nan_in_msgpack_names_the_field_too():
    made = plain({"format": "msgpack"})
    got, message = letter(made, {**ACC, "y": float("nan")}, "msgpack")
    assert got == "not_finite" and "in field 'y', got NaN (sensor 'acc')" in message
    times = np.array([START, START + 0.1])
    frame = {"sensor": "acc", "t": times.tobytes(), "x": np.zeros(2, "<f4").tobytes(), "y": np.zeros(2, "<f4").tobytes()}
    out, _ = run(made, [record(0, frame, form="msgpack")])
    assert out.report.dead_lettered == {} and out.report.samples == 2


def test_samples_that_lack_a_number_are_left_out_where_the_job_says_so():
    made, _ = run(plain({"missing": "skip"}), [record(0, {**ACC, "y": None}), record(1, ACC)])
    assert made.report.skipped == {"missing": 1} and made.report.samples == 1 and made.report.dead_lettered == {}


def test_sensors_that_the_job_does_not_name_do_not_flood_the_dead_letters():
    many = [
        push(n, [{"name": "magnetometer", "time": reading("gyroscope", n)["time"], "values": {}}] * 50) for n in range(9)
    ]
    made, _ = run(job(), many)
    assert made.outputs == [] and made.report.skipped == {"other_sensor": 9 * 51}
    taken = Taken()
    taken.add(made.report)
    assert taken.nothing_learned() == (
        "nothing was learned: all 459 samples are of sensors that [source.sensors] does not name; name theirs, or correct "
        "the names."
    )
    made, _ = run(job(), pushes(4))
    taken = Taken()
    taken.add(made.report)
    assert taken.nothing_learned() is None and not list(taken.much_skipped()), "what the job asks for is no warning"


def test_a_sensor_may_be_named_by_a_whole_number():
    each = {"3": {"fields": ["v"], "rate": 10}, "04": {"fields": ["v"], "rate": 10}}
    made = plain({"sensors": {"name": "channel", "each": each, "rate": 10}})
    at = {"t": START, "v": 1.0}
    out, _ = run(made, [record(n, {**at, "channel": name}) for n, name in enumerate([3, "3", "04"])])
    assert out.report.sensor_samples == {"3": 2, "04": 1} and out.report.dead_lettered == {}
    for other, reason in [(4, "unknown_sensor"), (True, "wrong_value"), (3.0, "wrong_value"), ([3], "wrong_value")]:
        got, message = letter(made, {**at, "channel": other})
        assert got == reason and "in field 'channel'" in message
    assert "'3', '04' in field 'channel'" in letter(made, {**at, "channel": 4})[1]

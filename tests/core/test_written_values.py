"""Times in ISO 8601, booleans, categories, texts that are numbers: each to its number, or a reason that names it."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from streamjobs.core.decoding.loading import decoder_of_fields
from streamjobs.core.decoding.records import decoder
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import problems, table
from tests.core.streams import settings as job_settings

NOW = 1_700_000_000.25
ENCODE = {"json": lambda one: json.dumps(one).encode(), "msgpack": msgspec.msgpack.encode}


def decode(*bodies, form="json", **source):
    made = SourceSection(topic="imu", format=form, **{"fields": ["v"], "time": "ts", "label": "y", "future": 1e9, **source})
    records = [Stored("imu", 0, n, 1_700_000_000_000, b"p", ENCODE[form](body)) for n, body in enumerate(bodies)]
    return decoder(made, len(made.columns) or made.dim)(records)


def why(body, **how):
    (error,) = decode(body, **how).errors
    return error[1].reason, str(error[1]).partition(": ")[2]


@pytest.mark.parametrize("form", ENCODE)
@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2023-11-14T22:13:20.25Z", None),
        ("2023-11-14T23:13:20.250+01:00", "+05:00"),
        ("2023-11-14 22:13:20.250000", "UTC"),
        ("2023-11-14T23:13:20.25", "Europe/Berlin"),
        ("20231114T181320.25", "-04:00"),
    ],
)
def test_iso_8601_is_read_with_its_zone_or_that_of_the_job(form, unit, text, zone):
    for body in ({"v": 1, "ts": text}, {"v": [1, 2], "ts": [text, text]}):
        decoded = decode(body, {"v": 1, "ts": NOW * {"s": 1, "ms": 1e3}[unit]}, form=form, time_unit=unit, time_zone=zone)
        assert not decoded.errors and set(decoded.times.tolist()) == {NOW}


def test_a_zone_that_puts_its_clocks_back_has_the_hour_twice_and_the_first_is_meant():
    berlin = {"time_zone": "Europe/Berlin"}
    summer, winter, twice = (f"2023-{day}T02:30:00" for day in ("06-01", "12-01", "10-29"))
    at = decode(*({"v": 1, "ts": text} for text in (summer, winter, twice)), **berlin).times
    utc = [f"2023-{day}:30:00Z" for day in ("06-01T00", "12-01T01", "10-29T00")]
    assert at.tolist() == decode(*({"v": 1, "ts": text} for text in utc)).times.tolist()


def test_a_time_that_cannot_be_read_says_why_and_shows_nothing():
    reason, said = why({"v": 1, "ts": "2023-11-14T22:13:20"})
    assert reason == "bad_time"
    assert said == "expected a time with a zone, such as Z or +01:00, in field 'ts', got one without; or set time_zone."
    for text in (
        "secret",
        "",
        "2023-11-14",
        "T" * 100_000,
        "2023-13-01T00:00:00Z",
        "1700000000",
        "0001-01-01T00:00:00+14:00",
    ):
        reason, said = why({"v": 1, "ts": text})
        assert reason == "bad_time" and "secret" not in said and len(said) < 200
    two = {"v": "2023", "ts": "2023-11-14T22:13:20Z"}
    assert why(two) == ("wrong_value", "expected a number in field 'v', got a text.")


@pytest.mark.parametrize("form", ENCODE)
@pytest.mark.parametrize("missing", ["dlq", "hold"])
def test_booleans_are_one_and_zero(form, missing):
    decoded = decode({"v": True, "ts": 1}, {"v": 2.5, "ts": 2}, {"v": [False, 3], "ts": [3, 4]}, form=form, missing=missing)
    assert not decoded.errors and decoded.X.ravel().tolist() == [1.0, 2.5, 0.0, 3.0]
    listed = decode({"x": [True, 2], "ts": 1}, form=form, fields=None, dim=2, missing=missing)
    assert not listed.errors and listed.X.tolist() == [[1.0, 2.0]]


VALVE = {"fields": ["temp", "valve", "mode"], "categories": {"valve": ["open", "shut"], "mode": [1, 2, True]}}


@pytest.mark.parametrize("form", ENCODE)
def test_categories_are_columns_of_ones_and_zeros_or_codes(form):
    bodies = [
        {"temp": 5, "valve": "shut", "mode": 1, "ts": 1},
        {"temp": [6, 7], "valve": ["open"] * 2, "mode": [True, 2], "ts": [2, 3]},
    ]
    decoded = decode(*bodies, form=form, **VALVE)
    assert not decoded.errors
    assert decoded.X.tolist() == [[5, 0, 1, 1, 0, 0], [6, 1, 0, 0, 0, 1], [7, 1, 0, 0, 1, 0]]
    assert decode(*bodies, form=form, **VALVE, categories_as="codes").X.tolist() == [[5, 1, 0], [6, 0, 2], [7, 0, 1]]
    assert SourceSection(topic="a", **VALVE).columns[1:3] == [("valve=open", "valve"), ("valve=shut", "valve")]


@pytest.mark.parametrize("form", ENCODE)
def test_an_angle_is_its_cosine_and_sine(form):
    wind = {"fields": ["speed", "wind"], "angles": {"wind": 360}, "missing_values": [-999, 1], "missing": "skip"}
    bodies = [{"speed": 5, "wind": 360, "ts": 1}, {"speed": [6, 7], "wind": [-999, 450], "ts": [2, 3]}]
    decoded = decode(*bodies, {"speed": 8, "wind": None, "ts": 4}, form=form, **wind)
    assert not decoded.errors
    assert np.allclose(decoded.X, [[5, 1, 0], [6, np.nan, np.nan], [7, 0, 1], [8, np.nan, np.nan]], equal_nan=True)
    assert SourceSection(topic="a", **wind).columns[1:] == [("wind cos", "wind"), ("wind sin", "wind")]
    assert why({"speed": 1, "wind": 1e12, "ts": 1}, form=form, **wind)[0] == "out_of_range"
    assert why({"speed": 1, "wind": "N", "ts": 1}, form=form, **wind)[0] == "wrong_value"


def test_an_unseen_category_is_refused_or_other_or_missing():
    body = {"temp": 5, "valve": "ajar", "mode": 2, "ts": 1}
    assert why(body, **VALVE) == ("wrong_value", "expected one of the 2 categories in field 'valve', got another.")
    assert why({**body, "valve": None}, **VALVE)[1] == "expected one of the 2 categories in field 'valve', got null."
    assert why({**body, "valve": 2.5}, **VALVE)[1] == "expected one of the 2 categories in field 'valve', got a number."
    assert decode(body, **VALVE, unseen="other").X.tolist() == [[5, 0, 0, 0, 1, 0]]
    assert decode(body, **VALVE, unseen="other", categories_as="codes").X.tolist() == [[5, 2, 1]]
    gone = decode(body, {**body, "valve": None}, **VALVE, unseen="missing", missing={"valve": "hold"})
    assert not gone.errors and np.isnan(gone.X[:, 1:3]).all() and (gone.X[:, [0, 3, 4, 5]] == [5, 0, 1, 0]).all()


def test_a_job_counts_and_names_the_columns_of_categories():
    source = {"topic": "imu", "time": "ts", **VALVE, "missing": {"valve": "hold"}}
    job = Job.from_settings(job_settings(source=source, window=None, head=None, drift=None))
    assert job.dim == 6
    assert job.composition.columns[:3] == ("temp", "valve=open", "valve=shut")
    assert job.steps.fill.policies == ("dlq", "hold", "hold", "dlq", "dlq", "dlq")


def test_texts_are_numbers_where_they_may_be():
    lenient = {"numbers": "lenient"}
    texts = ["21.5", " -3 ", "1e3", "\x1d.5\x1c", "true", "FALSE"]  # separators of control are spaces too
    made = decode(*({"v": text, "ts": "1700000000.25"} for text in texts), **lenient)
    assert not made.errors and made.X.ravel().tolist() == [21.5, -3.0, 1000.0, 0.5, 1.0, 0.0] and set(made.times) == {NOW}
    for text in ("21,5", "1_000", "inf", "0x10", "1" * 65, "one", "1.2.3", "٣"):
        assert why({"v": text, "ts": 1}, **lenient) == ("wrong_value", "expected a number in field 'v', got a text.")
    for text in ("", " NaN "):
        assert why({"v": text, "ts": 1}, **lenient)[1] == "expected a number in field 'v', got an empty text or NaN."
        assert np.isnan(decode({"v": text, "ts": 1}, **lenient, missing="hold").X).all()
    assert why({"v": "21.5", "ts": 1})[0] == "wrong_value"


def test_what_cannot_be_meant_is_reported():
    def told(**source):
        (one,) = problems(table(source=source))
        return one

    assert "time_zone must be a zone such as 'UTC', '+01:00' or 'Europe/Berlin'; got 'Berlin'" in told(time_zone="Berlin")
    assert "categories: 'valve' is not one of fields" in told(categories={"valve": ["open"]})
    assert "categories: the categories of 'ax' must differ" in told(categories={"ax": ["a", "a"]})
    assert "unseen has no meaning without categories" in told(unseen="other")
    assert "unseen = 'missing' needs missing = 'skip', 'hold' or 'mean' for 'ax'" in told(
        categories={"ax": ["a"]}, unseen="missing"
    )
    assert "dim must be the number of columns that fields give (4)" in told(categories={"ax": ["a", "b"]}, dim=3)
    assert "angles: 'wind' is not one of fields with plain numbers" in told(angles={"wind": 360})
    assert "angles: 'ax' is not one of fields with plain numbers; known: ay, az." in told(
        angles={"ax": 360}, categories={"ax": ["a"]}
    )
    assert "angles must be 0.001 or more" in told(angles={"ax": 0})


@pytest.mark.parametrize("form", ENCODE)
@pytest.mark.parametrize(
    ("time", "form_of_time", "zone"),
    [
        ("14.11.2023 23:13:20.25", "%d.%m.%Y %H:%M:%S.%f", "Europe/Berlin"),
        ("11/14/2023 10:13:20.25 PM +0000", "%m/%d/%Y %I:%M:%S.%f %p %z", None),
        (45_244.925928819444, "excel", "UTC"),
        ("45244.925928819444", "excel", "UTC"),
    ],
)
def test_times_are_read_in_the_format_of_the_job(form, time, form_of_time, zone):
    for body in ({"v": 1, "ts": time}, {"v": [1, 2], "ts": [time, time]}):
        decoded = decode(body, form=form, time_format=form_of_time, time_zone=zone)
        assert not decoded.errors and set(decoded.times.tolist()) == {NOW}


@pytest.mark.parametrize(("form", "bad"), [("%d.%m.%Y %H:%M", "10/24/2025 02:00"), ("excel", "soon"), ("excel", 1e300)])
def test_a_time_in_another_format_is_a_bad_time_that_says_which_is_read(form, bad):
    reason, said = why({"v": 1, "ts": bad}, time_format=form, time_zone="UTC")
    assert reason == "bad_time" and "[source] time_format, such as" in said and "another text" in said


def test_samples_of_sensors_have_times_in_a_format_too():
    sensors = {"name": "what", "each": {"a": {"fields": ["v"], "rate": 1.0}, "b": {"fields": ["v"], "rate": 1.0}}}
    for form, time in (("%d.%m.%Y %H:%M:%S", "14.11.2023 22:13:20"), ("excel", 45244.92592592593)):
        decoded = decode({"what": "b", "v": 7, "ts": time}, fields=None, sensors=sensors, time_format=form, time_zone="UTC")
        assert not decoded.errors and decoded.times.tolist() == [pytest.approx(1_700_000_000.0, abs=1e-3)], form
        assert np.isnan(decoded.X[0, 0]) and decoded.X[0, 1] == 7.0


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_field_is_read_by_a_name_beyond_ascii_that_nothing_has_used_before(form: str) -> None:
    name = "".join(["\u00d6", "l"])  # made here: a literal, or a name that was encoded once, hides what is tested
    value = {"json": msgspec.json, "msgpack": msgspec.msgpack}[form].encode({"\u00d6l": 71.5, "ax": 1})
    assert decoder_of_fields(form, {name: Any, "ax": Any}, False)(value, ()) == {"\u00d6l": 71.5, "ax": 1}

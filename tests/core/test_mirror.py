"""Mirroring: records worn on one side change the sign of some columns, whatever their format; the rest is untouched."""

import json

import msgspec
import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.decoding.formats import batch_parser
from streamjobs.core.decoding.records import decoder
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import MirrorSection, Settings
from streamjobs.settings.source import SourceSection
from tests.core.driving import same_bits
from tests.core.one_by_one import same_as_one_by_one

NOW = 1_700_000_000.0
AXES = ["ax", "ay", "az", "wx", "wy", "wz"]
MIRROR = {"field": "side", "when": 1, "columns": ["ax", "wy", "wz"]}
SIGNS = np.array([-1.0, 1, 1, 1, -1, -1])
BINARY = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}


def read(*messages, fmt="json", **mirror):
    source = SourceSection(topic="imu", format=fmt, fields=AXES, time="ts", label="activity")
    records = [Stored("imu", 0, i, int(NOW * 1000), b"p", BINARY[fmt](message)) for i, message in enumerate(messages)]
    return decoder(source, 6, MirrorSection(**{**MIRROR, **mirror}))(records)


def message(x, **more):
    columns = np.asarray(x, float).T.tolist()
    times = (NOW + np.arange(len(x)) / 50).tolist() if np.ndim(x) == 2 else NOW
    return {**dict(zip(AXES, columns, strict=True)), "ts": times, **more}


@pytest.mark.parametrize("fmt", ["json", "msgpack"])
@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize(
    ("when", "same", "others"),
    [(1, [1, 1.0], [0, "1", True]), ("left", ["left"], ["right", "Left", 1]), (True, [True], [False, 1]), (0.5, [0.5], [0])],
)
def test_only_records_of_the_named_side_are_mirrored(fmt, frame, when, same, others):
    X = np.random.default_rng(0).normal(size=(5, 6))
    x = X if frame else X[0]
    for sides, signs in ((same, SIGNS), (others, np.ones(6))):
        for side in sides:
            decoded = read(message(x, side=side), fmt=fmt, when=when)
            assert decoded.errors == [] and decoded.X.tobytes() == np.atleast_2d(x * signs).tobytes(), side


@pytest.mark.parametrize("fmt", ["json", "msgpack"])
@pytest.mark.parametrize("when", ["left", 1, 0.5, True])
def test_mirrored_samples_are_decoded_at_once_to_the_bits_of_one_by_one(fmt, when):
    sides = ["left", "Left", 1, 1.0, 0.5, True, False, None, [1], {"side": 1}, -0.0, 1 << 63, "left \u00fc"]
    x = np.random.default_rng(2).normal(size=(5 * len(sides), 6))
    bodies = [message(one, side=side) | {"activity": "row"} for one, side in zip(x, 5 * sides, strict=True)]
    for body in bodies[3::9]:
        del body["side"]
    usual = [message(one, side=sides[at % 7]) for at, one in enumerate(x)]
    source = SourceSection(topic="imu", format=fmt, fields=AXES, time="ts", label="activity")
    mirror = MirrorSection(**{**MIRROR, "when": when})
    for some in (bodies, usual):
        same_as_one_by_one(source, 6, [BINARY[fmt](body) for body in some], mirror)
    singles = batch_parser(source, 6, mirror)([Stored("imu", 0, 0, 0, b"p", BINARY[fmt](body)) for body in usual])
    assert len(singles.owner) == len(usual), "none of them needs another parser"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("where", ["number", "time"])
def test_a_signalling_nan_is_refused_without_a_word_from_numpy(where):
    """IEEE 754 lets arithmetic complain of it. JSON cannot write one, MessagePack and producers in other languages can."""
    times = {"ts": [7.5, NOW]} if where == "time" else {}
    encoded = BINARY["msgpack"](message(np.full((2, 6), 7.5 if where == "number" else 1.5), side=1) | times)
    signalling = encoded.replace(b"\xcb\x40\x1e" + bytes(6), b"\xcb\x7f\xf0\x5b\x4c\xc5\xf2\xcf\x09", 1)
    assert signalling != encoded
    source = SourceSection(topic="imu", format="msgpack", fields=AXES, time="ts", label="activity")
    record = Stored("imu", 0, 0, int(NOW * 1000), b"p", signalling)
    ((_, error),) = decoder(source, 6, MirrorSection(**MIRROR))([record]).errors
    assert error.reason == ("not_finite" if where == "number" else "bad_time")


def test_frames_of_bytes_are_mirrored_and_keep_time_and_label():
    X = np.random.default_rng(1).normal(size=(5, 6)).astype("<f4")
    columns = {name: X[:, i].tobytes() for i, name in enumerate(AXES)}
    times = NOW + np.arange(5) / 50
    decoded = read({**columns, "ts": times.tobytes(), "activity": "ROW", "side": 1}, fmt="msgpack")
    assert same_bits(decoded.X, X.astype(float) * SIGNS) and decoded.times.tolist() == times.tolist()
    assert decoded.labels == ["ROW"] * 5


@pytest.mark.parametrize("fmt", ["json", "msgpack"])
@pytest.mark.parametrize("side", [{}, {"side": None}, {"side": [1]}, {"side": {}}, {"side": [1, 1]}])
def test_a_record_that_does_not_say_its_side_is_refused_and_its_neighbours_are_not(fmt, side):
    for x in (np.zeros(6), np.zeros((2, 6))):
        decoded = read(message(x, side=1), message(x, **side), message(x, side=0), fmt=fmt)
        reason = "missing_field" if side in ({}, {"side": None}) else "wrong_value"
        assert [(index, error.reason) for index, error in decoded.errors] == [(1, reason)]
        assert "side" in str(decoded.errors[0][1]) and set(decoded.owner.tolist()) == {0, 2}


def job(mirror, **window):
    table = {
        "source": {"topic": "imu", "fields": AXES, "time": "ts"},
        "window": {"length": "1s", "hop": "500ms", "rate": 50.0, "statistics": "rich", **window},
        "learner": {"name": "last_points", "rank": 2},
        "sinks": {"features": "imu.features"},
    }
    table["window"] |= {"mirror": mirror} if mirror else {}
    return Job.from_settings(Settings(**table))


def outputs(job, X, sides):
    records = []
    for i, (x, side) in enumerate(zip(X, sides, strict=True)):
        body = {**message(x), "ts": NOW + i / 50, "side": side}
        records.append(Stored("imu", 0, i, int(NOW * 1000) + 20 * i, b"p", json.dumps(body).encode()))
    given = advance(job, Live(job, lambda key: None), records)
    assert not given.report.dead_lettered
    return [output.value for output in given.outputs], given.report


def test_both_arms_of_a_mirrored_job_give_the_same_outputs_and_a_change_of_side_keeps_the_window():
    X = np.random.default_rng(2).normal(size=(150, 6))
    sides = (np.arange(150) // 30 % 2).tolist()  # the side changes within windows
    mirrored = np.where(np.array(sides)[:, None] == 1, X * SIGNS, X)
    values, report = outputs(job(MIRROR), mirrored, sides)
    expected, plain = outputs(job(MIRROR), X, [0] * 150)
    assert values == expected and report.rows == plain.rows == 5 and not report.skipped
    assert outputs(job(None), mirrored, sides)[0] != expected


def test_states_learned_with_and_without_mirroring_are_distinguished():
    prints = {job(mirror).fingerprint for mirror in (None, MIRROR, {**MIRROR, "when": 0}, {**MIRROR, "columns": ["ax"]})}
    assert len(prints) == 4
    assert job(None).fingerprint != job(None, statistics="gravity").fingerprint


def refused(mirror, source=None, **window):
    table = {
        "source": {"topic": "imu", "fields": AXES, "time": "ts", **(source or {})},
        "window": {"length": "2s", "rate": 50.0, "mirror": mirror, **window},
        "learner": {"name": "okfeb"},
    }
    table["source"] = {name: value for name, value in table["source"].items() if value is not None}
    with pytest.raises(ConfigError) as raised:
        settings_from(table)
    return [line.removeprefix("job.toml [window]: ") for line in str(raised.value).splitlines()]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"columns": ["ax", "wyy"]}, "mirror: 'wyy' is not one of [source] fields; did you mean 'wy'?"),
        ({"columns": []}, "mirror: columns must name at least one of [source] fields; got none."),
        ({"columns": ["ax", "ax"]}, "mirror: columns must differ; 'ax' is named 2 times."),
        ({"columns": ["ax", 3]}, "mirror: columns[1] must be a text; got 3."),
        ({"field": "ts"}, "mirror: field must be a field of its own; 'ts' has another meaning in [source]."),
        ({"when": [1]}, "mirror: when must be a text, a number, true or false; got [1]."),
        ({"wen": 1}, "mirror: unknown setting 'wen'; did you mean 'when'?"),
    ],
)
def test_a_wrong_mirror_is_refused_with_a_sentence(changes, sentence):
    assert refused({**MIRROR, **changes}) == [sentence]


def test_a_mirror_needs_named_fields_in_a_format_that_has_them():
    assert refused("side") == ["mirror must be a table; got 'side'."]
    (unnamed,) = refused(MIRROR, {"fields": None, "dim": 6})
    assert unnamed.startswith("mirror names columns") and "[source] fields" in unnamed
    (raw,) = refused(MIRROR, {"format": "raw", "time": None})
    assert raw.startswith("mirror has no meaning in raw records")


def test_gravity_with_less_than_three_channels_is_refused():
    lines = refused({**MIRROR, "columns": ["ax"]}, {"fields": ["ax", "ay"]}, statistics="gravity")
    assert lines == ["statistics = 'gravity' needs acceleration in the first three fields; [source] has 2. Choose 'rich'."]

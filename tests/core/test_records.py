"""Decoding: every format gives the same samples, every limit its reason, and no bytes whatever an exception."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamjobs.core.decoding import formats
from streamjobs.core.decoding import records as reading
from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.source import SourceSection
from tests.core.decoded import FRAME, NAMES, NOW, ROWS, decode, decoder_of, frame_headers, reason, record, source
from tests.sizes import examples

COLUMNS = {name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)} | {"ts": FRAME["ts"], "activity": "walk"}
PACKED = {**FRAME, "x": np.array(ROWS, "<f4").tobytes()}
PACKED_F8 = {**FRAME, "x": np.array(ROWS, "<f8").tobytes(), "dtype": "f8", "ts": np.array(FRAME["ts"], "<f8").tobytes()}


@pytest.mark.parametrize(
    ("value", "changes", "headers"),
    [
        (FRAME, {}, ()),
        (COLUMNS, {"fields": NAMES}, ()),
        (msgspec.msgpack.encode(FRAME), {"format": "msgpack"}, ()),
        (msgspec.msgpack.encode(COLUMNS), {"format": "msgpack", "fields": NAMES}, ()),
        (msgspec.msgpack.encode(PACKED), {"format": "msgpack"}, ()),
        (msgspec.msgpack.encode(PACKED_F8), {"format": "msgpack"}, ()),
        (np.array(ROWS, "<f4").tobytes(), {"format": "raw"}, frame_headers()),
        (np.array(ROWS, "<f8").tobytes(), {"format": "raw"}, frame_headers(dtype=b"f8")),
    ],
)
def test_every_format_gives_the_same_frame(value, changes, headers):
    decoded = decode(value, changes=changes, headers=headers)
    assert decoded.errors == []
    assert decoded.X.tolist() == ROWS and decoded.X.flags.c_contiguous and decoded.X.dtype == np.float64
    assert decoded.times.tolist() == [NOW, NOW + 0.02]
    assert decoded.labels == ["walk", "walk"] and decoded.owner.tolist() == [0, 0]


@pytest.mark.parametrize("fmt", ["json", "msgpack"])
@pytest.mark.parametrize("fields", [None, NAMES])
def test_a_frame_gives_the_bits_of_its_samples_one_by_one(fmt, fields):
    rng = np.random.default_rng(5)
    encode = msgspec.json.encode if fmt == "json" else msgspec.msgpack.encode
    X, times = rng.normal(size=(20, 3)) * 1e3, (NOW + np.sort(rng.uniform(0, 5, 20))) * 1e3
    labels = [str(i) if i % 3 else None for i in range(20)]

    def body(x, time, label):
        columns = np.asarray(x).T.tolist()
        numbers = dict(zip(NAMES, columns, strict=True)) if fields else {"x": np.asarray(x).tolist()}
        return encode({**numbers, "ts": time, "activity": label})

    read = decoder(source(format=fmt, fields=fields, time_unit="ms"), 3)
    singles = read([record(body(x, t, label)) for x, t, label in zip(X, times.tolist(), labels, strict=True)])
    frame = read([record(body(X, times.tolist(), labels))])
    assert not singles.errors and not frame.errors
    assert frame.X.tobytes() == singles.X.tobytes() == X.tobytes()
    assert frame.times.tobytes() == singles.times.tobytes()
    assert frame.labels == singles.labels == labels


def test_samples_keep_the_order_of_their_records_in_a_mixed_batch():
    values = [{"x": [i, 0, 0], "ts": NOW + i} for i in range(300)]
    values[100] = {"x": [[100, 0, 0], [100, 1, 0]], "ts": [NOW, NOW]}
    values[200] = {"x": [1, 2], "ts": NOW}
    decoded = decoder(source(future=1000), 3)([record(value) for value in values])
    assert [index for index, _ in decoded.errors] == [200]
    expected = [i for i in range(300) if i != 200]
    expected.insert(100, 100)
    assert decoded.owner.tolist() == expected and decoded.X[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("label", "given"), [("walk", "walk"), (None, None), (3, 3), (1.5, 1.5), (True, True), ([1, 2.5], [1.0, 2.5])]
)
def test_labels_come_as_they_are_given(label, given):
    decoded = decode({"x": [1, 2, 3], "ts": NOW, "activity": label})
    assert decoded.labels == [given] and type(decoded.labels[0]) is type(given)


def test_a_frame_has_one_label_or_one_per_sample():
    assert decode({**FRAME, "activity": ["a", None]}).labels == ["a", None]
    assert decode({**FRAME, "activity": [[1, 2], [3, 4]]}).labels == [[1.0, 2.0], [3.0, 4.0]]
    assert reason({**FRAME, "activity": ["a", "b", "c"]}) == "bad_label"
    raw, how = np.array(ROWS, "<f4").tobytes(), {"changes": {"format": "raw"}}
    assert decode(raw, headers=frame_headers(label=b"[1, 2.5]"), **how).labels == [1, 2.5]
    assert decode(raw, headers=frame_headers(label=b"0.5"), **how).labels == [0.5, 0.5]


GOOD = {"x": [1, 2, 3], "ts": NOW}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "malformed"),
        (None, "malformed"),
        (b"{", "malformed"),
        (b"[1, 2]", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 100_000, "malformed"),
        (b'{"q": ' + b"[" * 100_000, "malformed"),
        (b'{"x": [NaN, 1, 2], "ts": 1700000000}', "malformed"),
        (b'{"x": [1, 2, 3], "ts": 1700000000} x', "malformed"),
        ({"x": [], "ts": []}, "malformed"),
        ({"ts": NOW}, "missing_field"),
        ({**GOOD, "x": [1, None, 3]}, "missing_field"),
        ({**GOOD, "x": [1, "2", 3]}, "wrong_value"),
        ({**GOOD, "x": [1, 10**400, 3]}, "out_of_range"),
        ({**GOOD, "x": "walk"}, "wrong_value"),
        ({**GOOD, "x": [1, 2]}, "wrong_dimension"),
        ({**FRAME, "x": [[1, 2, 3], [1, 2]]}, "wrong_dimension"),
        ({**GOOD, "x": [1, 2, 1e10]}, "out_of_range"),
        ({**GOOD, "ts": NOW + 61}, "future"),
        ({**FRAME, "ts": [NOW, NOW + 61]}, "future"),
        ({"x": [1, 2, 3]}, "bad_time"),
        ({**GOOD, "ts": "now"}, "bad_time"),
        ({**GOOD, "ts": -1}, "bad_time"),
        ({**GOOD, "ts": NOW * 1000}, "bad_time"),
        ({**GOOD, "ts": 10**30}, "bad_time"),
        ({**FRAME, "ts": [NOW]}, "bad_time"),
        ({**FRAME, "ts": NOW}, "bad_time"),
        ({**GOOD, "activity": {"a": 1}}, "bad_label"),
        ({**GOOD, "activity": "a" * 257}, "bad_label"),
        ({**GOOD, "activity": ["a"]}, "bad_label"),
        ({**GOOD, "activity": 10**400}, "bad_label"),
    ],
)
def test_a_bad_record_is_refused_with_its_reason(value, expected):
    assert reason(value) == expected


@pytest.mark.parametrize(
    ("how", "changes", "expected"),
    [
        ({"key": None}, {}, "no_key"),
        ({"key": b""}, {}, "no_key"),
        ({"key": b"k" * 257}, {}, "long_key"),
        ({"key": b"k" * 9}, {"max_key_bytes": 8}, "long_key"),
        ({"value": b"{" * ((1 << 20) + 1)}, {}, "too_large"),
        ({"value": b"{" * 9}, {"max_bytes": 8}, "too_large"),
        ({"headers": [("h", b"")] * 101}, {}, "headers"),
        ({"headers": [("h", b"x" * (64 << 10))]}, {}, "headers"),
        ({"headers": [("h", None)]}, {"max_headers": 0}, "headers"),
        ({"headers": [("h", b"x"), ("h", None)]}, {"max_header_bytes": 2}, "headers"),
    ],
)
def test_limits_are_looked_at_before_anything_is_decoded(how, changes, expected, monkeypatch):
    def decoded(whatever):
        raise AssertionError("decoded")

    monkeypatch.setattr(reading, "parser", lambda *settings: decoded)
    monkeypatch.setattr(reading, "batch_parser", lambda *settings: decoded)
    assert reason(**{"value": b"{}", **how}, changes=changes) == expected
    with pytest.raises(AssertionError, match="decoded"):  # what is within its limits is
        decode(b"{" * 8, key=b"k" * 8, changes=changes)


def test_limits_are_what_is_still_allowed():
    assert decode(GOOD, headers=[("other", None)] * 100).errors == []
    assert decode(GOOD, changes={"max_header_bytes": 3}, headers=[("h", b"x"), ("h", None)]).errors == []
    assert decode(GOOD, key=b"k" * 256).errors == []
    assert reason(FRAME, changes={"max_samples": 1}) == "too_large"


@pytest.mark.parametrize(
    ("value", "headers", "expected"),
    [
        (b"\0" * 24, [], "missing_field"),
        (b"\0" * 24, frame_headers(shape=b"2;3"), "malformed"),
        (b"\0" * 24, frame_headers(dtype=b"i4"), "malformed"),
        (b"\0" * 24, frame_headers(shape=b"2,4"), "wrong_dimension"),
        (b"\0" * 20, frame_headers(), "malformed"),
        (b"\0" * 24, frame_headers(shape=b"999999999,3"), "too_large"),
        (b"\0" * 24, frame_headers(shape=b"0,3"), "malformed"),
        (b"\0" * 24, frame_headers(time=None), "bad_time"),
        (b"\0" * 24, frame_headers(time=b"noon"), "bad_time"),
        (b"\0" * 24, frame_headers(time=b"nan"), "bad_time"),
        (b"\0" * 24, frame_headers(rate=b"0"), "bad_time"),
        (b"\0" * 24, frame_headers(time=b"1800000000"), "future"),
        (b"\0" * 24, frame_headers(label=b"\xff"), "bad_label"),
        (np.array([[0, 1, 2], [3, np.nan, 5]], "<f4").tobytes(), frame_headers(), "not_finite"),
    ],
)
def test_bad_raw_numbers_are_refused_with_their_reason(value, headers, expected):
    assert reason(value, changes={"format": "raw"}, headers=headers) == expected


def test_a_message_says_what_was_expected_and_never_shows_key_or_contents():
    packed = msgspec.msgpack.encode({**GOOD, "x": [1.0, float("nan"), 3.0]})
    (error,) = decode(packed, changes={"format": "msgpack"}, key=b"secret-person").errors
    assert str(error[1]) == "topic imu[3] offset 1041: expected 3 finite features, got NaN at index 1."
    for value in ({**GOOD, "x": "secret"}, {**GOOD, "ts": "secret"}, {**GOOD, "activity": {"secret": 1}}, b"secret"):
        (error,) = decode(value, key=b"secret-person").errors
        assert "secret" not in str(error[1])


def test_a_field_named_twice_in_the_job_file_is_a_config_error():
    with pytest.raises(ConfigError, match="'ts' is named twice"):
        decoder(source(fields=["ax", "ts"]), 2)
    assert decoder(source(fields=["a-b", "class", "f0"]), 3)([record({"a-b": 1, "class": 2, "f0": 3, "ts": NOW})]).X.tolist()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["x", "ts", "activity", "ax"]), inner),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {},
    optional={name: json_values for name in ("x", "ts", "activity", "dtype", "ax", "ay", "az")},
)
headers = st.lists(
    st.tuples(
        st.sampled_from([f"streamjobs-{name}" for name in ("shape", "dtype", "time", "rate", "label")]),
        st.none() | st.binary(max_size=8) | st.sampled_from([b"2,3", b"3", b"f4", b"f8", b"1e400", b"-1", b"1,3"]),
    ),
    max_size=6,
)


# It draws nested values: on a machine that has other things to do that takes longer than hypothesis expects of a strategy.
@settings(derandomize=True, deadline=None, max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), fmt=st.sampled_from(["json", "msgpack", "raw"]), named=st.booleans(), timed=st.booleans())
def test_no_bytes_make_the_decoder_raise_and_every_record_is_samples_or_an_error(data, fmt, named, timed):
    def encoded(message):
        if fmt == "msgpack":
            try:
                return msgspec.msgpack.encode(message)
            except OverflowError:
                return b""
        return json.dumps(message, default=lambda value: value.hex()).encode()

    value = st.binary(max_size=60) | messages.map(encoded)
    records = [
        record(one, headers=data.draw(headers) if fmt == "raw" else ())
        for one in data.draw(st.lists(value, min_size=1, max_size=6))
    ]
    decoded = decoder_of(fmt, named, timed)(records)
    n = len(decoded.times)
    assert decoded.X.shape == (n, 3) and len(decoded.labels) == len(decoded.owner) == n
    assert np.isfinite(decoded.X).all() and (np.abs(decoded.X) <= 1e9).all() and (decoded.times >= 0).all()
    refused = {index for index, _ in decoded.errors}
    assert refused | set(decoded.owner.tolist()) == set(range(len(records)))
    assert not refused & set(decoded.owner.tolist()) and len(refused) == len(decoded.errors)


@settings(derandomize=True, deadline=None, max_examples=examples(300))
@given(flips=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4), data=st.data())
def test_a_damaged_record_never_raises_and_leaves_its_neighbours_alone(flips, data):
    fmt = data.draw(st.sampled_from(["json", "msgpack"]))
    encode = msgspec.json.encode if fmt == "json" else msgspec.msgpack.encode
    whole = encode(data.draw(st.sampled_from([GOOD, FRAME])))
    damaged = bytearray(whole)
    for place, byte in flips:
        damaged[place % len(damaged)] = byte
    good = record(encode(GOOD))
    decoded = decoder_of(fmt)([good, record(bytes(damaged)), good])
    assert {0, 2} <= set(decoded.owner.tolist())
    assert [index for index, _ in decoded.errors] in ([], [1])


@pytest.mark.filterwarnings("error")
def test_a_signaling_nan_of_single_precision_is_refused_without_a_warning():
    numbers = bytes(8) + b"\x01\x00\xa0\x7f" + bytes(12)
    told = {"shape": b"2,3", "dtype": b"f4", "time": b"%d" % NOW, "rate": b"10"}
    named = [(f"streamjobs-{name}", text) for name, text in told.items()]
    columns = {name: b"\x01\x00\xa0\x7f" for name in NAMES} | {"ts": [NOW]}
    for one, changes in (
        (record(numbers, headers=named), {"format": "raw", "time": None}),
        (record(msgspec.msgpack.encode({"x": numbers, "ts": [NOW, NOW + 1]})), {"format": "msgpack"}),
        (record(msgspec.msgpack.encode(columns)), {"format": "msgpack", "fields": NAMES}),
    ):
        assert [error.reason for _, error in decoder(source(**changes), 3)([one]).errors] == ["not_finite"]


def test_raw_records_of_one_sample_are_read_at_once_as_they_are_one_by_one(monkeypatch):
    """With what is odd among them: another dtype, a frame, a label that is a number, two headers of one name, no time."""
    usual = {
        "streamjobs-shape": b"3",
        "streamjobs-dtype": b"f4",
        "streamjobs-time": b"1700000000.5",
        "streamjobs-label": b"walk",
    }
    odd = [
        {},
        {"streamjobs-shape": b"1,3"},
        {"streamjobs-label": b'"run"'},
        {"streamjobs-label": b"null"},
        {"streamjobs-label": None},
        {"streamjobs-label": b"7"},
        {"streamjobs-label": b"\xff"},
        {"streamjobs-label": b"x" * 300},
        {"streamjobs-time": b"soon"},
        {"streamjobs-time": None},
        {"streamjobs-time": b"nan"},
        {"streamjobs-shape": b"2,3"},
        {"streamjobs-shape": b"4"},
        {"streamjobs-dtype": b"f2"},
    ]
    made, value = SourceSection(topic="imu", format="raw", dim=3), np.array([1, 2, np.pi], "<f4").tobytes()
    both = [("streamjobs-shape", b"9")]  # the later one counts
    records = [
        Stored("imu", 0, n, round(NOW * 1000), b"p", value, (*both, *(usual | own).items())) for n, own in enumerate(odd)
    ]
    records += [records[0]._replace(value=value[:-1]), records[0]._replace(value=None), records[0]._replace(key=None)]
    at_once = [0]

    def told(batch):
        decoded = decoder(made, 3)(batch)
        reasons = [(n, error.reason, str(error)) for n, error in decoded.errors]
        return decoded.owner.tolist(), decoded.X.tolist(), decoded.times.tolist(), decoded.labels, reasons

    batches = [*([one] for one in records), *([records[0], one] for one in records), records[:5], records]
    fast = [told(batch) for batch in batches]

    def none(records, dim):
        at_once[0] += 1

    monkeypatch.setattr(formats, "raw_singles", none)
    assert fast == [told(batch) for batch in batches] and at_once[0] > 20

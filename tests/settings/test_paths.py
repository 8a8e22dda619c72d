"""Fields deep in a record: the same samples as from a flat one, wherever they are, and reasons that name them."""

import json
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjobs.core.decoding.formats import parser
from streamjobs.core.decoding.records import decoder
from streamjobs.core.decoding.samples import Frame, LabelsAlone, Problem
from streamjobs.core.messages import Stored
from streamjobs.errors import REASONS, ConfigError
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection
from tests.sizes import examples

NOW = 1_700_000_000.0
ENCODE = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}
DEEP = {"fields": ["readings.temp", "acc[0]", '"v.x"'], "time": "meta.ts", "label": "meta.who[1].doing"}


def record(value, form="json"):
    value = value if isinstance(value, bytes) else ENCODE[form](value)
    return Stored("imu", 3, 1041, int(NOW * 1000), b"p1", value, ())


def decode(*values, form="json", **source):
    made = SourceSection(topic="imu", format=form, **source)
    return decoder(made, len(made.fields) if made.fields else 3)([record(value, form) for value in values])


def deep(temp=20.5, acc=(1, 2), vx=-3.0, ts=NOW, label="sit"):
    who = [None, {"doing": label}]
    return {"id": 7, "readings": {"temp": temp, "rest": [[]]}, "acc": acc, "v.x": vx, "meta": {"ts": ts, "who": who}}


@pytest.mark.parametrize("form", ENCODE)
def test_a_path_leads_into_objects_and_lists(form):
    decoded = decode(deep(), deep(temp=1, label=None), form=form, **DEEP)
    assert not decoded.errors and decoded.labels == ["sit", None]
    assert decoded.X.tolist() == [[20.5, 1.0, -3.0], [1.0, 1.0, -3.0]] and decoded.times.tolist() == [NOW, NOW]


@pytest.mark.parametrize("form", ENCODE)
def test_a_path_finds_an_object_of_a_list_by_its_name(form):
    fields = {"fields": ["list[name=temperature].value", "deep.list[id=7].v[1]"]}
    a, b = {"name": "rms", "value": 9.0}, {"name": "temperature", "value": 20.5}
    records = [
        {"list": each, "deep": {"list": [{"id": 7, "v": [1, 2]}]}} for each in ([a, b], [b, a], [a], "no list", [1, b])
    ]
    decoded = decode(*records, form=form, **fields)
    assert decoded.X.tolist() == [[20.5, 2.0]] * 3
    assert [(n, error.reason) for n, error in decoded.errors] == [(2, "missing_field"), (3, "missing_field")]
    assert decode({"list[name=temperature].value": 1, "deep.list[id=7].v[1]": 2}, form=form, **fields).X.tolist() == [[1, 2]]


@pytest.mark.parametrize("name", ["flow [unit=C]", "a=b", "[a=b]", "list[name=temperature]", "list[=x].v"])
def test_what_is_not_a_path_stays_the_name_of_a_field(name):
    assert decode({name: 1.5}, fields=[name]).X.tolist() == [[1.5]]


@pytest.mark.parametrize("form", ENCODE)
def test_a_frame_has_a_list_at_each_path(form):
    frame = deep(temp=[1, 2], acc=[[3, 4], "of another sensor"], vx=[5, 6], ts=[NOW, NOW + 1], label=["a", None])
    decoded = decode(frame, form=form, **DEEP)
    assert not decoded.errors and decoded.labels == ["a", None]
    assert decoded.X.tolist() == [[1, 3, 5], [2, 4, 6]] and decoded.times.tolist() == [NOW, NOW + 1]


@pytest.mark.parametrize("form", ENCODE)
@pytest.mark.parametrize("odd", ["a\\b", "a\tb", "\x1b[2J", "ä ", "a'b"])
def test_a_name_may_hold_any_character(form, odd):
    given = {odd: 2.0, "y": 1.0, "when" + odd: NOW, odd + "said": "sit"}
    source = {"fields": [odd, "y"], "time": "when" + odd, "label": odd + "said"}
    decoded = decode(given, {**given, odd: "no number"}, form=form, **source)
    assert decoded.X.tolist() == [[2.0, 1.0]] and decoded.labels == ["sit"] and decoded.times.tolist() == [NOW]
    ((_, error),) = decoded.errors
    assert error.reason == "wrong_value"


def test_a_name_that_looks_like_a_path_is_a_name_where_the_path_leads_nowhere():
    flat = {"value.x": 1.0, "acc[0]": 2.0, "t.s": NOW, "a.b": "sit"}
    nested = {"value": {"x": 1.0}, "acc": [2.0], "t": {"s": NOW}, "a": {"b": "sit"}}
    both = {**flat, **nested, "value.x": 9.0}
    for value in (flat, nested, both, {**flat, "value": None}):
        for batch in ([value], [value, flat, nested]):
            decoded = decode(*batch, fields=["value.x", "acc[0]"], time="t.s", label="a.b")
            assert not decoded.errors
            assert (decoded.X[0].tolist(), decoded.times[0], decoded.labels[0]) == ([1.0, 2.0], NOW, "sit")
    quoted = {"fields": ['"value.x"', '"acc[0]"'], "time": '"t.s"', "label": '"a.b"'}
    assert not decode(flat, **quoted).errors and len(decode(nested, **quoted).errors) == 1


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (deep(temp="warm"), "wrong_value", "expected a number in field 'readings.temp', got a text"),
        (deep(temp=None), "missing_field", "expected a number in field 'readings.temp', got null"),
        (deep(temp=[]), "wrong_value", "expected a list in field 'acc[0]' as in others, got a number"),
        (deep(acc=[]), "missing_field", "expected a number in field 'acc[0]', got nothing"),
        ({**deep(), "readings": 4}, "missing_field", "expected a number in field 'readings.temp', got nothing"),
        ({**deep(), "readings": {"temp": {}}}, "wrong_value", "in field 'readings.temp', got an object"),
        (deep(temp=[1, "2"], acc=[[1, 2]], vx=[1, 2], ts=[NOW, NOW]), "wrong_value", "'readings.temp', got a text"),
        (deep(temp=[1, 2], acc=[[1]], vx=[1, 2], ts=[NOW, NOW]), "wrong_dimension", "2 numbers in field 'acc[0]'"),
        (deep(ts=None), "bad_time", "(seconds since 1970) or ISO 8601 in field 'meta.ts', got null"),
        (deep(label={"a": 1}), "bad_label", "expected a label in field 'meta.who[1].doing', got an object"),
        (deep(temp=10**400), "out_of_range", "a float can hold"),
        (b'{"readings": ' + b"[" * 100_000, "malformed", "expected json, got bytes that are not"),
        (b"[]", "malformed", "expected json with an object, got a list"),
    ],
)
def test_a_bad_field_is_named_by_its_path_and_never_shown(value, reason, said):
    if not isinstance(value, bytes):
        value = json.dumps(value).encode()
    (error,) = decode(value, **DEEP).errors
    assert error[1].reason == reason and said in str(error[1]) and "warm" not in str(error[1])


SAMPLES = {"fields": ["samples[].acc.x", "samples[].y"], "time": "samples[].ts", "label": "samples[].doing"}


def _samples(**others):
    one = {"acc": {"x": 1.0}, "y": 2.0, "ts": NOW, "doing": "sit"}
    return {"samples": [one, {**one, "ts": NOW + 1, **others}]}


@pytest.mark.parametrize("form", ENCODE)
def test_a_list_of_samples_is_a_frame(form):
    listed = _samples(y=3.0)
    del listed["samples"][1]["doing"]
    decoded = decode(listed, form=form, **SAMPLES)
    assert not decoded.errors and decoded.labels == ["sit", None]
    assert decoded.X.tolist() == [[1.0, 2.0], [1.0, 3.0]] and decoded.times.tolist() == [NOW, NOW + 1]


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (_samples(y="much"), "wrong_value", "expected a number in field 'samples[].y', got a text"),
        (_samples(acc={}), "missing_field", "expected a number in field 'samples[].acc.x', got null"),
        (_samples(ts=None), "bad_time", "in field 'samples[].ts', got null"),
        ({"samples": []}, "malformed", "at least one sample, got an empty frame"),
        ({"samples": [4]}, "missing_field", "'samples[].acc.x', got null"),
        ({"samples": {}}, "missing_field", "'samples[].acc.x', got nothing"),
    ],
)
def test_a_bad_sample_of_a_list_is_named(value, reason, said):
    (error,) = decode(json.dumps(value).encode(), **SAMPLES).errors
    assert error[1].reason == reason and said in str(error[1])


def test_x_may_be_a_list_inside_an_object():
    one, two = {"a": {"x": [1, 2, 3]}, "ts": NOW}, {"a": {"x": [[1, 2, 3], [4, 5, 6]]}, "ts": [NOW, NOW]}
    decoded = decode(one, two, x="a.x", dim=3, time="ts")
    assert not decoded.errors and decoded.X.tolist() == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    packed = {**two, "a": {"x": np.array(two["a"]["x"], "<f4").tobytes()}}
    assert decode(packed, form="msgpack", x="a.x", dim=3, time="ts").X.tolist() == two["a"]["x"]


def test_quotation_marks_in_the_wrong_place_are_reported():
    with pytest.raises(ConfigError, match=r"fields must be a path such as readings.temp, acc\[0\] or"):
        settings_from({"source": {"topic": "a", "fields": ['a"b']}, "learner": {"name": "klms", "budget": 5}})


# Records of plain fields against a plain reading of the message.

NAMES = ["ax", "ay", "az"]
cells = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-5, 5) | st.sampled_from(["a", {}, [], NOW, b"\0" * 8])
lists = st.lists(cells, max_size=3) | st.lists(st.lists(cells, min_size=2, max_size=3), max_size=2)
messages = st.fixed_dictionaries({}, optional={name: cells | lists for name in (*NAMES, "x", "ts", "activity", "side")})
good = st.fixed_dictionaries(
    {**dict.fromkeys((*NAMES, "side"), st.integers(-9, 9)), "ts": st.floats(0, NOW), "x": st.just([1.0, 2.5, 3.0])},
    optional={"activity": st.sampled_from(["a", None, 3])},
)
framed = st.fixed_dictionaries(
    {
        **dict.fromkeys(NAMES, st.lists(st.floats(-5, 5), min_size=1, max_size=2)),
        "ts": st.lists(st.floats(0, NOW), min_size=1, max_size=2),
        "x": st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=1, max_size=2),
        "side": st.just(1),
    }
)


def outcome(parse, value: bytes):
    try:
        made = parse(record(value))
    except Problem as problem:
        return problem.reason
    if isinstance(made, Frame):
        return made.X.tobytes(), None if made.times is None else made.times.tobytes(), repr(made.labels)
    if isinstance(made, LabelsAlone):
        return made.times.tobytes(), repr(made.labels)
    return made[0], None if made[1] is None else float(made[1]), repr(made[2])


@cache
def parser_for(form: str, named: bool, late: bool):
    source = SourceSection(topic="imu", format=form, fields=NAMES if named else None, time="ts", label="activity")
    return parser(source, 3, MirrorSection(field="side", when=1, columns=["ax"]) if named else None, late)


def reading(message: dict[str, Any], named: bool):
    """What a record without mistakes gives, written plainly; the name of a mistake where its lists differ in length."""
    X = np.array([message[name] for name in NAMES] if named else message["x"], np.float64)
    if named:
        X[0] *= -1.0 if message["side"] == 1 else 1.0
        X = X.T
    if not isinstance(message["ts"], list):
        return X.tobytes(), float(message["ts"]), repr(message.get("activity"))
    if len(message["ts"]) != len(X):
        return "bad_time"
    return np.ascontiguousarray(X).tobytes(), np.array(message["ts"], np.float64).tobytes(), repr([None] * len(X))


@settings(derandomize=True, deadline=None, max_examples=examples(600))
@given(message=good | framed, form=st.sampled_from(list(ENCODE)), named=st.booleans(), late=st.booleans())
def test_plain_fields_are_read_as_they_are(message, form, named, late):
    if named and len({len(message[name]) for name in NAMES if isinstance(message[name], list)}) > 1:
        expected: object = "wrong_dimension"
    else:
        expected = reading(message, named)
    assert outcome(parser_for(form, named, late), ENCODE[form](message)) == expected


@settings(derandomize=True, deadline=None, max_examples=examples(600))
@given(message=messages, form=st.sampled_from(list(ENCODE)), named=st.booleans(), late=st.booleans())
def test_odd_fields_give_samples_or_a_reason(message, form, named, late):
    made = outcome(parser_for(form, named, late), ENCODE[form](message))
    assert not isinstance(made, str) or made in REASONS


@pytest.mark.parametrize(
    ("form", "value", "kind"),
    [
        ("json", [1], "a list; it is read as the field 'value'"),
        ("msgpack", 7, "a number; it is read as the field 'value'"),
        ("json", None, "null"),
    ],
)
def test_a_value_that_is_not_an_object_is_named(form, value, kind):
    (error,) = decode(value, form=form, fields=NAMES).errors
    assert error[1].reason == "malformed" and f"expected {form} with an object, got {kind}." in str(error[1])


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("value", "source", "x"),
    [
        (21.5, {"fields": ["value"]}, [[21.5]]),
        ([1, 2, 3], {"x": "value", "dim": 3}, [[1, 2, 3]]),
        ([{"bn": "a:", "bt": NOW, "n": "t", "v": 20}, {"n": "h", "v": 50}], {"fields": ["value[n=h].v"]}, [[50]]),
        ([{"a": 1, "t": NOW}, {"a": 2, "t": NOW}], {"fields": ["value[].a"], "time": "value[].t"}, [[1], [2]]),
        ({"value": 7}, {"fields": ["value"]}, [[7]]),
    ],
)
def test_a_number_or_a_list_that_is_all_of_a_record_is_the_field_value(form, value, source, x):
    found = decode(*3 * [value], form=form, **source)  # several records: read at once where that is possible
    assert not found.errors and found.X.tolist() == 3 * x
    (error,) = decode(None, form=form, **source).errors
    assert error[1].reason == "malformed"


def test_nan_in_a_list_that_is_all_of_a_record_is_a_missing_number():
    made = SourceSection(topic="imu", fields=["value[0]", "value[1]"], missing="hold")
    (found,) = decoder(made, 2)([record(b"[NaN, 2.5]", None)]).X.tolist()
    assert np.isnan(found[0]) and found[1] == 2.5


def test_a_long_text_between_numbers_takes_no_memory_for_each_of_them():
    """NumPy would make every number of the frame as long as the text."""
    rows = [[1.0, 2.0, 3.0]] * 20_000 + [[1.0, 2.0, "w" * 400_000]]
    (error,) = decode({"x": rows, "ts": NOW}).errors
    assert error[1].reason in ("too_large", "wrong_value")

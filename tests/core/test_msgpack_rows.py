"""MessagePack to arrays in one pass: what the library makes of it, and what is left to the parsers of single records."""

import math
import struct
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from streamjobs.core.decoding.at_once.json_rows import read_rows as read_json
from streamjobs.core.decoding.at_once.msgpack_rows import read_rows as read_msgpack
from streamjobs.core.decoding.at_once.names import Names
from streamjobs.settings.paths import path_of
from streamjobs.settings.source import SourceSection
from tests.core.one_by_one import DEEP, same_as_one_by_one
from tests.fuzz.bytes import bent

pack = msgspec.msgpack.encode
LISTED = SourceSection(topic="in", format="msgpack", dim=2, time="ts", label="label")
NAMED = SourceSection(topic="in", format="msgpack", fields=["ax", "β"], time="ts", label="label")
DEEP_SOURCE = SourceSection(topic="in", format="msgpack", fields=DEEP, time="d.t", label="m.l")
SOURCES = (LISTED, NAMED, DEEP_SOURCE, DEEP_SOURCE.model_copy(update={"missing": "hold", "numbers": "lenient"}))
TIME = 1_700_000_000.25


def read(values: list[bytes], source: SourceSection) -> list[bool]:
    """Which of the values are read at once."""
    x = [path_of(one) for one in source.fields or ["x"]]
    assert source.time is not None and source.label is not None
    names = Names.of(x, path_of(source.time), path_of(source.label), listed=source.fields is None, refused=["dtype"])
    assert names is not None
    made = read_msgpack(values, b"".join(values), names, len(source.fields or "12"))
    return [True] * len(values) if made.read is None else made.read.tolist()


def body(**changes: Any) -> dict[str, Any]:
    """A record of all these jobs, with some of its fields changed."""
    acc = {"t": TIME, "accel": {"x": 1, "y": [{}]}, "list": [{"v": 2.5}, "]", [0, 3, {}], 4]}
    by_name = [{"name": "down", "v": 0}, {"v": 4, "name": "up"}, {"name": "7", "w": {"v": 5}, "n": b"a"}, {"name": "up"}]
    plain = {"ts": TIME, "x": [1, -2.5], "ax": 3, "β": 4.5, "label": "up"}
    return {"d": acc, "s": by_name, "flat": 6, "m": {"l": "walk"}, **plain, **changes}


@pytest.mark.parametrize(("source", "X"), [(LISTED, [1, -2.5]), (NAMED, [3, 4.5]), (DEEP_SOURCE, [1, 2.5, 3, 4, 5, 6])])
def test_fields_are_read_in_any_order_among_others(source: SourceSection, X: list[float]) -> None:
    others = {"a": None, "b": [[], {"c": [True, "x" * 40]}], "n" * 40: b"\xff" * 300, "e": list(range(70)), "f": 2**64 - 1}
    first, last = body(**others), dict(reversed(body(**others).items()))
    wide = body(**{str(n): n for n in range(70)})
    values = list(map(pack, (first, last, wide)))
    assert read(values, source) == [True] * 3
    assert same_as_one_by_one(source, len(X), values).X.tolist() == [X] * 3


def written(number: float) -> list[bytes]:
    """All the ways to write a number."""
    forms = [b"\xcb" + struct.pack(">d", number)]
    if not math.isfinite(number) or abs(number) < 3e38:
        forms.append(b"\xca" + struct.pack(">f", number))
    if math.isfinite(number) and number == int(number):
        kinds = (
            (0xCC, ">B"),
            (0xCD, ">H"),
            (0xCE, ">I"),
            (0xCF, ">Q"),
            (0xD0, ">b"),
            (0xD1, ">h"),
            (0xD2, ">i"),
            (0xD3, ">q"),
        )
        for head, size in kinds:
            try:
                forms.append(bytes([head]) + struct.pack(size, int(number)))
            except struct.error:
                continue
        if -32 <= number < 128:
            forms.append(struct.pack(">b", int(number)))
    return forms


def test_numbers_have_the_bits_that_the_library_gives_them() -> None:
    edges = [
        sign * (2.0**power + near)
        for power in (0, 5, 7, 8, 15, 16, 31, 32, 53, 62)
        for near in (-1, 0, 1)
        for sign in (1, -1)
    ]
    rnd = Random(1)
    forms = [
        form for number in (*edges, 0.0, -0.0, math.nan, math.inf, 1e-310, 0.1, rnd.gauss(0, 1)) for form in written(number)
    ]
    forms += [b"\xd3" + rnd.randbytes(8) for _ in range(200)] + [b"\xcf" + rnd.randbytes(8) for _ in range(200)]
    forms += [b"\xcb" + rnd.randbytes(8) for _ in range(200)] + [b"\xca" + rnd.randbytes(4) for _ in range(200)]
    source = LISTED.model_copy(update={"max_abs": 1e300, "missing": "hold", "dim": 2})
    values = [b"\x82\xa1x\x92" + form + b"\xc3" + b"\xa2ts" + b"\xcb" + struct.pack(">d", TIME) for form in forms]
    assert all(read(values, source))
    decoded = same_as_one_by_one(source, 2, values)
    expected = np.array([float(msgspec.msgpack.decode(form)) for form in forms])
    assert len(decoded.owner) > 1000 and np.array_equal(decoded.X[:, 0], expected[decoded.owner], equal_nan=True)
    times = [b"\x82\xa1x\x92\x01\x02\xa2ts" + form for form in forms]
    assert sum(read(times, source)) > 500
    same_as_one_by_one(source, 2, times)


BAD_TIME = b"\xd7\xff" + b"\xff" * 8
ODD = (
    *(b"", b"\xc0", b"\x90", b"\x80", b"\xc1", b"\xde", b"\xdf\xff\xff\xff\xff", pack([1]), pack("x"), pack(body())[:-1]),
    *(pack(body()) + b"\xc0", pack(body()) * 2, b"\x91" * 5000, b"\x81\xa1a" * 5000, b"\x82\xc4\x01a\x01\x01\x02"),
    *(b"\x81\xa1" + inner for inner in (b"a", b"a\xc1", b"a\xdd\xff\xff\xff\xff", b"a\xc6\xff\xff\xff\xff")),
    *(pack(body(**{name: one})) for name in ("x", "ax", "ts", "d", "s", "flat", "m", "label") for one in (
        *(None, True, 7, -1, 2**64 - 1, 0.5, math.nan, "ü", "x" * 300, "", b"", b"12345678", [], {}, [1], [1, 2, 3]),
        *([True, 0.5], [2**64 - 1, -(2**63)]),
        *([1, [2]], [1, None], {"l": None}, {"l": 3}, {"l": "ü"}, {"t": 1}, [{"name": "up"}], [7, {"name": "up", "v": 1}]),
        *([{"name": "up", "v": 1}] * 2, [{"name": 7, "w": {"v": 1}}], [{"name": None}, {}], {"accel": {"x": None}}),
    )),
    *(pack(body(**{name: one})) for name in ("dtype", "m.l", "d.t", "d.accel.x") for one in ("f8", 3, None)),
    *(pack(body(**{name: msgspec.msgpack.Ext(5, b"12")})) for name in ("a", "s", "x")),
    *(pack(body(a=0))[:-1] + tail for tail in (
        *(b"\xa1\xff", b"\xd9\xff", b"\xd6\xff1234", b"\xd6\xff123", BAD_TIME, b"\xc7\x0c\xff" + b"\xff" * 12),
        *(b"\x81\x01\x02", b"\x81\x90\x02", b"\x81\xa1\xff\x02", b"\x91" * 62 + b"\x01", b"\x91" * 2000 + b"\x01"),
    )),
    *(b"\x82" + pack("d") + pack(body()["d"])[:-1] + tail + pack("flat") + b"\x01" for tail in (BAD_TIME, b"\xc1")),
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("every", [1, 9])
def test_odd_records_are_what_they_are_one_by_one(source: SourceSection, every: int) -> None:
    """every: one record of so many is odd; with more than an eighth, the rest of a batch goes one by one."""
    good = pack(body())
    values = [one for odd in ODD for one in (*[good] * (every - 1), odd)]
    decoded = same_as_one_by_one(source, source.width, values)
    assert len(decoded.errors) > 50 and len(decoded.X) > len(ODD) * (every - 1)


def twice(name: str, one: Any) -> bytes:
    """A record with a field that it has a second time."""
    value = pack(body())
    return bytes([value[0] + 1]) + value[1:] + pack(name) + pack(one)


@pytest.mark.parametrize("source", SOURCES)
def test_a_field_that_comes_twice_is_what_it_is_one_by_one(source: SourceSection) -> None:
    values = [twice(name, one) for name, one in body().items()] + [twice("x", [0, 0]), twice("flat", "x"), twice("no", 1)]
    same_as_one_by_one(source, source.width, values)
    for name in (source.time or "", source.label or ""):
        top = path_of(name).top
        assert read([pack(body()), twice(top, body()[top])], source) == [True, False]


@pytest.mark.parametrize("source", SOURCES)
def test_a_record_cut_or_changed_anywhere_reads_nothing_behind_it(source: SourceSection) -> None:
    good, rnd = pack(body()), Random(4)
    assert not any(read([good[:at]], source)[0] for at in range(len(good)))
    cut = [good[:at] for at in range(1, len(good))] + [bent(good, rnd) for _ in range(400)]
    for at in range(0, len(cut), 7):
        same_as_one_by_one(source, source.width, [cut[at], good, *cut[at + 1 : at + 7], good])


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_many_names_that_begin_alike_come_in_any_order(form: str) -> None:
    rnd, n = Random(5), 40
    stems = ["a" * size for size in range(1, n)] + ["a" * size + "ü" for size in range(1, n)]
    places = rnd.sample(range(2 * n), n)
    fields = [*stems, *(f"l[{place}]" for place in places), *(f"s[name={stem}].v" for stem in stems)]
    rnd.shuffle(fields)
    source = SourceSection(topic="in", format=form, fields=fields, time="ts")
    numbers = {field: float(at) for at, field in enumerate(fields)}
    values = []
    for _ in range(20):
        by_name = [{"name": stem, "v": numbers[f"s[name={stem}].v"]} for stem in stems]
        by_name += [{"name": "b", "v": 0}, {"v": 1, "name": "aab"}]
        listed = [numbers.get(f"l[{place}]", -1.0) for place in range(3 * n)]
        record = {**{stem: numbers[stem] for stem in stems}, "ts": TIME, "l": listed, "aab": 0, "": 0, "b": 0}
        rnd.shuffle(by_name)
        record["s"] = by_name
        mixed = dict(rnd.sample(list(record.items()), len(record)))
        values.append(msgspec.json.encode(mixed) if form == "json" else pack(mixed))
    assert same_as_one_by_one(source, len(fields), values).X.tolist() == [list(numbers.values())] * 19
    x, read_rows = list(map(path_of, fields)), {"json": read_json, "msgpack": read_msgpack}[form]
    names = Names.of(x, path_of("ts"), None, listed=False)
    assert names is not None and read_rows(values, b"".join(values), names, len(fields)).read is None

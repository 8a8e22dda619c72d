"""JSON to arrays in one pass: the bits of the library's numbers, and what is left to the parsers of single records."""

import json
from random import Random

import msgspec
import numpy as np
import pytest

from streamjobs.core.decoding.at_once.json_rows import read_rows
from streamjobs.core.decoding.at_once.names import Names, Rows
from streamjobs.settings.paths import path_of
from streamjobs.settings.source import SourceSection
from tests.core.one_by_one import DEEP, same_as_one_by_one


def names_of(*x: str, listed: bool = False, label: str = "label") -> Names | None:
    return Names.of(list(map(path_of, x)), path_of("ts"), path_of(label), listed=listed)


def read(values: list[bytes], names: Names | None, dim: int = 2) -> Rows:
    assert names is not None
    return read_rows(values, b"".join(values), names, dim)


NAMED, LISTED = names_of("ax", "β"), names_of("x", listed=True)


def rows(*texts: str, names: Names | None = LISTED, dim: int = 2) -> Rows | None:
    """None if any of the texts needs another parser."""
    made = read([text.encode() for text in texts], names, dim)
    return made if made.read is None else None


def numbers(rnd: Random) -> str:
    """One of the many ways to write a number."""
    digits, point = str(rnd.getrandbits(rnd.choice((4, 24, 53, 60, 63)))), rnd.randint(0, 19)
    return rnd.choice(
        (
            repr(round(rnd.gauss(0, 1), 6)),
            repr(rnd.gauss(0, 1)),
            repr(rnd.random() * 10.0 ** rnd.randint(-30, 25)),
            digits,
            f"-{digits}.{point}e{rnd.randint(-40, 20)}",
            f"0.{'0' * rnd.randint(0, 20)}{digits[:17]}E+{point}",
            str((1 << 53) + rnd.randint(0, 99)),  # ties between two numbers
            f"{(1 << 54) + 2 * rnd.randint(0, 99)}.0",
            f"{(1 << 53) + 1}e-{rnd.randint(0, 4)}",
            rnd.choice(("0", "0.0", "-0.0", "0e9", "1e22", "1e23", "-8.5e-23", "9999999999999999999.0", "1e-60")),
        )
    )


def test_numbers_have_the_bits_that_the_library_gives_them() -> None:
    rnd, accepted, count = Random(1), 0, 40_000
    decode = msgspec.json.Decoder(list[float]).decode
    for _ in range(count):
        text = numbers(rnd)
        made = rows(f'{{"x":[{text}],"ts":{text}}}', dim=1)
        if made is not None:
            accepted += 1
            (expected,) = decode(f"[{text}]")
            assert made.X.tobytes() == made.times.tobytes() == np.array([expected]).tobytes(), text
    assert accepted > 0.9 * count


def test_fields_come_in_any_order_with_others_between_them() -> None:
    texts = (
        '{"x":[1,2],"label":"up","ts":3}',
        ' { "ts" : 4 ,\n"n":"a}b","x" : [ 1.5 ,\t-2 ] , "m":-1e3 } \r\n',
        '{"label":"ü","ts":0.5,"x":[0,0]}',
        '{"ok":true,"x":[3,4],"no":false,"ts":1,"n":null,"\x7fü":"K\\u00fchl\\n \\"ü\\\\","label":null}',
    )
    made = rows(*texts)
    assert made is not None
    assert made.X.tolist() == [[1, 2], [1.5, -2], [0, 0], [3, 4]]
    assert made.times.tolist() == [3, 4, 0.5, 1]
    joined = "".join(texts).encode()
    assert [joined[begin:end].decode() for begin, end in made.labels[:, :2].tolist()] == ['"up"', "", '"ü"', ""]
    made = rows('{"β":2,"ax":1,"ts":3}', names=NAMED)
    assert made is not None and made.X.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "text",
    [
        *('{"x":[1],"ts":3}', '{"x":[1,2,3],"ts":3}', '{"x":[1,2]}', '{"ts":3}', '{"x":1,"ts":3}', '{"x":[],"ts":3}'),
        *('{"x":[1,2],"ts":3}}', '{"x":[1,2],"ts":3', '{"x":[1,2],"ts":3,}', "{}", "}", " ", "[1]", '{"x":[1,2] "ts":3}'),
        *('{"x":[1,2],"x":[1,2],"ts":3}', '{"x":[1,2],"ts":3,"ts":3}', '{"x":[01,2],"ts":3}', '{"x":[1.,2],"ts":3}'),
        *('{"x":[+1,2],"ts":3}', '{"x":[.5,2],"ts":3}', '{"x":[1e,2],"ts":3}', '{"x":[1e+,2],"ts":3}', '{"x":[-,2],"ts":3}'),
        *('{"x":[null,2],"ts":3}', '{"x":[true,2],"ts":3}', '{"x":[-0,2],"ts":3}', '{"x":[1e400,2],"ts":3}'),
        *('{"x":[1,2],"ts":3,"label":1}', '{"x":[1,2],"ts":3,"label":true}', '{"x":[1,2],"ts":3,"label":"\\ud83d"}'),
        *('{"x":[1,2],"ts":null}', '{"x":null,"ts":3}', '{"x":[1,2],"ts":3,"n":nul}', '{"x":[1,2],"ts":3,"n":nulll}'),
        *('{"x":[1,2],"ts":3,"n":"\\a"}', '{"x":[1,2],"ts":3,"n":"\\u00e"}', '{"x":[1,2],"ts":3,"n":"\\ud83d"}'),
        *('{"x":[1,2],"ts":3,"n":"\\u}', '{"x":[1,2],"ts":3,"n":"\\}', '{"x":[1,2],"ts":3,"n":"\\"}'),
        *(
            '{"x":[1,2],"ts":3,"label":"a}',
            '{"x":[1,2],"ts":3,"n":{}',
            '{"x":[1,2],"t\\u0073":3}',
        ),
        *('{"x":[18446744073709551616,2],"ts":3}', '{"x":[9223372036854775808,2],"ts":3}', '{"x":[1,2],"ts":3,"label'),
        *(f'{{"x":[1{"0" * 64}.25,2],"ts":3}}', f'{{"x":[1{"0" * 64},2],"ts":3}}', f'{{"x":[1{"0" * 64}e1,2],"ts":3}}'),
        *('{"x":[1,2],"ts":"3"}', '{"x":[1,2],"ts":3,"n":tru}', '{"x":[1,2],"ts":3}{"x":[1,2],"ts":3}', "\x00}", '"}'),
    ],
)
def test_anything_else_is_left_to_the_parsers_of_single_records(text: str) -> None:
    good = '{"x":[1,2],"ts":3}'
    assert rows(text) is None
    assert rows(good, text) is None
    assert rows(text, good) is None
    assert rows(good, good) is not None


NESTED = (
    *(
        "{}",
        "[]",
        "[ ]",
        '{"a":{}}',
        "[[],[]]",
        '[1,"]",{"b":[true,null,-1.5e3]},"\\u00fc"]',
        '{ "a" : [ 1 , 2 ] , "b" : "}" }',
    ),
    *("[" * 60 + "]" * 60, '{"a":' * 60 + "1" + "}" * 60),
)
BROKEN = (
    *("{", "[", "]", "}", "[}", "{]", "[1,]", "[,1]", "[1 2]", '{"a"}', '{"a":}', '{"a":1,}', '{"a" 1}', "{1:2}", "{a:1}"),
    *('{"a":1]', "[1}", "[[]", "[]]", '{"a":[}', '["a]', '{"a":tru}', "[01]", "[1.]", "[+1]", "[\x01]", '["\x01"]', "[nul]"),
    *("[" * 61 + "]" * 61, "[-]", "[.5]", '{"\\x":1}', "[1]]", "1]", "", ",", '""'[:1]),
)


@pytest.mark.parametrize("value", NESTED)
def test_fields_that_no_field_of_the_job_names_may_hold_anything(value: str) -> None:
    made = rows(f'{{"n":{value},"x":[1,2],"m": {value} ,"ts":3,"o":{value}}}', '{"x":[3,4],"ts":3}')
    assert made is not None and made.X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("value", BROKEN)
def test_what_is_no_json_is_left_to_the_parsers_of_single_records(value: str) -> None:
    for text in (
        f'{{"x":[1,2],"ts":3,"n":{value}}}',
        f'{{"x":[1,2],"ts":3,"n":{value}',
        f'{{"n":{value},"x":[1,2],"ts":3}}',
    ):
        assert rows(text) is None


def test_a_record_cut_anywhere_reads_nothing_behind_it() -> None:
    text = '{"x":[1,2],"ts":3,"n":{"a":["\\u00e9",{"b":[true,null]}],"c":-1.5e3},"label":"up","m":[[{}]]}'
    for at in range(1, len(text)):
        assert rows(text[:at]) is None, at
        closed = rows(text[:at] + "}")
        assert closed is None or msgspec.json.decode(text[:at] + "}")["x"] == [1, 2] == closed.X[0].tolist()
        assert rows(text[:at], text[at:]) is None


def test_texts_that_are_not_utf_8_are_left_to_the_parsers_of_single_records() -> None:
    for field in (b"label", b"n"):
        value = b'{"x":[1,2],"ts":3,"' + field + b'":"\xff"}'
        good = b'{"x":[1,2],"ts":3,"label":"\xc3\xbc"}'
        assert read([good, value, good], LISTED).read.tolist() == [True, False, True]


@pytest.mark.parametrize("label", ["up", "", "ü", 'Kühl "1"\n', "x" * 300, None])
def test_a_batch_and_its_records_one_by_one_give_the_same(label: str | None) -> None:
    rnd, values = Random(2), []
    for offset in range(50):
        body: dict[str, object] = {"x": [rnd.gauss(0, 1), offset, 1 / (offset + 1)], "ts": 1.7e9 + offset}
        if label is not None:
            body["label"] = label
        values.append(json.dumps(body).encode() if offset % 2 else msgspec.json.encode(body))  # with escapes and without
    source = SourceSection(topic="in", dim=3, time="ts", label="label")
    assert len(same_as_one_by_one(source, 3, values).X) == (0 if label == "x" * 300 else 49)


ODD = (
    *(
        None,
        b"",
        b"{",
        b"\xff",
        b'{"x":[1,2],"ts":1.7e9,"label":"\xff"}',
        b'{"x":[1],"ts":1.7e9}',
        b'{"x":[NaN,2],"ts":1.7e9}',
    ),
    *(b'{"x":[[1,2],[3,4]],"ts":[1.7e9,1700000001]}', b'{"x":[1e300,2],"ts":1.7e9}', b'{"x":[1,2],"ts":1.7e30}'),
    *(b'{"x":[1,2],"ts":"2023-11-14T22:13:20Z"}', b'{"x":[1,2],"ts":1.7e9,"label":7}', b'{"\\u0078":[1,2],"ts":1.7e9}'),
    *(b'{"x":[1,true],"ts":1.7e9,"label":[1]}', b'{"x":[1,2],"ts":1.7e9,"label":"' + b"l" * 300 + b'"}', b" " * 200 + b"{}"),
)


@pytest.mark.parametrize("every", [1, 4, 10])
def test_odd_records_change_nothing_of_those_around_them(every: int) -> None:
    """every: one record of so many is odd; with more than an eighth, the rest of a batch goes one by one."""
    source = SourceSection(topic="in", dim=2, time="ts", label="label", max_bytes=350)
    values: list[bytes | None] = []
    for at, odd in enumerate(ODD * 2):
        values += [b'{"x":[%d,-1.5],"ts":%d,"label":"l%d"}' % (n, 1_700_000_000 + at, n % 3) for n in range(every - 1)] + [
            odd
        ]
    assert len(same_as_one_by_one(source, 2, values).errors) >= 20


DEEP_SOURCE = SourceSection(topic="in", fields=DEEP, time="d.t", label="m.l")


def deep(**changes: str) -> bytes:
    """A record of DEEP_SOURCE with parts of its text changed."""
    parts = {
        "d": '{"t":1700000000.25,"accel":{"x":1,"y":[{}]},"list":[{"v":2},"]",[0,3,{}],4]}',
        "s": '[{"name":"down","v":0},{"v":4,"name":"up"},{"name":7,"w":{"v":5},"n":"a]"},{"name":"up","v":9}]',
        "flat": "6",
        "m": '{"l":"walk"}',
    } | changes
    return ("{" + ",".join(f'"{name}":{text}' for name, text in parts.items() if text) + "}").encode()


CHANGES: tuple[dict[str, str], ...] = (
    *({"m": ""}, {"m": "{}"}, {"m": "7"}, {"m": '{"l":null}'}, {"m": '{"l":"a","l":"b"}'}, {"m": '{"n":{"l":"no"}}'}),
    *({"m": "", "m.l": '"literal"'}, {"m.l": '"literal"'}, {"flat": ""}, {"flat": "", '"flat': "6"}, {"flat": '6,"flat":7'}),
    *(
        {"flat": "null"},
        {"flat": "true"},
        {"flat": "6}"},
        {"flat": '6,"m":{"l":"twice"}'},
        {"d": "{}"},
        {"d": "[]"},
        {"d": "null"},
    ),
    *(
        {"d": "", "d.accel.x": "1"},
        {"d.accel.x": "8"},
        {"s": "[]"},
        {"s": "{}"},
        {"s": '[{"name":"up","v":4}]'},
        {"s": "[1]"},
    ),
    *({"s": f"[{{{chosen}}}]"} for chosen in ('"name":"up","v":4,"name":"down"', '"v":4,"n\\u0061me":"up"', "")),
    *(
        {"s": f'[{first},{{"name":"up","v":4}},{second}]'}
        for first in (
            '{"name":"x","v":1}',
            "{}",
            "7",
            "[]",
            '{"name":null}',
            '{"name":"a","name":"up","v":8}',
            '{"name":"\\u0075p"}',
        )
        for second in (
            *('{"name":7,"w":{"v":5}}', '{"name":"7","w":{"v":5}}', '{"w":{"v":5},"name":7}', '{"name":7.0,"w":{"v":5}}'),
            *('{"name":07,"w":{"v":5}}', '{"name":7e0,"w":{"v":5}}', '{"name":7,"w":5}', '{"name":7,"w":{}}', '{"name":7,}'),
            *('{"name":7,"w":{"v":5}', '{"name":7,"w":{"v":5}}]', '{"name":7 "w":{"v":5}}', '{"name":7,"w":{"v":5,"v":6}}'),
        )
    ),
    *(
        {"d": f'{{"t":1700000000,"accel":{accel},"list":{listed}}}'}
        for accel in (
            '{"x":1}',
            '{"x":1,"x":2}',
            '{"x":1},"accel":{"x":2}',
            '{"x":1,}',
            '{"x" 1}',
            '{"x":1',
            "{}",
            "[1]",
            ' { "x" : 1 } ',
        )
        for listed in (
            '[{"v":2},0,[0,3]]',
            '[{"v":2},0,[0,3],]',
            '[{"v":2},0]',
            '[{"v":2},0,[0]]',
            '{"0":1}',
            '[{"v":2} 0,[0,3]]',
        )
    ),
)


@pytest.mark.parametrize("source", [DEEP_SOURCE, DEEP_SOURCE.model_copy(update={"missing": "hold", "numbers": "lenient"})])
def test_paths_into_objects_and_lists_give_what_they_give_one_by_one(source: SourceSection) -> None:
    assert same_as_one_by_one(source, 6, [deep()]).X.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert len(set(map(str, CHANGES))) > 150
    for changes in CHANGES:
        same_as_one_by_one(source, 6, [deep(), deep(**changes), deep()] * 3)


def test_paths_that_the_job_means_are_read_at_once() -> None:
    names = Names.of(list(map(path_of, DEEP)), path_of("d.t"), path_of("m.l"), listed=False)
    good = [deep(), deep(m=""), deep(flat="6 "), deep(extra='{"d":{"accel":[]}}')]
    made = read([*good, deep(flat='""'), *good], names, 6)
    assert made.read.tolist() == [True] * 4 + [False] + [True] * 4
    assert made.X[made.read].tolist() == [[1, 2, 3, 4, 5, 6]] * 8
    assert read([b'{"a":{"b":[7,8]},"ts":3}'], names_of("a.b", listed=True)).X.tolist() == [[7, 8]]


@pytest.mark.parametrize(
    "x", [("a", "a.b"), ("a.b", "a"), ("a[0]", "a.b"), ("a[n=1].v", "a[m=1].v"), ("a[n=1].v", "a[0].v"), ("a", "a")]
)
def test_paths_that_contradict_each_other_are_left_to_the_parsers_of_single_records(x: tuple[str, str]) -> None:
    assert names_of(*x) is None
    assert names_of("a.b", '"m.l"', label="m.l") is None  # its value may be the label


def test_a_record_with_paths_cut_anywhere_reads_nothing_behind_it() -> None:
    text = deep()
    for at in range(1, len(text)):
        same_as_one_by_one(DEEP_SOURCE, 6, [text[:at], deep(), deep()])
        same_as_one_by_one(DEEP_SOURCE, 6, [text[:at] + b"}", text[at:], deep()])

"""JSON to arrays in one pass: the bits of the library's numbers, and what is left to the parsers of single records."""

import json
from random import Random

import msgspec
import numpy as np
import pytest

from streamjobs.core.decoding.json_rows import Names, Rows, read_rows
from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import Stored
from streamjobs.settings.source import SourceSection

NAMED = Names.of(["ax", "β"], "ts", "label", listed=False)
LISTED = Names.of(["x"], "ts", "label", listed=True)


def rows(*texts: str, names: Names = LISTED, dim: int = 2) -> Rows | None:
    values = [text.encode() for text in texts]
    return read_rows(values, b"".join(values), names, dim)


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
    rnd, read, count = Random(1), 0, 40_000
    decode = msgspec.json.Decoder(list[float]).decode
    for _ in range(count):
        text = numbers(rnd)
        made = rows(f'{{"x":[{text}],"ts":{text}}}', dim=1)
        if made is not None:
            read += 1
            (expected,) = decode(f"[{text}]")
            assert made.X.tobytes() == made.times.tobytes() == np.array([expected]).tobytes(), text
    assert read > 0.9 * count


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
    assert [joined[begin:end].decode() for begin, end in made.labels.tolist()] == ['"up"', "", '"ü"', ""]
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
        assert read_rows([value], value, LISTED, 2) is None


@pytest.mark.parametrize("label", ["up", "", "ü", 'Kühl "1"\n', "x" * 300, None])
def test_a_batch_and_its_records_one_by_one_give_the_same(label: str | None) -> None:
    rnd = Random(2)
    decode = decoder(SourceSection(topic="in", dim=3, time="ts", label="label"), 3)
    records = []
    for offset in range(50):
        body: dict[str, object] = {"x": [rnd.gauss(0, 1), offset, 1 / (offset + 1)], "ts": 1.7e9 + offset}
        if label is not None:
            body["label"] = label
        value = json.dumps(body).encode() if offset % 2 else msgspec.json.encode(body)  # with escapes and without
        records.append(Stored("in", 0, offset, 1_700_000_000_000 + offset, b"k", value))
    escaped = Stored("in", 0, 50, 1_700_000_000_000, b"k", b'{"\\u006e":0,"x":[1,2,3],"ts":1700000000}')
    batch, single = decode(records), decode([*records, escaped])
    assert batch.X.tobytes() == single.X[: len(batch.X)].tobytes()
    assert batch.times.tobytes() == single.times[: len(batch.times)].tobytes()
    assert batch.labels == single.labels[: len(batch.labels)]
    assert [(at, str(error)) for at, error in batch.errors] == [(at, str(error)) for at, error in single.errors]
    assert len(batch.X) == (0 if label == "x" * 300 else 50)

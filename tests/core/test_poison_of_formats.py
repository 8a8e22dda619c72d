"""Poison in every format: a reason that names the field. NaN in JSON is what null is, where numbers may be missing."""

import math
from pathlib import Path
from typing import Any

import pytest

from streamjobs.core.decoding.loading import without_nan
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.messages import Stored
from streamjobs.job_files import core_from
from streamjobs.settings.load import composition_from
from tests.core.values import ID
from tests.core.written_formats import FORMATS, SECTIONS, row
from tests.schema_registry.writers import NOW

OF_JSON = ("json", "gzip of json", "CloudEvents, binary", "CloudEvents, structured", "sensors", "JSON after a schema id")
WITHOUT_TYPES = (*OF_JSON, "msgpack")  # a value may be of any type
ANYWHERE = {
    "a number that is missing": ({"rpm": None}, "missing_field: expected a number in field 'rpm'"),
    "NaN": ({"rpm": math.nan}, "not_finite: expected 3 finite features, got NaN at index 1 (rpm)"),
    "infinity": ({"temp": math.inf}, "not_finite: expected 3 finite features, got infinity at index 0 (temp)"),
    "a number beyond max_abs": ({"rpm": 1e12}, "got a larger one at index 1 (rpm)"),
    "a time before 1970": ({"at": -5}, "bad_time: expected a time from 1970 to 9999, got -0.005 s"),
    "a time of tomorrow": ({"at": NOW + 86_400_000}, "future: expected an event time at most 60 s after"),
}
OF_TIME = ("a time before 1970", "a time of tomorrow")
OF_TYPES = {
    "a text": ({"temp": "hot"}, "wrong_value: expected a number in field 'temp', got a text"),
    "an object": ({"rpm": {"a": 1}}, "wrong_value: expected a number in field 'rpm', got an object"),
    "another time": ({"at": "noon"}, "in field 'at', got another text"),
    "another label": ({"doing": {"a": 1}}, "field 'doing'"),
}


def decode(name: str, folder: Path, missing: str, changes: dict[str, Any]) -> Decoded:
    """A record of a format, made of a reading with changes."""
    one = FORMATS[name]
    source = {setting: value for setting, value in one.source(missing, folder).items() if value is not None}
    registry = {"registry": {"url": "http://localhost:1"}} if one.schema is not None else {}
    core = core_from(composition_from({"source": {"topic": "plant", **source}, **registry, **one.sections()}))
    if one.schema is not None:
        assert core.job.schemas is not None and not core.job.schemas.add(ID, one.schema)
    return core.job.decode([Stored("plant", 0, 5, NOW, b"p", *one.write({**row(1), **changes}))])


def told(made: Decoded) -> str:
    ((_, error),) = made.errors
    assert not len(made.owner) and str(error).startswith("topic plant[0] offset 5: ")
    return f"{error.reason}: {str(error).partition(': ')[2]}"


def cases() -> list[Any]:
    found = []
    for name in FORMATS:
        kinds = ANYWHERE | (OF_TYPES if name in WITHOUT_TYPES else {})
        for kind, (changes, words) in kinds.items():
            if name == "raw" and (kind in OF_TIME or kind == "a number that is missing"):
                continue  # times are in headers, and a place is never empty
            if name == "sensors":
                words = words.replace("(rpm)", "(engine.rpm)")
            if name in OF_JSON and kind in ("NaN", "infinity"):
                words = "got NaN or infinity, which JSON does not have; write null"
            found.append(pytest.param(name, changes, words, id=f"{name}: {kind}"))
    return found


@pytest.mark.parametrize(("name", "changes", "words"), cases())
def test_poison_is_a_dead_letter_that_names_the_field(
    tmp_path: Path, name: str, changes: dict[str, Any], words: str
) -> None:
    said = told(decode(name, tmp_path, "dlq", changes))
    assert words in said and ("field 'at'" in said or "at" not in changes)
    assert "hot" not in said and "noon" not in said


@pytest.mark.parametrize("name", OF_JSON)
def test_nan_in_json_is_a_number_that_is_missing(tmp_path: Path, name: str) -> None:
    of_nan, of_null = (decode(name, tmp_path, "skip", {"rpm": number}) for number in (math.nan, None))
    assert not of_nan.errors and of_nan.X.tobytes() == of_null.X.tobytes()
    assert (of_nan.labels, of_nan.times.tolist(), of_nan.skipped) == (
        of_null.labels,
        of_null.times.tolist(),
        of_null.skipped,
    )
    assert "write null" in told(decode(name, tmp_path, "skip", {"rpm": -math.inf}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"a": NaN, "b": [NaN,1.5,NaN]}', b'{"a": null, "b": [null,1.5,null]}'),
        (b'{"NaN": "NaN, \\"NaN\\" \\\\", "b":NaN}', b'{"NaN": "NaN, \\"NaN\\" \\\\", "b":null}'),
        (b'{"a": "NaN', b'{"a": "NaN'),
        (b'{"a": -Infinity, "b": Name, "c": NaN}', b'{"a": -Infinity, "b": Name, "c": null}'),
        (b'{"a": 1}', b'{"a": 1}'),
    ],
)
def test_texts_that_hold_nan_stay(value: bytes, expected: bytes) -> None:
    assert without_nan(value) == expected


@pytest.mark.parametrize(
    ("value", "header", "words"),
    [
        (b"21.5,1500,3", (), "malformed: expected 24 bytes for its shape, got 11"),
        (b'{"temp":21.5,"rpm":1500}', (), "out_of_range: expected features within +-1e+09, got a larger one at index 2"),
        (bytes(24), (("streamjobs-time", b"noon"),), "expected a number in the header streamjobs-time"),
    ],
    ids=["numbers as text", "text of the right length", "a time in words"],
)
def test_text_in_place_of_raw_numbers_is_a_dead_letter(value: bytes, header: tuple[Any, ...], words: str) -> None:
    core = core_from(composition_from({"source": {"topic": "plant", "format": "raw", "dim": 3}, **SECTIONS}))
    shape = (("streamjobs-shape", b"3"), ("streamjobs-dtype", b"f8"))
    assert words in told(core.job.decode([Stored("plant", 0, 5, NOW, b"p", value, (*shape, *header))]))

"""Files that fuzzing found to end `replay` with a traceback, or to reserve far more memory than they have bytes."""

import io
import tracemalloc
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from streamjobs.errors import ConfigError
from streamjobs.recordings.files import records_of, rows_of
from streamjobs.recordings.tables import How
from streamjobs.settings.source import SourceSection

WIDE = 9 * 10**19  # beyond 64 bits
HUGE = 10**400  # beyond a float


def source(**own: Any) -> SourceSection:
    return SourceSection(**{"topic": "in", "fields": ["x"], "time": "ts", **own})


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


PLAIN = npy(np.arange(6.0).reshape(2, 3))
ARRAYS = {
    "no array at all": b"not an array",
    "a header that does not end": PLAIN.replace(b"}", b"("),
    "a header of another kind": PLAIN.replace(b"{'descr'", b"['descr'"),
    "more numbers than there are": PLAIN.replace(b"(2, 3), }", b"(9**9,)} "),
    "a shape below 0": PLAIN.replace(b"(2, 3)", b"(2,-3)"),
    "characters that are none": npy(np.array(["ab"])).replace(b"b\0\0\0", b"b\0\0\x7f"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_damaged_array_of_an_npz_file_is_one_sentence(tmp_path: Path, kind: str) -> None:
    path = npz(tmp_path / "a.npz", X=ARRAYS[kind])
    with pytest.raises(ConfigError, match=r"a\.npz: expected an npz archive of plain arrays; it is damaged"):
        list(rows_of(path))


def test_arrays_with_objects_or_other_lengths_are_named_with_what_to_do(tmp_path: Path) -> None:
    path, said = tmp_path / "a.npz", list[str]()
    np.savez(path, who=np.array(["p1", "p2"], object), a=np.arange(2.0))
    with pytest.raises(ConfigError, match=r"array 'who' has objects of Python; save it as .*, such as who\.astype\(str\)"):
        list(rows_of(path))
    np.savez(path, a=np.arange(3.0), b=np.arange(3.0), first=np.arange(2.0), rate=50.0)
    rows = list(rows_of(path, How(tell=lambda where, what: said.append(what))))
    assert rows[0] == {"a": 0.0, "b": 0.0} and said == ["array 'first' is left out: it has 2 rows, and others 3"]


def test_a_header_of_an_array_reserves_no_memory_for_numbers_that_are_not_there(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", X=PLAIN.replace(b"(2, 3), }", b"(9*10**6,)}").replace(b"9*10**6", b"9000000"))
    tracemalloc.start()
    with pytest.raises(ConfigError):
        list(rows_of(path))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 9_000_000


@pytest.mark.parametrize("X", [np.array(7.0), np.arange(3.0), np.zeros((2, 3, 4))], ids=["a number", "a row", "a cube"])
def test_an_x_that_is_no_table_is_a_column(tmp_path: Path, X: Any) -> None:
    names = npy(np.array(["a", "b", "c"]))
    rows = list(rows_of(npz(tmp_path / "a.npz", X=npy(X), columns=names)))
    assert [list(row) for row in rows] == [["x"]] * (X.ndim and len(X))


def test_a_small_file_reserves_little_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", b'[{"x": 1}]')
    tracemalloc.start()
    rows = list(rows_of(path))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == [{"x": 1}] and most < 32 << 20


@pytest.mark.parametrize("kind", [pyarrow.timestamp("us"), pyarrow.duration("s"), pyarrow.date32()])
def test_times_of_parquet_that_no_calendar_has_are_one_sentence(tmp_path: Path, kind: pyarrow.DataType) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"t": pyarrow.array([2**31 - 1 if kind == pyarrow.date32() else 2**62], kind)}), path)
    with pytest.raises(ConfigError, match="expected Parquet; it is damaged, or something else"):
        list(rows_of(path))


def test_decimals_and_dates_of_parquet_are_numbers_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    bar = pyarrow.array([Decimal("5.125"), None], pyarrow.decimal128(10, 3))
    parquet.write_table(pyarrow.table({"bar": bar, "day": pyarrow.array([20_000, 20_001], pyarrow.date32())}), path)
    assert list(rows_of(path)) == [{"bar": 5.125, "day": "2024-10-04"}, {"bar": None, "day": "2024-10-05"}]


def test_a_damaged_parquet_file_is_one_sentence_without_pyarrows_own(tmp_path: Path) -> None:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.table({"x": [1.0, 2.0]}), stream)
    data = bytearray(stream.getvalue())
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[begin : begin + 20] = b"\xff" * 20  # of the description at its end
    with pytest.raises(ConfigError) as told:
        list(rows_of(written(tmp_path / "a.parquet", bytes(data))))
    assert str(told.value).endswith("expected Parquet; it is damaged, or something else.")


@pytest.mark.parametrize("time", ["inf", "NaN", "1e300", "9" * 60])
def test_a_time_in_an_export_that_is_none_is_reported_with_its_row(tmp_path: Path, time: str) -> None:
    folder = tmp_path / "walk"
    folder.mkdir()
    written(folder / "Accelerometer.csv", f"time,x\n1,2\n{time},3\n")
    written(folder / "Metadata.csv", "version\n3\n")
    with pytest.raises(ConfigError, match=r"Accelerometer\.csv row 2: expected a number in the column 'time'"):
        list(rows_of(folder))


def test_an_encrypted_array_is_one_sentence(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", X=PLAIN)
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    data[directory + 8] |= 1  # a flag: encrypted
    data[6] |= 1
    with pytest.raises(ConfigError, match=r"a\.npz: expected an npz archive of plain arrays; it is damaged"):
        list(rows_of(written(path, bytes(data))))


def test_a_member_of_an_archive_without_a_name_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zz", b"x")
        archive.writestr("b.jsonl", b'{"x": 1}')
    written(path, path.read_bytes().replace(b"zz", b"\0z"))
    assert list(rows_of(path)) == [{"x": 1}]


def test_names_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a list of objects"):
        list(rows_of(written(tmp_path / "a.cbor", cbor2.dumps([{7: 1.0}]))))


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_whole_number_beyond_64_bits_becomes_the_nearest_float(tmp_path: Path, form: str) -> None:
    path = written(tmp_path / "a.csv", f"k,ts,x\np,7,{WIDE}\np,8,{-WIDE}\np,{WIDE},1\n")
    records = list(records_of(path, source(format=form), "k"))
    decode = msgspec.json.decode if form == "json" else msgspec.msgpack.decode
    assert [decode(one.value or b"")["x"] for one in records] == [float(WIDE), -float(WIDE), 1]
    assert [one.timestamp for one in records[:2]] == [7000, 8000]


def test_a_number_that_no_float_holds_is_no_time_and_no_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.cbor", cbor2.dumps([{"k": "p", "ts": HUGE, "x": [HUGE]}]))
    (record,) = records_of(path, source(format="msgpack"), "k")
    assert (record.timestamp, record.offset) == (0, 0)
    assert msgspec.msgpack.decode(record.value or b"") == {"ts": hex(HUGE), "x": [hex(HUGE)]}


def test_what_no_record_can_hold_is_reported_with_its_row(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", x=npy(np.array([1 + 2j, 0])), ts=npy(np.arange(2.0)), k=npy(np.array(["p", "p"])))
    with pytest.raises(ConfigError, match=r"a\.npz row 1: expected numbers, texts, lists and objects; .*complex"):
        list(records_of(path, source(), "k"))


def test_a_key_in_bytes_is_the_key_and_half_a_character_is_none(tmp_path: Path) -> None:
    keys = {"k": npy(np.array([b"p7", b"\xff"])), "half": npy(np.array(["\ud800", "b"]))}
    path = npz(tmp_path / "a.npz", x=npy(np.arange(2.0)), ts=npy(np.arange(2.0)), **keys)
    assert [one.key for one in records_of(path, source(), "k")] == [b"p7", b"\xff"]
    assert [one.key for one in records_of(path, source(), "half")] == [None, b"b"]


def test_a_line_with_infinity_keeps_its_key(tmp_path):
    lines = '{"key": "p7", "ts": 1, "x": -Infinity, "y": NaN}\n{"key": "p7", "ts": 2, "x": 1}\n'
    path = written(tmp_path / "a.jsonl", lines)
    assert [record.key for record in records_of(path, source(), "key")] == [b"p7", b"p7"]

"""What a small file may unpack to: limits in one sentence, and the environment variables that raise them."""

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamjobs.errors import ConfigError
from streamjobs.recordings.files import recordings_of, rows_of

MB = 1 << 20


def packed(data: bytes) -> bytes:
    return gzip.compress(data)


def arrays() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((1000, 500)))
    return stream.getvalue()


def archived(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", data)
    return stream.getvalue()


LARGE: dict[str, Callable[[], bytes]] = {  # files of a few KB that hold more than 1 MB at once
    "line.jsonl.gz": lambda: packed(b'{"x": "' + bytes([97]) * MB + b'"}\n'),
    "line.csv.gz": lambda: packed(b"x\n" + b"a" * MB),
    "line.zip": lambda: archived(b"x\n" + b"a" * MB),
    "whole.json.gz": lambda: packed(b"[" + b" " * MB + b"]"),
    "values.json.gz": lambda: packed(b"[{}" + b",{}" * (MB // 4) + b"]"),
    "sensors.json.gz": lambda: packed(b'[{"sensor":"a"}' + b',{"sensor":"a"}' * (MB // 10) + b"]"),
    "whole.cbor.gz": lambda: packed(b"\x80" * 2 * MB),
    "whole.sqlite.gz": lambda: packed(b"SQLite format 3\x00" + bytes(2 * MB)),
    "whole.parquet.gz": lambda: packed(b"PAR1" + bytes(2 * MB)),
    "arrays.npz": arrays,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_small_file_that_holds_much_at_once_is_refused_in_one_sentence(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMJOBS_MOST_BYTES", "1MB")
    path = tmp_path / name
    path.write_bytes(LARGE[name]())
    assert path.stat().st_size < 64 << 10
    with pytest.raises(ConfigError, match=r"expected at most .*got more; set .* STREAMJOBS_MOST_BYTES above") as raised:
        list(rows_of(path))
    assert len(raised.value.problems) == 1 and name in str(raised.value)


def test_a_variable_raises_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "arrays.npz"
    path.write_bytes(arrays())
    monkeypatch.setenv("STREAMJOBS_MOST_BYTES", "1MB")
    with pytest.raises(ConfigError):
        list(rows_of(path))
    monkeypatch.setenv("STREAMJOBS_MOST_BYTES", "8000000")
    assert sum(1 for _ in rows_of(path)) == 1000
    monkeypatch.setenv("STREAMJOBS_MOST_BYTES", "much")
    with pytest.raises(ConfigError, match="environment STREAMJOBS_MOST_BYTES: expected a number of bytes, got 'much'"):
        list(rows_of(path))


def test_a_long_file_of_short_lines_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOBS_MOST_BYTES", "64KB")
    for name, data in (("a.csv.gz", b"x\n" + b"1\n" * 300_000), ("a.jsonl.gz", b'{"x": 1}\n' * 100_000)):
        (tmp_path / name).write_bytes(packed(data))
        assert sum(row["x"] for row in rows_of(tmp_path / name)) >= 100_000


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.npz", "a.parquet"])
def test_many_columns_are_refused_in_one_sentence(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOBS_MOST_COLUMNS", "20")
    names = [f"x{n}" for n in range(21)]
    row = "{" + ", ".join(f'"{one}": 1.5' for one in names) + "}"
    texts = {"a.csv": ",".join(names) + "\n", "a.jsonl": row + "\n", "a.json": f"[{row}]"}
    path = tmp_path / name
    if name in texts:
        path.write_text(texts[name])
    elif name == "a.npz":
        np.savez(path, **{one: np.ones(3) for one in names})
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({one: [1.5] for one in names}), path)
    with pytest.raises(ConfigError, match=r"expected at most 20 columns, got more; set .* STREAMJOBS_MOST_COLUMNS above 20"):
        list(rows_of(path))
    monkeypatch.setenv("STREAMJOBS_MOST_COLUMNS", "21")
    assert all(len(row) == 21 for row in rows_of(path))


def test_the_directory_of_an_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "many.zip", list[Path]()
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(50):
            archive.writestr(f"r{number}.csv", f"x\n{number}\n")
    opened = zipfile.ZipFile._RealGetContents  # type: ignore[attr-defined]
    monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", lambda self: (read.append(path), opened(self)))
    assert [row["x"] for row in rows_of(path)] == list(range(50)) and len(read) == 1
    monkeypatch.setenv("STREAMJOBS_MOST_FILES", "49")
    with pytest.raises(ConfigError, match=r"many\.zip: expected at most 49 files, got more; set .* STREAMJOBS_MOST_FILES"):
        recordings_of(path)

"""Where recordings are: a file, the files of a folder or of a zip archive, each plain or packed with gzip.

Also the most that a command holds of a recording at once, with the environment variables that raise it: a small packed file
may unpack to any size. What is streamed, such as the lines of a file, has no limit as a whole.
"""

import gzip
import io
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.settings.types import readable, size

TABLES = (".txt", ".dat")  # in a folder only if they have columns, and no other file is a recording
KINDS = {
    ".jsonl": "a JSON object a line",
    ".ndjson": "a JSON object a line",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".npz": "an npz archive of plain arrays",
    ".json": "JSON: a list of objects, or the Edge Impulse format",
    ".cbor": "CBOR in the Edge Impulse format",
    ".sqlite": "SQLite with a table for each sensor, as Sensor Logger exports it",
    **dict.fromkeys(TABLES, "a table, as CSV or with spaces between cells"),
}
INSTEAD = {  # what to do with files that are not read
    **dict.fromkeys((".xlsx", ".xls", ".ods"), ": save the sheet as CSV"),
    ".log": ": if it has a row of names above rows of values, name it .csv; else write its lines as .csv or .jsonl first",
    **dict.fromkeys((".bz2", ".xz", ".zst", ".7z", ".tar", ".rar"), ": unpack it first"),
    **dict.fromkeys((".feather", ".h5", ".hdf5", ".orc", ".pkl"), ": save it from pandas with DataFrame.to_parquet"),
    **dict.fromkeys((".mat", ".npy"), ": save its arrays, each with a value for each row, with numpy.savez"),
}
OTHERWISE = ": write its rows as .csv, .jsonl or .parquet"
PACKED, ARCHIVE = ".gz", ".zip"
TEXT = (".jsonl", ".ndjson", ".csv", ".tsv", *TABLES)  # read line by line
COPIED = 1 << 20  # bytes at once
_PART = re.compile(r"[0-9]+|[^0-9]+")
PIECE = 64 << 10  # bytes read at once
LINE = 8  # share of the bytes that a line may have: it is held as bytes, text and values
JSON_SHARE, CONTAINER, VALUE = 4, 72, 32  # bytes of memory of an empty list or object, and of a value, in JSON


class Limit(NamedTuple):
    """`variable` of the environment replaces `usual`; it may be lower too."""

    variable: str
    usual: int
    of: str  # what is counted

    @property
    def value(self) -> int:
        text = os.environ.get(self.variable, "")
        try:
            return int(text) if text.isdecimal() else int(size(text or self.usual))
        except ValueError:
            raise ConfigError(f"environment {self.variable}: expected a number of {self.of}, got {text!r:.40}.") from None

    def require(self, where: object, got: int, what: str = "", share: int = 1) -> None:
        """Raises ConfigError where it is more than a share (1 / share) of the limit. what: is counted, if not all."""
        most = self.value // share
        if got > most:
            shown = readable(most) if self is BYTES else f"{most:,} {self.of}"
            raise ConfigError(
                f"{where}: expected at most {shown}{what}, got more; set the environment variable {self.variable} "
                f"above {self.value:,} if this machine has the memory."
            )


BYTES = Limit("STREAMJOBS_MOST_BYTES", 256 << 20, "bytes")
COLUMNS = Limit("STREAMJOBS_MOST_COLUMNS", 10_000, "columns")
FILES = Limit("STREAMJOBS_MOST_FILES", 100_000, "files")


class Bounded(io.RawIOBase):
    """The bytes of a file. Raises ConfigError where a line of them, or with `whole` all of them, pass the limit."""

    def __init__(self, file: Any, where: object, *, whole: bool) -> None:
        self._file, self._where, self._whole = file, where, whole
        self._held = 0  # bytes since the last end of a line, or since the beginning

    @property
    def position(self) -> int:
        """Bytes that were read, of a packed file those of the package."""
        return int(getattr(self._file, "fileobj", self._file).tell())

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        piece = self._file.read(min(len(into), PIECE))
        into[: len(piece)] = piece
        end = -1 if self._whole else max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        self._held = len(piece) - end - 1 if end >= 0 else self._held + len(piece)
        if self._whole:
            BYTES.require(self._where, self._held, ", because such a file is read whole")
        else:
            BYTES.require(self._where, self._held, " in a line", LINE)
        return len(piece)


def require_few_values(where: object, data: bytes) -> None:
    """Raises ConfigError where JSON would take several times the limit once it is decoded, such as many empty objects."""
    memory = CONTAINER * (data.count(b"{") + data.count(b"[")) + VALUE * data.count(b",")
    BYTES.require(where, memory // JSON_SHARE, " of values")


class Place(NamedTuple):
    """A file, or a member of a zip archive."""

    path: Path  # of the file, or of the archive
    member: str | None  # its name in the archive
    parts: tuple[str, ...]  # folders and name, below what the user named

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.parts[-1]

    @property
    def kind(self) -> str:
        """The ending that tells what is in it, without that of gzip."""
        return os.path.splitext(self.file.lower().removesuffix(PACKED))[1]

    @property
    def stem(self) -> str:
        """The file's name without endings."""
        name = self.file[: -len(PACKED)] if self.file.lower().endswith(PACKED) else self.file
        return name[: -len(self.kind)] if self.kind else name

    @property
    def folder(self) -> tuple[str, ...]:
        return self.parts[:-1]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes, unpacked; raises OSError, EOFError and zipfile.BadZipFile for what is damaged."""
        opened = self.path.open("rb") if self.member is None else _archive(self.path, _version(self.path)).open(self.member)
        packed = self.file.lower().endswith(PACKED)
        with opened as file, gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as unpacked:
            yield io.BufferedReader(Bounded(unpacked, self, whole=self.kind not in TEXT), PIECE)

    @contextmanager
    def seekable(self) -> Iterator[IO[bytes]]:
        """The same, where a reader has to go back and forth: what is packed is unpacked into a temporary file."""
        if self.member is None and not self.file.lower().endswith(PACKED):
            with self.path.open("rb") as plain:
                yield plain
            return
        with TemporaryFile() as copy, self.open() as packed:
            while piece := packed.read(COPIED):
                copy.write(piece)
            copy.seek(0)
            yield copy


def is_recording(path: Path) -> bool:
    """Whether it is a folder, or has the ending of a recording, of an archive, or of a file that says how to make one."""
    return path.is_dir() or path.suffix.lower() in {*KINDS, *INSTEAD, PACKED, ARCHIVE}


@lru_cache(maxsize=1)
def _archive(path: Path, version: tuple[int, int]) -> zipfile.ZipFile:
    """An archive that stays open: its directory is read once, not for each of its files. version: of the file."""
    return zipfile.ZipFile(path)


def _version(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def natural(text: str) -> list[Any]:
    """Sorts p2 before p10.

    >>> sorted(["p10", "p2", "7"], key=natural)
    ['7', 'p2', 'p10']
    """
    return [(0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in _PART.findall(text)]


def places(path: Path) -> list[Place]:
    """The recordings' files, and whatever lies next to them, in the natural order of their names. Hidden files are none.

    Raises ConfigError if the file is missing or is not a recording.
    """
    if path.is_dir():
        return sorted(_of_folder(path), key=_order)
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder.")
    if path.suffix.lower() == ARCHIVE:
        return sorted(_of_archive(path, ()), key=_order)
    place = Place(path, None, (path.name,))
    if place.kind not in KINDS:
        raise ConfigError(
            f"{path}: expected a recording that ends in {', '.join(KINDS)} (each may be packed as {PACKED}), a {ARCHIVE} or "
            f"a folder of them; got {place.kind or 'no ending'!r}{INSTEAD.get(place.kind, OTHERWISE)}."
        )
    return [place]


def _order(place: Place) -> list[list[Any]]:
    return [natural(part) for part in place.parts]


def _of_folder(path: Path) -> Iterator[Place]:
    count = 0
    for folder, inner, files in os.walk(path):
        inner[:] = [name for name in inner if not _hidden(name)]
        for name in files:
            if _hidden(name):
                continue
            file = Path(folder) / name
            parts = (path.resolve().name, *file.relative_to(path).parts)
            if file.suffix.lower() == ARCHIVE:
                yield from _of_archive(file, parts[:-1])
            else:
                yield Place(file, None, parts)
            count += 1
            FILES.require(path, count)


def _of_archive(path: Path, above: tuple[str, ...]) -> Iterator[Place]:
    try:
        members = _archive(path, _version(path)).infolist()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError):
        raise ConfigError(f"{path}: expected a zip archive of recordings; it is damaged, or something else.") from None
    FILES.require(path, len(members))
    for member in members:
        parts = tuple(part for part in member.filename.split("/") if part)
        if not parts or member.is_dir() or any(map(_hidden, parts)):
            continue
        if member.flag_bits & 1:
            raise ConfigError(f"{path}: {member.filename!r} is encrypted; unpack the archive, and name the folder.")
        yield Place(path, member.filename, (*above, path.stem, *parts))


def stem_of(path: Path) -> str:
    """The name of a recording without endings, also of '.' and of what is packed."""
    return Place(path, None, (path.resolve().name,)).stem


def _hidden(name: str) -> bool:
    """Also what macOS adds to archives, and Excel next to an open file."""
    return name.startswith((".", "~$")) or name in ("__MACOSX", "Thumbs.db")

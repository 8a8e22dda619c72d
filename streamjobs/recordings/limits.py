"""Most that a command holds of a recording at once, and the environment variables that raise it.

A small packed file may unpack to any size. What is streamed, such as the lines of a file, has no limit as a whole.
"""

import io
import os
from typing import Any, NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.settings.types import readable, size

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

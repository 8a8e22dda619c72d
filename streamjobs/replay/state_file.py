"""Snapshots of a replay's keys in a temporary file, as a worker has them in its store: none of them is in memory."""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamjobs.errors import SetupError

Key = tuple[str, int, bytes]  # topic, partition, key


class _Place(NamedTuple):
    """Of a snapshot in the file."""

    start: int
    length: int
    room: int  # bytes that it may grow to; a longer one goes to the end


class StateFile:
    """The newest snapshot of each key, in the order in which keys were first stored; the file vanishes with it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the next line
        weakref.finalize(self, self._file.close)
        self._places: dict[Key, _Place] = {}
        self._end = 0

    def read_many(self, topic: str, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        places = [self._places.get((topic, partition, key)) for key in keys]
        return [None if place is None else self._read(place) for place in places]

    def write(self, topic: str, partition: int, snapshots: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises SetupError if the file cannot grow."""
        for key, data in snapshots:
            old = self._places.get((topic, partition, key))
            if old is None or len(data) > old.room:
                old = _Place(self._end, 0, len(data))
                self._end += len(data)
            self._places[topic, partition, key] = old._replace(length=len(data))
            try:
                self._file.seek(old.start)
                self._file.write(data)
            except OSError as problem:
                folder = tempfile.gettempdir()
                expected = f"{self._end >> 20:,} MB so far; set TMPDIR to a folder with more room"
                raise SetupError(f"{folder}: cannot take the states of the keys ({problem.strerror}), {expected}.") from None

    def _read(self, place: _Place) -> bytes:
        self._file.seek(place.start)
        return self._file.read(place.length)

    def __iter__(self) -> Iterator[tuple[Key, bytes]]:
        for key, place in self._places.items():
            yield key, self._read(place)

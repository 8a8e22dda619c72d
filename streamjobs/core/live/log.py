"""The records applied to live states that some snapshot lacks, and the pooled model as it was then."""

import marshal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamjobs.core.messages import Codec, Keyed, Record, Stored

AT_ONCE = 2_000  # records
RECORD_BYTES = 500  # of a record's own, in addition to its value
WITHOUT_REFERENCES = 2  # version of marshal: finding what comes twice takes longer than writing it

Batch = tuple[Sequence[Record], bool]  # records applied together; whether their rows were left out


class Packed(NamedTuple):
    """Records of one partition as bytes, a third of what they take as objects. The bytes never leave the process."""

    topic: str
    partition: int
    keyed: bool
    codec: Codec | None
    rows: bytes

    @classmethod
    def of(cls, records: Sequence[Record], codec: Codec | None = None) -> "Packed | None":
        """None where some have more than fields, such as `Unread`."""
        first, keyed = records[0], type(records[0]) is Keyed
        plain = [record.origin for record in records if type(record) is Keyed] if keyed else records
        if len(plain) < len(records) or any(type(record) is not Stored for record in plain):
            return None
        rows: list[Any] = [record[2:-1] if keyed else record[2:] for record in records]  # type: ignore[index]
        data = marshal.dumps(rows, WITHOUT_REFERENCES)
        return cls(first.topic, first.partition, keyed, codec, data if codec is None else codec[0](data))

    def of_keys(self, keys: set[bytes | None] | None) -> list[Record]:
        """Those of these keys (None: of all), in order."""
        data = self.rows if self.codec is None else self.codec[1](self.rows)
        rows = [row for row in marshal.loads(data) if keys is None or row[2] in keys]
        if not self.keyed:
            return [Stored(self.topic, self.partition, *row) for row in rows]
        records: list[Record] = []
        for offset, timestamp, key, value, headers, own_key, problem in rows:
            origin = Stored(self.topic, self.partition, offset, timestamp, own_key, value, headers)
            records.append(Keyed(*origin._replace(key=key), own_key, problem, origin))
        return records


class _Applied(NamedTuple):
    records: Sequence[Record] | Packed
    left_out: bool
    end: int  # its last offset
    bytes: int  # about


class Log:
    """The records applied since the last `snapshots` of all keys, or since the offset that `trim` got."""

    __slots__ = ("_batches", "_packed", "bytes", "letters")

    def __init__(self) -> None:
        self._batches: list[_Applied] = []
        self._packed = 0  # how many of them `pack` has seen
        self.bytes = 0  # about
        self.letters: set[int] = set()  # offsets of those that became dead letters

    def add(self, records: Sequence[Record], size: int, *, left_out: bool = False) -> None:
        """size: bytes of their values."""
        if records:
            size += RECORD_BYTES * len(records)
            self._batches.append(_Applied(records, left_out, records[-1].offset, size))
            self.bytes += size

    def clear(self) -> None:
        self._batches.clear()
        self.letters.clear()
        self.bytes = self._packed = 0

    def pack(self, codec: Codec | None = None) -> int:
        """Make small what was added since the last call, because it stays; gives its bytes then."""
        added, size = self._batches[self._packed :], 0
        for at, batch in enumerate(added, self._packed):
            self.bytes -= batch.bytes
            if (packed := Packed.of(batch.records, codec)) is not None:  # type: ignore[arg-type]
                batch = self._batches[at] = batch._replace(records=packed, bytes=len(packed.rows))
            size += batch.bytes
        self._packed, self.bytes = len(self._batches), self.bytes + size
        return size

    def trim(self, offset: int) -> None:
        """Forget the batches that end before this offset: every snapshot has their effects."""
        passed = next((at for at, batch in enumerate(self._batches) if batch.end >= offset), len(self._batches))
        self.bytes -= sum(batch.bytes for batch in self._batches[:passed])
        del self._batches[:passed]
        self._packed = max(0, self._packed - passed)
        if self.letters:
            self.letters = {letter for letter in self.letters if letter >= offset}

    def of_key(self, key: bytes) -> Iterator[Record]:
        """The records of this key that did not become dead letters, in order."""
        for records, _ in self._of({key}):
            yield from (one for one in records if one.offset not in self.letters)

    def of(self, keys: set[bytes | None] | None) -> Iterator[Batch]:
        """The records of these keys (None: of all) in order, small batches together: any other ones give the same bits."""
        several: list[Record] = []
        for mine, left_out in self._of(keys):
            if several and (left_out or len(several) + len(mine) > AT_ONCE):
                yield several, False
                several = []
            if left_out and mine:
                yield mine, True
            else:
                several += mine
        if several:
            yield several, False

    def _of(self, keys: set[bytes | None] | None) -> Iterator[tuple[list[Record], bool]]:
        for records, left_out, *_ in self._batches:
            if isinstance(records, Packed):
                yield records.of_keys(keys), left_out
            else:
                yield [record for record in records if keys is None or record.key in keys], left_out


class Model(NamedTuple):
    """The model that all keys share in a pooled replay."""

    states: dict[str, Any]
    names: list[str]

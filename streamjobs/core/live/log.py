"""The records applied to live states that some snapshot lacks, and the pooled model as it was then."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamjobs.core.messages import Record

AT_ONCE = 2_000  # records
RECORD_BYTES = 500  # of a record's own, in addition to its value

Batch = tuple[Sequence[Record], bool]  # records applied together; whether their rows were left out


class Log:
    """The records applied since the last `snapshots` of all keys, or since the offset that `trim` got."""

    __slots__ = ("_sizes", "batches", "bytes", "letters")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._sizes: list[int] = []
        self.bytes = 0  # about
        self.letters: set[int] = set()  # offsets of those that became dead letters

    def add(self, records: Sequence[Record], size: int, *, left_out: bool = False) -> None:
        """size: bytes of their values."""
        self.batches.append((records, left_out))
        self._sizes.append(size + RECORD_BYTES * len(records))
        self.bytes += self._sizes[-1]

    def clear(self) -> None:
        self.batches.clear()
        self._sizes.clear()
        self.letters.clear()
        self.bytes = 0

    def trim(self, offset: int) -> None:
        """Forget the batches that end before this offset: every snapshot has their effects."""
        passed = next(
            (at for at, (records, _) in enumerate(self.batches) if records[-1].offset >= offset), len(self.batches)
        )
        self.bytes -= sum(self._sizes[:passed])
        del self.batches[:passed], self._sizes[:passed]
        if self.letters:
            self.letters = {letter for letter in self.letters if letter >= offset}

    def of_key(self, key: bytes) -> Iterator[Record]:
        """The records of this key that did not become dead letters, in order."""
        for records, _ in self.batches:
            yield from (one for one in records if one.key == key and one.offset not in self.letters)

    def of(self, keys: set[bytes | None] | None) -> Iterator[Batch]:
        """The records of these keys (None: of all) in order, small batches together: any other ones give the same bits."""
        several: list[Record] = []
        for records, left_out in self.batches:
            mine = [record for record in records if keys is None or record.key in keys]
            if several and (left_out or len(several) + len(mine) > AT_ONCE):
                yield several, False
                several = []
            if left_out and mine:
                yield mine, True
            else:
                several += mine
        if several:
            yield several, False


class Model(NamedTuple):
    """The model that all keys share in a pooled replay."""

    states: dict[str, Any]
    names: list[str]

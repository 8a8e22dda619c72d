"""States of many keys side by side: every field of a state is an array with a leading slot axis.

Symmetric matrices are whole in a workspace, and in a state their lower triangle by rows: half the numbers.
"""

import functools
import math
import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.common.compiled import compiled

Array = NDArray[Any]
Work = tuple[Array, ...]

# Bytes. malloc would put arrays of up to 32 MB on its heap, keep the holes that they leave, and write the zeros: a partition
# with one key has 16 slots, and with states of 276 KB it would take 4.3 MB instead of .5.
OWN_PAGES = 64 << 10


class Workspace:
    """States of many keys as arrays with a leading slot axis; `tuple(work)` is what compiled loops take.

    Order: the state's fields, `counts (slots, len(stored))` with how many rows each stored field holds, then the caches.
    `work["factor"]` is an array by the name of its field or cache, `work["counts"]` the counts.
    """

    __slots__ = ("arrays", "names", "stored")

    def __init__(self, arrays: Work, names: tuple[str, ...] = (), stored: tuple[str, ...] = ()) -> None:
        self.arrays, self.names, self.stored = arrays, names, stored

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[self.names.index(name)]

    @property
    def slots(self) -> int:
        return len(self.arrays[0])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def grow(self, slots: int) -> None:
        """Make room for more keys; what is stored stays where it is."""
        for at in range(len(self.arrays)):  # one at a time: only one array is there twice
            arrays = list(self.arrays)
            arrays[at] = _longer(arrays[at], slots)
            self.arrays = tuple(arrays)


def _longer(array: Array, length: int) -> Array:
    """A copy with zeros behind it."""
    longer = zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A large one has pages of its own, which take memory from their first use on, and return to the system with it."""
    size = dtype.itemsize * math.prod(shape)
    if size < OWN_PAGES:
        return np.zeros(shape, dtype)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:  # numpy raises the same
        raise MemoryError(f"Unable to allocate {size:,} bytes for an array with shape {shape}") from error
    return np.frombuffer(pages, dtype).reshape(shape)


class Together:
    """Workspaces of several stages, slot by slot together, each an attribute of its name; used like a `Workspace`."""

    def __init__(self, names: Iterable[str], parts: Sequence[Any]) -> None:
        self.parts = parts
        self.__dict__.update(zip(names, parts, strict=True))

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    @property
    def arrays(self) -> Work:
        return tuple(array for part in self.parts for array in part.arrays)

    @property
    def slots(self) -> int:
        return int(self.parts[0].slots)

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in self.parts)

    def grow(self, slots: int) -> None:
        for part in self.parts:
            part.grow(slots)


@functools.cache
def states_of(parts: int, part: str = "part_") -> Any:
    """The state of so many learners: a field `part_0`, `part_1`, .. each."""
    return NamedTuple("SeveralState", [(f"{part}{number}", Any) for number in range(parts)])  # type: ignore[misc]


def numbered(name: str, part: str = "part_") -> int:
    """3 of `part_3`; raises AttributeError for other names."""
    number = name[len(part) :]
    if not (name.startswith(part) and number.isdigit()):
        raise AttributeError(name)
    return int(number)


class Composite:
    """A stage of stages. Its state has a field for each, and the stage itself is the attribute of that name."""

    __slots__ = ()

    def workspace(self, state: Any, *, slots: int = 1, extra: int = 0) -> Any:
        of_fields = zip(state._fields, state, strict=True)
        return Together(state._fields, [getattr(self, f).workspace(part, slots=slots, extra=extra) for f, part in of_fields])

    def load(self, work: Any, slot: int, state: Any) -> None:
        for field, part in zip(state._fields, state, strict=True):
            getattr(self, field).load(getattr(work, field), slot, part)

    def save(self, work: Any, slot: int, like: Any) -> Any:
        of_fields = zip(like._fields, like, strict=True)
        return type(like)(*[getattr(self, field).save(getattr(work, field), slot, part) for field, part in of_fields])

    def bytes_of(self, state: Any) -> int:
        return sum([getattr(self, field).bytes_of(part) for field, part in zip(state._fields, state, strict=True)])


class Slot:
    """The arrays of one slot of a workspace by name, `own["factor"]`, and how many rows each stored field holds."""

    __slots__ = ("number", "work")

    def __init__(self, work: Workspace, number: int) -> None:
        self.work, self.number = work, number

    def __getitem__(self, name: str) -> Array:
        return self.work[name][self.number]

    def rows(self, field: str) -> int:
        return int(self["counts"][self.work.stored.index(field)])

    def rows_within(self, owner: object, field: str, most: int | None, what: str = "samples", limit: str = "budget") -> int:
        """As `rows`; raises ValueError where a state stores more than the owner's limit (None, 0: without one)."""
        rows = self.rows(field)
        if most and rows > most:
            raise ValueError(f"{type(owner).__name__}: the state stores {rows} {what}, this learner's {limit} is {most}.")
        return rows

    def set_rows(self, field: str, rows: int) -> None:
        self["counts"][self.work.stored.index(field)] = rows


@compiled
def packed(P: Array) -> Array:
    """The lower triangle of a symmetric matrix by rows."""
    triangle = np.empty(len(P) * (len(P) + 1) // 2)
    at = 0
    for i in range(len(P)):
        for j in range(i + 1):
            triangle[at] = P[i, j]
            at += 1
    return triangle


@compiled
def unpacked(triangle: Array, size: int) -> Array:
    """The symmetric matrix of a lower triangle by rows."""
    P = np.empty((size, size))
    at = 0
    for i in range(size):
        for j in range(i + 1):
            P[i, j] = triangle[at]
            P[j, i] = triangle[at]
            at += 1
    return P

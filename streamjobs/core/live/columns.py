"""Snapshots of many keys at once: array by array between bytes and slots, in compiled loops, with no object per field.

`decode` takes a snapshot only where it is certain that `decode_snapshot` and the stages' `load` would take it too, and
leaves the rest to them: they have the sentence for what is wrong, and read what another job left. A job with a stage that
moves its state in a way of its own is `None` here, and all its snapshots go the long way.
"""

import math
import operator
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array, Stage
from algorithms.common.workspace import Slot
from streamjobs.core.live import codec_loops as loops
from streamjobs.core.state.snapshot import CODES, CRC, I32I64, U16, Offsets, Reader, table_of_offsets, text_bytes
from streamjobs.core.state.valid import Field, Leaf, Valid, leaves_of
from streamjobs.stages.stage import JobStage

AT_ONCE = 128  # slots encoded together: bounds the memory for it, and more leave the processor's cache
MOST_KNOWN = 256  # sets of class names remembered as bytes
MOST_LATEST = 4  # of those, compared with a snapshot's bytes before its names are read
_CUSTOM = ("load", "save", "check_rows")  # a stage with its own is not moved here


class Column(Field):
    """One array of a snapshot, and the array of a workspace it belongs to."""

    __slots__ = ("array", "bytes", "flat", "header", "layout", "most", "size")
    array: Array
    bytes: Array
    flat: Array

    def __init__(self, leaf: Leaf, at: int) -> None:
        Field.__init__(self, leaf, at)
        one = np.asarray(leaf.like[at])
        extents = list(one.shape)
        if self.stored is not None:
            extents[0] = loops.STORED
        self.size = one.itemsize * self.row  # bytes
        self.header = 2 + 4 * one.ndim  # bytes
        padding = [0] * (loops.MOST_DIMENSIONS - one.ndim)
        self.layout = [CODES[one.dtype], one.ndim, *extents, *padding, one.itemsize]
        self.most = leaf.owner.at_bound.get(self.field) if leaf.alone else None
        self.look()

    def look(self) -> None:
        """Take the workspace's arrays as they are now: it makes new ones when it grows."""
        array = self.array = self.leaf.work.arrays[self.at]
        numbers = math.prod(array.shape[1:])
        self.flat = array.reshape(len(array), numbers)  # numbers of each slot
        self.bytes = array.reshape(-1).view(np.uint8).reshape(len(array), array.itemsize * numbers)
        if self.square:
            self.bytes = self.bytes.reshape(*array.shape[:2], array.itemsize * array.shape[2])


class Decoded(NamedTuple):
    good: list[bool]  # of each snapshot; False: nothing of its slot may be used
    offsets: list[Offsets]
    names: list[list[str]]


class Columns:
    """The arrays of a job's snapshots in their order. `begins`: what its snapshots begin with, the first where it writes."""

    def __init__(self, begins: tuple[bytes, ...], leaves: Sequence[Leaf], left_out: Sequence[str] = ()) -> None:
        """left_out: fields of heads that the snapshots do not have."""
        self.begins, self.begin, self.leaves = begins, begins[0], leaves
        columns = [Column(leaf, at) for leaf in leaves for at in range(len(leaf.like))]
        self.columns = [one for one in columns if one.leaf.heads is None or one.field not in left_out]
        self.layouts = np.array([column.layout for column in self.columns], np.int64)
        self.headers = np.array([column.header for column in self.columns], np.int64)
        self.rooms = np.array([column.room for column in self.columns], np.int64)
        self.sizes = np.array([column.size for column in self.columns], np.int64)
        self._looked: list[Any] = []  # the arrays that the columns show
        self.valid = Valid(leaves, self.columns)
        self._completed = [leaf for leaf in leaves if type(leaf.stage).complete is not Stage.complete]
        self._names_as_bytes: dict[tuple[str, ...], bytes] = {}
        self._latest_names: list[tuple[bytes, list[str]]] = []  # the newest first
        self._source: tuple[bytes, str] = (b"\xff\xff\xff", "")

    @classmethod
    def of(
        cls,
        begins: tuple[bytes, ...],
        stages: dict[str, JobStage],
        work: dict[str, Any],
        likes: dict[str, Any],
        left_out: Sequence[str] = (),
    ) -> "Columns | None":
        leaves: list[Leaf] = []
        for name, stage in stages.items():
            leaves += leaves_of(name, stage, stage.codec, work[name], likes[name])
        for leaf in leaves:
            if any(getattr(type(leaf.stage), method) is not getattr(Stage, method) for method in _CUSTOM):
                return None
            if any(np.asarray(value).ndim > loops.MOST_DIMENSIONS for value in leaf.like):
                return None
        return cls(begins, leaves, left_out)

    def look(self) -> None:
        """Take the workspaces' arrays as they are now, so that the ones before are free."""
        now = [leaf.work.arrays for leaf in self.leaves]
        if len(now) != len(self._looked) or any(map(operator.is_not, now, self._looked)):
            for column in self.columns:
                column.look()
            self._looked = now
            self.valid.look()

    def encode(self, slots: Sequence[int], offsets: Sequence[Offsets], names: Sequence[Sequence[str]]) -> list[bytes]:
        """Snapshots of these slots, with what else belongs to each."""
        encoded: list[bytes] = []
        for first in range(0, len(slots), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            encoded += self._encode(np.array(slots[part], np.int64), offsets[part], names[part])
        return encoded

    def writable(self, slots: Sequence[int], known: Sequence[int] | None) -> Array:
        """(k,) bool: `decode` would take what `encode` writes of these slots. known: classes of each; None: numbers."""
        at = np.array(slots, np.int64)
        self._complete(at)
        return self.valid.writable(at, None if known is None else np.array(known, np.int64))

    def _complete(self, slots: Array) -> None:
        for leaf in self._completed:
            for slot in slots.tolist():
                leaf.stage.complete(Slot(leaf.work, slot))

    def _encode(self, slots: Array, offsets: Sequence[Offsets], names: Sequence[Sequence[str]]) -> list[bytes]:
        self._complete(slots)
        self.look()
        counts = self.valid.counts(slots)
        sizes = counts * self.sizes[:, None]
        whole = sizes + self.headers[:, None]
        ends = np.ascontiguousarray(np.cumsum(whole.T).reshape(len(slots), len(self.columns)).T)
        data = bytearray(int(ends[-1, -1]) if ends.size else 0)
        buffer = np.frombuffer(data, np.uint8)
        begins, places = ends - whole, ends - sizes
        loops.write_headers(buffer, begins, self.layouts, counts)
        for at, column in enumerate(self.columns):
            rows = column.leaf.at(slots)
            if column.square:
                loops.gather_triangle(buffer, places[at], rows, column.bytes)
            elif column.size:
                loops.gather(buffer, places[at], sizes[at], rows, column.bytes)
        view, arrays = memoryview(data), U16.pack(len(self.columns))
        encoded = []
        for first, end, of_key, known in zip(begins[0].tolist(), ends[-1].tolist(), offsets, names, strict=True):
            head = b"".join((self.begin, table_of_offsets(of_key), self._as_bytes(known), arrays))
            body = view[first:end]
            encoded.append(b"".join((head, body, CRC.pack(zlib.crc32(body, zlib.crc32(head))))))
        return encoded

    def _as_bytes(self, names: Sequence[str]) -> bytes:
        known = self._names_as_bytes.get(tuple(names))
        if known is None:
            known = U16.pack(len(names)) + b"".join(map(text_bytes, names))
            if len(self._names_as_bytes) >= MOST_KNOWN:
                self._names_as_bytes.clear()
            self._names_as_bytes[tuple(names)] = known
        return known

    def decode(self, snapshots: Sequence[bytes], slots: Sequence[int], most_names: int | None, least: list[str]) -> Decoded:
        """Fill these slots. most_names: classes a key may know, None: labels are numbers; least: those it begins with."""
        offsets: list[Offsets] = []
        names: list[list[str]] = []
        arrays_at: list[int] = []
        sound: list[bool] = []
        for data in snapshots:
            head = self._head(data)
            sound.append(head is not None and _known(head[1], most_names, least))
            at, known, of_key = head if head is not None else (0, [], {})
            arrays_at.append(at)
            names.append(known)
            offsets.append(of_key)
        lengths = np.array([len(data) for data in snapshots], np.int64)
        begins = np.cumsum(lengths) - lengths
        self.look()
        places = np.zeros((len(self.columns), len(snapshots)), np.int64)
        counts = np.ones(places.shape, np.int64)
        good = np.zeros(len(snapshots), np.bool_)
        buffer: Array = np.frombuffer(bytearray().join(snapshots), np.uint8)
        ends = begins + lengths - CRC.size
        loops.locate(buffer, begins + np.array(arrays_at), ends, self.layouts, self.rooms, places, counts, good)
        good &= np.array(sound, np.bool_)
        kept, all_slots = np.flatnonzero(good), np.array(slots, np.int64)
        into = all_slots
        if len(kept) < len(good):
            into, places, counts = into[kept], np.ascontiguousarray(places[:, kept]), np.ascontiguousarray(counts[:, kept])
        self._fill(buffer, into, places, counts)
        classes = np.array([len(names[at]) for at in kept.tolist()], np.int64) if most_names is not None else None
        good[kept] = self.valid.met(into, counts, classes)
        for leaf in self.leaves:
            kept = np.flatnonzero(good)
            if type(leaf.stage).derive is not Stage.derive and len(kept):
                with ONE_THREAD:
                    good[kept] = leaf.stage.derive_slots(leaf.work, all_slots[kept])
        return Decoded(good.tolist(), offsets, names)

    def _head(self, data: bytes) -> tuple[int, list[str], Offsets] | None:
        """Where the arrays of a snapshot of this job begin, its class names and offsets; None where it is not one."""
        begin = self.begin if data.startswith(self.begin) else self.begins[-1]
        size = len(begin)
        if not data.startswith(begin) or len(data) < size + 2 * U16.size + CRC.size:
            return None
        if zlib.crc32(memoryview(data)[: -CRC.size]) != CRC.unpack_from(data, len(data) - CRC.size)[0]:
            return None
        try:
            at, offsets = self._offsets(data, size)
            for known, latest in self._latest_names:
                if data.startswith(known, at):
                    return at + len(known), list(latest), offsets
            reader = Reader(data, at)
            names = [reader.text() for _ in range(reader.number(U16))]
        except (struct.error, IndexError, ValueError):
            return None
        self._latest_names = [(data[at : reader.at], list(names)), *self._latest_names[: MOST_LATEST - 1]]
        return reader.at, names, offsets

    def _offsets(self, data: bytes, at: int) -> tuple[int, Offsets]:
        known, topic = self._source
        if data.startswith(known, at):
            at += len(known)
            partition, offset = I32I64.unpack_from(data, at)
            return at + I32I64.size, {(topic, partition): offset}
        reader = Reader(data, at)
        offsets = reader.offsets()
        if len(offsets) == 1:
            ((topic, _),) = offsets
            self._source = data[at : reader.at - I32I64.size], topic
        return reader.at, offsets

    def _fill(self, data: Array, slots: Array, places: Array, counts: Array) -> None:
        sizes = counts * self.sizes[:, None]
        for at, column in enumerate(self.columns):
            rows = column.leaf.at(slots)
            if column.stored is not None:
                leaf = column.leaf
                leaf.work.arrays[len(leaf.like)][rows, column.stored] = counts[at]
            if column.square:
                loops.scatter_triangle(data, places[at], rows, column.bytes, column.array)
            elif column.size:
                loops.scatter(data, places[at], sizes[at], rows, column.bytes)
            if column.most is not None:
                column.flat[rows] = np.minimum(column.flat[rows], column.most)


def _known(names: list[str], most: int | None, least: list[str]) -> bool:
    if most is None:
        return not names
    return len(names) <= most and names[: len(least)] == least and len(set(names)) == len(names)

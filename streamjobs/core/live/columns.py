"""Snapshots of many keys at once: array by array between bytes and slots, in compiled loops, with no object per field.

`decode` takes a snapshot only where it is certain that `decode_snapshot` and the stages' `load` would take it too, and
leaves the rest to them: they have the sentence for what is wrong, and read what another job left. A job with a stage that
moves its state in a way of its own is `None` here, and all its snapshots go the long way.
"""

import operator
import struct
import zlib
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array, Stage
from algorithms.common.workspace import Slot
from streamjobs.core.live import codec_loops as loops
from streamjobs.core.live.slots import LastOffsets, shared
from streamjobs.core.state.snapshot import CODES, CRC, U16, Offsets, Reader, table_of_offsets, text_bytes
from streamjobs.core.state.valid import Field, Leaf, Valid, leaves_of
from streamjobs.stages.stage import JobStage

AT_ONCE = 128  # slots encoded together: bounds the memory for it, and more leave the processor's cache
MOST_KNOWN = 256  # sets of class names remembered as bytes
MOST_LATEST = 4  # of those, compared with a snapshot's bytes before its names are read
CRC_OF_WHOLE = 0x2144DF1C  # of bytes with their own checksum behind them, whatever they are
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
        assert array.flags.c_contiguous, "slots are moved by their addresses"
        self.flat = array.reshape(len(array), -1) if array.size else array  # numbers of each slot
        if self.square:
            self.bytes = array.reshape(-1).view(np.uint8).reshape(*array.shape[:2], array.itemsize * array.shape[2])


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
        self._looked: list[Any] = []  # the arrays that the columns and the addresses are of
        self.valid = Valid(leaves, self.columns)
        self._completed = [leaf for leaf in leaves if type(leaf.stage).complete is not Stage.complete]
        self._derived = [leaf for leaf in leaves if type(leaf.stage).derive is not Stage.derive]
        self._squares = [(at, column) for at, column in enumerate(self.columns) if column.square]
        self._bounded = [(column, column.most) for column in self.columns if column.most is not None]
        self._names_as_bytes: dict[tuple[str, ...], bytes] = {}
        self._latest_names: list[tuple[bytes, tuple[str, ...]]] = []  # the newest first
        self._source: tuple[bytes, tuple[str, int]] = (b"\xff\xff\xff", ("", 0))

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
            arrays = [(column.array, not column.square, column.leaf.heads is not None) for column in self.columns]
            of_arrays = [(one.ctypes.data, moved * one.strides[0], len(one), row) for one, moved, row in arrays]
            self._fields = np.array(of_arrays, np.int64).reshape(-1, 4)
            self.valid.look()

    def _rows(self, slots: Array) -> Array:
        """Where these keys are in the workspaces, and in a job with `HeadRows` in these."""
        heads = self.valid.heads
        return slots[None] if heads is None else np.stack([slots, heads.row_of[slots]])

    def encode(self, slots: Sequence[int], offsets: LastOffsets, names: Sequence[tuple[str, ...]]) -> list[bytes]:
        """Snapshots of these slots. offsets, names: by slot."""
        encoded: list[bytes] = []
        for first in range(0, len(slots), AT_ONCE):
            encoded += self._encode(np.array(slots[first : first + AT_ONCE], np.int64), offsets, names)
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

    def _encode(self, slots: Array, offsets: LastOffsets, names: Sequence[tuple[str, ...]]) -> list[bytes]:
        self._complete(slots)
        self.look()
        heads, which, last = self._heads(slots, offsets, names)
        words, bounds = _words(heads)
        counts = self.valid.counts(slots)
        sizes = counts * self.sizes[:, None]
        whole = sizes + self.headers[:, None]
        of_head = np.diff(bounds)[which]
        ends = np.cumsum(of_head + whole.sum(axis=0) + CRC.size)
        begins = np.concatenate([[0], ends[:-1]])
        places = np.cumsum(whole, axis=0) + (begins + of_head) - sizes
        buffer = np.empty(int(ends[-1]), np.uint8)
        loops.copy_words(buffer, begins, words, bounds, which)
        if last is not None:
            at = len(self.begin) + len(self._source[0])
            buffer[begins[:, None] + np.arange(at, at + 8)] = last.astype("<i8")[:, None].view(np.uint8)
        loops.write_headers(buffer, places - self.headers[:, None], self.layouts, counts)
        loops.move(buffer, places, sizes, self._rows(slots), self._fields, True)
        for at, column in self._squares:
            loops.gather_triangle(buffer, places[at], column.leaf.at(slots), column.bytes)
        view = buffer.data
        encoded = []
        for first, end in zip(begins.tolist(), ends.tolist(), strict=True):
            CRC.pack_into(view, end - CRC.size, zlib.crc32(view[first : end - CRC.size]))
            encoded.append(bytes(view[first:end]))
        return encoded

    def _heads(
        self, slots: Array, offsets: LastOffsets, names: Sequence[tuple[str, ...]]
    ) -> tuple[list[bytes], Array, Array | None]:
        """What is before the arrays, and which of it each slot has; apart, the last offsets that are to be put into it."""
        keys, arrays, known = slots.tolist(), U16.pack(len(self.columns)), [names[slot] for slot in slots.tolist()]
        alone = offsets.alone(slots)
        if alone is None:
            tables = [table_of_offsets(offsets[slot]) for slot in keys]
            heads = [self.begin + table + self._as_bytes(one) + arrays for table, one in zip(tables, known, strict=True)]
            return heads, np.arange(len(keys)), None
        source, last = alone
        if source != self._source[1]:
            self._source = table_of_offsets({source: 0})[:-8], source
        before, distinct = self.begin + self._source[0] + bytes(8), dict.fromkeys(known)
        place = dict(zip(distinct, range(len(distinct)), strict=True))
        return [before + self._as_bytes(one) + arrays for one in distinct], np.array([place[one] for one in known]), last

    def _as_bytes(self, names: tuple[str, ...]) -> bytes:
        known = self._names_as_bytes.get(names)
        if known is None:
            known = U16.pack(len(names)) + b"".join(map(text_bytes, names))
            if len(self._names_as_bytes) >= MOST_KNOWN:
                self._names_as_bytes.clear()
            self._names_as_bytes[names] = known
        return known

    def decode(
        self,
        snapshots: Sequence[bytes],
        slots: Sequence[int],
        offsets: LastOffsets,
        names: list[tuple[str, ...]],
        most_names: int | None,
        least: list[str],
        own: Array | None = None,
    ) -> list[bool]:
        """Fill these slots; gives which snapshots were taken. Nothing of the slot of another one may be used.

        offsets, names: by slot, filled too. most_names: classes a key may know, None: labels are numbers; least: those it
        begins with. own: (k,) bool, snapshots of this process, of states that were `writable`: they are not checked again.
        """
        foreign = np.ones(len(snapshots), np.bool_) if own is None else ~own
        lengths = np.fromiter(map(len, snapshots), np.int64, len(snapshots))
        ends = np.cumsum(lengths)
        begins, ends = ends - lengths, ends - CRC.size
        buffer: Array = np.frombuffer(bytearray().join(snapshots), np.uint8)
        sound = ~foreign
        sound[foreign] = np.fromiter(map(zlib.crc32, compress(snapshots, foreign.tolist())), np.int64) == CRC_OF_WHOLE
        all_slots = np.array(slots, np.int64)
        arrays_at = self._read_heads(snapshots, sound, buffer, begins, ends, all_slots, offsets, names)
        known = list(map(names.__getitem__, slots))
        fitting = {one: _known(one, most_names, least) for one in set(known)}
        if not all(fitting.values()):
            sound &= np.array(list(map(fitting.__getitem__, known)), np.bool_)
        self.look()
        places = np.zeros((len(self.columns), len(snapshots)), np.int64)
        counts = np.ones(places.shape, np.int64)
        good = np.zeros(len(snapshots), np.bool_)
        loops.locate(buffer, arrays_at, ends, self.layouts, self.rooms, places, counts, good)
        good &= sound
        kept, into = np.flatnonzero(good), all_slots
        if len(kept) < len(good):
            into, places, counts = into[kept], np.ascontiguousarray(places[:, kept]), np.ascontiguousarray(counts[:, kept])
        self._fill(buffer, into, places, counts)
        checked = kept
        if not foreign.all():
            some = np.flatnonzero(foreign[kept])
            checked, into, counts = kept[some], into[some], np.ascontiguousarray(counts[:, some])
        if len(checked):
            classes = None if most_names is None else np.array(list(map(len, known)), np.int64)[checked]
            good[checked] = self.valid.met(into, counts, classes)
        with ONE_THREAD:
            for leaf in self._derived:
                if len(kept := np.flatnonzero(good)):
                    good[kept] = leaf.stage.derive_slots(leaf.work, all_slots[kept])
        taken: list[bool] = good.tolist()
        return taken

    def _read_heads(
        self,
        snapshots: Sequence[bytes],
        sound: Array,
        data: Array,
        begins: Array,
        ends: Array,
        slots: Array,
        offsets: LastOffsets,
        names: list[tuple[str, ...]],
    ) -> Array:
        """Where the arrays of each snapshot begin; what is before them goes into offsets and names. Not `sound`: no head."""
        known = [one for _, one in self._latest_names]
        words, bounds = _words([self.begin, self.begins[-1], self._source[0], *[word for word, _ in self._latest_names]])
        at, last, which = np.zeros_like(begins), np.zeros_like(begins), np.zeros_like(begins)
        loops.match_heads(data, begins, ends, words, bounds, at, last, which)
        which[~sound] = -1
        usual = np.flatnonzero(which >= 0)
        offsets.put(self._source[1], slots[usual], last[usual])
        for n, (slot, one) in enumerate(zip(slots.tolist(), which.tolist(), strict=True)):
            if one >= 0:
                names[slot] = known[one]
                continue
            head = self._head(snapshots[n]) if sound[n] else None
            sound[n] = head is not None
            of_arrays, names[slot], offsets[slot] = head or (0, (), {})
            at[n] = begins[n] + of_arrays
        return at

    def _head(self, data: bytes) -> tuple[int, tuple[str, ...], Offsets] | None:
        """Where the arrays of a snapshot of this job begin, its class names and offsets; None where it is not one."""
        begin = self.begin if data.startswith(self.begin) else self.begins[-1]
        if not data.startswith(begin):
            return None
        reader = Reader(data, len(begin))
        try:
            offsets = reader.offsets()
            if len(offsets) == 1:
                ((source, _),) = offsets.items()
                self._source = data[len(begin) : reader.at - 8], source
            at = reader.at
            for known, latest in self._latest_names:
                if data.startswith(known, at):
                    return at + len(known), latest, offsets
            names = shared([reader.text() for _ in range(reader.number(U16))])
        except (struct.error, IndexError, ValueError):
            return None
        self._latest_names = [(data[at : reader.at], names), *self._latest_names[: MOST_LATEST - 1]]
        return reader.at, names, offsets

    def _fill(self, data: Array, slots: Array, places: Array, counts: Array) -> None:
        loops.move(data, places, counts * self.sizes[:, None], self._rows(slots), self._fields, False)
        for at, field in self.valid.stored:
            field.leaf.work.arrays[len(field.leaf.like)][field.leaf.at(slots), field.stored] = counts[at]
        for at, column in self._squares:
            loops.scatter_triangle(data, places[at], column.leaf.at(slots), column.bytes, column.array)
        for column, most in self._bounded:
            rows = column.leaf.at(slots)
            column.flat[rows] = np.minimum(column.flat[rows], most)


def _known(names: tuple[str, ...], most: int | None, least: list[str]) -> bool:
    if most is None:
        return not names
    return len(names) <= most and names[: len(least)] == tuple(least) and len(set(names)) == len(names)


def _words(parts: Sequence[bytes]) -> tuple[Array, Array]:
    """Byte strings behind one another, and where each begins and ends."""
    bounds = np.cumsum([0, *map(len, parts)])
    return np.frombuffer(bytearray().join(parts), np.uint8), bounds

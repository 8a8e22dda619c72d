"""The compiled loops behind `columns`: arrays of many snapshots between one buffer of bytes and the slots of a workspace.

Every loop takes bytes or flat numbers, so each is compiled once, whatever the stages of a job look like.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from algorithms.common.compiled import compiled

MOST_DIMENSIONS = 4
STORED = -1  # in place of the first extent: a row per stored sample


@compiled
def _begins_with(data, at, end, words, first, last):
    """Whether the bytes from `at` on begin with words[first:last]."""
    if at + last - first > end:
        return False
    differs, mine, word = np.uint8(0), data[at : at + last - first], words[first:last]
    for i in range(word.size):
        differs |= mine[i] ^ word[i]
    return differs == 0


@compiled
def match_heads(data, begins, ends, words, bounds, place, last, which):
    """What is before the arrays of each snapshot: words 0 or 1, word 2 (a source), its offset, then one of the others.

    words: several byte strings, word i from bounds[i] to bounds[i + 1].
    Gives the place of the arrays, the offset, and which other word it is; -1 where the bytes are not these.
    """
    for n in range(begins.size):
        which[n] = -1
        for w in range(2):
            at, end = begins[n], ends[n]
            if not _begins_with(data, at, end, words, bounds[w], bounds[w + 1]):
                continue
            at += bounds[w + 1] - bounds[w]
            if not _begins_with(data, at, end - 8, words, bounds[2], bounds[3]):
                continue
            at += bounds[3] - bounds[2]
            for b in range(7, -1, -1):
                last[n] = (last[n] << 8) | data[at + b]
            at += 8
            for known in range(3, bounds.size - 1):
                if which[n] < 0 and _begins_with(data, at, end, words, bounds[known], bounds[known + 1]):
                    which[n], place[n] = known - 3, at + bounds[known + 1] - bounds[known]
            break


@compiled
def _put(into, source, size):
    """So many bytes; indices from 0 on let the compiler copy many at once."""
    for b in range(size):
        into[b] = source[b]


@compiled
def copy_words(data, places, words, bounds, which):
    for n in range(places.size):
        word = words[bounds[which[n]] : bounds[which[n] + 1]]
        _put(data[places[n] :], word, word.size)


@compiled
def locate(data, begins, ends, layouts, rooms, places, counts, good):
    """Where the data of each array of each snapshot begins, and how many stored rows it has: places, counts (arrays, n).

    layouts (arrays, 2 + MOST_DIMENSIONS): dtype code, dimensions, extents; widths of an item stand behind the extents.
    A snapshot is not good if its headers are not those of the layouts.
    """
    for n in range(begins.size):
        at, end = begins[n], ends[n]
        fits = at + 2 <= end and data[at] + 256 * data[at + 1] == len(layouts)
        at += 2
        for a in range(len(layouts)):
            if not fits:
                break
            dimensions = layouts[a, 1]
            fits = at + 2 + 4 * dimensions <= end and data[at] == layouts[a, 0] and data[at + 1] == dimensions
            if not fits:
                break
            at += 2
            size = layouts[a, 2 + MOST_DIMENSIONS]
            for d in range(dimensions):
                extent = 0
                for b in range(3, -1, -1):
                    extent = 256 * extent + data[at + b]
                at += 4
                if layouts[a, 2 + d] == STORED:
                    counts[a, n] = extent
                    fits = fits and extent <= rooms[a]
                else:
                    fits = fits and extent == layouts[a, 2 + d]
                size *= extent
            places[a, n] = at
            if fits:
                at += size
                fits = at <= end
        good[n] = fits and at == end


@compiled
def write_headers(data, begins, layouts, counts):
    for a in range(len(layouts)):
        for n in range(begins.shape[1]):
            at = begins[a, n]
            data[at], data[at + 1] = layouts[a, 0], layouts[a, 1]
            at += 2
            for d in range(layouts[a, 1]):
                extent = counts[a, n] if layouts[a, 2 + d] == STORED else layouts[a, 2 + d]
                for b in range(4):
                    data[at + b] = (extent >> (8 * b)) & 255
                at += 4


@intrinsic  # type: ignore[untyped-decorator]
def _copy(typing: Any, to: Any, source: Any, size: Any) -> Any:
    """So many bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        cgutils.raw_memcpy(builder, *(builder.inttoptr(one, cgutils.voidptr_t) for one in given[:2]), given[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@compiled
def move(data, places, sizes, rows, fields, out):
    """Bytes of each snapshot into the front of its slots; where `out`, from there into the snapshots.

    rows (1 or 2, n): slots, and in a job with `HeadRows` their rows. fields (arrays, 4): address of the first slot, bytes of
    a slot, slots, which of the rows; 0 bytes: not moved. By addresses, so that one call moves all fields of a job.
    """
    begin = data.ctypes.data
    for n in range(rows.shape[1]):
        for a in range(len(fields)):
            size, row, at = sizes[a, n], rows[fields[a, 3], n], places[a, n]
            if size == 0 or fields[a, 1] == 0:
                continue
            if not 0 <= row < fields[a, 2] or not 0 < size <= fields[a, 1] or not 0 <= at <= data.size - size:
                raise IndexError("bytes beyond a slot or a snapshot")
            slot = fields[a, 0] + row * fields[a, 1]
            if out:
                _copy(begin + at, slot, size)
            else:
                _copy(slot, begin + at, size)


@compiled
def scatter_triangle(data, places, slots, into, whole):
    """Lower triangles by rows into symmetric matrices: whole (slots, n, n), into its bytes (slots, n, 8 n)."""
    for n in range(slots.size):
        at, slot = places[n], slots[n]
        for i in range(whole.shape[1]):
            _put(into[slot, i], data[at:], 8 * (i + 1))
            at += 8 * (i + 1)
            for j in range(i):
                whole[slot, j, i] = whole[slot, i, j]


@compiled
def gather_triangle(data, places, slots, source):
    for n in range(slots.size):
        at = places[n]
        for i in range(source.shape[1]):
            _put(data[at:], source[slots[n], i], 8 * (i + 1))
            at += 8 * (i + 1)

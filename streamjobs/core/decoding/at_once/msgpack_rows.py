"""MessagePack records of one sample each to arrays: one compiled pass over the bytes, without an object for each number.

`read_rows` reads maps with the fields of the job, also inside of maps and lists, in any order, each once, and others.
Anything else is left to the parsers of single records: numbers as bytes, names that are not texts.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from algorithms.common.compiled import compiled_in_place
from streamjobs.core.decoding.at_once.names import DEEPEST, LIST, MOST_ODD, OBJECT, Names, Rows
from streamjobs.core.decoding.at_once.texts import KEPT, at_place, is_text, named, share_texts
from streamjobs.core.decoding.samples import MAX_LABEL, UNDECODABLE

# Kinds of values. LARGE: whole numbers from 2^63 on. ODD: of a type of its own, such as a time.
MAP, ITEMS, TEXT, BYTES, ODD, WHOLE, SINGLE, DOUBLE, LARGE, BOOL, NULL, NONE = range(12)
# Of the bytes 0xc0 to 0xdf, with which a value begins: its kind, and how many bytes its number has.
HEADS = np.array(
    [
        *((NULL, 0), (NONE, 0), (BOOL, 0), (BOOL, 0), (BYTES, 1), (BYTES, 2), (BYTES, 4), (ODD, 1), (ODD, 2), (ODD, 4)),
        *((SINGLE, 4), (DOUBLE, 8), (WHOLE, 1), (WHOLE, 2), (WHOLE, 4), (LARGE, 8)),
        *((WHOLE, 1), (WHOLE, 2), (WHOLE, 4), (WHOLE, 8), (ODD, 0), (ODD, 0), (ODD, 0), (ODD, 0), (ODD, 0)),
        *((TEXT, 1), (TEXT, 2), (TEXT, 4), (ITEMS, 2), (ITEMS, 4), (MAP, 2), (MAP, 4)),
    ]
)


def read_rows(values: Sequence[bytes], joined: bytes, names: Names, dim: int) -> Rows:
    """The samples of these values, which are `joined`."""
    n, bits = len(values), np.empty(1, np.int64)
    word = bits, bits.view(np.float64), bits.view(np.float32)
    rows = np.empty((n, dim)), np.empty(n), np.zeros((n, 4), np.int64), np.zeros(n, np.bool_), np.zeros(n, np.bool_), word
    sizes, seen = np.fromiter(map(len, values), np.int64, n), np.zeros(len(names.leads) + KEPT, np.int64)
    stack = np.empty((len(names.nodes) + DEEPEST, 3), np.int64)
    all_read = _read(np.frombuffer(joined, np.uint8), sizes, tuple(names), rows, seen, stack)
    X, times, labels, read, doubtful, _ = rows
    for at in np.flatnonzero(read & doubtful).tolist():
        read[at] = _is_msgpack(values[at])
        all_read &= bool(read[at])
    if not all_read:
        labels[~read] = 0
    return Rows(X, times, labels, None if all_read else read)


def _is_msgpack(value: bytes) -> bool:
    try:
        msgspec.msgpack.decode(value)
    except UNDECODABLE:
        return False
    return True


@compiled_in_place
def _read(b, sizes, names, rows, seen, stack):
    """Reads values until too many of them need another parser; whether none does.

    rows: what `Rows` has, whether its value needs a look by the library, and a word. seen (entries + KEPT,): zeros.
    stack: a row for each level. A word is 8 bytes as a whole number and as floats of both sizes.
    """
    end, odd = np.int64(0), 0  # of a literal `_read_row` would be compiled for it, and then once more
    for n in range(sizes.size):
        begin, end = end, end + sizes[n]
        if _read_row(b, begin, end, names, rows, seen, stack, n):
            rows[3][n] = True
            share_texts(b, rows[2], seen, n)
        else:
            odd += 1
            if odd * MOST_ODD > sizes.size + MOST_ODD:
                break
    return odd == 0


@compiled_in_place
def _read_row(b, i, end, names, rows, seen, stack, n):
    text, begins, leads, places, order, nodes, missing, listed = names
    X, times, labels, _, doubtful, word = rows
    time, unread = 1 if listed else X.shape[1], 1 << 60  # unread: what no field of the job names
    kind, first, last = OBJECT, nodes[0, 1], nodes[0, 2]
    depth, node, at = 0, 0, first  # at: the likely entry of a map, as in the record before; the place in a list
    what, left, i = _head(b, i, end)
    good = what == MAP
    while good:
        while left == 0:
            if depth == 0:
                return i == end and missing == 0
            depth -= 1
            node, at, left = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            kind, first, last = _level(nodes, node)
        left -= 1
        if kind == OBJECT:
            what, size, i = _head(b, i, end)
            entry = at if at < last else first
            if what != TEXT or first == last or not _is_name(b, i, size, text, begins, entry):
                entry = named(b, i, size, text, begins, order, first, last) if what == TEXT else -1
            if what != TEXT or (entry >= 0 and seen[entry] > n):
                return False
            at = entry + 1 if entry >= 0 else at
            doubtful[n] |= entry < 0 and _is_wide(b, i, size)
            i += size
        elif kind == LIST:
            entry = at_place(places, order, first, last, at)
            at += 1
        else:
            entry = _chosen(b, i, end, names, nodes[node])
            if entry < -1:
                return False
            if entry >= 0 and seen[entry] > n:  # the first such map counts
                entry = -1
        lead = unread
        if entry >= 0:
            lead, seen[entry] = leads[entry], n + 1
        begun = i
        what, number, i = _head(b, i, end)
        missing -= 0 <= lead <= time or lead == time + 2
        if lead < 0 or lead == unread:
            good = depth < len(stack) if what <= ITEMS else what != NONE
            good &= lead == unread or what == (MAP if nodes[-lead, 0] == OBJECT else ITEMS)
            if good and what <= ITEMS:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = node, at, left
                depth, left = depth + 1, number
                node = -lead if lead < 0 else -1 - what
                kind, first, last = _level(nodes, node)
                at = first if kind == OBJECT else 0
            elif what <= ODD:
                doubtful[n] |= what == ODD or (what == TEXT and _is_wide(b, i, number))
                i += number
        elif lead < time and not listed:
            X[n, lead], good = _number(what, number, word), WHOLE <= what <= BOOL
        elif lead == time:
            times[n], good = _number(what, number, word), WHOLE <= what <= DOUBLE
        elif lead == 0:
            i = _read_list(b, i, end, X[n], word) if what == ITEMS and number == X.shape[1] else -1
            good = i > 0
        elif lead <= time + 2 and what == TEXT:
            doubtful[n] |= _is_wide(b, i, number)
            i += number
            labels[n, 2 * (lead - time) - 2], labels[n, 2 * (lead - time) - 1] = begun, i
            good = lead == time + 2 or number <= MAX_LABEL
        elif lead == time + 2 and WHOLE <= what <= BOOL:
            labels[n, 2], labels[n, 3] = begun, i
        else:
            good = lead == time + 1 and what == NULL
    return False


@compiled_in_place
def _read_list(b, i, end, x, word):
    """The place after as many numbers as x has room for; -1 where they are something else."""
    for c in range(x.size):
        what, number, i = _head(b, i, end)
        x[c] = _number(what, number, word)
        if what < WHOLE or what > BOOL:
            return -1
    return i


@compiled_in_place
def _level(nodes, node):
    """Kind, first entry and end of the entries of a node; below 0 of a map (-1) or list (-2) that no field leads into."""
    return (nodes[node, 0], nodes[node, 1], nodes[node, 2]) if node >= 0 else (-1 - node, 0, 0)


@compiled_in_place
def _head(b, i, end):
    """The kind of the value at i, its number and where its contents begin; NONE where the value is cut short.

    The number is a whole number, the bits of a float, how many items there are, or how many bytes.
    """
    if i >= end:
        return NONE, 0, end
    first = np.int64(b[i])
    i += 1
    if first < 0x80:
        return WHOLE, first, i
    if first < 0x90:
        return MAP, first & 15, i
    if first < 0xA0:
        return ITEMS, first & 15, i
    if first < 0xC0:
        size = first & 31
        return (TEXT, size, i) if size <= end - i else (NONE, 0, end)
    if first >= 0xE0:
        return WHOLE, first - 256, i
    kind, size = HEADS[first - 0xC0, 0], HEADS[first - 0xC0, 1]
    if size > end - i:
        return NONE, 0, end
    number = np.int64(0)
    if size == 8:  # the usual one, for which a loop of known length is faster
        for at in range(8):
            number = number << 8 | np.int64(b[i + at])
    else:
        for at in range(size):
            number = number << 8 | np.int64(b[i + at])
    i += size
    if kind == LARGE and number >= 0:
        kind = WHOLE
    elif kind == BOOL:
        number = first - 0xC2
    elif kind == ODD:  # with a byte for its type
        number = (1 << (first - 0xD4) if first >= 0xD4 else number) + 1
    elif 0xD0 <= first < 0xD3 and number >> (8 * size - 1):
        number -= 1 << 8 * size
    if TEXT <= kind <= ODD and number > end - i:
        return NONE, 0, end
    return kind, number, i


@compiled_in_place
def _number(what, number, word):
    """What a head of one of the kinds WHOLE to BOOL states, as a float64."""
    if SINGLE <= what <= DOUBLE:
        word[0][0] = number
        return word[1][0] if what == DOUBLE else np.float64(word[2][0])
    return float(np.uint64(number)) if what == LARGE else float(number)


@compiled_in_place
def _is_name(b, i, size, text, begins, entry):
    """Whether the name at i is that of an entry."""
    return size == begins[entry + 1] - begins[entry] and is_text(b, i, text, begins[entry], size)


@compiled_in_place
def _is_wide(b, i, size):
    """Whether a text has characters beyond ASCII."""
    bits = 0
    for at in range(i, i + size):
        bits |= b[at]
    return bits >= 128


@compiled_in_place
def _chosen(b, i, end, names, node):
    """Which entry of a node chooses the map at i, -1 for none, -2 where only another parser can decide."""
    text, begins, order = names[0], names[1], names[4]
    begun, size = -1, 0
    what, left, i = _head(b, i, end)
    if what != MAP:
        return -2
    while left > 0:
        left -= 1
        what, length, i = _head(b, i, end)
        if what != TEXT:
            return -2
        is_it = _is_name(b, i, length, text, begins, node[3])
        i += length
        if is_it:
            what, size, value = _head(b, i, end)
            if what != TEXT or begun >= 0:  # a number, or a second one
                return -2
            begun = value
        i = _after(b, i, end)
    return named(b, begun, size, text, begins, order, node[1], node[2]) if begun >= 0 else -2


@compiled_in_place
def _after(b, i, end):
    """The place after the value at i, or the end where it is cut short. What is in it is not checked."""
    left = 1
    while left > 0 and i < end:
        what, number, i = _head(b, i, end)
        left -= 1
        if what <= ITEMS:
            left += number << (what == MAP)
        elif TEXT <= what <= ODD:
            i += number
    return i

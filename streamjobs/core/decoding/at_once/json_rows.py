"""JSON records of one sample each to arrays: one compiled pass over the bytes, without an object for each number.

Numbers have the bits that msgspec gives them. `read_rows` reads what most writers write: an object with the fields of the
job, also inside of objects and lists, in any order, each once, and others. Anything else is left to the parsers of single
records: escapes in names, numbers of more than 19 digits.
"""

from collections.abc import Sequence

import numpy as np

from algorithms.common.compiled import compiled_in_place
from streamjobs.core.decoding.at_once.json_numbers import DIGITS, read_digits, read_number
from streamjobs.core.decoding.at_once.names import DEEPEST, LIST, MOST_ODD, OBJECT, Names, Rows
from streamjobs.core.decoding.at_once.texts import KEPT, at_place, is_text, named, share_texts
from streamjobs.core.decoding.samples import MAX_LABEL

WORDS = np.frombuffer(b"true\0null\0false", np.uint8).reshape(3, 5)
ESCAPES = np.frombuffer(b'"/\\bfnrt', np.uint8)  # what may stand behind a backslash, besides u and four digits


def read_rows(values: Sequence[bytes], joined: bytes, names: Names, dim: int) -> Rows:
    """The samples of these values, which are `joined`."""
    n = len(values)
    rows = np.empty((n, dim)), np.empty(n), np.zeros((n, 4), np.int64), np.zeros(n, np.bool_)
    sizes, seen = np.fromiter(map(len, values), np.int64, n), np.zeros(len(names.leads) + KEPT, np.int64)
    stack = np.empty((len(names.nodes), 2), np.int64)
    all_read = _read(np.frombuffer(joined, np.uint8), sizes, tuple(names), rows, seen, stack)
    X, times, labels, read = rows
    if not joined.isascii() and not _is_utf_8(joined):
        all_read = False
        read[[at for at in np.flatnonzero(read).tolist() if not _is_utf_8(values[at])]] = False
    if not all_read:
        labels[~read] = 0
    return Rows(X, times, labels, None if all_read else read)


def _is_utf_8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@compiled_in_place
def _read(b, sizes, names, rows, seen, stack):
    """Reads values until too many of them need another parser; whether none does.

    seen (entries + KEPT,): zeros. stack: a row for each node.
    """
    read = rows[3]
    begin, odd = 0, 0
    for n in range(sizes.size):
        i, end = begin, begin + sizes[n]
        begin = end
        while end > i and _is_blank(b[end - 1]):
            end -= 1
        # The value ends with }, which is neither blank nor part of a number: reading of these stops there by itself.
        if end > i and b[end - 1] == 125 and _read_row(b, _after_blanks(b, i), end, names, rows, seen, stack, n):
            read[n] = True
            share_texts(b, rows[2], seen, n)
        else:
            odd += 1
            if odd * MOST_ODD > sizes.size + MOST_ODD:
                break
    return odd == 0


@compiled_in_place
def _read_row(b, i, end, names, rows, seen, stack, n):
    text, begins, leads, places, order, nodes, missing, listed = names
    X, times, labels, _ = rows
    kind, first, last, time = OBJECT, nodes[0, 1], nodes[0, 2], 1 if listed else X.shape[1]
    depth, node, at = 0, 0, 0  # at: the likely entry of an object, as in the record before; the place in a list
    if b[i] != 123:
        return False
    while True:
        i = _after_blanks(b, i + 1)
        if kind == OBJECT:
            entry = at if at < last else first
            if not _is_name(b, i + 1, end, text, begins, entry):
                entry = named(b, i + 1, _text_end(b, i + 1, end, False) - i - 1, text, begins, order, first, last)
            if b[i] == 34 and entry >= 0:
                i += 1 + begins[entry + 1] - begins[entry]
                at = entry + 1
                if seen[entry] > n:
                    return False
                i = _after_blanks(b, i + 1)
                i = _after_blanks(b, i + 1) if b[i] == 58 else 0
            else:
                i = _name_end(b, i, end, False)
            if i == 0:
                return False
        elif kind == LIST:
            entry = at_place(places, order, first, last, at)
            at += 1
        else:
            entry = _chosen(b, i, end, names, nodes[node])
            if entry < -1:
                return False
            if entry >= 0 and seen[entry] > n:  # the first such object counts
                entry = -1
        lead = time + 1
        if entry >= 0:
            lead, seen[entry] = leads[entry], n + 1
        if lead < 0:
            if b[i] != (123 if nodes[-lead, 0] == OBJECT else 91):
                return False
            stack[depth, 0], stack[depth, 1] = node, at
            depth, node = depth + 1, -lead
            kind, first, last = nodes[node, 0], nodes[node, 1], nodes[node, 2]
            at = first if kind == OBJECT else 0
            continue
        missing -= lead <= time or lead == time + 2
        if entry < 0:
            i = _value_end(b, i, end)
        elif lead > time:
            i = _read_text(b, i, end, labels[n], lead - time) if lead <= time + 2 else 0
        elif lead == 0 and listed:
            i = _read_list(b, i, X[n])
        else:
            number, i = read_number(b, i)
            if lead == time:
                times[n] = number
            else:
                X[n, lead] = number
        if i == 0:
            return False
        # Behind the value, or at the end of a level: the next value, or the levels that end here.
        i = _after_blanks(b, i)
        while b[i] != 44:
            if b[i] != (125 if kind == OBJECT else 93):
                return False
            if depth == 0 or i + 1 == end:
                return depth == 0 and i + 1 == end and missing == 0
            depth -= 1
            node, at = stack[depth, 0], stack[depth, 1]
            kind, first, last = nodes[node, 0], nodes[node, 1], nodes[node, 2]
            i = _after_blanks(b, i + 1)


@compiled_in_place
def _read_text(b, i, end, spans, which):
    """The place after a label (1), a text or null, or a side (2), no null and no list; 0 where it is something else."""
    if b[i] == 34:
        ended = _text_end(b, i + 1, end, True) + 1
        if which == 1 and ended - i > MAX_LABEL + 2:  # too long, or with escapes
            return 0
    elif which == 1:
        return _word_end(b, i) if b[i] == 110 else 0
    else:
        ended = 0 if b[i] in (91, 110, 123) else _value_end(b, i, end)
    spans[2 * which - 2], spans[2 * which - 1] = i, ended
    return ended


@compiled_in_place
def _read_list(b, i, x):
    """A list of as many numbers as x has room for; gives the place after it, 0 where it is something else."""
    if b[i] != 91:
        return 0
    for c in range(x.size):
        x[c], i = read_number(b, _after_blanks(b, i + 1))
        if i == 0:
            return 0
        i = _after_blanks(b, i)
        if b[i] != (44 if c < x.size - 1 else 93):
            return 0
    return i + 1


@compiled_in_place
def _is_name(b, i, end, text, begins, entry):
    """Whether the name at i is that of an entry."""
    size = begins[entry + 1] - begins[entry]
    return i + size < end and b[i + size] == 34 and is_text(b, i, text, begins[entry], size)


@compiled_in_place
def _chosen(b, i, end, names, node):
    """Which entry of a node chooses the object at i, -1 for none, -2 where only another parser can decide."""
    text, begins, order = names[0], names[1], names[4]
    begun, ended = _choosing(b, i, end, text, begins, node[3])
    return named(b, begun, ended - begun, text, begins, order, node[1], node[2]) if ended > 0 else -2


@compiled_in_place
def _choosing(b, i, end, text, begins, name):
    """Where the value begins and ends by which the object at i is chosen; twice 0 if it is not a text or whole number."""
    begun, ended = 0, 0
    if b[i] != 123:
        return 0, 0
    while True:
        i = _after_blanks(b, i + 1)
        is_it = _is_name(b, i + 1, end, text, begins, name)
        i = _name_end(b, i, end, False)
        if i == 0 or (is_it and ended > 0):  # a second one
            return 0, 0
        if not is_it:
            i = _value_end(b, i, end)
        elif b[i] == 34:
            begun, ended = i + 1, _text_end(b, i + 1, end, False)
            i = ended + 1
        else:
            begun, ended = i, read_digits(b, i, 0)[1]
            is_whole = begun < ended < begun + DIGITS and b[ended] != 46 and b[ended] | 32 != 101
            i = ended if is_whole else 0
        if i == 0:
            return 0, 0
        i = _after_blanks(b, i)
        if b[i] != 44:
            return (begun, ended) if b[i] == 125 else (0, 0)


@compiled_in_place
def _value_end(b, i, end):
    """The place after a value that no field of the job names; 0 where it is none, or deeper than DEEPEST."""
    kinds, depth = 0, 0  # a bit for each level around the value: 1 for an object
    while True:
        begun = b[i]
        if begun == 123 or begun == 91:  # noqa: PLR1714 - a set is an object
            kinds, depth = kinds << 1 | (begun == 123), depth + 1
            i = _after_blanks(b, i + 1)
            if depth > DEEPEST:
                return 0
            if b[i] != begun + 2:
                i = _name_end(b, i, end, True) if begun == 123 else i
                if i == 0:
                    return 0
                continue
        elif begun == 34:
            i = _text_end(b, i + 1, end, True) + 1
        else:
            i = _word_end(b, i) if begun >= 102 else read_number(b, i)[1]
        if i == 0:
            return 0
        # Behind the value, or at the end of a level: the next value, or the levels that end here.
        while depth:
            i = _after_blanks(b, i)
            if b[i] == 44:
                i = _after_blanks(b, i + 1)
                i = _name_end(b, i, end, True) if kinds & 1 else i
                if i == 0:
                    return 0
                break
            if b[i] != (125 if kinds & 1 else 93) or i + 1 == end:
                return 0
            kinds, depth, i = kinds >> 1, depth - 1, i + 1
        if not depth:
            return i


@compiled_in_place
def _name_end(b, i, end, escapes):
    """The place after a name and its colon; 0 where it is something else."""
    i = _text_end(b, i + 1, end, escapes) if b[i] == 34 else -1
    if i < 0:
        return 0
    i = _after_blanks(b, i + 1)
    return _after_blanks(b, i + 1) if b[i] == 58 else 0


@compiled_in_place
def _text_end(b, i, end, escapes):
    """Where a text ends, which begins at i; -1 if it is none, or has escapes that are not wanted."""
    while i < end and b[i] != 34:
        if b[i] < 32:
            return -1
        if b[i] == 92:
            i = _escape_end(b, i + 1) if escapes else 0
            if i == 0:
                return -1
        else:
            i += 1
    return i if i < end else -1


@compiled_in_place
def _escape_end(b, i):
    """The place after what follows a backslash; 0 where none is, or perhaps half of a surrogate pair."""
    for escape in ESCAPES:
        if b[i] == escape:
            return i + 1
    if b[i] != 117:
        return 0
    for step in range(1, 5):
        digit = b[i + step]
        if not (48 <= digit <= 57 or 65 <= digit <= 70 or 97 <= digit <= 102):
            return 0
    is_half = (b[i + 1] == 68 or b[i + 1] == 100) and b[i + 2] > 55
    return 0 if is_half else i + 5


@compiled_in_place
def _word_end(b, i):
    """The place after true, false or null; 0 where it is something else."""
    for word in range(len(WORDS)):
        at = 0
        while at < 5 and b[i + at] == WORDS[word, at]:
            at += 1
        if at == 5 or WORDS[word, at] == 0:
            return i + at
    return 0


@compiled_in_place
def _is_blank(c):
    return c == 32 or c == 10 or c == 13 or c == 9  # noqa: PLR1714 - a set is an object


@compiled_in_place
def _after_blanks(b, i):
    while _is_blank(b[i]):
        i += 1
    return i

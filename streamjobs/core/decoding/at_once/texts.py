"""Texts in the bytes of records: compared, looked up among the names of `names`, and shared with earlier records."""

from algorithms.common.compiled import compiled_in_place

KEPT = 32  # texts of earlier records of a batch that are looked for in later ones


@compiled_in_place
def share_texts(b, spans, seen, n):
    """Lets label and side of a row begin and end where an earlier row, if one of those in `seen` does, has the same text."""
    for at in range(0, 4, 2):
        begin, size = spans[n, at], spans[n, at + 1] - spans[n, at]
        number = size
        for i in range(begin, begin + size):
            number = 31 * number + b[i]
        place = len(seen) - 1 - number % KEPT
        row = seen[place] - 1
        if row >= 0 and spans[row, at + 1] - spans[row, at] == size and is_text(b, begin, b, spans[row, at], size):
            spans[n, at], spans[n, at + 1] = spans[row, at], spans[row, at + 1]
        else:
            seen[place] = n + 1


@compiled_in_place
def is_text(b, i, text, first, size):
    at = 0
    while at < size and b[i + at] == text[first + at]:
        at += 1
    return at == size


@compiled_in_place
def named(b, i, size, text, begins, order, first, last):
    """Which entry from first to last has the name at i, -1 for none."""
    while first < last:
        middle = (first + last) // 2
        entry = order[middle]
        begin, length = begins[entry], begins[entry + 1] - begins[entry]
        at = 0
        while at < size and at < length and b[i + at] == text[begin + at]:
            at += 1
        if at == size == length:
            return entry
        if at < size and (at == length or b[i + at] > text[begin + at]):
            first = middle + 1
        else:
            last = middle
    return -1


@compiled_in_place
def at_place(places, order, first, last, place):
    """Which entry from first to last has the place, -1 for none."""
    while first < last:
        middle = (first + last) // 2
        entry = order[middle]
        if places[entry] == place:
            return entry
        if places[entry] < place:
            first = middle + 1
        else:
            last = middle
    return -1

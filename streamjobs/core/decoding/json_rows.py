"""JSON records of one sample each to arrays: one compiled pass over the bytes, without an object for each number.

Numbers have the bits that msgspec gives them. `read_rows` reads what most writers write: an object with the fields of the
job in any order, each once, and others. Anything else is left to the parsers of single records: escapes in names,
numbers of more than 19 digits.

Source of `_rounded`: Lemire, "Number parsing at a gigabyte per second" (2021), with Mushtak and Lemire, "Fast number parsing
without fallback" (2023).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled_in_place
from algorithms.common.protocol import Array

EXACT = 22  # 10^22 is the largest power of ten that a float64 holds exactly
LEAST, MOST = -60, 40  # powers of ten that `_rounded` knows; with a whole number below 2^63 all results are normal
DIGITS = 19  # most significant ones of a number
SAFE = 1 << 53  # whole numbers up to it are float64s
WORDS = np.frombuffer(b"true\0null\0false", np.uint8).reshape(3, 5)
ESCAPES = np.frombuffer(b'"/\\bfnrt', np.uint8)  # what may stand behind a backslash, besides u and four digits
DEEPEST = 60  # levels of a field that the job does not have
ABSENT = b'"'  # in place of the name of a field that the job does not have; no field has this name


def _five(power: int) -> tuple[int, int]:
    """The first 128 bits of 5^power as two halves; of a negative power rounded up as the source has it."""
    if power >= 0:
        bits = 5**power << 128 >> (5**power).bit_length()
    else:
        divisor = 5**-power
        size = divisor.bit_length()
        bits = (1 << size + 127 if power >= -27 else 1 << 2 * size + 128) // divisor + 1
        bits >>= max(bits.bit_length() - 128, 0)
    return bits >> 64, bits & (1 << 64) - 1


POWERS = 10.0 ** np.arange(EXACT + 1)
FIVES = np.array([_five(power) for power in range(LEAST, MOST + 1)], np.uint64)


class Names(NamedTuple):
    """The fields of a job: those of x, the time and the label."""

    text: Array  # uint8, the names one after the other
    begins: Array  # (fields + 1,) int64, of each name in `text`
    listed: bool  # x is one field, a list of numbers

    @classmethod
    def of(cls, x: Sequence[str], time: str | None, label: str | None, *, listed: bool) -> "Names":
        names = [ABSENT if name is None else name.encode() for name in (*x, time, label)]
        begins = np.cumsum([0, *map(len, names)])
        return cls(np.frombuffer(b"".join(names), np.uint8), begins, listed)


class Rows(NamedTuple):
    X: Array  # (n, dim) float64
    times: Array  # (n,) float64
    labels: Array  # (n, 2) int64, where each label's text begins and ends, with its quotes; twice 0 without one


def read_rows(values: Sequence[bytes], joined: bytes, names: Names, dim: int) -> Rows | None:
    """The samples of these values, which are `joined`; None if any of them needs another parser."""
    n = len(values)
    rows = Rows(np.empty((n, dim)), np.empty(n), np.empty((n, 2), np.int64))
    sizes, seen = np.fromiter(map(len, values), np.int64, n), np.zeros(len(names.begins) - 1, np.int64)
    if _read(np.frombuffer(joined, np.uint8), sizes, names, rows, seen) < n:
        return None
    try:
        if not joined.isascii():
            joined.decode()
    except UnicodeDecodeError:
        return None
    return rows


@compiled_in_place
def _read(b, sizes, names, rows, seen):
    """The number of values that were read, up to the first that needs another parser. seen (fields,): zeros."""
    begin = 0
    for n in range(sizes.size):
        i, end = begin, begin + sizes[n]
        begin = end
        while end > i and _is_blank(b[end - 1]):
            end -= 1
        # The value ends with }, which is neither blank nor part of a number: reading of these stops there by itself.
        if end <= i or b[end - 1] != 125 or not _read_row(b, i, end, names, rows, seen, n):
            return n
    return sizes.size


@compiled_in_place
def _read_row(b, i, end, names, rows, seen, n):
    text, begins, listed = names
    X, times, labels = rows
    label, time = begins.size - 2, begins.size - 3
    labels[n, 0], labels[n, 1], missing, guess = 0, 0, time, 0
    if text[begins[time]] != 34:
        missing += 1
    i = _after_blanks(b, i)
    if b[i] != 123:
        return False
    while True:
        i = _after_blanks(b, i + 1)
        if b[i] != 34:
            return False
        field = _field(b, i + 1, end, text, begins, guess)
        if field >= 0:
            i += 1 + begins[field + 1] - begins[field]
            if seen[field] > n:
                return False
            seen[field] = n + 1
            missing -= field != label
            guess = field + 1
        else:
            i = _text_end(b, i + 1, end, False)
            if i < 0:
                return False
        i = _after_blanks(b, i + 1)
        if b[i] != 58:
            return False
        i = _after_blanks(b, i + 1)
        if field < 0:
            i = _value_end(b, i, end)
        elif field == 0 and listed:
            i = _read_list(b, i, X[n])
        elif field == label:
            first = i
            if b[i] == 34:
                i = _text_end(b, i + 1, end, True) + 1
                labels[n, 0], labels[n, 1] = first, i
            else:
                i = _word_end(b, i) if b[i] == 110 else 0
        else:
            number, i = _number(b, i)
            if field == time:
                times[n] = number
            else:
                X[n, field] = number
        if i == 0:
            return False
        i = _after_blanks(b, i)
        if b[i] != 44:
            return b[i] == 125 and i + 1 == end and missing == 0


@compiled_in_place
def _read_list(b, i, x):
    """A list of as many numbers as x has room for; gives the place after it, 0 where it is something else."""
    if b[i] != 91:
        return 0
    for c in range(x.size):
        x[c], i = _number(b, _after_blanks(b, i + 1))
        if i == 0:
            return 0
        i = _after_blanks(b, i)
        if b[i] != (44 if c < x.size - 1 else 93):
            return 0
    return i + 1


@compiled_in_place
def _field(b, i, end, text, begins, guess):
    """Which field has the name at i, -1 for none of the job. guess: which is likely, as in the record before."""
    for step in range(begins.size - 1):
        field = guess + step
        if field >= begins.size - 1:
            field -= begins.size - 1
        first, size = begins[field], begins[field + 1] - begins[field]
        if i + size < end and b[i + size] == 34:
            at = 0
            while at < size and b[i + at] == text[first + at]:
                at += 1
            if at == size:
                return field
    return -1


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
                i = _name_end(b, i, end) if begun == 123 else i
                if i == 0:
                    return 0
                continue
        elif begun == 34:
            i = _text_end(b, i + 1, end, True) + 1
        else:
            i = _word_end(b, i) if begun >= 102 else _number(b, i)[1]
        if i == 0:
            return 0
        # Behind the value, or at the end of a level: the next value, or the levels that end here.
        while depth:
            i = _after_blanks(b, i)
            if b[i] == 44:
                i = _after_blanks(b, i + 1)
                i = _name_end(b, i, end) if kinds & 1 else i
                if i == 0:
                    return 0
                break
            if b[i] != (125 if kinds & 1 else 93) or i + 1 == end:
                return 0
            kinds, depth, i = kinds >> 1, depth - 1, i + 1
        if not depth:
            return i


@compiled_in_place
def _name_end(b, i, end):
    """The place after a name and its colon; 0 where it is something else."""
    i = _text_end(b, i + 1, end, True) if b[i] == 34 else -1
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


@compiled_in_place
def _number(b, i):
    """The number at i, and the place after it: 0 where it is something else, or too long."""
    negative = b[i] == 45
    first = i + negative
    whole, i = _digits(b, first, 0)
    if i == first or (b[first] == 48 and i > first + 1):
        return 0.0, 0
    power, digits, written = 0, i - first, i
    if b[i] == 46:
        i += 1
        point = i
        if whole == 0:
            digits = 0
            while b[i] == 48:
                i += 1
        first = i
        whole, i = _digits(b, first, whole)
        if i == point:
            return 0.0, 0
        digits, power = digits + i - first, point - i
    if b[i] == 101 or b[i] == 69:
        down = b[i + 1] == 45
        first = i + 2 if down or b[i + 1] == 43 else i + 1
        exponent, i = _digits(b, first, 0)
        if i == first or i > first + 3:
            return 0.0, 0
        power += -exponent if down else exponent
    # A whole number of 19 digits may be too large; -0 is 0 where it is written as one.
    if digits > DIGITS or whole < 0 or (whole == 0 and negative and i == written):
        return 0.0, 0
    if power == 0:
        number = float(whole)
    elif whole <= SAFE and -EXACT <= power <= EXACT:
        number = float(whole) / POWERS[-power] if power < 0 else float(whole) * POWERS[power]
    elif whole > 0 and LEAST <= power <= MOST:
        number = _rounded(whole, power)
    else:
        return 0.0, 0
    return -number if negative else number, i


@compiled_in_place
def _digits(b, i, number):
    """The number with the digits from i on behind it, and the place after them."""
    while True:
        digit = np.int64(b[i]) - 48
        if digit < 0 or digit > 9:
            return number, i
        number = number * 10 + digit
        i += 1


@compiled_in_place
def _rounded(whole, power):
    """whole * 10^power as the nearest float64, of ties the even one. whole: above 0."""
    one, number, zeros = np.uint64(1), np.uint64(whole), 0
    while number >> np.uint64(63) == 0:
        number <<= one
        zeros += 1
    five, more = FIVES[power - LEAST]
    low, high = number * five, _high(number, five)
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carried = _high(number, more)
        low += carried
        if carried > low:
            high += one
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    if low <= one and -4 <= power <= 23 and mantissa & np.uint64(3) == one and mantissa << shift == high:
        mantissa &= ~one
    mantissa = (mantissa + (mantissa & one)) >> one
    return math.ldexp(float(mantissa), int((217706 * power >> 16) + 11 + np.int64(top) - zeros))


@compiled_in_place
def _high(a, b):
    """The upper half of the 128 bits of a * b."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    first, second = a1 * b0, a0 * b1
    carry = ((a0 * b0) >> half) + (first & low) + (second & low)
    return a1 * b1 + (first >> half) + (second >> half) + (carry >> half)

"""Numbers of JSON to float64 in compiled loops, with the bits that msgspec gives them.

Source of `_rounded`: Lemire, "Number parsing at a gigabyte per second" (2021), with Mushtak and Lemire, "Fast number parsing
without fallback" (2023).
"""

import math

import numpy as np

from algorithms.common.compiled import compiled_in_place

EXACT = 22  # 10^22 is the largest power of ten that a float64 holds exactly
LEAST, MOST = -60, 40  # powers of ten that `_rounded` knows; with a whole number below 2^63 all results are normal
DIGITS = 19  # most significant digits of a number
SAFE = 1 << 53  # float64 has all whole numbers up to it


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


@compiled_in_place
def read_number(b, i):
    """The number at i and the index after it; the index is 0 if this is not a number, or is too long."""
    negative = b[i] == 45
    first = i + negative
    whole, i = read_digits(b, first, 0)
    if i == first or (b[first] == 48 and i > first + 1):
        return 0.0, 0
    power, digits, written = 0, i - first, i
    if b[i] == 46:
        i += 1
        point = i
        if whole == 0 and digits == 1:  # with more digits, 0 is an overflow
            digits = 0
            while b[i] == 48:
                i += 1
        first = i
        whole, i = read_digits(b, first, whole)
        if i == point:
            return 0.0, 0
        digits, power = digits + i - first, point - i
    if b[i] == 101 or b[i] == 69:
        down = b[i + 1] == 45
        first = i + 2 if down or b[i + 1] == 43 else i + 1
        exponent, i = read_digits(b, first, 0)
        if i == first or i > first + 3:
            return 0.0, 0
        power += -exponent if down else exponent
    # A whole number of 19 digits may be too large. -0 is read elsewhere, because msgspec gives the integer 0.
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
def read_digits(b, i, number):
    """`whole` followed by the digits from i on, and the index after them."""
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

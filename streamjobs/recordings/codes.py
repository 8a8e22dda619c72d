"""Numbers that stand for a missing one, such as -999: devices and loggers write them where they have measured nothing."""

import re

import numpy as np

from streamjobs.recordings.arrays import Array

OFTEN = 3  # rows that must have it
LEAST = 100  # rows with other numbers
LIMITS = {-127, -128, 255, 32_767, -32_768, 65_535, 2**31 - 1, -(2**31), 2**32 - 1}  # of a sensor or of an integer
USUAL = {-200, *LIMITS}
_NINES = re.compile(r"-?9{2,}(\.9+)?")


def codes_of(values: Array) -> list[float]:
    """Codes among a field's numbers. values: (rows,), NaN where there is none.

    A code is the smallest or the largest number, several rows have exactly it, and it is written as people write codes:
    nines, or the limit of a device. It is farther from the other numbers than these are from one another, or the only one
    below 0.

    >>> there = np.arange(200.0) % 31
    >>> [codes_of(np.append(there, [code] * 4)) for code in (-99.0, 9999.0, 31.0, 0.0)]
    [[-99.0], [9999.0], [], []]
    """
    rest, codes = values[np.isfinite(values)], list[float]()
    while len(rest):
        ends = (float(rest.min()), rest > rest.min()), (float(rest.max()), rest < rest.max())
        found = next((code for code, others in ends if _is_code(code, rest[others], len(rest))), None)
        if found is None:
            break
        codes.append(found)
        rest = rest[rest != found]
    return codes


def _is_code(number: float, others: Array, rows: int) -> bool:
    if rows - len(others) < OFTEN or len(others) < LEAST:
        return False
    if number not in USUAL and not _NINES.fullmatch(f"{number:.10g}"):
        return False
    least, most = others.min(), others.max()
    return bool(number < 0 <= least or max(least - number, number - most) > most - least > 0)

"""What `python -m tests --fast` leaves out of tests it runs: further parameters, and most of the drawn examples."""

from collections.abc import Iterable
from typing import Any

import pytest

FAST_SHARE = 10  # one example in so many is drawn in the fast part
fast = False  # set by tests/conftest.py where tests marked slow are left out


def examples(count: int) -> int:
    """`max_examples` of a property: all of them, or a tenth of them in the fast part."""
    return max(count // FAST_SHARE, 10) if fast else count


def first_fast(values: Iterable[Any], fast: int = 1) -> list[Any]:
    """Values of a parameter (tuples: of several), of which only the first ones are in the fast part."""
    sets = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*one, marks=() if number < fast else pytest.mark.slow) for number, one in enumerate(sets)]

"""Widths by alignment in short: two data sets, a draw each. The whole script's mean over six data sets is 1.14."""

import pytest

from papers import alignment


@pytest.mark.parametrize(("name", "most"), [("Mackey-Glass", 1.3), ("german_scale", 1.3)])
def test_the_width_from_a_hundred_rows_is_near_the_best(name: str, most: float) -> None:
    found, best = alignment.ratios(name, alignment.online, trials=1)
    assert best > 0 and 1.0 <= found["alignment"] <= most

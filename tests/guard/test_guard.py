"""No count of a record or of a start is more than 3 % above the number in the repository.

A failing test names the count that grew. If the growth is intended, `python -m tests.guard --write` writes the new numbers,
and the commit says why they grew.
"""

import json
import sys

import pytest

from tests.guard.measures import MEASURES, NUMBERS, PLANTED, PYTHON, limit, measured

KNOWN = json.loads(NUMBERS.read_text())
pytestmark = [
    pytest.mark.skipif(KNOWN["python"] != PYTHON, reason=f"the numbers are those of Python {KNOWN['python']}"),
    pytest.mark.skipif(sys.platform != "linux", reason="glibc's page faults"),
]


def grown(counts: dict[str, float]) -> dict[str, str]:
    """The counts above their limits; a count without a number is above it too."""
    known = KNOWN["counts"]
    return {
        name: f"{known.get(name)} -> {count:.4g}"
        for name, count in counts.items()
        if name not in known or count > limit(name, known[name])
    }


@pytest.mark.parametrize("measure", MEASURES)
def test_no_count_has_grown(measure: str) -> None:
    assert not grown(measured(measure)), "see the header of this file"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "count"),
    [
        ("malloc", "page faults"),  # of which job depends on where its blocks come to lie
        ("order", "full calls of interpreted loops"),
        ("imports", "check modules"),
    ],
)
def test_a_cause_of_lost_speed_that_is_put_back_is_noticed(cause: str, count: str) -> None:
    assert any(name.endswith(count) for name in grown(measured(PLANTED[cause][0], cause)))

"""The ways of a record, a job file and a state through the files stay short: `python -m tests.layers ways`."""

import functools

import pytest

from streamjobs.notebook.tables import rows_of_table
from tests.layers.ways import PLACES, Way, walked, ways

walk = functools.cache(ways)


@pytest.mark.parametrize(
    ("what", "calls", "changes"),
    [
        ("one record through advance", 150, 80),
        ("job file to Job", 1000, 200),
        ("state in (decode_snapshot)", 200, 27),
    ],
)
def test_a_way_is_short(what: str, calls: int, changes: int) -> None:
    """The least numbers that are too many: of calls, and of changes of file."""
    way = walk()[what]
    assert way.calls < calls and way.changes < changes, (way.calls, way.changes)


def test_a_record_that_completes_a_window_is_walked() -> None:
    files = {file for file, _ in walk()["one record through advance"].steps}
    assert {"algorithms/subspace/okfeb.py", "streamjobs/core/predictions.py", "streamjobs/stages/windows.py"} <= files
    assert all(place.endswith(("/algorithms/", "/streamjobs/")) for place in PLACES)


def test_changes_of_file_are_counted_between_calls() -> None:
    way = Way([("a", "f"), ("a", "g"), ("b", "f"), ("a", "f")])
    assert (way.files, way.calls, way.changes) == (2, 4, 2) and Way([]).changes == 0


def test_garbage_of_other_code_is_not_walked() -> None:
    """A generator that was not finished, in a cycle: whether a collection ends it here depends on what ran before."""
    waiting = [rows_of_table([{"a": 1}, {"a": 2}])]
    next(waiting[0])
    waiting.append(waiting)  # type: ignore[arg-type]
    del waiting
    assert walked(lambda: [[number] for number in range(300_000)]) == Way([])

"""Columns that number the runs of a recording, such as experiments that follow one another on one machine."""

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.recordings.guess import guess
from streamjobs.recordings.guess.result import Guess
from streamjobs.recordings.survey import survey
from tests.recordings.fleet import START
from tests.recordings.init_told import as_csv, random, table

N = 6000
ENDS = [*accumulate(np.random.default_rng(3).integers(350, 900, 40).tolist())]
RUN = np.searchsorted(ENDS, np.arange(N), side="right").tolist()


def surveyed(path: Path, n: int = N, **columns: Callable[[int], Any]) -> Guess:
    sample = as_csv(path / "rows.csv", table(n, ts=lambda i: START + i, a=random, **columns))
    return survey(sample, guess(sample))


NAMES = ["experiment", "run_id", "Session", "VersuchNr"]
OTHERS = [pytest.param(name, False, marks=pytest.mark.long) for name in NAMES[1:]]


@pytest.mark.parametrize(("name", "text"), [(NAMES[0], False), *((name, True) for name in NAMES), *OTHERS])
def test_runs_that_their_name_says_are_keys(tmp_path, name, text):
    found = surveyed(tmp_path, **{name: lambda i: f"r{RUN[i]}" if text else RUN[i]})
    assert found.key == name and found.fields == ["a"] and "key" not in found.choose
    assert name not in found.left_out and name not in found.candidates.get("label", ())
    assert found.because["key"] == f"the rows of each of its {RUN[-1] + 1} different values follow one another"


@pytest.mark.parametrize(("name", "made"), [("batch", "B-{}"), ("product", "p{}"), ("lot", ""), ("TripNr", "")])
def test_what_may_be_runs_is_asked_for_and_tried_as_the_key(tmp_path, name, made):
    found = surveyed(tmp_path, **{name: lambda i: made.format(RUN[i]) if made else 900 + RUN[i]})
    assert found.key is None and found.candidates["key"] == [name] and found.fields == ["a"]
    assert f"{name!r} may have the key" in found.choose["key"] and "--key-is NAME" in found.choose["key"]


@pytest.mark.parametrize(
    "columns",
    [
        {"parts": lambda i: RUN[i]},  # a count
        {"setpoint": lambda i: 1000 + 100 * RUN[i]},
        {"day_of_year": lambda i: 40 + RUN[i]},
        {"shift": lambda i: f"s{RUN[i]}"},
        {"file": lambda i: f"h{i // 500}"},  # one an hour
        {"run": lambda i: i // 40},  # too short to learn from
        {"run": lambda i: RUN[i] % 4},  # values return
        {"mode": lambda i: "ab"[RUN[i] % 2]},
        {"experiment": lambda i: 7},
        {"run": lambda i: RUN[i] + 0.5},
    ],
)
def test_counts_dates_states_and_short_runs_are_no_keys(tmp_path, columns):
    found = surveyed(tmp_path, **columns)
    assert found.key is None and "key" not in found.candidates


def test_a_label_is_learned_for_one_device_across_its_runs(tmp_path):
    found = surveyed(tmp_path, run=lambda i: RUN[i], label=lambda i: "ab"[i // 30 % 2])
    assert (found.key, found.label) == (None, "label")

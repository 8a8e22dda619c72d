"""A change of 10,000 rows that goes back: the alarms of every watch, through Job.replay."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from streamjobs import Job

START, QUIET, CHANGED, AFTER = 1_700_000_000, 2_500, 10_000, 2_000
BACK = QUIET + CHANGED  # first row that is as before
SOON = 200  # rows within which an alarm is raised, or ends where values are back
ERRORS = {"watch": "ls_error", "extractor": {"name": "running_mean"}}
REFERENCE = {"reference": "first 1000 rows"}
WATCHES = ["columns", "innovations", "rows"]


class Case(NamedTuple):
    drift: dict[str, Any]
    change: str
    lasts: bool = False  # one alarm is open all the time
    most: int = 8  # alarms otherwise


def held(detector: str) -> dict[str, Any]:
    return {"detector": {"name": detector, "hold": 2 * CHANGED}}


CASES = {
    "columns": Case({"watch": "columns"}, "level"),
    "innovations": Case({"watch": "innovations"}, "level"),
    "rows": Case({"watch": "rows"}, "level"),
    "LS errors": Case(ERRORS, "spread"),
    "losses": Case({"watch": "loss"}, "labels"),
    "three": Case({"watch": WATCHES}, "level"),
    "three, spread": Case({"watch": WATCHES}, "spread", most=12),
    "five": Case({**ERRORS, "watch": [*WATCHES, "ls_error", "loss"]}, "level", most=12),
    "columns, held": Case({"watch": "columns"} | held("column_chart"), "level", lasts=True),
    "columns of a reference": Case({"watch": "columns"} | REFERENCE, "level", lasts=True),
    "LS errors of a reference": Case(ERRORS | REFERENCE, "spread", lasts=True),
    "losses of a reference": Case({"watch": "loss"} | REFERENCE, "labels", lasts=True),
    "all of a reference": Case({**ERRORS, **REFERENCE, "watch": ["columns", "ls_error"]}, "spread", lasts=True),
}


def table_of(change: str) -> pd.DataFrame:
    random, rows = np.random.default_rng(5), QUIET + CHANGED + AFTER
    X = random.normal(size=(rows, 2))
    y = X[:, 0] - X[:, 1] + 0.1 * random.normal(size=rows)
    match change:
        case "level":
            X[QUIET:BACK, 1] += 10.0
        case "spread":
            X[QUIET:BACK] *= 20.0
        case "labels":
            y[QUIET:BACK] += 20.0 * random.normal(size=CHANGED)
    return pd.DataFrame({"machine": "p", "ts": START + np.arange(rows), "a": X[:, 0], "b": X[:, 1], "y": y})


def alarms_of(case: Case) -> list[dict[str, Any]]:
    job = {
        "source": {"topic": "rows", "fields": ["a", "b"], "time": "ts", "label": "y"},
        "learner": {"name": "okfeb", "rank": 4, "budget": 8},
        "head": {"name": "rls", "task": "regression"},
        "drift": {"false_alarms": "1 per 10000 rows", **case.drift},
    }
    return Job(job).replay(table_of(case.change), key="machine").rows("alarms")


@pytest.mark.parametrize("which", CASES)
def test_a_change_of_10000_rows_is_an_alarm_and_each_that_is_raised_ends(which: str) -> None:
    case = CASES[which]
    records = alarms_of(case)
    raised = {one["id"]: one for one in records if one["open"]}
    ended = {one["id"]: one for one in records if not one["open"]}
    assert len(records) == len(raised) + len(ended) and raised.keys() == ended.keys(), "an id twice, or without an end"
    starts = sorted(one["start"] - START for one in raised.values())
    assert QUIET <= starts[0] < QUIET + SOON
    watches = {one["watch"] for one in raised.values()}
    for watch in watches:
        spans = sorted((ended[name]["start"], ended[name]["end"]) for name, one in raised.items() if one["watch"] == watch)
        assert all(start <= end for start, end in spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), "two are open at once"
        if case.lasts:
            (first, *_) = [span for span in spans if span[0] - START < QUIET + SOON]
            assert BACK <= first[1] - START < BACK + SOON
    for one in records:
        numbers = [one["before"], one["after"], *(n for c in one["columns"] for n in (c["before"], c["after"]))]
        assert all(n is None or np.isfinite(n) for n in numbers)
    if case.lasts:
        assert len(raised) <= len(watches) + 1
        assert {one["outcome"] for one in ended.values()} == {"recovered"}
    else:
        assert len(raised) <= case.most


@pytest.mark.parametrize(("watch", "each"), [("columns", 2_500), (WATCHES, 1_500), (WATCHES, 2_500)])
def test_levels_that_never_return_are_found(watch, each) -> None:
    """Eight levels, each held: what a key has learned before hides no change."""
    random = np.random.default_rng(77)
    levels = np.cumsum(random.choice([-1, 1], (9, 2)) * random.uniform(2, 5, (9, 2)), axis=0)
    X = np.repeat(levels, each, axis=0) + random.normal(size=(9 * each, 2))
    table = pd.DataFrame({"machine": "p", "ts": START + np.arange(len(X)), "a": X[:, 0], "b": X[:, 1]})
    job = {
        "source": {"topic": "rows", "fields": ["a", "b"], "time": "ts"},
        "learner": {"name": "okfeb", "rank": 2, "budget": 6},
        "drift": {"watch": watch, "false_alarms": "1 per 10000 rows"},
    }
    alarms = Job(job).replay(table, key="machine").rows("alarms")
    of_columns = {int(one["start"] - START) for one in alarms if one["watch"] == "columns"}
    changes = range(each, len(X), each)
    assert [any(change <= row < change + SOON for row in of_columns) for change in changes] == [True] * 8

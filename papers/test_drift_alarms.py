"""A part of the protocol of drift alarms and of SKAB, and that both count as they say."""

import numpy as np
import pytest

from algorithms.drift.report import FIRST_COLUMN, FIRST_SHIFT, WIDE_COLUMNS
from papers import drift_alarms as figures
from papers import drift_watches as watches
from papers import skab
from papers.drift_alarms import CHANGES, CHART
from streamjobs.settings.load import composition_from


def test_the_chart_keeps_its_number_and_finds_plain_changes():
    seen = figures.seen_of(CHART, "independent", 3, 1, CHANGES)
    print(f"{seen.rate:.2f} false alarms in 10,000 rows")
    assert seen.rate <= 2.0  # one trial of 20,000 rows: 4 of 2 stated
    for change in ("third +3 sd", "one +5 sd", "all x 2"):
        assert seen.found[change] == [True]


def test_a_column_is_named_right_where_it_moved_up():
    told = np.full(WIDE_COLUMNS, np.nan)
    assert not figures.rightly_named(told, 2)
    told[FIRST_COLUMN], told[FIRST_SHIFT] = 1, 0.8
    assert figures.rightly_named(told, 2)
    assert not figures.rightly_named(told, 1)
    told[FIRST_SHIFT] = -0.8
    assert not figures.rightly_named(told, 2)


def test_a_reference_that_stands_still_is_above_the_published_f1():
    every = skab.experiments()
    scores = skab.scored((one, skab.reference(one)) for one in every[1:12:2])
    print(scores)
    assert scores.f1 >= 0.75
    assert scores.far <= skab.BARS["FAR"]


def test_a_job_with_a_reference_is_above_the_published_f1():
    scores = skab.scored((one, skab.job(one)) for one in skab.experiments()[1:12:2])
    print(scores)
    assert scores.f1 >= 0.78
    assert scores.far <= skab.BARS["FAR"]


@pytest.mark.parametrize(("detected", "expected"), [([100.0], 1.0), ([160.0], 0.0), ([100.0, 130.0], 1.0), ([], -1.0)])
def test_nab_counts_the_earliest_detection_of_a_window(detected, expected):
    score, windows = skab.nab(np.array(detected), np.array([100]), np.arange(400.0))
    assert windows == 1
    assert score == pytest.approx(expected, abs=1e-9)


def test_nab_charges_a_detection_outside_more_the_later_it_is():
    times = np.arange(400.0)
    scores = [skab.nab(np.array([at]), np.array([100]), times)[0] for at in (50.0, 165.0, 300.0)]
    assert scores[0] == pytest.approx(-1.11)
    assert -1.0 > scores[1] > scores[2]


def test_the_three_watches_find_what_each_is_there_for():
    first, second = np.random.default_rng(0).standard_normal((2, watches.AT + watches.WITHIN, 3))
    row = watches.with_row(first, 12.0)
    assert np.flatnonzero(np.any(row != first[watches.AT :], axis=1)).tolist() == [100]
    three = composition_from(watches.table(3, watches.WATCHES)).watches
    heard = {}
    for watch in three:
        states, _ = watches.follow(watch, {}, first[: watches.AT], 0)
        parts = {"row": row, "level": second[: watches.WITHIN] + 3.0}
        heard[watch.watch] = {what for what, part in parts.items() if watches.follow(watch, states, part, 0)[1].any()}
    print(heard)
    assert "row" in heard["rows"]
    assert heard["columns"] == {"level"}


def test_charts_that_learn_from_as_many_rows_as_init_writes_find_more_small_shifts(monkeypatch):
    monkeypatch.setattr(figures, "AT", 3000)
    drift = {"watch": watches.WATCHES, "false_alarms": watches.STATED}
    table, found = watches.table(3, watches.WATCHES), np.zeros(2, int)
    ways = [composition_from(table | {"drift": drift | more}).watches[0] for more in ({}, {"learn": watches.LEARN})]
    for trial in range(watches.FIRST, watches.FIRST + 20):
        rows = figures.changed(*figures.still("sinusoid", 3, 3000 + figures.WITHIN, trial), "third +1 sd", trial)
        for n, way in enumerate(ways):
            found[n] += watches.follow(way, {}, rows, trial)[1][3000:].any()
    print(found)
    assert found[1] >= found[0] + 4 and found[1] >= 17

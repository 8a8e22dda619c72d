"""Changes of activity under a stated number: who chooses, and that the promise counts."""

import numpy as np

from papers import activity_promise as figures
from papers.activity_promise import Watched
from streamjobs.fit.recordings import Recordings, Stream


def test_nobody_chooses_and_is_told() -> None:
    person = np.repeat([3, 1, 4, 9, 5], 2)
    data = Recordings(np.zeros((10, 1)), np.zeros(10, np.int64), person, np.arange(10), ["a"])
    choose, told = figures.halves(data)
    assert (choose, told) == ([1, 3], [4, 5, 9])


def test_the_setting_that_finds_most_within_the_promise_is_chosen() -> None:
    begins = np.repeat(np.arange(6), 300)
    one = Watched(Stream(np.zeros((1800, 1)), begins % 2, begins), {})
    found = {0: [300], 1: [300, 600, 900], 2: [300, 600, 900, 1200, *range(400, 500)], 3: [300, 600]}
    assert figures.chosen(lambda _, setting: np.array(found[setting]), [[one]]) == 1


def test_a_stated_number_is_kept_where_nothing_changes() -> None:
    noise = np.random.default_rng(0).normal(size=(18_000, 1))
    alarms = figures.at_stated("conformal", {}, noise, 0.5)
    assert 0 < len(alarms) <= 18_000 / figures.STATED * 0.5

"""Changes of activity as drift: the claims on a part of the protocol, and that the counting is fair."""

import numpy as np
import pytest

from papers import activity_drift as figures
from papers.activity_drift import CONTROLS, FALSE_AN_HOUR, OKFEB, WITHIN, Found, judged
from streamjobs.fit.recordings import Stream


@pytest.fixture(scope="module")
def watched():
    return figures.run(figures.SETS["watch"](), "own", shuffles=1)


def test_okfebs_ls_error_finds_most_changes_of_exercise_at_few_false_alarms(watched):
    found = {name: figures.over_all(watched, name) for name in watched}
    for name, one in found.items():
        print(f"{name}: {one.share:.3f} of {one.changes} changes at {one.false_an_hour:.1f} false alarms an hour")
    assert found[OKFEB].share >= figures.BARS["watch"]
    assert found[OKFEB].false_an_hour <= FALSE_AN_HOUR
    assert set(found) == {OKFEB, *CONTROLS}
    norm = figures.best([(t, figures.over_all(watched, "norm of the row", t)) for t in (0.3, 0.4, 0.5, 0.7)])[1]
    assert found[OKFEB].share > norm.share + 0.2


def test_alarms_are_counted_as_the_protocol_says():
    recording = np.repeat([7, 8, 9, 10], 50)
    activity = np.repeat([0, 1, 1, 2], 50)  # rows 50 and 150 are changes, 100 begins another recording of the same
    stream = Stream(np.zeros((200, 1)), activity, recording)
    hours = 200 / 3600

    def count(*rows):
        return judged(np.array(rows, np.int64), stream)

    assert count() == Found(0, 2, 0, hours)
    assert count(50, 51, 150 + WITHIN - 1) == Found(2, 2, 0, hours)
    assert count(49, 150 + WITHIN) == Found(0, 2, 2, hours)
    assert count(100, 101, 20) == Found(0, 2, 1, hours)


def test_alarms_at_random_find_little():
    stream = Stream(np.zeros((4000, 1)), np.arange(4000) // 40 % 7, np.arange(4000) // 40)
    rows = np.sort(np.random.default_rng(0).choice(4000, 22, replace=False))  # 20 an hour
    assert judged(rows, stream).share < 0.15

"""What the stage of idle samples stores, which earlier releases read too."""

import numpy as np

from streamjobs.stages.idle import AWAKE, FIRST, Idle
from streamjobs.stages.stage import Shape

SHAPE = Shape(dim=2, width=2, label_width=1, targets=1)


def awake(idle, work, X):
    learn = np.zeros(len(X), np.int8)
    idle.advance(work, np.zeros(len(X), np.int64), X, learn)
    return learn & AWAKE > 0


def test_earlier_releases_go_on_from_every_stored_state():
    """They take no negative number of repeats, and count from 0 again with the next other sample."""
    idle, random = Idle(after=2), np.random.default_rng(5)
    work = idle.holding(idle.begin(SHAPE, 0))
    for n in range(3 * FIRST):
        repeated = n % 7 < 4
        X = work["sample"][:1].copy() if repeated and n else random.normal(size=(1, 2))
        awake(idle, work, X)
        assert work["repeats"][0] >= 0 and np.array_equal(work["sample"][0], X[0])
    assert work["repeats"][0] < 7, "as those of an earlier release, once enough other samples came"


def test_a_key_that_begins_with_zeros_is_new_and_one_that_an_earlier_release_stored_is_not():
    idle, zeros = Idle(after=2), np.zeros((100, 2))
    new = awake(idle, idle.holding(idle.begin(SHAPE, 0)), zeros)
    assert new.tolist() == [True] * 2 + [False] * 38 + [True] * 60, "beyond 40 repeats zeros are its normal values"
    stored = idle.begin(SHAPE, 0)._replace(sample=np.zeros(2), repeats=0)
    assert not awake(idle, idle.holding(stored), zeros)[2:].any()

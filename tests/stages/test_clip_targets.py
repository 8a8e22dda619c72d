"""Clipped targets: the definition, what an outlier and a change of level do, what is never touched."""

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.clip_targets import FIRST, ClipTargets
from streamjobs.stages.stage import Shape
from tests.reference import clip_targets as reference


def begun(clip: float = 10.0, targets: int = 1, keys: int = 1):
    stage = ClipTargets(clip=clip)
    fresh = stage.begin(Shape(dim=1, width=1, label_width=targets, targets=targets), 0)
    work = stage.workspace(fresh, slots=keys)
    for slot in range(keys):
        stage.load(work, slot, fresh)
    return stage, fresh, work


def clipped(Y: np.ndarray, clip: float = 10.0) -> np.ndarray:
    stage, _, work = begun(clip, Y.shape[1])
    return stage.advance(work, np.zeros(len(Y), np.int64), Y, np.full(len(Y), LEARN, np.int8))[0]


def stream(seed: int, n: int = 400, keys: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    Y = random.standard_t(2, (n, 2)) * [1.0, 100.0]
    Y[random.random(n) < 0.02] *= 1e6
    Y[random.random(n) < 0.1] = np.nan
    Y[n // 2 :] += 500.0
    return random.integers(0, keys, n), Y


@pytest.mark.parametrize("seed", range(4))
def test_it_is_its_definition_in_any_mix_of_keys_and_any_split(seed):
    slots, Y = stream(seed)
    learn = np.full(len(Y), LEARN, np.int8)
    stage, fresh, work = begun(5.0, 2, 3)
    whole, count = stage.advance(work, slots, Y, learn)
    states = [stage.save(work, slot, fresh) for slot in range(3)]
    wanted = Y.copy()
    for key in range(3):
        for t in range(2):
            one = reference.ClipTargets(5.0)
            for n in np.flatnonzero((slots == key) & np.isfinite(Y).all(axis=1)):
                wanted[n, t] = one.learned(float(Y[n, t]))
            assert states[key].mean[t] == pytest.approx(one.mean) and states[key].seen == one.seen
    np.testing.assert_allclose(whole, wanted, rtol=1e-9)
    differ = (whole != Y) & np.isfinite(Y)
    assert count == differ.any(axis=1).sum() > 3

    _, _, work = begun(5.0, 2, 3)
    parts = []
    for at in range(0, len(Y), 7):
        some = slice(at, at + 7)
        parts.append(stage.advance(work, slots[some], Y[some], learn[some])[0])
        kept = [stage.save(work, slot, fresh) for slot in range(3)]
        _, _, work = begun(5.0, 2, 3)
        for slot, state in enumerate(kept):
            stage.load(work, slot, state)
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_what_came_stays_and_what_is_not_learned_counts_for_nothing():
    Y = np.random.default_rng(0).normal(size=(50, 1))
    Y[30] = 1e6
    given = Y.copy()
    learned = clipped(Y)
    assert np.array_equal(Y, given) and abs(learned[30, 0]) < 20 and (np.delete(learned, 30) == np.delete(Y, 30)).all()
    for learn in (PREDICT_ONLY, LEARN_EXTRACTOR):
        stage, fresh, work = begun()
        out, count = stage.advance(work, np.zeros(50, np.int64), Y, np.full(50, learn, np.int8))
        assert np.array_equal(out, Y) and count == 0 and stage.save(work, 0, fresh).seen == 0
    stage, _, work = begun()
    assert stage.advance(work, np.zeros(50, np.int64), Y, np.full(50, LEARN_HEAD, np.int8))[1] == 1


def test_the_first_targets_and_those_without_spread_are_not_clipped():
    Y = np.random.default_rng(0).normal(size=(40, 1))
    Y[FIRST - 1] = 1e6
    assert clipped(Y)[FIRST - 1] == 1e6
    same = np.full((500, 1), 0.1)
    same[400:] = np.random.default_rng(0).normal(5, 1, (100, 1))
    assert np.array_equal(clipped(same)[:401], same[:401])


@pytest.mark.parametrize(("deviations", "rows"), [(50, 2), (1e3, 4), (1e6, 6)])
def test_a_change_of_level_is_followed_within_the_rows_stated(deviations, rows):
    Y = np.random.default_rng(0).normal(size=(2000, 1))
    Y[1000:] += deviations
    away = np.flatnonzero(clipped(Y)[1000:] != Y[1000:])
    assert away.tolist() == list(range(rows))


def test_a_key_that_stood_still_for_long_is_soon_learned_again():
    random = np.random.default_rng(0)
    Y = np.concatenate([random.normal(size=200), np.zeros(100_000), random.normal(5, 1, 200)])[:, None]
    assert (clipped(Y) != Y).sum() < 10


@pytest.mark.parametrize("name", ["klms", "qklms", "krls", "exkrls", "knlms", "rls", "sispeed"])
def test_one_wild_target_does_not_ruin_the_learner(name):
    """Where it is learned as it is, the error stays more than ten times as large for 300 rows; clipped, less than twice."""
    small = {"rls": {"intercept": True}, "sispeed": {"rank": 8, "seed_size": 20, "budget": 30, "novelty": 0.5}}
    learner = learner_from(name, small.get(name, {"budget": 60}))
    random = np.random.default_rng(1)
    X = random.uniform(-2, 2, (600, 2))
    Y = np.sin(2 * X[:, :1]) + 0.3 * X[:, 1:] + 0.05 * random.normal(size=(600, 1))
    wild = Y.copy()
    wild[300] = 1e6

    def error(labels: np.ndarray) -> float:
        _, out = learner.run(learner.init(dim=2, targets=1, seed=0), X, labels)
        return float(np.abs(out.prediction - Y)[301:].mean())

    clean = error(Y)
    assert error(wild) > 10 * clean
    assert error(clipped(wild)) < 2 * clean
    assert error(clipped(Y)) == clean


def test_a_state_that_cannot_be_is_refused():
    stage, fresh, _ = begun(targets=2)
    for field, value in (("variance", -1.0), ("largest", -1.0), ("in_a_row", -1), ("in_a_row", 5_000), ("mean", np.nan)):
        array = getattr(fresh, field).copy()
        array[1] = value
        with pytest.raises(SnapshotError, match=rf"clip\.{field}"):
            StateCheck({"clip": stage}, {"clip": fresh})({"clip": fresh._replace(**{field: array})}, None)

"""What is special about skegd and its comparators on explicit features."""

from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.kernels import Kernel
from algorithms.sketching.sketch import drawn_landmarks, s_p, sketches
from papers.batch.sketched import incremental_nystrom, relative_error, sketched_kernel
from streamjobs.learner_checks.case import easy
from tests.reference import sketching as slow

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
SIZES: dict[str, Any] = {"budget": 12, "rows": 15, "sketch_rows": 9, "landmarks": 6, "rank": 4, "sketch_blocks": 2}
SKEGD = {**SIZES, "refresh_every": 3, "ridge": 0.01, "kernel": KERNEL}
X, Y = easy("classification", 80, 3, 1, "signs", 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"map": "printed", "rebase": "printed", "step_size": 0.5, "refresh_every": 40, "rows": 0},
        {"map": "printed", "rebase": "projected", "step_size": 1.0},
        {"rebase": "printed", "step_size": 0.1, "refresh_every": 1},
    ],
    ids=str,
)
def test_skegd_in_its_printed_parts_agrees_with_the_slow_reference(settings):
    learner = learner_from("skegd", {**SKEGD, **settings})
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    wanted = slow.skegd(X, Y, **{**SKEGD, **settings})["prediction"]
    np.testing.assert_allclose(out.prediction, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", [KERNEL, {"name": "polynomial", "degree": 2}], ids=str)
def test_the_sketches_kept_row_by_row_are_those_of_the_rows_in_the_state(kernel):
    learner = learner_from("skegd", {**SKEGD, "kernel": kernel})
    state, out = learner.run(learner.init(dim=3, targets=1, seed=7), X, Y[np.random.default_rng(0).permutation(len(Y))])
    assert out.evicted.any()
    assert len(state.entered) == 15
    assert np.array_equal(state.landmarks, state.support[state.landmark_slots])
    S = s_p(state.columns, state.signs, 9)
    assert ((S != 0).sum(axis=1) == 2).all()
    assert set(np.abs(S).ravel()) == {0.0, 1 / np.sqrt(2)}
    pp, pm = sketches(learner.kernel, state.entered, S, state.landmarks)
    np.testing.assert_allclose(state.sketch_pp, pp, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.sketch_pm, pm, rtol=1e-10, atol=1e-12)


def test_skegd_without_a_limit_of_rows_takes_single_rows():
    learner = learner_from("skegd", {**SKEGD, "rows": 0})
    state = learner.init(dim=3, targets=1, seed=0)
    whole, _ = learner.run(state, X, Y)
    for x, y in zip(X, Y, strict=True):
        state, _ = learner.run(state, x[None], y[None])
    np.testing.assert_equal(state._asdict(), whole._asdict())


def test_scores_of_skegd_are_features_times_w():
    learner = learner_from("skegd", SKEGD)
    state, _ = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    np.testing.assert_allclose(learner.predict(state, X), learner.transform(state, X) @ state.w, atol=1e-12)


def test_a_skegd_state_with_another_w_goes_on_from_it():
    learner = learner_from("skegd", SKEGD)
    state, _ = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    turned = state._replace(w=-state.w)
    np.testing.assert_allclose(learner.predict(turned, X), -learner.predict(state, X), atol=1e-12)
    half = state._replace(experts=np.empty((0, state.experts.shape[1])))
    np.testing.assert_allclose(learner.predict(half, X), learner.predict(state, X), atol=1e-12)


def test_several_targets_of_skegd_share_one_buffer_and_one_map():
    learner = learner_from("skegd", SKEGD)
    both = np.hstack([Y, Y])
    state, out = learner.run(learner.init(dim=3, targets=2, seed=0), X, both)
    _, alone = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    assert state.w.shape == (4, 2)
    np.testing.assert_allclose(out.prediction, np.hstack([alone.prediction] * 2), atol=1e-9)


def test_blocks_of_one_row_with_turned_labels_leave_scores_bounded():
    random = np.random.default_rng(0)
    rows, labels = random.standard_normal((60, 3)), np.where(random.random((60, 1)) < 0.5, 1.0, -1.0)
    labels[1::2] *= -1
    learner = learner_from("skegd", {"budget": 20, "refresh_every": 5})
    stream = np.repeat(rows, 10, axis=0), np.repeat(labels, 10, axis=0)
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), *stream)
    assert np.abs(out.prediction).max() < 10


def test_a_row_raises_the_weights_of_skegd_by_no_more_than_its_documentation_says():
    random = np.random.default_rng(1)
    rows = random.standard_normal((500, 2)) * random.choice([1.0, 3.0], (500, 1))  # many far from every landmark
    labels = np.where(random.random((500, 1)) < 0.5, 1.0, -1.0)
    learner = learner_from("skegd", {"budget": 20, "kernel": {"name": "gaussian", "bandwidth": 0.5}})
    state, rates, excess = learner.init(dim=2, targets=1, seed=0), np.array(learner.rates), []
    for x, y in zip(rows, labels, strict=True):
        before = state
        state, out = learner.run(state, [x], [y])
        if len(before.map) and np.array_equal(before.map, state.map):
            length2 = (out.features**2).sum()
            most = np.where(rates > 0, 2 * rates + rates**2 * length2, min(20.0, 1.0 / length2))
            excess.append((state.experts**2).sum(axis=0) - (before.experts**2).sum(axis=0) - most)
    assert len(excess) > 300 and np.max(excess) <= 1e-9


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize(("name", "settings"), [("nogd", {"budget": 15, "rank": 6}), ("fogd", {"features": 30})])
def test_each_loss_agrees_with_the_slow_reference(name, settings, loss):
    settings = {**settings, "step_size": 0.02, "ridge": 0.01, "kernel": KERNEL}
    learner = learner_from(name, {**settings, "loss": loss})
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    wanted = getattr(slow, name)(X, Y, **settings, loss=loss)["prediction"]
    np.testing.assert_allclose(out.prediction, wanted, rtol=1e-6, atol=1e-7)


def test_the_augmented_map_is_not_behind_nystrom_on_the_same_landmarks():
    rows, kernel = np.random.default_rng(0).standard_normal((300, 4)), Kernel(bandwidth=2.0)
    chosen = drawn_landmarks(0, 100, 50)
    moved = np.concatenate([rows[chosen], np.delete(rows, chosen, axis=0)])
    sketched = relative_error(kernel, rows, sketched_kernel(kernel, rows, rank=20, refresh_every=10))
    plain = relative_error(kernel, moved, incremental_nystrom(kernel, moved, rank=20, landmarks=50))
    assert sketched <= 1.1 * plain

"""WR-KPCA agrees with plain matrices, is kernel PCA where it forgets nothing, and tracks better than OK-FEB."""

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from papers import okfeb_motion
from papers.batch import subspace as batch
from tests.learners.bases import with_basis
from tests.reference.okfeb import gaussian
from tests.reference.wrkpca import PlainWrkpca

SETTINGS = {"rank": 3, "budget": 8, "ridge": 0.01, "kernel": {"name": "gaussian", "bandwidth": 1.5}}


def rows(n: int = 120, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize("weights", ((0.98, 0.03, 0.7), (0.9, 1.0, 0.0), (1.0, 0.5, 0.5)))
def test_every_number_is_that_of_the_plain_matrices(weights):
    decay, floor, fade = weights
    learner = learner_from("wrkpca", SETTINGS | {"decay": decay, "floor": floor, "fade": fade})
    X = rows()
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    plain = PlainWrkpca(gaussian(1.5), 3, 8, 0.01, decay, floor, fade)
    steps = np.array([plain.step(x) for x in X])
    np.testing.assert_allclose(out.ls_error, steps[:, 0], atol=1e-7)
    np.testing.assert_allclose((out.features**2).sum(axis=1), steps[:, 1], atol=1e-7)
    np.testing.assert_array_equal(state.support, plain.support)
    np.testing.assert_allclose(state.spread, plain.M[np.tril_indices(8)], rtol=1e-6, atol=1e-8)
    assert state.age.tolist() == plain.age


def test_with_room_for_every_row_it_is_kernel_pca():
    X = rows(40)
    settings = SETTINGS | {"budget": 40, "decay": 1.0, "floor": 1.0, "ridge": 1e-9}
    learner = learner_from("wrkpca", settings)
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    U = batch.kpca(learner.kernel, X, 3).features(learner.kernel, X)
    Z = learner.transform(state, X)
    np.testing.assert_allclose(Z @ Z.T, U @ U.T, atol=1e-6)


def test_the_directions_are_orthonormal_and_the_way_between_bases_is_theirs():
    learner = learner_from("wrkpca", SETTINGS)
    probe, state, turns = rows(50, seed=8), learner.init(dim=3, targets=0, seed=0), 0
    for row in rows(40):
        before = state
        state, basis = with_basis(learner, state, row)
        if basis.moved[0]:
            turns += 1
            T = basis.transfer[0]
            assert np.linalg.norm(T, 2) <= 1 + 1e-6
            # What both subspaces span is carried over: features turn as T says up to what the subspaces differ by.
            old, new = learner.transform(before, probe), learner.transform(state, probe)
            assert np.linalg.norm(old @ T.T - new) <= np.linalg.norm(old @ old.T - new @ new.T) + 0.3 * np.linalg.norm(new)
    assert turns == 37


def test_it_beats_both_evictions_of_okfeb_on_recordings_of_motion():
    """Mismatch, LS error of the last 100 rows, LS error of the next row: geometric means of ratios."""
    name, X = next(okfeb_motion.streams(1, 1200))
    okfeb = {"name": "okfeb", "rank": 10, "budget": 15, "censor": "off", "update": "parametric"}
    ours = np.array(okfeb_motion.measured({"name": "wrkpca"}, X, 100))
    paper = np.array(okfeb_motion.measured(okfeb | {"evict": "decayed_norm", "decay": 0.9}, X, 100))
    projected = np.array(okfeb_motion.measured(okfeb | {"evict": "projected", "decay": 0.97}, X, 100))
    assert (ours <= paper * (0.58, 0.72, 1.03)).all(), (name, ours / paper)
    assert (ours[:2] < projected[:2]).all()


def test_a_state_made_by_hand_runs_at_once_and_one_too_large_is_refused():
    learner = learner_from("wrkpca", SETTINGS)
    start = learner.init(dim=3, targets=0, seed=0)
    S, X = rows(6), rows(5, seed=9)
    _, out = learner.run(start._replace(support=S), X)
    assert np.isfinite(out.features).all()
    with pytest.raises(ValueError, match="stores 9 samples, this learner's budget is 8"):
        learner.run(start._replace(support=rows(9)), X)
    with pytest.raises(SettingError, match="Wrkpca: floor must be above 0, at most 1; got 0"):
        learner_from("wrkpca", SETTINGS | {"floor": 0.0})


def test_repeats_are_not_stored_and_a_far_place_is_left_again():
    learner = learner_from("wrkpca", {"rank": 3, "budget": 8})
    X = rows(300)
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    idle, same = learner.run(state, np.repeat(X[-1:], 500, axis=0))
    assert not same.admitted.any()
    np.testing.assert_array_equal(idle.support, state.support)
    far, _ = learner.run(state, 100 * rows(40, seed=7))
    _, back = learner.run(far, rows(600, seed=11))
    _, calm = learner.run(state, rows(600, seed=11))
    assert back.ls_error[300:].mean() <= 1.05 * calm.ls_error[300:].mean()

"""The control: projection on the last points."""

import numpy as np

from algorithms import learner_from
from algorithms.common.kernels import gram

SETTINGS = {"rank": 4, "ridge": 0.01, "kernel": {"name": "gaussian", "bandwidth": 1.5}}


def test_it_keeps_the_last_rows_and_projects_on_them():
    X = np.random.default_rng(0).normal(size=(30, 3))
    learner = learner_from("last_points", SETTINGS)
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    np.testing.assert_array_equal(state.points, X[-4:])
    assert np.isnan(out.ls_error[:4]).all()
    for n in range(4, 30):
        K, k = gram(learner.kernel, X[n - 4 : n], X[n - 4 : n]), gram(learner.kernel, X[n - 4 : n], X[n : n + 1])[:, 0]
        q = np.linalg.solve(K + 0.01 * np.eye(4), k)
        np.testing.assert_allclose(out.ls_error[n], 1 - 2 * k @ q + q @ K @ q, atol=1e-12)
        np.testing.assert_allclose(out.features[n], np.linalg.cholesky(K).T @ q, atol=1e-9)


def test_a_frozen_state_gives_the_features_of_its_points():
    X = np.random.default_rng(0).normal(size=(30, 3))
    learner = learner_from("last_points", SETTINGS)
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X[:20])
    np.testing.assert_array_equal(learner.transform(state, X[20:21])[0], learner.run(state, X[20:])[1].features[0])

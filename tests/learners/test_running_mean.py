"""The plain control: distance to the running mean."""

import numpy as np
import pytest

from algorithms import learner_from


@pytest.mark.parametrize("decay", [0.9, 1.0])
def test_the_ls_error_is_the_distance_to_the_weighted_mean_of_the_rows_before(decay):
    X = np.random.default_rng(0).normal(size=(40, 3)) + np.array([0.0, 5.0, -1.0])
    learner = learner_from("running_mean", {"decay": decay, "kernel": {"name": "gaussian", "bandwidth": 2.0}})
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert np.isnan(out.ls_error[0])
    for n in range(1, 41):
        mean = np.average(X[:n], axis=0, weights=decay ** np.arange(n)[::-1])
        if n < 40:
            np.testing.assert_allclose(out.ls_error[n], 2 - 2 * np.exp(-np.sum((X[n] - mean) ** 2) / 8), rtol=1e-9)
    np.testing.assert_allclose(state.mean, mean, rtol=1e-12)


def test_a_constant_stream_has_no_ls_error_at_all():
    learner = learner_from("running_mean", {})
    _, out = learner.run(learner.init(dim=2, targets=0, seed=0), np.full((50, 2), 0.1))
    assert (out.ls_error[1:] == 0.0).all()

"""Settings near the ends of their ranges: states stay finite, and a spoiled learner learns the next good rows."""

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import Array

SQUARE = {"name": "polynomial", "degree": 2}
LONG_STEPS = {"rank": 3, "budget": 6, "update": "nonparametric", "step_rule": "lipschitz", "kernel": SQUARE}


def rows(n: int) -> Array:
    return np.random.default_rng(0).standard_normal((n, 3))


def far(X: Array) -> Array:
    """Rows up to 1e77 between others: kappa(x, x) is finite there, and sums of it are not."""
    X = X.copy()
    X[100:400:7] *= 10.0 ** np.random.default_rng(1).uniform(60, 77, (43, 1))
    return X


@pytest.mark.parametrize(
    ("name", "settings", "X"),
    [
        ("okfeb", LONG_STEPS, far(rows(600))),
        ("wrkpca", {"rank": 3, "budget": 6, "floor": 1e-300, "kernel": SQUARE}, rows(600) * 1e5),
        ("exkrls", {"budget": 8, "transition": 1e-200, "state_noise": 0.0}, rows(600)),
        ("rls", {"forgetting": 1e-300}, rows(600)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_stays_finite(name, settings, X):
    learner = learner_from(name, settings)
    state, _ = learner.run(learner.init(dim=3, targets=1, seed=0), X, np.clip(X[:, :1], -9, 9))
    for field, value in zip(state._fields, state, strict=True):
        assert np.isfinite(value).all(), field


@pytest.mark.parametrize("seed", range(3))
def test_exkrls_with_a_small_ridge_learns_again_after_rounding_spoiled_its_covariance(seed):
    """Rows close to 0, rows that shrink, and a sensor that stood still; then ordinary ones."""
    A = np.random.default_rng(seed).standard_normal((1200, 3))
    X, Y = A.copy(), np.tanh(A[:, :1])
    X[:60] *= 1e-300
    X[60:120] *= np.exp(np.linspace(200, -200, 60))[:, None]
    X[180:240], Y[180:240] = 0.0, 0.0
    learner = learner_from("exkrls", {"budget": 8, "ridge": 1e-6, "forgetting": 0.99, "transition": 0.9999})
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    assert np.median(out.loss[-500:]) < 0.1

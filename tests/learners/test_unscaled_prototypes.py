"""Prototype learners with kernels that have no scale of their own, on columns that nobody scaled.

The gram matrix of such rows is singular to rounding, and its ridge is far below rounding. A learner must stay finite, and
its predictions near those of a batch solution for the same prototypes.
"""

from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.kernels import gram, own_value
from algorithms.common.protocol import Array
from algorithms.prototypes.inverse import ridge_of
from algorithms.prototypes.regression import LONGEST, longest

KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "polynomial": {"name": "polynomial", "degree": 2},
    "gaussian": {"name": "gaussian"},
}
SWAPPING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("online_greedy", {}),
    ("block_greedy", {"block_size": 5}),
    ("stream_greedy", {"stop_after": 60}),
    ("coherence", {}),
)
MAPS = ("ald", "random_prototypes", "generalised_coherence", "sieve_streaming")
STREAMS = ("1e3", "1e5", "1e8", "mixed", "rank 2", "repeats", "constant and noise", "constant", "one column")
WORST = 25.0  # of the largest label or batch prediction: a kernel of degree 2 extrapolates far


def stream(kind: str, n: int, seed: int) -> tuple[Array, Array]:
    """Rows X (n, columns) that are not scaled, and a target that is linear in them, with noise of .1."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((n, 6))
    X: Array = {
        "mixed": noise * 10.0 ** np.array([0, 2, 3, 5, 6, 8]),
        "rank 2": noise[:, :2] @ random.standard_normal((2, 6)) * 1e4,
        "repeats": noise[random.integers(0, min(8, n), n)] * 1e4,
        "constant and noise": np.hstack([np.full((n, 5), 1e6), noise[:, :1]]),
        "constant": np.full((n, 6), 1e6),
        "one column": noise[:, :1] * 1e5,
    }.get(kind, np.empty(0))
    if not X.size:
        X = (noise + 1.0) * float(kind)
    spread = np.maximum(X.std(axis=0), 1e-9 * np.abs(X).max())
    target = (X - X.mean(axis=0)) / spread @ random.standard_normal((X.shape[1], 1))
    return X, target + 0.1 * random.standard_normal((n, 1))


def batch(learner: Any, state: Any, X: Array, Y: Array) -> Array:
    """Predictions of ridge regression on the prototypes of the state, solved at once."""
    prototypes, rows = state.prototypes, gram(learner.kernel, X, state.prototypes)
    count, code = len(prototypes), learner.kernel.code
    if learner.regress == "labels":
        own = [ridge_of(own_value(code, x), learner.regress_ridge, count) for x in prototypes]
        K = gram(learner.kernel, prototypes, prototypes) + np.diag(own)
        scale = 1.0 / np.sqrt(K.diagonal())
        return rows @ (scale[:, None] * np.linalg.solve(K * np.outer(scale, scale), scale[:, None] * state.labels))
    features = learner.transform(state, X)[:, :count] if learner.regress == "nystrom" else rows
    reach = longest(learner.form, code, prototypes, count)
    ridge = max(learner.regress_ridge, reach / LONGEST, features.max() ** 2 * 1e-13)
    wide = np.vstack([features, np.sqrt(ridge) * np.eye(count)])
    return features @ np.linalg.lstsq(wide, np.vstack([Y, np.zeros((count, 1))]), rcond=None)[0]


def check_finite(state: Any) -> None:
    for field, value in zip(state._fields, state, strict=True):
        assert np.isfinite(np.asarray(value)).all(), field


def check_regression(name: str, settings: dict[str, Any], kind: str, rows: int, seed: int) -> None:
    X, Y = stream(kind, rows, seed)
    learner = learner_from(name, settings)
    state, out = learner.run(learner.init(dim=X.shape[1], targets=1, seed=0), X, Y)
    check_finite(state)
    assert np.isfinite(out.prediction).all()
    wanted = batch(learner, state, X, Y)
    most = WORST * max(np.abs(wanted).max(), np.abs(Y).max())
    assert np.abs(out.prediction[rows // 2 :]).max() <= most  # few rows extrapolate as far as they like
    assert np.abs(learner.predict(state, X)).max() <= most
    kxx = np.array([own_value(learner.kernel.code, x) for x in X])
    assert (out.ls_error >= 0.0).all()
    assert (out.ls_error <= 1.0001 * kxx).all()


def check_map(name: str, settings: dict[str, Any], kind: str, rows: int, seed: int) -> None:
    X, _ = stream(kind, rows, seed)
    learner = learner_from(name, settings)
    state, out = learner.run(learner.init(dim=X.shape[1], targets=0, seed=0), X)
    check_finite(state)
    assert np.isfinite(out.features).all()
    kxx = np.array([own_value(learner.kernel.code, x) for x in X])
    assert (out.ls_error >= 0.0).all()
    assert (out.ls_error <= 1.0001 * kxx).all()


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("regress", ["labels", "nystrom", "features"])
@pytest.mark.parametrize(("name", "settings"), SWAPPING, ids=str)
def test_predictions_on_columns_that_are_not_scaled_stay_near_batch(name, settings, regress, kernel, kind):
    settings = {**settings, "budget": 15, "regress": regress, "kernel": KERNELS[kernel]}
    check_regression(name, settings, kind, rows=300, seed=1)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("name", "settings"), [*SWAPPING, *((name, {}) for name in MAPS)], ids=str)
def test_features_of_columns_that_are_not_scaled_stay_finite(name, settings, kernel, kind):
    check_map(name, {**settings, "budget": 15, "kernel": KERNELS[kernel]}, kind, rows=300, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "seed"), [("gaussian", 2), *(pytest.param(kernel, 3, marks=pytest.mark.long) for kernel in KERNELS)]
)
@pytest.mark.parametrize(("name", "settings"), [*SWAPPING, *((name, {}) for name in MAPS)], ids=str)
def test_long_streams_of_columns_that_are_not_scaled_stay_near_batch(name, settings, kernel, seed):
    for kind in STREAMS:
        base = {**settings, "budget": 60, "kernel": KERNELS[kernel]}
        if name in MAPS:
            check_map(name, base, kind, rows=3000, seed=seed)
        else:  # the set that a regression reads is the one that has features
            for regress in ("labels", "nystrom", "features"):
                check_regression(name, {**base, "regress": regress}, kind, rows=3000, seed=seed)

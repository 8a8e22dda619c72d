"""The kernel filters against their slow references, what their budgets keep, and what a job takes."""

from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import Array
from tests.reference import adaptive as reference
from tests.reference.prototypes import gaussian

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
SLOW = gaussian(1.0)
POLYNOMIAL = {"name": "polynomial", "degree": 2, "offset": 1.0, "scale": 1.0}
FAMILY = ("klms", "qklms", "knlms", "krls", "exkrls")


def stream(n: int, dim: int = 2, targets: int = 2, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, dim))
    return X, np.sin(2 * X @ random.standard_normal((dim, targets))) + 0.1 * random.standard_normal((n, targets))


def ran(name: str, settings: dict[str, Any], X: Array, Y: Array) -> Any:
    learner = learner_from(name, {"kernel": KERNEL, **settings})
    return learner.run(learner.init(dim=X.shape[1], targets=Y.shape[1], seed=0), X, Y)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("klms", {"step_size": 0.3}),
        ("klms", {"step_size": 0.3, "budget": 20}),
        ("qklms", {"step_size": 0.3, "quantum": 0.2}),
        ("qklms", {"step_size": 0.3, "quantum": 0.05, "budget": 15}),
        ("knlms", {"step_size": 0.3, "coherence_below": 0.7, "ridge": 0.01, "loss": "squared"}),
        ("knlms", {"step_size": 0.3, "coherence_below": 0.7, "ridge": 0.01, "loss": "hinge"}),
        ("krls", {"ald_above": 0.05, "forgetting": 1.0}),
        ("krls", {"ald_above": 0.05, "forgetting": 0.99}),
        ("krls", {"ald_above": 0.02, "forgetting": 0.99, "budget": 12}),
        ("exkrls", {"transition": 0.99, "forgetting": 0.99, "state_noise": 0.01, "ridge": 0.1}),
        ("exkrls", {"transition": 1.0, "forgetting": 1.0, "state_noise": 0.0, "ridge": 0.5}),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value,
)
def test_agrees_with_its_slow_reference_in_every_prediction_and_weight(name: str, settings: dict[str, Any]) -> None:
    X, Y = stream(200)
    if settings.get("loss") == "hinge":
        Y = np.sign(Y)
    state, out = ran(name, settings, X, Y)
    predictions, chosen, weights = getattr(reference, name)(SLOW, X, Y, **settings)
    np.testing.assert_allclose(out.prediction, predictions, atol=1e-8)
    np.testing.assert_allclose(state.weights, weights, atol=1e-7)
    assert (state.dictionary == X[chosen]).all() and state.seen == 200
    if settings.get("budget"):
        assert out.evicted.sum() >= 5 and len(chosen) == settings["budget"]
        assert out.admitted.sum() - out.evicted.sum() == len(chosen)


def test_a_budget_of_exkrls_is_a_kalman_filter_of_values_that_projects_what_leaves() -> None:
    X, Y = stream(80, targets=1)
    model = {"transition": 0.98, "forgetting": 0.99, "state_noise": 0.01, "ridge": 0.1, "budget": 12}
    state, out = ran("exkrls", model, X, Y)
    predictions, chosen, weights = reference.function_space_filter(SLOW, X, Y, **model, jitter=1e-8)
    np.testing.assert_allclose(out.prediction, predictions, atol=1e-4)
    assert (state.dictionary == X[chosen]).all() and len(chosen) == 12
    np.testing.assert_allclose(state.weights, weights, atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_exrls_agrees_with_its_slow_reference(intercept: bool) -> None:
    X, Y = stream(150, dim=3)
    model = {"transition": 0.99, "forgetting": 0.98, "state_noise": 0.01, "ridge": 0.1}
    learner = learner_from("exrls", {**model, "intercept": intercept})
    state, out = learner.run(learner.init(dim=3, targets=2, seed=0), X, Y)
    predictions, weights = reference.exrls(np.column_stack([X, np.ones(150)]) if intercept else X, Y, **model)
    np.testing.assert_allclose(out.prediction, predictions, atol=1e-9)
    np.testing.assert_allclose(np.vstack([state.weights, state.bias])[: len(weights)], weights, atol=1e-9)


def test_exkrls_with_a_linear_kernel_is_exrls() -> None:
    """The kernel's form counts the state's noise beside beta, the linear one's beside 1."""
    X, Y = stream(60, dim=3)
    forgetting, noise = 0.97, 0.02
    model = {"transition": 0.98, "forgetting": forgetting, "ridge": 0.5}
    _, kernel = ran("exkrls", {**model, "state_noise": noise, "kernel": {"name": "linear"}}, X, Y)
    learner = learner_from("exrls", {**model, "state_noise": noise / forgetting})
    _, linear = learner.run(learner.init(dim=3, targets=2, seed=0), X, Y)
    np.testing.assert_allclose(kernel.prediction, linear.prediction, atol=1e-6)


@pytest.mark.parametrize("name", FAMILY)
def test_without_a_budget_it_is_not_bounded_and_with_one_it_is(name: str) -> None:
    free, kept = learner_from(name, {}), learner_from(name, {"budget": 7})
    assert not free.bounded and kept.bounded
    X, Y = stream(300, dim=6, targets=1)
    state, _ = kept.run(kept.init(dim=6, targets=1, seed=0), 10 * X, Y)
    assert len(state.dictionary) == 7
    assert sum(np.asarray(value).nbytes for value in state) <= kept.state_bytes(6, 1)


@pytest.mark.parametrize("name", ("krls", "exkrls"))
def test_a_state_of_samples_and_weights_alone_predicts_and_learns(name: str) -> None:
    X, Y = stream(60, targets=1)
    learner = learner_from(name, {"kernel": KERNEL, "budget": 20})
    state, _ = learner.run(learner.init(dim=2, targets=1, seed=0), X[:30], Y[:30])
    by_hand = learner.init(dim=2, targets=1, seed=0)._replace(dictionary=state.dictionary, weights=state.weights)
    assert learner.predict(by_hand, X).tobytes() == learner.predict(state, X).tobytes()
    later, out = learner.run(by_hand, X[30:], Y[30:])
    assert np.isfinite(out.prediction).all() and len(later.dictionary) <= 20
    matrix = later[2]
    assert len(matrix) == len(later.dictionary) * (len(later.dictionary) + 1) // 2


def test_krls_without_a_matrix_takes_the_identity_and_exkrls_that_of_ridge_regression() -> None:
    X, Y = stream(12, targets=1)
    learner = learner_from("exkrls", {"kernel": KERNEL, "state_noise": 0.0, "ridge": 0.3})
    state, _ = learner.run(learner.init(dim=2, targets=1, seed=0), X, Y)
    assert state.noise == 0.3
    held = np.zeros((12, 12))
    held[np.tril_indices(12)] = state.Q
    np.testing.assert_allclose(held, np.tril(np.linalg.inv(SLOW(X, X) + 0.3 * np.eye(12))), atol=1e-9)
    by_hand = learner.init(dim=2, targets=1, seed=0)._replace(dictionary=state.dictionary, weights=state.weights)
    np.testing.assert_allclose(learner.run(by_hand, X[:0], Y[:0])[0].Q, state.Q, atol=1e-9)
    learner = learner_from("krls", {"kernel": KERNEL})
    by_hand = learner.init(dim=2, targets=1, seed=0)._replace(dictionary=X[:2], weights=Y[:2])
    assert learner.run(by_hand, X[:0], Y[:0])[0].P.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", FAMILY)
def test_an_idle_sensor_does_not_fill_the_budget_with_copies(name: str) -> None:
    X, Y = stream(60, targets=1)
    idle = np.tile(X[:1], (300, 1)), Y[:1] + 0.1 * np.random.default_rng(1).standard_normal((300, 1))
    learner = learner_from(name, {"kernel": KERNEL, "budget": 30})
    before, _ = learner.run(learner.init(dim=2, targets=1, seed=0), X, Y)
    after, out = learner.run(before, *idle)
    assert np.isfinite(out.prediction).all()
    assert (after.dictionary == X[0]).all(axis=1).sum() <= 2
    kept = np.abs(learner.predict(after, X[20:]) - learner.predict(before, X[20:]))
    assert np.median(kept) < 0.25


@pytest.mark.parametrize("name", ("klms", "qklms"))
def test_a_sample_that_was_stored_moves_its_own_weight_only(name: str) -> None:
    learner = learner_from(name, {"kernel": KERNEL, "budget": 5, "step_size": 0.5})
    start = learner.init(dim=1, targets=1, seed=0)
    state, out = learner.run(start, [[0.0], [3.0], [0.0]], [[1.0], [1.0], [1.0]])
    assert out.admitted.tolist() == [1, 1, 0] and state.weights.shape == (2, 1)
    assert state.weights[1, 0] == pytest.approx(0.5 * (1 - 0.5 * np.exp(-4.5)))


def test_krls_is_least_squares_on_the_span_of_its_dictionary() -> None:
    """With everything in the dictionary from the start, the weights are those of all rows at once."""
    X, Y = stream(40, targets=1)
    state, _ = ran("krls", {"ald_above": 1e-6}, X, Y)
    again, _ = ran("krls", {"ald_above": 1e-6}, np.vstack([X, X]), np.vstack([Y, Y + 0.2]))
    assert len(again.dictionary) == len(state.dictionary)
    A = np.linalg.solve(SLOW(state.dictionary, state.dictionary), SLOW(state.dictionary, np.vstack([X, X]))).T
    values = np.linalg.lstsq(A, np.vstack([Y, Y + 0.2]), rcond=None)[0]
    fitted = A @ values
    learner = learner_from("krls", {"kernel": KERNEL, "ald_above": 1e-6})
    np.testing.assert_allclose(learner.predict(again, np.vstack([X, X])), fitted, atol=0.02)


@pytest.mark.parametrize("name", FAMILY)
def test_a_state_that_does_not_fit_is_refused_with_one_sentence(name: str) -> None:
    learner = learner_from(name, {"budget": 3})
    state = learner.init(dim=2, targets=1, seed=0)
    with pytest.raises(ValueError, match=r"expected 2 rows of weights, one for each row of dictionary, got 1\.$"):
        learner.predict(state._replace(dictionary=np.ones((2, 2)), weights=np.ones((1, 1))), [[0.0, 0.0]])
    with pytest.raises(ValueError, match="stores 4 samples, this learner's budget is 3"):
        learner.predict(state._replace(dictionary=np.eye(4, 2), weights=np.ones((4, 1))), [[0.0, 0.0]])


def test_knlms_is_a_classifier_with_the_hinge_loss_and_a_regression_without() -> None:
    assert learner_from("knlms", {"loss": "hinge"}).kind == "classification"
    assert learner_from("knlms", {}).kind == "regression"


def test_lightest_counts_the_length_of_phi() -> None:
    """Of two equal weights the one of the sample nearer to the origin is the lighter under a polynomial kernel."""
    learner = learner_from("klms", {"kernel": POLYNOMIAL, "budget": 2, "step_size": 1e-3})
    state = learner.init(dim=1, targets=1, seed=0)._replace(
        dictionary=np.array([[3.0], [0.5]]), weights=np.array([[1e-3], [1e-3]])
    )
    after, out = learner.run(state, [[4.0]], [[50.0]])
    assert out.evicted[0] and after.dictionary.ravel().tolist() == [3.0, 4.0]

"""The linear heads against their slow references, and what they promise beyond them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import Basis, learner_from
from algorithms.common.protocol import Array
from algorithms.common.rls import WIND_UP
from algorithms.common.workspace import packed, unpacked
from algorithms.heads.rls import Rls
from streamjobs.learner_checks.states import joined, rows_of, same_outputs, same_state
from tests.reference import heads as reference

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "lms": [{"step_size": 0.02, "ridge": 0.0}, {"step_size": 0.05, "ridge": 0.1}],
    "nlms": [{"step_size": 0.5, "ridge": 0.0}, {"step_size": 0.1, "ridge": 1.0}],
    "rls": [{"forgetting": 1.0, "delta": 100.0}, {"forgetting": 0.95, "delta": 1.0}],
    "pegasos": [{"ridge": 0.03}, {"ridge": 1.0}],
    "pa": [{"aggressiveness": 0.03}, {"aggressiveness": 10.0}],
    "logistic": [{"step_size": 0.1, "ridge": 0.0}, {"step_size": 1.0, "ridge": 0.1}],
}
CASES = [(name, one) for name, several in SETTINGS.items() for one in several]
HEADS = sorted(SETTINGS)


def stream(n: int, dim: int, targets: int, seed: int = 0) -> tuple[Array, Array]:
    """Classes as one-hot rows (-1/+1 for one target), which a regression takes as well."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, dim))
    scores = X @ random.standard_normal((dim, targets)) + 0.5 * random.standard_normal((n, targets)) + 0.3
    if targets == 1:
        return X, np.where(scores > 0, 1.0, -1.0)
    return X, np.eye(targets)[scores.argmax(axis=1)]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize(("name", "chosen"), CASES)
def test_a_head_agrees_with_its_slow_reference(name: str, chosen: dict[str, Any], targets: int, intercept: bool) -> None:
    X, Y = stream(200, 5, targets)
    head = learner_from(name, {**chosen, "intercept": intercept})
    state, out = head.run(head.init(dim=5, targets=targets, seed=0), X, Y)
    predictions, weights = reference.head(name, X, Y, intercept=intercept, **chosen)
    np.testing.assert_allclose(out.prediction, predictions, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.weights, weights[:5], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.bias, weights[5] if intercept else np.zeros(targets), rtol=1e-8, atol=1e-10)
    losses = [reference.loss(name, one, y) for one, y in zip(predictions, Y, strict=True)]
    np.testing.assert_allclose(out.loss, losses, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", HEADS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 40), max_size=5), seed=st.integers(0, 3))
def test_any_split_of_a_stream_gives_the_same_bits(name: str, cuts: list[int], seed: int) -> None:
    X, Y = stream(40, 4, 3, seed)
    Y[seed::7] = np.nan
    head = learner_from(name, {"intercept": seed % 2 == 0})
    state = head.init(dim=4, targets=3, seed=0)
    whole, whole_out = head.run(state, X, Y)
    outs = []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        state, out = head.run(state, X[first:last], Y[first:last])
        outs.append(out)
    same_state(state, whole, "after a split")
    same_outputs(joined(outs), whole_out, "after a split")


@pytest.mark.parametrize("name", HEADS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(slots=st.lists(st.integers(0, 2), min_size=30, max_size=30))
def test_any_mix_of_keys_gives_each_key_its_own_bits(name: str, slots: list[int]) -> None:
    X, Y = stream(30, 4, 3, seed=5)
    head = learner_from(name, {"intercept": True})
    fresh = head.init(dim=4, targets=3, seed=0)
    work = head.workspace(fresh, slots=3)
    for slot in range(3):
        head.load(work, slot, fresh)
    out, keys = head.outputs(30, 4, 3), np.array(slots)
    head.advance(work, keys, X, Y, out)
    for slot in range(3):
        alone, alone_out = head.run(fresh, X[keys == slot], Y[keys == slot])
        same_state(head.save(work, slot, fresh), alone, f"key {slot} among others")
        same_outputs(rows_of(out, keys == slot), alone_out, f"key {slot} among others")


@pytest.mark.parametrize("name", ["pegasos", "pa", "logistic"])
def test_labels_of_0_and_1_are_those_of_minus_1_and_1(name: str) -> None:
    X, Y = stream(100, 5, 3)
    head = learner_from(name, {})
    fresh = head.init(dim=5, targets=3, seed=0)
    state, out = head.run(fresh, X, Y)
    other, other_out = head.run(fresh, X, 2 * Y - 1)
    same_state(state, other, "with labels of 0 and 1")
    same_outputs(out, other_out, "with labels of 0 and 1")


@pytest.mark.parametrize("name", HEADS)
def test_weights_given_by_hand_predict_from_the_first_row(name: str) -> None:
    head = learner_from(name, {})
    state = head.init(dim=2, targets=1, seed=0)._replace(weights=np.array([[2.0], [-1.0]]))
    assert head.predict(state, [[3.0, 1.0]]) == 5.0


@pytest.mark.parametrize("name", ["lms", "nlms", "rls"])
def test_an_intercept_learns_what_no_feature_says(name: str) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 3))
    Y = X @ np.array([[1.0], [2.0], [3.0]]) + 7.0
    head = learner_from(name, {"intercept": True})
    state, _ = head.run(head.init(dim=3, targets=1, seed=0), X, Y)
    np.testing.assert_allclose(state.bias, 7.0, atol=1e-3)
    np.testing.assert_allclose(state.weights.ravel(), [1, 2, 3], atol=1e-3)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("intercept", [False, True])
def test_predictions_do_not_notice_that_the_basis_turns(name: str, intercept: bool) -> None:
    """Features turned by rotations Q_n, and the head given each change: as if nothing had turned."""
    n, dim = 80, 4
    X, Y = stream(n, dim, 2, seed=2)
    head = learner_from(name, {"intercept": intercept})
    fresh = head.init(dim=dim, targets=2, seed=0)
    _, still = head.run(fresh, X, Y)

    random = np.random.default_rng(3)
    turned, Q = np.empty_like(X), np.eye(dim)
    basis = Basis(np.zeros(n, np.int8), np.full((n, dim, dim), np.nan))
    for row in range(n):
        turned[row] = Q @ X[row]
        if row % 3 == 0:
            T = np.linalg.qr(random.standard_normal((dim, dim)))[0]
            basis.moved[row], basis.transfer[row] = 1, T
            Q = T @ Q
    work = head.workspace(fresh)
    head.load(work, 0, fresh)
    out = head.outputs(n, dim, 2)
    head.advance(work, np.zeros(n, np.int64), turned, Y, out, basis=basis)
    np.testing.assert_allclose(out.prediction, still.prediction, rtol=1e-9, atol=1e-9)
    assert not np.allclose(head.run(fresh, turned, Y)[1].prediction, still.prediction), "the test would not notice"


@pytest.mark.parametrize("intercept", [False, True])
def test_rls_carries_p_over_a_projection_by_its_formula(intercept: bool) -> None:
    random = np.random.default_rng(4)
    head = Rls(delta=10.0, intercept=intercept)
    X, Y = stream(30, 4, 2)
    state, _ = head.run(head.init(dim=4, targets=2, seed=0), X, Y)
    U = np.linalg.qr(random.standard_normal((4, 4)))[0][:, :3]
    T = U @ U.T  # one direction is lost
    work = head.workspace(state)
    head.load(work, 0, state)
    nothing = np.full((1, 4), np.nan)
    basis = Basis(np.ones(1, np.int8), T[None].copy())
    head.advance(work, np.zeros(1, np.int64), nothing, nothing[:, :2].copy(), head.outputs(1, 4, 2), basis=basis)
    after = head.save(work, 0, state)
    size = 4 + intercept
    whole = np.eye(size)
    whole[:4, :4] = T
    expected = whole @ unpacked(state.P, size) @ whole.T + 10.0 * (np.eye(size) - whole @ whole.T)
    np.testing.assert_allclose(unpacked(after.P, size), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.weights, T @ state.weights, rtol=1e-12)
    np.testing.assert_array_equal(after.bias, state.bias)


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_rls_is_the_weighted_ridge_regression_of_all_rows(forgetting: float) -> None:
    X, Y = stream(400, 6, 3)
    head = Rls(forgetting=forgetting, delta=5.0)
    state, _ = head.run(head.init(dim=6, targets=3, seed=0), X, Y)
    fade = forgetting ** np.arange(399, -1, -1)
    R = (X.T * fade) @ X + forgetting**400 / 5.0 * np.eye(6)
    np.testing.assert_allclose(state.weights, np.linalg.solve(R, (X.T * fade) @ Y), rtol=1e-9)
    np.testing.assert_allclose(unpacked(state.P, 6), np.linalg.inv(R), rtol=1e-8, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("forgetting", [1.0, 0.999, 0.9])
def test_rls_is_sound_after_a_million_rows(forgetting: float) -> None:
    """Idle inputs, equal inputs and outliers between ordinary rows; at the end it learns another line at once."""
    random = np.random.default_rng(7)
    n, dim = 1_000_000, 4
    X = random.standard_normal((n, dim)) * np.array([1.0, 1e-3, 1e3, 1.0])
    X[200_000:400_000, 3] = 0.0
    X[400_000:600_000] = X[400_000]
    X[600_000:700_000:1000] *= 1e6
    Y = X @ random.standard_normal((dim, 1))
    head = Rls(forgetting=forgetting, intercept=True)
    state, out = head.run(head.init(dim=dim, targets=1, seed=0), X, Y)
    eigenvalues = np.linalg.eigvalsh(unpacked(state.P, dim + 1))
    assert eigenvalues.min() > 0
    assert eigenvalues.max() <= WIND_UP * head.delta * (dim + 1)
    assert np.isfinite(out.prediction).all()
    assert np.abs((out.prediction - Y)[-1000:]).max() < 1e-5 * np.abs(Y[-1000:]).max()
    if forgetting < 1:
        enough = round(20 / (1 - forgetting))  # what was before weighs e^-20
        _, after = head.run(state, X[:enough], -Y[:enough])
        assert np.abs((after.prediction + Y[:enough])[-10:]).max() < 1e-5 * np.abs(Y[:enough]).max()


def test_an_idle_input_winds_p_up_to_its_bound_only() -> None:
    head = Rls(forgetting=0.9, delta=100.0)
    X = np.zeros((20_000, 3))
    X[:, 0] = np.random.default_rng(0).standard_normal(20_000)
    state, _ = head.run(head.init(dim=3, targets=1, seed=0), X, X[:, :1])
    trace = np.trace(unpacked(state.P, 3))
    assert 0.5 * WIND_UP * 300 < trace <= WIND_UP * 300
    woken = np.random.default_rng(1).standard_normal((100, 3))
    _, out = head.run(state, woken, woken.sum(axis=1, keepdims=True))
    assert np.abs(out.prediction[50:] - woken[50:].sum(axis=1, keepdims=True)).max() < 1e-3


def test_a_p_that_rounding_left_indefinite_starts_again() -> None:
    head = Rls(delta=10.0)
    fresh = head.init(dim=2, targets=1, seed=0)
    X, Y = stream(50, 2, 1)
    state, out = head.run(fresh._replace(P=packed(np.diag([1.0, -0.1]))), X, Y)
    assert np.linalg.eigvalsh(unpacked(state.P, 2)).min() > 0
    assert np.isfinite(out.prediction).all()


def test_a_state_holds_the_triangle_of_p_and_names_a_wrong_size() -> None:
    head = Rls(intercept=True)
    state = head.init(dim=100, targets=7, seed=0)
    assert state.P.size == 101 * 102 // 2
    assert head.state_bytes(100, 7) < 48_000
    with pytest.raises(ValueError, match="expected P of 5050 numbers"):
        Rls(intercept=False).run(state, np.zeros((1, 100)))


def test_logistic_says_the_chances_of_extreme_scores_without_overflow() -> None:
    head = learner_from("logistic", {"step_size": 1.0})
    for targets in (1, 3):
        state = head.init(dim=1, targets=targets, seed=0)
        state = state._replace(weights=np.linspace(1e3, -1e3, targets).reshape(1, targets))
        y = np.zeros((1, targets))
        y[0, -1] = 0.0 if targets == 1 else 1.0
        after, out = head.run(state, [[1.0]], y)
        assert out.loss[0] == pytest.approx(1000.0 if targets == 1 else 2000.0)
        np.testing.assert_allclose(after.weights[0, 0] - state.weights[0, 0], -1.0)


@pytest.mark.parametrize("name", HEADS)
def test_a_step_out_of_range_is_not_taken(name: str) -> None:
    head = learner_from(name, {"intercept": True})
    X, Y = stream(20, 3, 2)
    state, _ = head.run(head.init(dim=3, targets=2, seed=0), X, Y)
    for x, y in (([1e300, 0, 0], [1, 0]), ([1e160, 1e160, 1], [1, 0]), ([1, 1, 1], [1e200, -1e200])):
        after, _ = head.run(state, [x], [y])
        for value in after:
            assert np.isfinite(value).all()
        again, out = head.run(after, X, Y)
        assert np.isfinite(out.prediction).all() and np.abs(again.weights).max() < 1e6

"""The budgeted learners against their slow references in every weight, and what is special about each."""

from typing import Any

import numpy as np
import pytest

from algorithms import Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array
from tests.reference import budgeted as reference
from tests.reference.prototypes import gaussian

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
SLOW = gaussian(1.0)
LIMITED = ("rbp", "forgetron", "projectron", "projectron_pp", "bpas", "bogd")
FREE = ("perceptron", "kogd", "norma")
DESCENT = {"step_size": 0.3, "ridge": 0.05}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("perceptron", {}),
    ("perceptron", {"max_terms": 15}),
    ("kogd", {**DESCENT, "loss": "hinge"}),
    ("kogd", {"step_size": 0.3, "loss": "squared"}),
    ("norma", {**DESCENT, "loss": "squared", "max_terms": 20}),
    ("norma", {**DESCENT, "loss": "logistic", "max_terms": 30}),
    ("rbp", {"budget": 12}),
    ("bogd", {**DESCENT, "loss": "hinge", "budget": 15, "coefficient_cap": 2.0}),
    ("bogd", {**DESCENT, "loss": "squared", "budget": 30, "coefficient_cap": 3.0}),
    ("bogd", {**DESCENT, "loss": "logistic", "budget": 20, "coefficient_cap": 10.0}),
    ("forgetron", {"budget": 9}),
    ("projectron", {"budget": 10}),
    ("projectron_pp", {"budget": 10}),
    ("bpas", {"budget": 10, "aggressiveness": 1.0}),
    ("bpas", {"budget": 10, "aggressiveness": 0.2}),
]


def stream(n: int, targets: int = 1, seed: int = 0) -> tuple[Array, Array]:
    """Noisy labels of a function that bends, -1 or +1."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 2))
    signal = np.sin(2 * X @ random.standard_normal((2, targets))) + 0.3 * random.standard_normal((n, targets))
    return X, np.where(signal >= 0, 1.0, -1.0)


def ran(name: str, settings: dict[str, Any], X: Array, Y: Array) -> Any:
    learner = learner_from(name, {"kernel": KERNEL, **settings})
    return learner.run(learner.init(dim=X.shape[1], targets=Y.shape[1], seed=0), X, Y)


def slowly(name: str, settings: dict[str, Any], X: Array, y: Array) -> reference.Run:
    if name in ("rbp", "bogd"):
        return getattr(reference, name)(SLOW, X, y, leaves=reference.drawn(), **settings)
    if name in FREE:
        return reference.descent(SLOW, X, y, **{"loss": "mistakes", **settings})
    if name == "projectron_pp":
        return reference.projectron(SLOW, X, y, margins=True, **settings)
    return getattr(reference, name)(SLOW, X, y, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    CASES,
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value,
)
def test_agrees_with_its_slow_reference_in_every_score_and_weight(name: str, settings: dict[str, Any]) -> None:
    X, Y = stream(200)
    state, out = ran(name, settings, X, Y)
    said, chosen, weights = slowly(name, settings, X, Y[:, 0])
    np.testing.assert_allclose(out.prediction[:, 0], said, atol=1e-8)
    np.testing.assert_allclose(state.weights[:, 0], weights, atol=1e-7)
    assert (state.support == X[chosen]).all() and state.seen == 200
    assert out.admitted.sum() - out.evicted.sum() == len(chosen)
    limit = settings.get("budget", settings.get("max_terms"))
    if limit:
        assert len(chosen) == limit
        assert out.evicted.any() != (name in ("projectron", "projectron_pp")), "the support of a full projectron stays"


@pytest.mark.parametrize("name", ("perceptron", "kogd", "norma"))
def test_without_max_terms_it_is_not_bounded_and_with_them_it_is(name: str) -> None:
    assert not learner_from(name, {}).bounded
    assert learner_from(name, {"max_terms": 7}).bounded


@pytest.mark.parametrize("name", FREE)
def test_without_a_limit_several_targets_are_as_good_as_one_learner_each(name: str) -> None:
    X, Y = stream(150, targets=3)
    _, together = ran(name, {}, X, Y)
    for t in range(3):
        _, alone = ran(name, {}, X, Y[:, t : t + 1])
        np.testing.assert_allclose(together.prediction[:, t], alone.prediction[:, 0], atol=1e-12)


@pytest.mark.parametrize("name", LIMITED)
def test_a_target_of_0_is_the_label_minus_1(name: str) -> None:
    X, Y = stream(120, targets=2)
    _, signs = ran(name, {"budget": 10}, X, Y)
    _, bits = ran(name, {"budget": 10}, X, (Y + 1) / 2)
    assert signs.prediction.tobytes() == bits.prediction.tobytes()


@pytest.mark.parametrize("name", ("kogd", "norma", "bogd"))
def test_the_loss_decides_whether_it_classifies(name: str) -> None:
    kinds = {loss: learner_from(name, {"loss": loss}).kind for loss in ("hinge", "logistic", "squared")}
    assert kinds == {"hinge": "classification", "logistic": "classification", "squared": "regression"}


def test_kogd_of_the_squared_loss_is_klms() -> None:
    X, Y = stream(100)
    state, out = ran("kogd", {"loss": "squared", "step_size": 0.4}, X, Y)
    other, klms = ran("klms", {"step_size": 0.4}, X, Y)
    np.testing.assert_allclose(out.prediction, klms.prediction, atol=1e-13)
    np.testing.assert_allclose(state.weights, other.weights, atol=1e-13)


def test_what_stays_of_bogd_makes_up_for_what_leaves_in_the_mean() -> None:
    """Of two rows one leaves: the mean of f over the two draws is what f would be without a budget."""
    X, Y = np.array([[0.0], [0.5], [9.0]]), np.array([[1.0], [-1.0], [1.0]])
    learner = learner_from("bogd", {"budget": 2, "step_size": 0.5, "ridge": 0.0, "kernel": KERNEL})
    states = [learner.run(learner.init(dim=1, targets=1, seed=seed), X, Y)[0] for seed in range(20)]
    of_draw = {state.support[0, 0]: learner.predict(state, [[0.2]])[0, 0] for state in states}
    k = gram(Kernel(bandwidth=1.0), X, np.array([[0.2]]))[:, 0]
    assert sorted(of_draw) == [0.0, 0.5]
    assert np.mean(list(of_draw.values())) == pytest.approx(0.5 * (k[0] - k[1] + k[2]), abs=1e-12)


def test_the_cap_of_bogd_holds_for_every_weight() -> None:
    X, Y = stream(400)
    state, _ = ran("bogd", {"budget": 8, "step_size": 0.5, "coefficient_cap": 1.5, "ridge": 0.0}, X, Y)
    assert np.abs(state.weights).max() <= 0.75 * (1 + 1e-12)


def test_the_forgetron_spends_no_more_than_its_mistakes_allow() -> None:
    X, Y = stream(600, targets=2)
    state, _ = ran("forgetron", {"budget": 6}, X, Y)
    assert (state.mistakes > 50).all()
    assert (state.spent <= 15 / 32 * state.mistakes + 1e-9).all()
    assert np.abs(state.weights).max() <= 1.0


def test_a_full_projectron_is_the_perceptron_while_the_support_spans_its_mistakes() -> None:
    """A polynomial kernel of degree 2 in two dimensions has rank 6: six samples span everything."""
    X, Y = stream(300)
    kernel = {"name": "polynomial", "degree": 2, "offset": 1.0, "scale": 1.0}
    state, out = ran("projectron", {"budget": 50, "kernel": kernel}, X, Y)
    _, perceptron = ran("perceptron", {"kernel": kernel}, X, Y)
    assert len(state.support) == 6
    np.testing.assert_allclose(out.prediction, perceptron.prediction, atol=1e-5)


def test_a_repeated_row_is_stored_once_by_the_projecting_ones() -> None:
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], [1, 300], axis=0)
    Y = np.where(np.arange(301) % 2 == 0, 1.0, -1.0)[:, None]
    for name in ("projectron", "projectron_pp"):
        state, _ = ran(name, {"budget": 20}, X, Y)
        assert len(state.support) == 2 and np.isfinite(state.weights).all()


@pytest.mark.parametrize("name", LIMITED)
def test_a_state_of_support_and_weights_alone_predicts_and_learns(name: str) -> None:
    X, Y = stream(100)
    learner = learner_from(name, {"kernel": KERNEL, "budget": 12})
    state, _ = learner.run(learner.init(dim=2, targets=1, seed=0), X[:60], Y[:60])
    by_hand = learner.init(dim=2, targets=1, seed=0)._replace(support=state.support, weights=state.weights)
    assert learner.predict(by_hand, X).tobytes() == learner.predict(state, X).tobytes()
    later, _ = learner.run(by_hand, X[60:], Y[60:])
    assert len(later.support) == 12 and np.isfinite(later.weights).all()


def test_a_state_with_more_samples_than_the_limit_is_refused() -> None:
    X, Y = stream(60)
    state, _ = ran("perceptron", {}, X, Y)
    small: Learner = learner_from("perceptron", {"kernel": KERNEL, "max_terms": 3})
    with pytest.raises(ValueError, match=r"Perceptron: the state stores \d+ samples, this learner's limit is 3\."):
        small.run(state, X, Y)


def test_a_step_that_would_turn_the_weights_around_is_refused() -> None:
    with pytest.raises(SettingError, match=r"Norma: ridge must be 0 or more and below 1 / step_size; got 6\."):
        learner_from("norma", {"step_size": 0.2, "ridge": 6.0})


@pytest.mark.parametrize("name", ("perceptron", "kogd", "norma", *LIMITED))
def test_rows_and_labels_of_any_size_leave_a_finite_state(name: str) -> None:
    random = np.random.default_rng(3)
    X, Y = stream(400)
    X[::7] *= 10.0 ** random.uniform(-308, 154, (len(X[::7]), 1))
    X[100:200] = X[100]
    X[200:220] = 0.0
    Y[5::11] = np.nan
    for kernel in (KERNEL, {"name": "polynomial", "degree": 3, "offset": 1.0, "scale": 1.0}, {"name": "linear"}):
        limit = "budget" if name in LIMITED else "max_terms"
        state, out = ran(name, {limit: 15, "kernel": kernel}, X, Y)
        assert np.isfinite(state.support).all() and np.isfinite(state.weights).all()
        assert not np.isinf(out.prediction).any() and not np.isinf(out.loss).any()

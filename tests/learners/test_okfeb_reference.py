"""OK-FEB agrees element by element with the paper's pseudo-code, from a full-rank start with a large ridge."""

import numpy as np
import pytest

from algorithms import learner_from
from tests.reference.okfeb import PlainOkfeb, gaussian, gram
from tests.sizes import first_fast

EVICTIONS = ("projected", "decayed_norm", "oldest", "min_distortion")
RULES = ("inverse_norm", "over_n", "over_n2", "lipschitz", "constant")
CONSTANT = {"inverse_norm": 1.0, "over_n": 10.0, "over_n2": 200.0, "lipschitz": 10.0, "constant": 0.5}


def both(rows: np.ndarray, **settings):
    """The learner's state and outputs, and the reference's object and outputs, over the same rows."""
    settings = {"rank": 3, "budget": 8, "ridge": 0.1, "decay": 0.95, "censor": "off", **settings}
    learner = learner_from("okfeb", {**settings, "kernel": {"name": "gaussian", "bandwidth": 1.5}})
    state, out = learner.run(learner.init(dim=rows.shape[1], targets=0, seed=0), rows)
    plain = PlainOkfeb(gaussian(1.5), **settings)
    plain.plant(rows[:8])
    return state, out, plain, [plain.step(row) for row in rows[8:]]


def rows(n: int = 120) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, 3))


@pytest.mark.parametrize("evict", first_fast(EVICTIONS, 2))
@pytest.mark.parametrize("update", first_fast(("parametric", "nonparametric")))
@pytest.mark.parametrize("decay_on", first_fast(("admission", "eviction")))
def test_every_eviction_gives_the_numbers_of_the_plain_matrices(update, evict, decay_on):
    state, out, plain, steps = both(rows(), update=update, evict=evict, decay_on=decay_on)
    np.testing.assert_allclose(out.ls_error[8:], [row["ls_error"] for row in steps], atol=1e-9)
    np.testing.assert_allclose(out.features[8:], [row["features"] for row in steps], atol=1e-8)
    np.testing.assert_allclose(state.support, plain.support, atol=1e-12)
    np.testing.assert_allclose(state.factor, plain.factor, atol=1e-8)
    assert state.age.tolist() == plain.age
    assert state.seen == plain.seen == 120


@pytest.mark.parametrize("update", first_fast(("parametric", "nonparametric")))
@pytest.mark.parametrize("rule", first_fast(RULES, 2))
@pytest.mark.parametrize("recede", first_fast((False, True)))
def test_every_step_rule_gives_the_numbers_of_the_plain_matrices(update, rule, recede):
    constant = CONSTANT[rule] * (10.0 if rule == "lipschitz" and update == "nonparametric" else 1.0)
    settings = {"update": update, "step_rule": rule, "recede": recede, "step_size": constant / 10, "evict": "projected"}
    state, out, plain, steps = both(rows(), **settings)
    np.testing.assert_allclose(out.ls_error[8:], [row["ls_error"] for row in steps], atol=1e-9)
    np.testing.assert_allclose(state.factor, plain.factor, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("censor", "below"), (("moving_average", 0.0), ("below", 0.3)))
def test_censored_rows_are_those_of_the_plain_algorithm(censor, below):
    state, out, plain, steps = both(rows(200), censor=censor, censor_below=below, evict="decayed_norm", update="parametric")
    assert out.admitted[8:].tolist() == [row["admitted"] for row in steps]
    assert out.evicted[8:].tolist() == [row["evicted"] for row in steps]
    assert 0.2 < out.admitted.mean() < 0.95
    np.testing.assert_allclose(state.recent, plain.recent, atol=1e-9)


def test_features_of_the_support_are_those_of_equation_37():
    settings = {"rank": 3, "budget": 8, "ridge": 0.1, "censor": "off", "kernel": {"name": "gaussian", "bandwidth": 1.5}}
    learner = learner_from("okfeb", {**settings, "coordinates": "support"})
    X = rows(60)
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    Z, kernel, A, S = learner.transform(state, X[:5]), gaussian(1.5), state.factor, state.support
    K, k = gram(kernel, S, S), gram(kernel, S, X[:5])
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(values) @ vectors.T
    Q = np.linalg.solve(A.T @ K @ A + 0.1 * np.eye(3), A.T @ k)
    np.testing.assert_allclose(Z, (root @ A @ Q).T, atol=1e-9)


def test_both_coordinates_have_the_same_inner_products():
    settings = {"rank": 3, "budget": 8, "ridge": 0.1, "role": "track"}
    X, products = rows(80), []
    for coordinates in ("subspace", "support"):
        learner = learner_from("okfeb", {**settings, "coordinates": coordinates})
        state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
        Z = learner.transform(state, X)
        products.append(Z @ Z.T)
    np.testing.assert_allclose(products[0], products[1], atol=1e-9)

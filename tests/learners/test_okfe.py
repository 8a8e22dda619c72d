"""OK-FE (Algs. 2 and 3) agrees with plain matrices, and what it carries along stays what it stands for."""

import itertools

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from algorithms.common.kernels import gram
from tests.learners.bases import way, with_basis
from tests.reference.okfe import PlainOkfe
from tests.reference.okfeb import gaussian
from tests.sizes import first_fast

SETTINGS = {"rank": 3, "ridge": 0.1, "seed_size": 8, "kernel": {"name": "gaussian", "bandwidth": 1.5}}
CONSTANT = {"inverse_norm": 0.5, "over_n": 2.0, "over_n2": 20.0, "lipschitz": 1.0, "constant": 0.05}


def rows(n: int = 120, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3))


def run(X, **settings):
    learner = learner_from("okfe", SETTINGS | settings)
    return learner, *learner.run(learner.init(dim=3, targets=0, seed=0), X)


@pytest.mark.parametrize(
    ("update", "rule", "recede"), first_fast(itertools.product(("parametric", "nonparametric"), CONSTANT, (False, True)), 4)
)
def test_every_update_and_step_gives_the_numbers_of_the_plain_matrices(update, rule, recede):
    X = rows()
    settings = {"update": update, "step_rule": rule, "step_size": CONSTANT[rule], "recede": recede}
    learner, state, out = run(X, **settings)
    plain = PlainOkfe(gaussian(1.5), 0.1, list(X[:8]), run(X[:8], **settings)[1].factor, **settings)
    Q = [plain.step(x) for x in X[8:]]
    np.testing.assert_allclose(out.ls_error[8:], plain.ls_errors, atol=1e-9)
    np.testing.assert_allclose(state.factor, plain.factor, rtol=1e-6, atol=1e-8)
    inner = plain.factor.T @ gram(learner.kernel, X, X) @ plain.factor
    assert state.seen == len(state.support) == 120
    assert out.admitted.all()
    assert np.isfinite(Q).all()
    assert np.isfinite(np.linalg.cholesky(inner)).all()


@pytest.mark.parametrize("update", first_fast(("parametric", "nonparametric")))
def test_the_carried_image_is_that_of_the_factor_after_a_thousand_rows(update):
    X = rows(1000)
    size = {"step_rule": "over_n2", "step_size": 20.0} if update == "nonparametric" else {}
    learner, state, _ = run(X, update=update, recede=True, **size)
    wanted = gram(learner.kernel, X, X) @ state.factor
    np.testing.assert_allclose(state.image, wanted, atol=1e-10 * np.abs(wanted).max())


def test_a_state_made_by_hand_runs_at_once():
    learner = learner_from("okfe", SETTINGS)
    S, A, X = rows(5), rows(5, seed=2), rows(20, seed=4)
    after, out = learner.run(learner.init(dim=3, targets=0, seed=0)._replace(support=S, factor=A), X)
    K, k = gram(learner.kernel, S, S), gram(learner.kernel, S, X[:1])[:, 0]
    q = np.linalg.solve(A.T @ K @ A + 0.1 * np.eye(3), A.T @ k)
    assert out.ls_error[0] == pytest.approx(1 - 2 * k @ A @ q + q @ A.T @ K @ A @ q, abs=1e-12)
    np.testing.assert_allclose(out.features[0], np.linalg.cholesky(A.T @ K @ A).T @ q, atol=1e-9)
    assert after.support.shape == (25, 3)
    assert after.age.tolist() == list(range(25))[::-1]
    one_by_one = learner.init(dim=3, targets=0, seed=0)._replace(support=S, factor=A)
    for x in X:
        one_by_one, _ = learner.run(one_by_one, x[None])
    np.testing.assert_array_equal(one_by_one.factor, after.factor)


@pytest.mark.parametrize("update", ("parametric", "nonparametric"))
def test_the_way_between_bases_is_that_of_the_subspaces(update):
    learner = learner_from("okfe", SETTINGS | {"update": update, "step_size": 0.1})
    state, turns = learner.init(dim=3, targets=0, seed=0), 0
    for n, row in enumerate(rows(40)):
        after, basis = with_basis(learner, state, row)
        if basis.moved[0]:
            turns += 1
            np.testing.assert_allclose(basis.transfer[0], way(learner, state, after), atol=1e-7, err_msg=f"row {n}")
        state = after
    assert turns == 32


def test_the_seed_has_no_copies_and_later_rows_are_all_stored():
    X = np.vstack([np.repeat(rows(1), 5, axis=0), rows(7, seed=9), np.repeat(rows(1), 5, axis=0)])
    _, state, out = run(X)
    assert out.admitted.tolist() == [1, 0, 0, 0, 0] + [1] * 12
    assert len(state.support) == 13


def test_wrong_settings_are_named_with_their_range():
    with pytest.raises(SettingError, match=r"Okfe: seed_size must be rank \(3\) or more; got 2"):
        learner_from("okfe", SETTINGS | {"seed_size": 2})
    assert not learner_from("okfe", SETTINGS).bounded

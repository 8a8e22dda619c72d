"""What OK-FEB promises beyond the paper's numbers: roles, hand-made states, seeds, bad data, the way between bases."""

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from algorithms.common.kernels import gram
from algorithms.subspace import budget_steps
from papers.okfeb_robust import recovery, stream
from tests.learners.bases import way, with_basis
from tests.sizes import first_fast

SMALL = {"rank": 3, "budget": 6, "kernel": {"name": "gaussian", "bandwidth": 1.5}}


def rows(n: int, dim: int = 3, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim))


def started(learner, X):
    return learner.run(learner.init(dim=X.shape[1], targets=0, seed=0), X)


def test_an_explicit_setting_wins_over_the_role():
    assert learner_from("okfeb", {"role": "head"}).rules.decay == 1.0
    assert learner_from("okfeb", {"role": "head", "decay": 0.9}).rules.decay == 0.9
    assert learner_from("okfeb", {"role": "track"}).rules.parametric
    assert not learner_from("okfeb", {"role": "track", "update": "nonparametric"}).rules.parametric


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rank": 80, "budget": 60}, r"Okfeb: rank must be 1 to budget \(60\); got 80"),
        ({"decay": 1.5}, "Okfeb: decay must be above 0, at most 1; got 1.5"),
        ({"rank": 5, "seed_size": 4}, r"Okfeb: seed_size must be rank \(5\) to budget \(15\); got 4"),
        ({"evict": "newest"}, "okfeb: evict must be 'projected'.*got 'newest'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_range(settings, says):
    with pytest.raises(SettingError, match=says):
        learner_from("okfeb", settings)


def test_a_kpca_seed_has_orthonormal_directions_and_nothing_before_it():
    learner = learner_from("okfeb", SMALL)
    state, out = started(learner, rows(6))
    K = gram(learner.kernel, state.support, state.support)
    np.testing.assert_allclose(state.factor.T @ K @ state.factor, np.eye(3), atol=1e-9)
    assert state.age.tolist() == [5, 4, 3, 2, 1, 0]
    assert np.isnan(out.features).all()
    assert np.isnan(out.ls_error).all()
    assert out.admitted.all()


def test_a_random_seed_depends_on_the_seed_only():
    learner = learner_from("okfeb", {**SMALL, "seed_factor": "random"})
    X = rows(6)
    factors = [learner.run(learner.init(dim=3, targets=0, seed=seed), X)[0].factor for seed in (0, 0, 1)]
    np.testing.assert_array_equal(factors[0], factors[1])
    assert not np.allclose(factors[0], factors[2])
    many = learner_from("okfeb", {"rank": 20, "budget": 200, "seed_factor": "random"})
    assert abs(started(many, rows(200, 5))[0].factor.std() - 0.1) < 0.005


def test_a_state_made_by_hand_runs_at_once():
    learner = learner_from("okfeb", {**SMALL, "ridge": 0.1, "censor": "off"})
    S, A, X = rows(5), rows(5, seed=2), rows(20, seed=3)
    state = learner.init(dim=3, targets=0, seed=0)._replace(support=S, factor=A)
    after, out = learner.run(state, X)
    assert np.isfinite(out.features).all()
    K, k = gram(learner.kernel, S, S), gram(learner.kernel, S, X[:1])[:, 0]
    q = np.linalg.solve(A.T @ K @ A + 0.1 * np.eye(3), A.T @ k)
    assert out.ls_error[0] == pytest.approx(1 - 2 * k @ A @ q + q @ A.T @ K @ A @ q, abs=1e-12)
    assert len(after.support) == len(after.factor) == len(after.age) == 6


def test_a_state_larger_than_the_budget_is_refused():
    learner = learner_from("okfeb", SMALL)
    state = learner.init(dim=3, targets=0, seed=0)._replace(support=rows(9), factor=rows(9))
    with pytest.raises(ValueError, match="stores 9 samples, this learner's budget is 6"):
        learner.run(state, rows(1))


def test_ages_count_admissions_or_evictions():
    X = rows(9)
    by_admission = started(learner_from("okfeb", {**SMALL, "censor": "off", "evict": "oldest"}), X)[0]
    assert by_admission.age.tolist() == [5, 4, 3, 2, 1, 0]
    settings = {**SMALL, "censor": "off", "evict": "oldest", "decay_on": "eviction"}
    assert started(learner_from("okfeb", settings), X)[0].age.tolist() == [3, 3, 3, 3, 2, 1]


def test_exact_repeats_are_never_stored():
    learner = learner_from("okfeb", {**SMALL, "role": "track"})
    X = rows(40)
    state, _ = started(learner, X)
    same = np.repeat(X[-1:], 500, axis=0)
    idle, out = learner.run(state, same)
    np.testing.assert_array_equal(idle.support, state.support)
    assert not out.admitted[1:].any()
    assert len(started(learner, np.repeat(X[:1], 500, axis=0))[0].support) == 1


def test_a_new_place_is_planted_after_a_budget_of_rows():
    learner = learner_from("okfeb", {**SMALL, "role": "track"})
    state, _ = started(learner, rows(100))
    moved, out = learner.run(state, rows(60, seed=5) * 0.5 + 50.0)
    assert (out.ls_error[:6] > 0.99).all()
    assert out.ls_error[6:].mean() < 0.5
    assert (moved.support > 40).all()


@pytest.mark.parametrize("role", first_fast(("track", "head")))
@pytest.mark.parametrize(
    "trouble",
    first_fast(
        ("40 in a row, together", "one outlier at 10 sd", "one outlier at 100 sd", "40 in a row, apart", "500 equal rows")
    ),
)
def test_after_trouble_the_ls_error_is_back_after_300_rows(role, trouble):
    most = 1.10 if (role, trouble) == ("head", "40 in a row, together") else 1.05  # 1.06: seeded again, it learns slowly
    ratio, finite = recovery(role, trouble, repeats=12)
    assert finite
    assert 0.95 < ratio < most


def test_the_receding_step_without_floor_explodes_on_far_data_and_the_state_stays_finite():
    settings = {"rank": 5, "budget": 10, "recede": True, "step_floor": 0.0, "censor": "off"}
    learner = learner_from("okfeb", settings)
    X = stream(np.random.default_rng(0), 3000)
    X[500::100] *= 1000.0
    state, _ = started(learner, X)
    assert all(np.isfinite(np.asarray(value)).all() for value in state)


@pytest.mark.parametrize(
    "settings", ({"role": "track"}, {"role": "head", "censor": "off"}, {"evict": "oldest", "censor": "off"})
)
def test_the_way_between_bases_is_that_of_the_subspaces(settings):
    learner = learner_from("okfeb", {**SMALL, "ridge": 0.05, **settings})
    X = np.vstack([rows(40), rows(30, seed=5) * 0.5 + 50.0])  # the second half seeds it again
    state, turns = learner.init(dim=3, targets=0, seed=0), 0
    for n, row in enumerate(X):
        after, basis = with_basis(learner, state, row)
        if basis.moved[0]:
            turns += 1
            np.testing.assert_allclose(basis.transfer[0], way(learner, state, after), atol=1e-7, err_msg=f"row {n}")
        state = after
    assert turns > 30


def test_a_long_stream_with_outliers_stays_finite_and_bounded():
    learner = learner_from("okfeb", {"rank": 4, "budget": 6})
    X = stream(np.random.default_rng(0), 50_000)
    X[::997] *= 100.0
    state, out = started(learner, X)
    assert all(np.isfinite(np.asarray(value)).all() for value in state)
    assert np.isfinite(out.ls_error[1000:]).all()
    assert len(state.support) == 6
    assert len(state.recent) == 100


@pytest.mark.parametrize("name", ("polynomial", "linear", "laplacian", "overlap"))
def test_every_kernel_tracks(name):
    learner = learner_from("okfeb", {"rank": 3, "budget": 8, "role": "track", "kernel": {"name": name}})
    X = rows(400, 4)
    X = np.round(X) if name == "overlap" else X
    kxx = gram(learner.kernel, X, X).diagonal()
    _, out = started(learner, X)
    assert np.isfinite(out.ls_error[50:]).all()
    assert (out.ls_error[50:] <= kxx[50:] * 1.000001).all()


FLAT = {"rank": 8, "budget": 12, "kernel": {"name": "polynomial", "degree": 2}}  # of rank 6 for x of length 2


@pytest.mark.parametrize("seed_factor", ("kpca", "random"))
@pytest.mark.parametrize("role", ("track", "head"))
def test_a_kernel_of_lower_rank_than_the_budget_is_captured_whole_and_stays_so(role, seed_factor):
    learner = learner_from("okfeb", {**FLAT, "role": role, "censor": "off", "seed_factor": seed_factor})
    X = rows(1000, 2)
    kxx = gram(learner.kernel, X, X).diagonal()
    state, out = started(learner, X)
    assert (out.ls_error[500:] / kxx[500:]).mean() < 2e-6  # what the ridge leaves
    assert np.isfinite(out.features[12:]).all()
    if role == "track":
        assert np.abs(state.factor).max() < 10  # nothing piles up that is nothing in feature space


def test_a_seed_of_too_few_directions_finds_the_others_when_they_come():
    X = rows(400, 3)
    X[:40, 2] = 0.0  # a third direction from row 40 on
    learner = learner_from("okfeb", {"rank": 3, "budget": 6, "role": "track", "kernel": {"name": "linear"}})
    _, out = started(learner, X)
    assert out.ls_error[20:40].max() < 1e-4
    assert (out.ls_error[200:] / (X[200:] ** 2).sum(axis=1)).mean() < 1e-4


def test_a_row_that_is_nothing_in_feature_space_is_not_stored():
    X = rows(60, 2)
    X[[2, 30]] = 0.0
    learner = learner_from("okfeb", {"rank": 2, "budget": 5, "censor": "off", "kernel": {"name": "linear"}})
    _, out = started(learner, X)
    assert out.admitted[:6].tolist() == [1, 1, 0, 1, 1, 1]
    assert not out.admitted[30]
    assert np.isfinite(out.ls_error[6:]).all()


def test_the_quick_look_at_the_moving_average_decides_as_the_mean_itself_does():
    rng = np.random.default_rng(0)
    for count in (0, 1, 3, 100, 997):
        for _ in range(20):
            recent = rng.random(count + 1) ** 4
            mean = budget_steps.mean(recent, count)
            for ls_error in (mean, np.nextafter(mean, 0.0), np.nextafter(mean, 9.0), 0.0, 0.5 * mean, 2.0 * mean, np.nan):
                assert budget_steps.below_mean(ls_error, recent, count) == (ls_error < mean)

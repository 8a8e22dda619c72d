"""okdl and okdl_discriminative against their slow references; codes, caches, budgets, and what bad rows may not do."""

from typing import Any

import numpy as np
import pytest

from algorithms import Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array
from algorithms.dictionary import family
from algorithms.dictionary.coding import sparse_code
from algorithms.dictionary.okdl import Okdl
from papers.batch.class_costs import class_costs
from tests.reference.dictionary import PlainDictionary
from tests.reference.prototypes import gaussian

KERNEL = {"name": "gaussian", "bandwidth": 1.5}
POLYNOMIAL = {"name": "polynomial", "degree": 4, "offset": 0.5, "scale": 2.0}
RULES = ("projected_grace", "projected", "norm", "oldest")


def samples(n: int, dim: int = 4, seed: int = 0) -> Array:
    """Rows of length 1, about every tenth of them twice."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, dim))
    X /= np.linalg.norm(X, axis=1)[:, None]
    X[15::10] = X[14::10][: len(X[15::10])]
    return X


def signs(X: Array, targets: int) -> Array:
    return np.where(X @ np.random.default_rng(7).standard_normal((X.shape[1], targets)) >= 0, 1.0, -1.0)


def begun(learner: Learner, X: Array, Y: Array | None = None) -> Any:
    return learner.run(learner.init(dim=X.shape[1], targets=0 if Y is None else Y.shape[1], seed=0), X, Y)


def atoms_of(learner: Any, state: Any) -> Array:
    """D'D from the samples."""
    return np.asarray(state.atom_weights.T @ gram(learner.kernel, state.samples, state.samples) @ state.atom_weights)


def agrees(name: str, X: Array, Y: Array | None, slow: Any, kernel: dict[str, Any], atoms: int, **settings: Any) -> Any:
    learner = learner_from(name, {"kernel": kernel, "atoms": atoms, **settings})
    state, out = begun(learner, X, Y)
    plain = PlainDictionary(slow, X[:atoms], targets=0 if Y is None else Y.shape[1], **settings)
    for n in range(atoms, len(X)):
        alpha, ls_error, loss, prediction = plain.step(X[n], None if Y is None else Y[n])
        np.testing.assert_allclose(out.features[n], alpha, atol=1e-7, err_msg=f"code of row {n}")
        np.testing.assert_allclose([out.ls_error[n], out.loss[n]], [ls_error, loss], atol=1e-8, err_msg=f"row {n}")
        if Y is not None:
            np.testing.assert_allclose(out.prediction[n], prediction, atol=1e-7)
    assert (state.samples == plain.X).all() and state.seen == len(X)
    np.testing.assert_allclose(state.atom_weights, plain.omega, atol=1e-7)
    np.testing.assert_allclose(state.w, plain.w, atol=1e-7)
    np.testing.assert_allclose(state.H, atoms_of(learner, state), atol=1e-10)
    return out


@pytest.mark.parametrize("evict", RULES)
def test_okdl_agrees_with_its_slow_reference_under_every_rule(evict: str) -> None:
    X = samples(120)
    out = agrees("okdl", X, None, gaussian(1.5), KERNEL, 5, step_size=0.5, budget=12, evict=evict)
    assert out.evicted.sum() >= 50
    if evict == "projected":
        agrees("okdl", X, None, lambda A, B: ((A @ B.T + 1) / 2) ** 4, POLYNOMIAL, 4, l2=0.01, budget=30, evict=evict)


@pytest.mark.parametrize(("targets", "budget"), [(1, 0), (3, 20)])
def test_okdl_discriminative_agrees_with_its_slow_reference(targets: int, budget: int) -> None:
    X = samples(120)
    settings = {"l2": 1e-2, "nu": 0.02, "step_size": 0.3, "step_freeze": -1, "budget": budget}
    out = agrees("okdl_discriminative", X, signs(X, targets), gaussian(0.7), {"bandwidth": 0.7}, 5, **settings)
    assert out.admitted.sum() >= 80


@pytest.mark.parametrize("l1", [0.3, 0.01, 0.0])
def test_a_code_is_optimal_to_a_millionth_also_where_atoms_depend_on_each_other(l1: float) -> None:
    random = np.random.default_rng(0)
    for atoms, rank in ((8, 20), (12, 12), (12, 5)):
        for _ in range(20):
            D = random.standard_normal((rank, atoms)) + 1.0
            D[:, atoms - 1] = D[:, 0]
            H, c = D.T @ D, D.T @ (random.standard_normal(rank) + 1.0)
            a, slope, active = np.empty(atoms), np.empty(atoms), np.empty(atoms, np.int64)
            used = sparse_code(H, c, l1, 0.0, a, slope, active, np.empty((atoms, atoms)), np.empty((atoms, atoms)))
            gap = c - H @ a
            missed = np.where(a == 0, abs(gap) - l1, abs(gap - l1 * np.sign(a)))
            assert missed.max() <= 1e-6 * max(1.0, abs(c).max())
            assert set(active[:used]) == set(np.flatnonzero(a))


@pytest.mark.parametrize("kernel", [{"name": "linear"}, {"name": "polynomial", "degree": 2}], ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_codes_of_learned_atoms_that_depend_on_each_other_are_optimal_to_a_millionth(kernel, scale) -> None:
    X = samples(400, dim=3) * scale
    learner = learner_from("okdl", {"atoms": 20, "budget": 60, "kernel": kernel, "l1": 0.01 * scale})
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X[:300])
    codes = learner.transform(state, X[300:])
    c = gram(learner.kernel, X[300:], state.samples) @ state.atom_weights
    gap = c - codes @ state.H
    missed = np.where(codes == 0, abs(gap) - learner.l1, abs(gap - learner.l1 * np.sign(codes)))
    assert (missed.max(axis=1) <= 1e-6 * np.maximum(1.0, abs(c).max(axis=1))).all()


def test_h_and_p_may_be_left_out_or_be_of_another_state() -> None:
    X, learner = samples(300), learner_from("okdl", {"kernel": KERNEL, "atoms": 5, "budget": 12})
    state, _ = begun(learner, X[:200])
    assert len(state.P) == 12 * 13 // 2
    whole, out = learner.run(state, X[200:])
    other, _ = begun(learner, samples(200, seed=5))
    public = {"samples": state.samples, "atom_weights": state.atom_weights, "w": state.w, "seen": state.seen}
    empty = {"H": np.empty((0, 5)), "P": np.empty(0)}
    for by_hand in (
        state._replace(**empty),
        other._replace(**public),
        learner.init(dim=4, targets=0, seed=0)._replace(**public),
    ):
        later, again = learner.run(by_hand, X[200:])
        np.testing.assert_allclose(again.features, out.features, atol=1e-8)
        np.testing.assert_allclose(later.atom_weights, whole.atom_weights, atol=1e-8)


def test_atoms_of_the_reconstructive_form_may_begin_the_discriminative_one() -> None:
    X = samples(200)
    first = learner_from("okdl", {"kernel": KERNEL, "atoms": 5, "l2": 1e-3})
    second = learner_from("okdl_discriminative", {"kernel": KERNEL, "atoms": 5})
    state, _ = begun(first, X)
    both = {"samples": state.samples, "atom_weights": state.atom_weights}
    taken = second.init(dim=4, targets=1, seed=0)._replace(**both)
    np.testing.assert_allclose(second.transform(taken, X[:20]), first.transform(state, X[:20]), atol=1e-9)


@pytest.mark.parametrize("name", ["okdl", "okdl_discriminative"])
def test_memory_is_constant_once_the_budget_is_full_and_h_stays_true(name: str) -> None:
    X = np.random.default_rng(0).standard_normal((3000, 4))
    learner = learner_from(name, {"atoms": 10, "budget": 30})
    Y = signs(X, 1) if name == "okdl_discriminative" else None
    state, sizes = learner.init(dim=4, targets=1, seed=0), set()
    for rows in range(0, 3000, 250):
        state, out = learner.run(state, X[rows : rows + 250], None if Y is None else Y[rows : rows + 250])
        sizes.add(sum(np.asarray(value).nbytes for value in state))
        np.testing.assert_allclose(state.H, atoms_of(learner, state), atol=1e-9)
    assert len(sizes) == 1 and len(state.samples) == 30 and out.evicted.all()


def test_a_repeated_row_is_stored_once() -> None:
    X = np.tile(samples(20)[:12], (20, 1))
    state, out = begun(learner_from("okdl", {"kernel": KERNEL, "atoms": 4, "budget": 50}), X)
    assert len(state.samples) == 12 and not out.evicted.any() and state.seen == 240


def test_repeats_do_not_become_atoms_twice() -> None:
    X = np.concatenate([np.zeros((50, 4)), samples(30)])
    state, out = begun(learner_from("okdl", {"atoms": 4, "budget": 20}), X)
    assert np.isnan(out.ls_error[:50]).all() and np.isfinite(out.ls_error[54:]).all()
    assert np.linalg.eigvalsh(state.H)[0] > 1e-4


@pytest.mark.parametrize("budget", [0, 30])
def test_a_place_where_no_atom_answers_gets_one(budget: int) -> None:
    """60 bandwidths away every code is 0; without a new start the atoms would stay silent for ever."""
    X = samples(900)
    X[300:600] += 90.0
    _, out = begun(learner_from("okdl", {"kernel": KERNEL, "atoms": 6, "budget": budget}), X)
    assert out.ls_error[300] == pytest.approx(1.0) and out.ls_error[500:600].mean() < 0.7
    assert out.ls_error[-100:].mean() <= 1.5 * out.ls_error[250:300].mean()


def test_atoms_without_targets_take_none_of_the_head_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows as Python takes them: it refuses an index that compiled code takes for a place in another array's memory."""
    monkeypatch.setattr(family, "rows_through", family.rows_through.py_func)
    X = samples(60)
    X[30:] += 90.0
    chain = learner_from("chain", {"extractor": {"name": "okdl", "atoms": 5, "kernel": KERNEL}, "head": {"name": "rls"}})
    _, out = chain.run(chain.init(dim=4, targets=2, seed=0), X, signs(X, 2))
    assert (out.ls_error[30:] == 1.0).sum() >= 2 and out.ls_error[-1] < 1.0, "an atom starts over"


def test_one_outlier_costs_no_atom() -> None:
    X = samples(400)
    learner = learner_from("okdl", {"kernel": KERNEL, "atoms": 6, "budget": 40})
    calm = begun(learner, np.delete(X, 300, axis=0))[1].ls_error[-50:]
    X[300] *= 1e6
    state, out = begun(learner, X)
    assert out.ls_error[300] == 1.0 and out.ls_error[-50:].mean() <= 1.02 * calm.mean()
    assert np.diag(state.H).min() > 0.01


def test_outlying_targets_leave_the_atoms_where_they_are() -> None:
    X = samples(420)
    learner = learner_from("okdl_discriminative", {"kernel": KERNEL, "atoms": 6})
    state, _ = begun(learner, X[:400], signs(X[:400], 1))
    for size in (1e4, 1e30, 1e154):
        hit, out = learner.run(state, X[400:], np.concatenate([[[size]], signs(X[401:], 1)]))
        assert np.isfinite(hit.w).all() and np.isfinite(out.prediction).all()
        assert abs(np.diag(hit.H) / np.diag(state.H) - 1).max() < 0.1


def test_kernels_without_bounds_and_of_low_rank_stay_in_range_for_long() -> None:
    """Rank 10 below a budget of 40: most samples are redundant, and P is nearly singular."""
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    X[::500] *= 100.0
    learner = learner_from("okdl", {"kernel": {"name": "polynomial", "degree": 2}, "atoms": 8, "budget": 40})
    state, out = begun(learner, X)
    assert all(np.isfinite(value).all() for value in state) and np.isfinite(out.ls_error[8:]).all()
    assert abs(state.atom_weights).max() < 1e3
    assert np.median(out.ls_error[-2000:]) <= 1.2 * np.median(out.ls_error[8:2000])


def test_the_class_is_that_of_the_dictionary_that_costs_least() -> None:
    random = np.random.default_rng(0)
    centers = random.standard_normal((3, 5)) * 2
    rows = [center + random.standard_normal((80, 5)) for center in centers]
    learner = Okdl(atoms=6, budget=20, kernel=Kernel(bandwidth=3.0))
    states = [begun(learner, X[:60])[0] for X in rows]
    costs = class_costs(learner, states, np.concatenate([X[60:] for X in rows]))
    assert costs.shape == (60, 3) and (costs.argmin(axis=1) == np.repeat([0, 1, 2], 20)).mean() >= 0.9
    with pytest.raises(ValueError, match=r"^class_costs: expected X of shape \(n, 5\), got \(1, 4\)\.$"):
        class_costs(learner, states, np.zeros(4))


def test_settings_and_states_that_do_not_fit_are_refused_with_one_sentence() -> None:
    with pytest.raises(SettingError, match=r"^Okdl: budget must be 0 \(no limit\), or atoms \(20\) or more; got 10\.$"):
        learner_from("okdl", {"budget": 10})
    assert not learner_from("okdl", {"budget": 0}).bounded
    learner = learner_from("okdl", {"atoms": 3, "budget": 9})
    state, _ = begun(learner, samples(40))
    with pytest.raises(ValueError, match=r"^Okdl: expected 3 rows of H or none, got 2\.$"):
        learner.transform(state._replace(H=np.eye(2, 3)), [[0.0] * 4])
    with pytest.raises(ValueError, match=r"^Okdl: the state stores 9 samples, this learner's budget is 5\.$"):
        learner_from("okdl", {"atoms": 3, "budget": 5}).transform(state, [[0.0] * 4])

"""ald and random_prototypes against their slow references, and what a head may rest on."""

import numpy as np
import pytest

from algorithms import Basis, learner_from
from algorithms.common.protocol import LEARN, Array
from algorithms.common.randomness import uniform
from algorithms.prototypes.random_prototypes import PLACE
from tests.reference import prototypes as reference

KERNEL = {"name": "gaussian", "bandwidth": 1.5}
SLOW = reference.gaussian(1.5)


def samples(n: int, dim: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, dim))


@pytest.mark.parametrize(("above", "budget"), [(0.1, 15), (0.3, 40), (0.01, 60)])
def test_ald_agrees_with_its_slow_reference(above: float, budget: int) -> None:
    X = samples(200)
    learner = learner_from("ald", {"above": above, "budget": budget, "ridge": 1e-6, "kernel": KERNEL})
    state, out = learner.run(learner.init(dim=4, targets=0, seed=0), X)
    features, residuals, chosen = reference.ald(SLOW, X, above=above, budget=budget, ridge=1e-6)
    np.testing.assert_allclose(out.features, features, atol=1e-7)
    np.testing.assert_allclose(out.ls_error, residuals, atol=1e-7)
    assert state.arrival.tolist() == chosen and (state.prototypes == X[state.arrival - 1]).all()
    assert np.flatnonzero(out.admitted).tolist() == [number - 1 for number in chosen]


@pytest.mark.parametrize("seed", [0, 1])
def test_random_prototypes_agree_with_their_slow_reference(seed: int) -> None:
    X = samples(200)
    learner = learner_from("random_prototypes", {"budget": 12, "ridge": 1e-6, "kernel": KERNEL})
    state, out = learner.run(learner.init(dim=4, targets=0, seed=seed), X)
    places = [int(uniform(seed, PLACE, n + 1) * (n + 1)) for n in range(len(X))]
    features, residuals, chosen = reference.reservoir(SLOW, X, places, budget=12, ridge=1e-6)
    np.testing.assert_allclose(out.features, features, atol=1e-7)
    np.testing.assert_allclose(out.ls_error, residuals, atol=1e-7)
    assert state.arrival.tolist() == chosen and (state.prototypes == X[state.arrival - 1]).all()


@pytest.mark.parametrize("kernel", [KERNEL, {"name": "laplacian"}, {"name": "polynomial", "degree": 3}])
@pytest.mark.parametrize("rows", [0, 7, 12, 300])
def test_the_state_after_rows_is_the_one_that_running_leaves(kernel: dict[str, object], rows: int) -> None:
    learner, X = learner_from("random_prototypes", {"budget": 12, "kernel": kernel}), samples(rows)
    gap = X.copy()
    gap[3:5] = np.nan
    for seed, some in ((0, X), (3, X), (3, gap)):
        whole, _ = learner.run(learner.init(dim=4, targets=0, seed=seed), some)
        after = learner.state_after(some, seed=seed)
        for field, expected in zip(after, whole, strict=True):
            np.testing.assert_array_equal(field, expected)
            assert np.asarray(field).dtype == np.asarray(expected).dtype


def test_every_row_has_the_same_chance_to_be_kept() -> None:
    """2,000 streams of 50 rows, 5 kept: 200 of each row expected, standard deviation 13."""
    learner = learner_from("random_prototypes", {"budget": 5})
    kept = np.zeros(51, int)
    for seed in range(2000):
        kept[learner.run(learner.init(dim=1, targets=0, seed=seed), np.arange(50.0)[:, None])[0].arrival] += 1
    assert kept.sum() == 10_000 and abs(kept[1:] - 200).max() <= 4 * 13.4
    early, late = kept[1:26].sum(), kept[26:].sum()
    assert abs(early - late) <= 4 * 100


def test_a_new_ald_prototype_leaves_the_other_coordinates_alone_to_the_last_bit() -> None:
    X, probe = samples(120), samples(30, seed=1)
    learner = learner_from("ald", {"above": 0.05, "budget": 60, "kernel": KERNEL})
    state = learner.init(dim=4, targets=0, seed=0)
    before, held = learner.transform(state, probe), 0
    for n in range(len(X)):
        state, _ = learner.run(state, X[n : n + 1])
        after = learner.transform(state, probe)
        assert after[:, :held].tobytes() == before[:, :held].tobytes()
        before, held = after, len(state.prototypes)
    assert held > 30


def test_a_full_ald_dictionary_stands_still() -> None:
    X = samples(400)
    learner = learner_from("ald", {"above": 0.01, "budget": 20, "kernel": KERNEL})
    full, _ = learner.run(learner.init(dim=4, targets=0, seed=0), X[:100])
    later, out = learner.run(full, X[100:])
    assert len(full.prototypes) == 20 and out.ls_error.max() > 0.1 and not out.admitted.any()
    assert later.prototypes.tobytes() == full.prototypes.tobytes() and later.seen == 400


@pytest.mark.parametrize("name", ["ald", "random_prototypes"])
def test_features_reproduce_the_kernel_up_to_the_ls_error(name: str) -> None:
    """z'z' is kappa of what the prototypes span: for the prototypes themselves that is everything."""
    X = samples(60)
    learner = learner_from(name, {"budget": 25, "ridge": 1e-9, "kernel": KERNEL})
    state, _ = learner.run(learner.init(dim=4, targets=0, seed=0), X)
    Z = learner.transform(state, state.prototypes)
    np.testing.assert_allclose(Z @ Z.T, SLOW(state.prototypes, state.prototypes), atol=1e-6)
    _, out = learner.run(state, X[:1])
    assert out.ls_error[0] == pytest.approx(1.0 - (out.features[0] ** 2).sum(), abs=1e-12)


def test_a_head_keeps_what_it_says_of_the_shared_span_when_a_random_prototype_is_replaced() -> None:
    """The transfer is the projection of the old span on the new one: T = E_new'E_old for orthonormal bases."""
    X = samples(40)
    learner = learner_from("random_prototypes", {"budget": 8, "ridge": 1e-9, "kernel": KERNEL})
    state, moves = learner.init(dim=4, targets=0, seed=3), 0
    for n in range(len(X)):
        basis = Basis(np.zeros(1, np.int8), np.zeros((1, 8, 8)))
        work = learner.workspace(state)
        learner.load(work, 0, state)
        out = learner.outputs(1, 4, 0)
        row = X[n : n + 1].copy()
        learner.advance(work, np.zeros(1, np.int64), row, np.zeros((1, 0)), out, np.full(1, LEARN, np.int8), basis)
        new = learner.save(work, 0, state)
        if basis.moved[0]:
            moves += 1
            old_L, new_L = (np.linalg.cholesky(SLOW(s.prototypes, s.prototypes) + 1e-9 * np.eye(8)) for s in (state, new))
            cross = SLOW(new.prototypes, state.prototypes)
            expected = np.linalg.solve(new_L, np.linalg.solve(old_L, cross.T).T)
            np.testing.assert_allclose(basis.transfer[0], expected, atol=1e-6)
        assert bool(basis.moved[0]) == bool(out.evicted[0])
        state = new
    assert moves >= 5


@pytest.mark.parametrize("name", ["ald", "random_prototypes"])
def test_an_idle_sensor_leaves_the_map_usable(name: str) -> None:
    X = np.concatenate([samples(50), np.tile(samples(1, seed=9), (500, 1)), samples(50, seed=2)])
    learner = learner_from(name, {"budget": 20, "kernel": KERNEL})
    _, out = learner.run(learner.init(dim=4, targets=0, seed=0), X)
    assert np.isfinite(out.features).all() and ((out.features**2).sum(axis=1) <= 1.0 + 1e-6).all()
    if name == "ald":
        assert out.admitted[51:550].sum() == 0


@pytest.mark.parametrize("name", ["ald", "random_prototypes"])
def test_a_state_that_does_not_fit_is_refused_with_one_sentence(name: str) -> None:
    learner = learner_from(name, {"budget": 3})
    state = learner.init(dim=2, targets=0, seed=0)._replace(prototypes=np.ones((2, 2)), arrival=np.array([1]))
    with pytest.raises(ValueError, match="expected 2 rows of arrival, one for each row of prototypes, got 1"):
        learner.transform(state, [[0.0, 0.0]])

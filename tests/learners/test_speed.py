"""The SPEED family against its slow reference, against kernel ridge regression, and what its states may be used for."""

from typing import Any

import numpy as np
import pytest

from algorithms import Learner, learner_from
from algorithms.common.protocol import LEARN_EXTRACTOR, LEARN_HEAD, Array
from algorithms.spectral.map import leading, rank_one, ritz
from tests.reference import speed as reference

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
SMALL = {"rank": 6, "seed_size": 12, "novelty": 0.1, "budget": 25}


def rows(n: int, seed: int = 0, dim: int = 2) -> tuple[Array, Array]:
    """Two targets that are smooth in x, and a noisy walk so that the newest rows resemble one another."""
    random = np.random.default_rng(seed)
    X = np.sin(np.cumsum(random.standard_normal((n, dim)), axis=0) / 3) * 1.5 + 0.05 * random.standard_normal((n, dim))
    return X, np.stack([np.sin(2 * X[:, 0]), X.prod(axis=1)], axis=1) + 0.05 * random.standard_normal((n, 2))


def made(name: str, **settings: Any) -> Learner:
    return learner_from(name, {"kernel": KERNEL, **settings})


def slow(learner: Any, X: Array, Y: Array) -> tuple[reference.Filter, Array, Array]:
    names = ("rank", "novelty", "head", "step_size", "forgetting", "delta", "transition", "state_noise")
    grows = ("budget", "evict", "transfer", "order") if learner.moves else ()
    first = learner.seed_size if learner.moves else learner.map_size
    settings = {name: getattr(learner, name) for name in (*names, *grows)}
    filter = reference.Filter(first=first, grows=learner.moves, **settings)
    rows = [filter.learn(x, y) for x, y in zip(X, Y, strict=True)]
    return filter, np.array([f for f, _ in rows]), np.array([e for _, e in rows])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("speed", {"rank": 5, "map_size": 40}),
        ("speed", {"rank": 5, "map_size": 40, "head": "exrls", "transition": 0.999, "forgetting": 0.99}),
        ("sparse_speed", {"rank": 6, "map_size": 80, "novelty": 0.1, "head": "rls", "forgetting": 0.99}),
        ("ispeed", {"rank": 6, "seed_size": 10, "budget": 0}),
        ("ispeed", {"rank": 6, "seed_size": 10, "budget": 30, "evict": "oldest", "order": "lms_first"}),
        ("sispeed", {**SMALL, "budget": 0, "head": "rls"}),
        ("sispeed", {**SMALL, "transfer": "nearest"}),
        ("sispeed", {**SMALL, "transfer": "truncate", "order": "lms_first"}),
        ("sispeed", {**SMALL, "evict": "close_pair", "head": "rls", "forgetting": 0.99}),
        ("sispeed", {**SMALL, "evict": "widen", "head": "exrls"}),
        ("sispeed", {**SMALL, "evict": "stop", "solver": "rank_one"}),
        ("sispeed", {**SMALL, "evict": "lru", "solver": "rank_one", "head": "rls"}),
    ],
)
def test_agrees_with_the_slow_reference(name: str, settings: dict[str, Any]) -> None:
    X, Y = rows(160)
    learner = made(name, **settings)
    state, out = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    filter, predictions, errors = slow(learner, X, Y)
    assert filter.D is not None and state.dictionary.tolist() == filter.D.tolist()
    np.testing.assert_allclose(out.prediction, predictions, atol=1e-8)
    np.testing.assert_allclose(out.ls_error, errors, atol=1e-9)
    np.testing.assert_allclose(state.values, filter.values, atol=1e-8)
    assert learner.moves is False or state.used.tolist() == filter.used
    assert state.novelty == filter.novelty
    if settings.get("budget"):
        assert len(state.dictionary) <= settings["budget"] and (out.evicted.any() or settings.get("evict") == "stop")


def test_ispeed_with_rls_and_every_eigenfunction_is_kernel_ridge_regression() -> None:
    X, Y = rows(60, seed=3)
    learner = made("ispeed", rank=60, seed_size=5, budget=0, head="rls", delta=50.0)
    _, out = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    for n in range(5, 60):
        K = reference.gaussian(X[:n], X[:n]) + np.eye(n) / 50.0
        wanted = reference.gaussian(X[n : n + 1], X[:n]) @ np.linalg.solve(K, Y[:n])
        np.testing.assert_allclose(out.prediction[n], wanted[0], atol=1e-6)


def test_the_exact_transfer_keeps_every_prediction_where_the_map_loses_nothing() -> None:
    X, Y = rows(50, seed=4)
    probe, unknown = rows(30, seed=5)[0], np.full((25, 2), np.nan)
    for solver in ("eigh", "rank_one", "ritz"):
        learner = made("ispeed", rank=50, seed_size=25, budget=0, solver=solver)
        state, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X[:25], Y[:25])
        more, out = learner.run(state, X[25:], unknown)
        assert out.admitted.all() and len(more.dictionary) == 50
        np.testing.assert_allclose(learner.predict(more, probe), learner.predict(state, probe), atol=1e-7)


@pytest.mark.parametrize("head", ["lms", "rls"])
def test_solvers_give_the_same_features_and_predictions(head: str) -> None:
    X, Y = rows(160, seed=6)
    outs = []
    for solver in ("eigh", "rank_one", "ritz"):
        learner = made("sispeed", **SMALL, solver=solver, ritz_rank=18, head=head)
        outs.append(learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)[1])
    for out, close in zip(outs[1:], (1e-9, 1e-3), strict=True):
        np.testing.assert_allclose(out.prediction, outs[0].prediction, atol=close)
        np.testing.assert_allclose(out.features, outs[0].features, atol=close)


@pytest.mark.parametrize("kind", ["equal eigenvalues", "repeats", "far apart and near", "smooth"])
def test_rank_one_updates_stay_exact_where_eigenvalues_coincide(kind: str) -> None:
    random = np.random.default_rng(1)
    X = random.standard_normal((40, 2)) * {"equal eigenvalues": 1e3, "far apart and near": 8.0}.get(kind, 0.7)
    if kind == "repeats":
        X[20:] = X[:20] + 1e-9 * random.standard_normal((20, 2))
    K = reference.gaussian(X, X)
    values, V = leading(np.ascontiguousarray(K[:3, :3]), 3)
    for m in range(3, 40):
        values, V = rank_one(values, V, K[m, :m], 1.0)
    np.testing.assert_allclose(V.T @ V, np.eye(40), atol=1e-12)
    np.testing.assert_allclose((V * values) @ V.T, K, atol=1e-12)
    assert (np.diff(values) <= 1e-14).all()


@pytest.mark.parametrize("name", ["sispeed", "ispeed"])
def test_a_row_of_nothing_but_rounding_beside_a_far_outlier_is_learned(name: str) -> None:
    learner = made(name, kernel={"name": "polynomial", "degree": 3}, rank=5, seed_size=10, solver="rank_one")
    X = np.random.default_rng(0).standard_normal((30, 3))
    X[20] *= 3e3
    X[21] = 0.0
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert out.admitted[20:22].all() and np.isfinite(out.features[10:]).all()
    values, V = state.eigenvalues, state.vectors.reshape(30, 30)
    K = (state.dictionary @ state.dictionary.T + 1) ** 3
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-12)
    np.testing.assert_allclose((V * values) @ V.T, K, atol=1e-12 * values[0])


def test_ritz_pairs_are_exact_while_they_are_all_and_near_when_they_are_not() -> None:
    X = rows(60, seed=2)[0]
    K = reference.gaussian(X, X)
    for most, close in ((60, 1e-11), (25, 1e-6)):
        values, V = leading(np.ascontiguousarray(K[:5, :5]), 5)
        for m in range(5, 60):
            values, V = ritz(K[:m, :m], values, V, K[m, :m], 1.0, most)
        exact = leading(K, 10)
        np.testing.assert_allclose(values[:10], exact[0], atol=close)
        np.testing.assert_allclose(np.abs(np.diag(V[:, :10].T @ exact[1])), 1.0, atol=close)
        np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-12)


def test_a_chain_learns_what_the_head_of_its_own_learns() -> None:
    """A chain's head does not learn the rows before the first map, so those are without a target here."""
    X, Y = rows(160, seed=7)
    Y[:12] = np.nan
    own = made("sispeed", **SMALL, head="rls", order="lms_first")
    table = {"name": "sispeed", "kernel": KERNEL, **SMALL}
    chain = learner_from("chain", {"extractor": {**table, "head": "exrls"}, "head": {"name": "rls"}})
    _, out = own.run(own.init(dim=2, targets=2, seed=0), X, Y)
    state, chained = chain.run(chain.init(dim=2, targets=2, seed=0), X, Y)
    assert chained.admitted.sum() > 30 and state.extractor.values.shape == (25, 0)
    np.testing.assert_array_equal(chained.features, out.features)
    np.testing.assert_allclose(chained.prediction, out.prediction, atol=1e-9)


def test_rows_without_a_target_teach_the_map_and_late_labels_the_head_alone() -> None:
    X, Y = rows(100, seed=8)
    learner = made("sispeed", **SMALL)
    labelled, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    silent, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X)
    assert silent.dictionary.tolist() == labelled.dictionary.tolist() and not silent.values.any()
    work, flags = learner.workspace(silent), np.full(100, LEARN_HEAD, np.int8)
    learner.load(work, 0, silent)
    learner.advance(work, np.zeros(100, np.int64), X, Y, learner.outputs(100, 2, 2), flags)
    late = learner.save(work, 0, silent)
    assert late.dictionary.tolist() == silent.dictionary.tolist() and late.seen == silent.seen
    probe, wanted = rows(100, seed=8)
    assert ((learner.predict(late, probe) - wanted) ** 2).mean() < 0.5 * (wanted**2).mean()
    work = learner.workspace(learner.init(dim=2, targets=2, seed=0))
    learner.load(work, 0, learner.init(dim=2, targets=2, seed=0))
    learner.advance(work, np.zeros(100, np.int64), X, Y, learner.outputs(100, 2, 2), flags - LEARN_HEAD + LEARN_EXTRACTOR)
    assert not learner.save(work, 0, silent).values.any()


@pytest.mark.parametrize("solver", ["eigh", "rank_one", "ritz"])
def test_dictionary_and_values_are_all_a_state_needs(solver: str) -> None:
    X, Y = rows(120, seed=9)
    learner = made("sispeed", **SMALL, solver=solver)
    state, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    by_hand = learner.init(dim=2, targets=2, seed=0)._replace(dictionary=state.dictionary, values=state.values)
    close = 1e-3 if solver == "ritz" else 1e-9
    np.testing.assert_allclose(learner.predict(by_hand, X), learner.predict(state, X), atol=close)
    other = state._replace(values=2 * state.values)  # weights that do not give the values count as absent
    np.testing.assert_allclose(learner.predict(other, X), 2 * learner.predict(state, X), atol=1e-9)


def test_an_unbounded_filter_goes_on_from_dictionary_and_values() -> None:
    X, Y = rows(120, seed=9)
    learner = made("sispeed", **{**SMALL, "budget": 0}, solver="ritz")
    state, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    by_hand = learner.init(dim=2, targets=2, seed=0)._replace(dictionary=state.dictionary, values=state.values)
    more, out = learner.run(by_hand, X[:3] + 5.0, Y[:3])
    assert out.admitted.any() and len(more.dictionary) == len(state.dictionary) + out.admitted.sum() == len(more.used)


def test_values_do_not_depend_on_the_signs_of_eigenvectors() -> None:
    X, Y = rows(120, seed=9)
    learner = made("sispeed", **SMALL, solver="rank_one")
    state, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    flipped = state._replace(vectors=-state.vectors, weights=-state.weights)
    again, out = learner.run(flipped, X[:20], Y[:20])
    whole, expected = learner.run(state, X[:20], Y[:20])
    np.testing.assert_allclose(out.prediction, expected.prediction, atol=1e-10)
    np.testing.assert_allclose(again.values, whole.values, atol=1e-10)


@pytest.mark.parametrize("evict", ["lru", "oldest", "close_pair", "widen", "stop"])
def test_an_idle_sensor_and_far_outliers_leave_a_filter_that_works(evict: str) -> None:
    X, Y = rows(150, seed=10)
    odd = np.concatenate([np.tile(X[:1], (300, 1)), 10.0 ** np.arange(1, 300, 10)[:, None] * np.ones((30, 2))])
    learner = made("sispeed", **{**SMALL, "novelty": 0.0}, evict=evict, head="rls", forgetting=0.99)
    start = learner.init(dim=2, targets=2, seed=0)
    state, out = learner.run(start, np.concatenate([X, odd, X]), np.concatenate([Y, np.zeros((330, 2)), Y]))
    assert not out.admitted[151:450].any(), "repeats were stored"
    assert len(state.dictionary) <= 25 and all(np.isfinite(value).all() for value in state)
    if evict != "widen":  # which has widened to the outliers' distances: it never narrows again
        assert out.loss[-100:].mean() < 0.5 * (Y[-100:] ** 2).sum(axis=1).mean()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rank": 30, "budget": 20}, r"budget must be 0 \(no limit\), or rank \(30\) or more; got 20"),
        ({"solver": "ritz", "ritz_rank": 5}, r"ritz_rank must be rank \(30\) or more; got 5"),
        ({"evict": "newest"}, "evict must be 'lru', 'oldest', 'close_pair', 'widen', 'stop'; got 'newest'"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        learner_from("sispeed", settings)


def test_a_state_beyond_the_limits_is_refused_with_one_sentence() -> None:
    learner = made("sispeed", **SMALL)
    state = learner.init(dim=2, targets=1, seed=0)
    with pytest.raises(ValueError, match="stores 26 samples, this learner's limit is 25"):
        learner.predict(state._replace(dictionary=np.eye(26)[:, :2].copy(), values=np.zeros((26, 1))), [[0.0, 0.0]])
    with pytest.raises(ValueError, match="expected 3 rows of values, one for each row of dictionary, got 2"):
        learner.predict(state._replace(dictionary=np.eye(3)[:, :2].copy(), values=np.zeros((2, 1))), [[0.0, 0.0]])


@pytest.mark.parametrize("solver", ["ritz", "rank_one"])
def test_stored_eigenvectors_longer_than_any_are_refused(solver: str) -> None:
    """What is learned from them would not be finite; a state as it was left is taken."""
    learner, (X, Y) = made("sispeed", **SMALL, solver=solver), rows(60)
    state, _ = learner.run(learner.init(dim=2, targets=2, seed=0), X, Y)
    assert 0 < np.abs(state.vectors).max() <= 1 + 1e-9
    learner.predict(state, X[:1])
    long = state.vectors.copy()
    long[3] = 3e42
    with pytest.raises(ValueError, match="stored samples, or its eigenvectors, are out of range"):
        learner.predict(state._replace(vectors=long), X[:1])

"""Prototype selection by log-determinant: against slow references, and what a head or a map may rest on."""

from typing import Any

import numpy as np
import pytest

from algorithms import Basis, Learner, learner_from
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array
from papers.batch.full_greedy import full_greedy, with_prototypes
from tests.reference import blocks, prototypes, selection

KERNEL = {"name": "gaussian", "bandwidth": 1.5}
SLOW = prototypes.gaussian(1.5)
SWAPPING: dict[str, dict[str, Any]] = {
    "online_greedy": {"budget": 8},
    "block_greedy": {"budget": 8, "block_size": 8},
    "stream_greedy": {"budget": 8},
    "sieve_streaming": {"budget": 8},
}


def samples(n: int, dim: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, dim))


def made(name: str, **settings: Any) -> Learner:
    return learner_from(name, {"kernel": KERNEL, **settings})


def step(learner: Learner, state: Any, x: Array) -> tuple[Any, Basis]:
    """One row learned with a listener to the basis."""
    basis = Basis(np.zeros(1, np.int8), np.zeros((1, learner.width, learner.width)))
    work, out = learner.workspace(state), learner.outputs(1, len(x), 0)
    learner.load(work, 0, state)
    learner.advance(work, np.zeros(1, np.int64), x[None].copy(), np.zeros((1, 0)), out, None, basis)
    return learner.save(work, 0, state), basis


@pytest.mark.parametrize("settings", [{"min_gain": 0.05}, {"min_gain": 0.003, "relative": True}, {"ridge": 0.1}])
def test_online_greedy_swaps_as_its_slow_reference(settings: dict[str, Any]) -> None:
    X = samples(120)
    _, chosen = selection.select(SLOW, X, np.zeros((120, 1)), budget=10, **settings)
    own = {"gain_rule": "relative" if settings.get("relative") else "absolute", **settings}
    own.pop("relative", None)
    learner = made("online_greedy", budget=10, **own)
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert state.arrival.tolist() == chosen and out.evicted.sum() > 3
    assert state.estimate == pytest.approx(selection.log_det(SLOW, state.prototypes, own.get("ridge", 1.0)), abs=1e-9)


@pytest.mark.parametrize("settings", [{}, {"recluster": False}, {"neighbours": "nearest"}, {"min_gain": 0.1}])
def test_block_greedy_swaps_and_clusters_as_its_slow_reference(settings: dict[str, Any]) -> None:
    X, Y = samples(150), np.zeros((150, 1))
    _, plain = blocks.block_greedy(SLOW, X, Y, budget=13, block_size=4, **settings)
    learner = made("block_greedy", budget=13, block_size=4, **settings)
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert (state.arrival - 1).tolist() == plain.chosen and state.block.tolist() == plain.block
    assert state.estimate == pytest.approx(plain.estimate, abs=1e-9)
    assert state.clusterings == plain.clusterings and state.clusterings >= (0 if settings else 2)
    assert (
        state.estimate >= selection.log_det(SLOW, state.prototypes, 1.0) - 1e-9
    )  # blocks know of no similarity between them


@pytest.mark.parametrize("form", ["nystrom", "features", "labels"])
@pytest.mark.parametrize("resets", [False, True])
def test_regression_after_swaps_is_that_of_all_rows_in_the_new_coordinates(form: str, resets: bool) -> None:
    X = samples(100)
    Y = np.sin(X[:, :1]) + X[:, 1:2]
    expected, _ = selection.select(SLOW, X, Y, budget=9, regress=form, regress_ridge=0.1, resets=resets)
    swap = "reset" if resets else "transfer"
    learner = made("online_greedy", budget=9, regress=form, regress_ridge=0.1, on_swap=swap)
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    assert out.evicted.sum() > 3
    np.testing.assert_allclose(out.prediction, expected["prediction"], atol=1e-6)


def test_block_greedy_solves_with_its_prototypes_labels() -> None:
    X = samples(100)
    Y = X[:, :1] - X[:, 1:2]
    expected, _ = blocks.block_greedy(SLOW, X, Y, budget=9, block_size=3, regress="labels", regress_ridge=0.1)
    learner = made("block_greedy", budget=9, block_size=3, regress="labels", regress_ridge=0.1)
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    np.testing.assert_allclose(out.prediction[9:], expected["prediction"][9:], atol=1e-6)


def test_full_greedy_takes_the_largest_gain_each_time_and_skips_what_is_not_finite() -> None:
    X = samples(60)
    X[7] = np.nan
    chosen, total = full_greedy(X, kernel=Kernel(bandwidth=1.5), budget=8)
    slow: list[int] = []
    for _ in range(8):
        values = [selection.log_det(SLOW, X[[*slow, n]], 1.0) if n not in {*slow, 7} else -np.inf for n in range(60)]
        slow.append(int(np.argmax(values)))
    assert chosen.tolist() == slow and total == pytest.approx(selection.log_det(SLOW, X[slow], 1.0))
    with pytest.raises(ValueError, match="expected a budget of 1 or more"):
        full_greedy(X, kernel=Kernel(), budget=0)


@pytest.mark.parametrize("name", SWAPPING)
def test_what_it_chooses_is_nearly_worth_what_full_greedy_chooses_and_more_than_a_random_set(name: str) -> None:
    X = samples(400)
    _, best = full_greedy(X, kernel=Kernel(bandwidth=1.5), budget=8)
    learner = made(name, **SWAPPING[name])
    state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    ours, random = (selection.log_det(SLOW, S, 1.0) for S in (state.prototypes, X[:8]))
    assert (state.prototypes == X[state.arrival - 1]).all() and len(state.prototypes) == 8
    assert random < ours and 0.93 * best <= ours <= 1.02 * best


@pytest.mark.parametrize("name", ["online_greedy", "block_greedy", "ald", "coherence", "random_prototypes", "stream_greedy"])
def test_prototypes_chosen_offline_are_a_map(name: str) -> None:
    X = samples(60)
    chosen, _ = full_greedy(X, kernel=Kernel(bandwidth=1.5), budget=8)
    learner = made(name, budget=8, **({"block_size": 4} if name == "block_greedy" else {}))
    state = with_prototypes(learner, X, chosen)
    assert state.arrival.tolist() == (np.sort(chosen) + 1).tolist() and state.seen == 60
    Z = learner.transform(state, X)
    assert Z.shape == (60, 8) and np.isfinite(Z).all() and np.linalg.matrix_rank(Z) == 8


def test_a_swap_turns_the_whitened_coordinates_by_what_the_old_set_spans() -> None:
    X, learner, moves = samples(60), made("online_greedy", budget=8), 0
    state = learner.init(dim=3, targets=0, seed=0)
    for x in X:
        new, basis = step(learner, state, x)
        if basis.moved[0]:
            moves += 1
            old_S, new_S = (s.prototypes[np.argsort(s.arrival)] for s in (state, new))
            L_old, L_new = (np.linalg.cholesky(SLOW(S, S) + 1e-6 * np.eye(8)) for S in (old_S, new_S))
            cross = SLOW(new_S, old_S) + 1e-6 * (new_S[:, None] == old_S[None]).all(axis=2)
            expected = np.linalg.solve(L_new, np.linalg.solve(L_old, cross.T).T)
            np.testing.assert_allclose(basis.transfer[0], expected, atol=1e-6)
        state = new
    assert moves > 3


@pytest.mark.parametrize(("name", "settings"), [("generalised_coherence", {"reference": 40}), ("sieve_streaming", {})])
def test_a_new_set_in_slots_tells_heads_what_it_says_of_the_old_one(name: str, settings: dict[str, Any]) -> None:
    learner, moves = made(name, budget=8, **settings), 0
    state = learner.init(dim=3, targets=0, seed=0)
    for x in samples(300):
        new, basis = step(learner, state, x)
        if basis.moved[0]:
            moves += 1
            S, R, m = new.prototypes, state.prototypes, len(state.prototypes)
            L_new, L_old = (np.linalg.cholesky(SLOW(A, A) + 1e-6 * np.eye(len(A))) for A in (S, R))
            expected = np.linalg.solve(L_new, np.linalg.solve(L_old, SLOW(R, S)).T)
            np.testing.assert_allclose(basis.transfer[0][: len(S), :m], expected, atol=1e-4)
        state = new
    assert moves > (3 if name == "generalised_coherence" else 0)


def test_generalised_coherence_leaves_a_smaller_ls_error_than_the_largest_log_determinant_and_than_chance() -> None:
    X, errors = samples(1500) * [1.0, 1.0, 0.3], {}
    for name in ("generalised_coherence", "online_greedy", "random_prototypes"):
        learner = made(name, budget=10)
        state, _ = learner.run(learner.init(dim=3, targets=0, seed=0), X)
        K = SLOW(state.prototypes, state.prototypes) + 1e-6 * np.eye(10)
        k = SLOW(X, state.prototypes)
        errors[name] = 1.0 - (k * np.linalg.solve(K, k.T).T).sum(axis=1).mean()
    assert errors["generalised_coherence"] < 0.8 * min(errors["online_greedy"], errors["random_prototypes"])


def test_a_swap_hands_over_what_leaves_so_that_the_function_stays_at_the_prototypes() -> None:
    X, learner, moves = samples(60), made("block_greedy", budget=8, block_size=8), 0
    state = learner.init(dim=3, targets=0, seed=0)
    for x in X:
        new, basis = step(learner, state, x)
        if basis.moved[0]:
            moves += 1
            weights = np.random.default_rng(moves).standard_normal(8)
            before = SLOW(new.prototypes, state.prototypes) @ weights
            after = SLOW(new.prototypes, new.prototypes) @ basis.transfer[0] @ weights
            np.testing.assert_allclose(after, before, atol=1e-3)
        state = new
    assert moves > 3


def test_stream_greedy_stops_after_a_stretch_without_a_swap() -> None:
    learner = made("stream_greedy", budget=5, stop_after=40)
    X = np.concatenate([samples(100), np.tile(samples(1), (41, 1)), 5 + samples(50, seed=1)])
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert out.evicted[:100].any() and not out.admitted[141:].any() and state.seen == len(X)


@pytest.mark.parametrize("name", ["online_greedy", "block_greedy", "coherence", "sieve_streaming", "generalised_coherence"])
def test_codes_are_chosen_by_the_overlap_kernel(name: str) -> None:
    """A code per column, rows of few kinds: each kind has a prototype, and no kind has many."""
    random = np.random.default_rng(3)
    kinds = random.integers(0, 4, (12, 6)).astype(float)
    X = kinds[random.integers(0, 12, 400)]
    settings = {"block_size": 4} if name == "block_greedy" else {"above": 0.9} if name == "coherence" else {}
    learner = learner_from(name, {"kernel": {"name": "overlap"}, "budget": 12, **settings})
    state, out = learner.run(learner.init(dim=6, targets=0, seed=0), X)
    chosen = len({tuple(row) for row in state.prototypes.tolist()})
    assert chosen >= (9 if name in ("block_greedy", "sieve_streaming") else 11)
    assert out.ls_error[-100:].mean() < 0.2 * out.ls_error[:5].mean()


@pytest.mark.parametrize("name", SWAPPING)
def test_rows_that_repeat_or_lie_far_out_leave_a_map_that_works(name: str) -> None:
    X = np.concatenate(
        [samples(30), np.tile(samples(1, seed=9), (200, 1)), 1e154 * samples(5), 1e-308 * samples(5), samples(30)]
    )
    learner = made(name, **SWAPPING[name])
    state, out = learner.run(learner.init(dim=3, targets=0, seed=0), X)
    assert np.isfinite(out.features[-30:]).all() and np.isfinite(out.ls_error[-30:]).all()
    assert len(state.prototypes) == 8


def test_a_state_with_impossible_swaps_or_blocks_is_refused_with_one_sentence() -> None:
    learner = made("online_greedy", budget=8)
    state = learner.init(dim=3, targets=0, seed=0)
    for x in samples(60):
        state, _ = learner.run(state, x[None])
        if len(state.replaced):
            break
    assert len(state.replaced)
    with pytest.raises(ValueError, match=r"OnlineGreedy: replaced_slot must be 0 to 7; got 8 to 8\."):
        learner.transform(state._replace(replaced_slot=np.full_like(state.replaced_slot, 8)), samples(2))
    in_blocks = made("block_greedy", budget=8, block_size=4)
    state, _ = in_blocks.run(in_blocks.init(dim=3, targets=0, seed=0), samples(60))
    with pytest.raises(ValueError, match=r"BlockGreedy: block must be 0 to 1; got "):
        in_blocks.transform(state._replace(block=state.block + 7), samples(2))

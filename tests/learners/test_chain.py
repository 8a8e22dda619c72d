"""Chains: an extractor and a head as one learner, whatever the chunks, the splits and the mix of keys."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import algorithms.chain
from algorithms import Basis, Learner, Outputs, SettingError, learner_from
from algorithms.chain import Chain
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, Array
from streamjobs.learner_checks.states import joined, rows_of, same_outputs, same_state

SCALED = {"extractor": {"name": "scaling"}, "head": {"name": "rls", "intercept": True}}
TRACKED = {"extractor": {"name": "okfeb", "rank": 4, "budget": 8}, "head": {"name": "rls", "intercept": True}}
NAMES = ("scaled", "tracked")


def chain(name: str) -> Learner:
    return learner_from("chain", {"scaled": SCALED, "tracked": TRACKED}[name])


class TurningState(NamedTuple):
    basis: Array  # (dim, dim) the rotation the features are in
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turning(Learner):
    """Features are x in a basis that turns by another rotation with every learned row; none while fewer than `wait` came."""

    persisted_name: ClassVar[str] = "Turning"
    moves: ClassVar[bool] = True
    wait: int = 0
    dimension: int = 3

    @property
    def width(self) -> int:
        return self.dimension

    def init(self, *, dim: int, targets: int, seed: int) -> TurningState:
        return TurningState(np.eye(dim), 0)

    def dim(self, state: TurningState) -> int:
        return len(state.basis)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        bases, seen, _ = work
        for n, (slot, x) in enumerate(zip(slots, X, strict=True)):
            if seen[slot] >= self.wait:
                out.features[n] = bases[slot] @ x
            out.ls_error[n] = seen[slot]
            out.admitted[n] = 1
            if learn[n] & LEARN_EXTRACTOR:
                seen[slot] += 1
                turn = np.linalg.qr(np.random.default_rng(int(seen[slot])).standard_normal((len(x), len(x))))[0]
                bases[slot] = turn @ bases[slot]
                if basis.moved.size:
                    basis.moved[n], basis.transfer[n] = 1, turn


def stream(n: int, dim: int = 3, targets: int = 2, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, dim))
    return X, np.tanh(X @ random.standard_normal((dim, targets)))


def advanced(
    learner: Learner, states: list[Any], slots: Array, X: Array, Y: Array, learn: Array
) -> tuple[list[Any], Outputs]:
    work = learner.workspace(states[0], slots=1)
    work.grow(len(states))
    for slot, state in enumerate(states):
        learner.load(work, slot, state)
    out = learner.outputs(len(X), X.shape[1], Y.shape[1])
    learner.advance(work, slots, X, Y, out, learn)
    return [learner.save(work, slot, state) for slot, state in enumerate(states)], out


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_is_its_extractor_and_its_head_one_after_the_other(name: str) -> None:
    X, Y = stream(60)
    both = chain(name)
    assert isinstance(both, Chain)
    state, out = both.run(both.init(dim=3, targets=2, seed=1), X, Y)
    alone, alone_out = both.extractor.run(both.extractor.init(dim=3, targets=2, seed=1), X)
    same_state(state.extractor, alone, "the extractor in a chain")
    same_outputs(out, alone_out, "the extractor in a chain", ("features", "ls_error", "admitted", "evicted"))
    if both.extractor.moves:
        return
    head, head_out = both.head.run(both.head.init(dim=3, targets=2, seed=1), alone_out.features, Y)
    same_state(state.head, head, "the head in a chain")
    same_outputs(out, head_out, "the head in a chain", ("prediction", "loss"))


@pytest.mark.parametrize("head", ["lms", "nlms", "rls", "pegasos", "pa", "logistic"])
def test_a_head_behind_a_turning_basis_predicts_as_if_it_stood_still(head: str) -> None:
    X, Y = stream(300)
    linear = learner_from(head, {"intercept": True})
    turning = Chain(extractor=Turning(), head=linear)
    _, out = turning.run(turning.init(dim=3, targets=2, seed=0), X, Y)
    _, still = linear.run(linear.init(dim=3, targets=2, seed=0), X, Y)
    np.testing.assert_allclose(out.prediction, still.prediction, rtol=1e-9, atol=1e-9)
    assert not np.allclose(out.features, X)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_the_size_of_chunks_changes_no_bit(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = stream(300)
    for both in (chain("tracked"), Chain(extractor=Turning(), head=learner_from("rls", {}))):
        start = both.init(dim=3, targets=2, seed=0)
        whole, whole_out = both.run(start, X, Y)
        monkeypatch.setattr(algorithms.chain, "CHUNK_ROWS", rows)
        other, other_out = both.run(start, X, Y)
        monkeypatch.undo()
        same_state(other, whole, f"in chunks of {rows}")
        same_outputs(other_out, whole_out, f"in chunks of {rows}")


def test_chunks_of_wide_features_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    loop = Turning.loop

    def watched(
        self: Turning, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis
    ) -> None:
        given.append(basis.transfer.nbytes)
        loop(self, work, slots, X, Y, learn, out, basis)

    monkeypatch.setattr(Turning, "loop", watched)
    wide = Chain(extractor=Turning(dimension=200, wait=1000), head=learner_from("lms", {}))
    wide.run(wide.init(dim=200, targets=1, seed=0), *stream(40, dim=200, targets=1))
    assert len(given) == 14
    assert max(given) <= 8 * algorithms.chain.CHUNK_NUMBERS


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 60), max_size=4), learn=st.lists(st.integers(0, 3), min_size=60, max_size=60))
def test_any_split_gives_the_same_bits_whoever_may_learn(name: str, cuts: list[int], learn: list[int]) -> None:
    X, Y = stream(60)
    Y[::9] = np.nan
    both, bits, slots = chain(name), np.array(learn, np.int8), np.zeros(60, np.int64)
    states = [both.init(dim=3, targets=2, seed=0)]
    whole, whole_out = advanced(both, states, slots, X, Y, bits)
    outs = []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        rows = slice(first, last)
        states, out = advanced(both, states, slots[rows], X[rows], Y[rows], bits[rows])
        outs.append(out)
    same_state(states[0], whole[0], "after a split")
    same_outputs(joined(outs), whole_out, "after a split")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(slots=st.lists(st.integers(0, 2), min_size=60, max_size=60))
def test_any_mix_of_keys_gives_each_key_its_own_bits(name: str, slots: list[int]) -> None:
    X, Y = stream(60)
    both, keys = chain(name), np.array(slots)
    fresh = [both.init(dim=3, targets=2, seed=seed) for seed in range(3)]
    states, out = advanced(both, fresh, keys, X, Y, np.full(60, LEARN, np.int8))
    for slot in range(3):
        alone, alone_out = both.run(fresh[slot], X[keys == slot], Y[keys == slot])
        same_state(states[slot], alone, f"key {slot} among others")
        same_outputs(rows_of(out, keys == slot), alone_out, f"key {slot} among others")


def test_a_head_learns_nothing_while_the_features_are_not_ready() -> None:
    X, Y = stream(30)
    waiting = Chain(extractor=Turning(wait=20), head=learner_from("rls", {}))
    start = waiting.init(dim=3, targets=2, seed=0)
    state, out = waiting.run(start, X[:20], Y[:20])
    assert np.isnan(out.prediction).all() and np.isnan(out.loss).all()
    np.testing.assert_array_equal(state.head.weights, 0.0)
    assert state.head.seen == 0
    ready, _ = waiting.run(state, X[20:], Y[20:])
    assert ready.head.seen == 10


@pytest.mark.parametrize(
    ("learn", "moves"), [(LEARN_EXTRACTOR, (True, False)), (LEARN_HEAD, (False, True)), (0, (False, False))]
)
def test_each_part_learns_on_its_own_bit(learn: int, moves: tuple[bool, bool]) -> None:
    X, Y = stream(40)
    both = chain("scaled")
    start, _ = both.run(both.init(dim=3, targets=2, seed=0), X, Y)
    (after,), _ = advanced(both, [start], np.zeros(40, np.int64), X, Y, np.full(40, learn, np.int8))
    assert (after.extractor.seen != start.extractor.seen, after.head.seen != start.head.seen) == moves


def test_a_chain_in_a_chain_is_the_same_as_one_stage_after_the_other() -> None:
    X, Y = stream(80)
    inner = chain("tracked")
    nested = learner_from("chain", {"extractor": {"name": "scaling"}, "head": {"name": "chain", **TRACKED}})
    state, out = nested.run(nested.init(dim=3, targets=2, seed=0), X, Y)
    scaling = learner_from("scaling", {})
    _, scaled = scaling.run(scaling.init(dim=3, targets=0, seed=0), X)
    alone, alone_out = inner.run(inner.init(dim=3, targets=2, seed=0), scaled.features, Y)
    same_state(state.head, alone, "a chain in a chain")
    same_outputs(out, alone_out, "a chain in a chain", ("prediction", "loss"))


def test_a_chain_tells_its_facts_from_its_parts() -> None:
    both = chain("tracked")
    assert isinstance(both, Chain)
    state = both.init(dim=3, targets=2, seed=0)
    assert (both.kind, both.bounded, both.width_for(3)) == ("regression", True, 4)
    assert (both.dim(state), both.targets(state)) == (3, 2)
    assert both.state_bytes(3, 2) == both.extractor.state_bytes(3, 2) + both.head.state_bytes(4, 2)
    assert learner_from("chain", {**SCALED, "head": {"name": "pa"}}).kind == "classification"
    work = both.workspace(state, slots=5)
    assert work.slots == 5 and work.nbytes == sum(array.nbytes for array in work.arrays)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            {"extractor": {"name": "page_hinkley"}, "head": {"name": "rls"}},
            "extractor must be a learner that gives features",
        ),
        (
            {"extractor": {"name": "scaling"}, "head": {"name": "scaling"}},
            "head must be a learner that predicts; got 'Scaling'",
        ),
        ({**TRACKED, "head": {"name": "chain", **SCALED}}, "head must be a linear head, because the features of Okfeb turn"),
        ({"extractor": {"name": "scaling"}}, "setting 'head' is missing"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_one_sentence(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        learner_from("chain", table)


def test_an_extractor_without_features_is_refused_when_a_state_is_made() -> None:
    odd = learner_from("chain", {"extractor": {"name": "lms"}, "head": {"name": "rls"}})
    with pytest.raises(SettingError, match="extractor must be a learner that gives features; got 'Lms'"):
        odd.init(dim=3, targets=1, seed=0)

"""One against the rest: the scores are those of binary learners that each ran alone."""

import dataclasses

import numpy as np
import pytest

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.one_vs_rest import OneVsRest, OneVsRestWork
from streamjobs.learner_checks.case import curve, easy
from streamjobs.learner_checks.states import same_state

BINARY = {"pegasos": {}, "pa": {}, "logistic": {}, "knlms": {"loss": "hinge", "budget": 12}}


def over(name: str, classes: int = 0, **settings) -> OneVsRest:
    made = learner_from("one_vs_rest", {"classes": classes, "learner": {"name": name, **settings}})
    assert isinstance(made, OneVsRest)
    return made


def stream(n: int = 120, classes: int = 4, seed: int = 0):
    return easy("classification", n, 3, classes, "onehot", seed)


def binary(name: str) -> dict:
    """Settings of a learner with a budget, where it has one."""
    budgets = {field.name for field in dataclasses.fields(LEARNERS[name])} & {"budget", "max_terms"}  # type: ignore[arg-type]
    return {**dict.fromkeys(budgets, 40), **BINARY.get(name, {})}


def binary_names(shared: bool) -> list[str]:
    """Classifying learners of the registry, of which classes share what is stored, or do not."""
    found = []
    for name, cls in LEARNERS.items():
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        needed = {one.name for one in fields if one.default is dataclasses.MISSING is one.default_factory}
        if needed <= set(binary(name)):
            made = learner_from(name, binary(name))
            if made.kind == "classification" and not made.begins_from_population:
                shares = bool(getattr(made, "binary_targets", False) and made.stored)
                found += [name] * (shares == shared)
    return found


@pytest.mark.parametrize("name", binary_names(shared=False))
def test_scores_are_those_of_binary_learners_alone(name: str) -> None:
    """Label by label, the way the method is told: a learner per class, +1 in its own rows and -1 in all others."""
    X, Y = stream()
    Y[::7] = np.nan
    learner, alone = over(name, **binary(name)), learner_from(name, binary(name))
    state, out = learner.run(learner.init(dim=3, targets=4, seed=3), X, Y)
    loss = np.zeros(len(X))
    for number in range(4):
        sides = np.where(np.isnan(Y[:, [number]]), np.nan, 2 * Y[:, [number]] - 1)
        own, scores = alone.run(alone.init(dim=3, targets=1, seed=3), X, sides)
        np.testing.assert_array_equal(out.prediction[:, number], scores.prediction[:, 0])
        loss += scores.loss
        if not learner.shares:
            same_state(state[number], own, f"class {number}")
    np.testing.assert_allclose(out.loss, loss, rtol=1e-12)


@pytest.mark.parametrize("name", binary_names(shared=True))
def test_classes_that_share_a_support_are_the_learner_with_a_target_each(name: str) -> None:
    X, Y = stream()
    learner, alone = over(name, **binary(name)), learner_from(name, binary(name))
    assert learner.shares
    state, out = learner.run(learner.init(dim=3, targets=4, seed=3), X, Y)
    own, scores = alone.run(alone.init(dim=3, targets=4, seed=3), X, 2 * Y - 1)
    np.testing.assert_array_equal(out.prediction, scores.prediction)
    same_state(state.learner, own, "the shared state")
    assert out.prediction[-1].any()


@pytest.mark.parametrize("name", ["logistic", "knlms"])
def test_labels_may_be_zero_and_one_or_signs(name: str) -> None:
    X, Y = stream()
    learner = over(name, **BINARY[name])
    start = learner.init(dim=3, targets=4, seed=0)
    state, out = learner.run(start, X, Y)
    other, signs = learner.run(start, X, 2 * Y - 1)
    np.testing.assert_array_equal(out.prediction, signs.prediction)
    same_state(state, other, "with signs")


def test_many_rows_go_through_in_parts_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = stream(300)
    learner = over("logistic")
    start = learner.init(dim=3, targets=4, seed=0)
    state, out = learner.run(start, X, Y)
    monkeypatch.setattr("algorithms.one_vs_rest.CHUNK_NUMBERS", 100)
    parts, pieces = learner.run(start, X, Y)
    np.testing.assert_array_equal(out.prediction, pieces.prediction)
    same_state(state, parts, "in parts")


def test_heads_follow_a_turning_basis_class_by_class() -> None:
    """Behind an extractor that turns, a head that is told keeps its scores: those of Pegasos, which takes all targets."""
    random = np.random.default_rng(0)
    X = curve(200, 4, random)
    Y = np.eye(3)[(np.arctan2(X[:, 1], X[:, 0]) // (2 * np.pi / 3)).astype(int) % 3]
    extractor = {"name": "okfeb", "rank": 4, "budget": 8, "role": "track"}
    scores = []
    for shares in (True, False):
        chain = learner_from(
            "chain", {"extractor": extractor, "head": {"name": "one_vs_rest", "learner": {"name": "pegasos"}}}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LEARNERS["pegasos"], "binary_targets", shares)
            _, out = chain.run(chain.init(dim=4, targets=3, seed=0), X, Y)
        scores.append(out.prediction)
    np.testing.assert_array_equal(*scores)
    assert np.isfinite(scores[0][-1]).all() and scores[0][-1].any()


def test_slots_of_a_class_lie_together_and_stay_when_the_workspace_grows() -> None:
    learner = over("logistic")
    X, Y = stream(30)
    states = [learner.run(learner.init(dim=3, targets=4, seed=0), X[k:], Y[k:])[0] for k in range(3)]
    work = learner.workspace(states[0], slots=3)
    assert isinstance(work, OneVsRestWork)
    for slot, state in enumerate(states):
        learner.load(work, slot, state)
    work.grow(9)
    for slot, state in enumerate(states):
        same_state(learner.save(work, slot, state), state, f"slot {slot}")
    assert work.slots == 9 and all(len(array) == 9 and array.flags.c_contiguous for array in work)
    assert np.shares_memory(work.class_2.arrays[0], work.together.arrays[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"learner": {"name": "rls"}}, "learner must be a learner that classifies"),
        ({"learner": {"name": "knlms"}}, "learner must be a learner that classifies"),
        ({"learner": {"name": "one_vs_rest", "learner": {"name": "pa"}}}, "learner must be a single learner"),
        ({"learner": {"name": "gated_rls"}}, "takes all classes by itself"),
        ({"learner": {"name": "pa"}, "classes": 2000}, "classes must be 0 to 1024; got 2000."),
        ({"learner": {"name": "pa", "budget": 3}}, "unknown setting 'budget' for pa"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        learner_from("one_vs_rest", settings)
    assert said in str(caught.value)


def test_targets_are_the_classes() -> None:
    with pytest.raises(SettingError, match="classes must be the number of targets"):
        over("pa", classes=3).init(dim=2, targets=4, seed=0)
    assert over("pa", classes=3).init(dim=2, targets=3, seed=0).learner.weights.shape == (2, 3)


def test_a_bound_is_that_of_every_class() -> None:
    learner: Learner = over("logistic")
    one = learner_from("logistic", {})
    assert learner.bounded
    assert learner.state_bytes(5, 7) == 7 * one.state_bytes(5, 1)
    assert not over("knlms", loss="hinge").bounded

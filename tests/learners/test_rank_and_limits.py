"""A learner that keeps fewer samples than its rank needs is refused in one sentence with both numbers."""

import dataclasses

import pytest

from algorithms import LEARNERS, SettingError, learner_from

LIMITS = ("budget", "map_size", "seed_size", "ritz_rank")


def _pairs() -> list[tuple[str, str]]:
    """Learner and limit; ispeed and sispeed take their first rows for as many directions as those have."""
    pairs = []
    for name, cls in LEARNERS.items():
        names = {setting.name for setting in dataclasses.fields(cls)}  # type: ignore[arg-type]
        pairs += [(name, limit) for limit in LIMITS if {"rank", limit} <= names]
    return [pair for pair in pairs if pair not in {("ispeed", "seed_size"), ("sispeed", "seed_size")}]


def test_there_are_learners_of_three_papers_among_them():
    names = {"okfe", "okfeb", "wrkpca", "speed", "sparse_speed", "ispeed", "sispeed", "skegd", "nogd"}
    assert {name for name, _ in _pairs()} == names


@pytest.mark.parametrize(("name", "limit"), _pairs())
def test_a_limit_below_the_rank_is_refused_in_one_sentence(name: str, limit: str):
    others = {other: 100 for learner, other in _pairs() if learner == name and other != limit}
    with pytest.raises(SettingError) as refused:
        learner_from(name, {"rank": 30, **others, limit: 20})
    sentence = str(refused.value)
    assert "30" in sentence and "20" in sentence and sentence.endswith(".") and "\n" not in sentence, sentence


@pytest.mark.parametrize("budget", [6_000_000, 3_000_000_000])
def test_a_budget_beyond_the_memory_is_said_as_numpy_says_it(budget: int) -> None:
    learner = learner_from("krls", {"budget": budget})
    with pytest.raises(MemoryError, match=r"Unable to allocate [\d,]+ bytes for an array with shape \(1, \d+"):
        learner.workspace(learner.init(dim=3, targets=1, seed=0))

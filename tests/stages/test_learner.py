"""The learner stage gives its rows to the loop key by key, and its outputs and states are those of record order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import Array, Learner
from algorithms.heads.lms import Lms
from streamjobs.stages.learner import LearnerStage, key_order

KEYS, ROWS = 6, 240
SETTINGS: dict[str, dict[str, Any]] = {
    "okfeb": {"rank": 3, "budget": 5},
    "online_greedy": {"budget": 6},
    "projectron": {},
    "chain": {"extractor": {"name": "okfeb", "rank": 3, "budget": 5}, "head": {"name": "rls"}},
}


def rows() -> tuple[Array, Array, Array, Array]:
    """Slots, X, Y and learn of ROWS rows, keys in random order."""
    rng = np.random.default_rng(30)
    X = rng.normal(size=(ROWS, 4))
    return rng.integers(0, KEYS, ROWS), X, np.sign(X[:, :1]), rng.choice(np.array([0, 1, 2, 3], np.int8), ROWS)


@pytest.mark.parametrize("name", SETTINGS)
def test_outputs_and_states_have_the_bits_of_record_order(name: str) -> None:
    learner = learner_from(name, SETTINGS[name])
    slots, X, Y, learn = rows()
    Y = Y if learner.kind != "features" else np.zeros((ROWS, 0))
    state = learner.init(dim=4, targets=Y.shape[1], seed=0)
    expected_work, work = learner.workspace(state, slots=KEYS), learner.workspace(state, slots=KEYS)
    for slot in range(KEYS):
        learner.load(expected_work, slot, state)
        learner.load(work, slot, state)
    expected = learner.outputs(ROWS, 4, Y.shape[1])
    learner.advance(expected_work, slots, X, Y, expected, learn)
    assert key_order(slots) is not None
    outputs = LearnerStage(learner=learner, predicts=True).advance(work, slots, X, Y, learn)
    for field, array in outputs._asdict().items():
        assert array.tobytes() == getattr(expected, field).tobytes(), field
    assert [array.tobytes() for array in work.arrays] == [array.tobytes() for array in expected_work.arrays]


def test_the_rows_of_a_key_reach_a_loop_that_stores_samples_together_and_in_order() -> None:
    seen: list[tuple[int, float]] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Watched(Learner):
        name: ClassVar[str] = "watched"
        persisted_name: ClassVar[str] = "Watched"
        stored: ClassVar[tuple[str, ...]] = ("samples",)

        def room(self, field: str) -> int:
            return 1

        def loop(self, work: Any, slots: Array, X: Array, *_: Any) -> None:
            seen.extend(zip(slots.tolist(), X[:, 0].tolist(), strict=True))

    slots, X = np.array([1, 0] * 4), np.arange(8.0).reshape(8, 1)
    LearnerStage(learner=Watched()).advance(None, slots, X, np.zeros((8, 0)), np.full(8, 3, np.int8))
    assert seen == [(0, 1.0), (0, 3.0), (0, 5.0), (0, 7.0), (1, 0.0), (1, 2.0), (1, 4.0), (1, 6.0)]


def test_a_loop_without_stored_samples_gets_record_order() -> None:
    slots, X = np.array([1, 0] * 4), np.eye(8)
    learner = Lms()
    state = learner.init(dim=8, targets=1, seed=0)
    work = learner.workspace(state, slots=2)
    copies: list[Array] = []
    stage = LearnerStage(learner=learner, predicts=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lms, "advance", lambda self, work, slots, *_: copies.append(slots))
        stage.advance(work, slots, X, np.ones((8, 1)), np.full(8, 3, np.int8))
    assert copies[0] is slots


@pytest.mark.parametrize(
    "slots",
    [np.zeros(8, np.int64), np.repeat(np.array([5, 2, 5]), 4), np.arange(8), np.zeros(1, np.int64), np.zeros(0, np.int64)],
)
def test_rows_that_would_gain_little_keep_their_order(slots: Array) -> None:
    """One key (a pooled model), keys in runs (frames), and keys of one row each."""
    assert key_order(slots) is None

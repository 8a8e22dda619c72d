"""Scaling against its definition, and what it does where the definition divides by nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from algorithms.common.protocol import Array
from algorithms.scaling import Scaling, ScalingState
from streamjobs.learner_checks.states import joined, same_outputs, same_state
from tests.reference.scaling import scaled

TABLES = hnp.arrays(float, (20, 3), elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3)))


def run(learner: Scaling, X: Any) -> tuple[ScalingState, Array]:
    state, out = learner.run(learner.init(dim=np.shape(X)[1], targets=0, seed=0), X)
    return state, out.features


@pytest.mark.parametrize(
    "chosen",
    [{}, {"clip": 1.5}, {"unit_norm": True}, {"freeze_after": 30}, {"clip": 2.0, "unit_norm": True, "freeze_after": 9}],
    ids=str,
)
def test_scaling_agrees_with_its_definition(chosen: dict[str, Any]) -> None:
    X = np.random.default_rng(0).standard_normal((200, 5)) * [1, 10, 1e-3, 5, 1e4] + [0, 100, 0, -50, 1e6]
    np.testing.assert_allclose(run(Scaling(**chosen), X)[1], scaled(X, **chosen), rtol=1e-8, atol=1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(X=TABLES, factor=st.floats(0.1, 10), offset=st.floats(-100, 100))
def test_scaled_values_do_not_depend_on_the_unit_of_x(X: Array, factor: float, offset: float) -> None:
    one, other = run(Scaling(), X)[1], run(Scaling(), factor * X + offset)[1]
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(X=TABLES, cut=st.integers(0, 20))
def test_any_split_of_a_stream_gives_the_same_bits(X: Array, cut: int) -> None:
    learner = Scaling(clip=3.0, freeze_after=15)
    fresh = learner.init(dim=3, targets=0, seed=0)
    whole, whole_out = learner.run(fresh, X)
    state, first = learner.run(fresh, X[:cut])
    state, second = learner.run(state, X[cut:])
    same_state(state, whole, "after a split")
    same_outputs(joined([first, second]), whole_out, "after a split")


def test_the_first_two_rows_and_constant_columns_scale_to_zero() -> None:
    X = np.random.default_rng(1).standard_normal((50, 4))
    X[:, 1] = 0.1
    X[:, 2] = np.where(np.arange(50) % 2, 3e5, np.nextafter(3e5, 4e5))  # differs by rounding only
    features = run(Scaling(), X)[1]
    assert not features[:2].any()
    assert not features[:, [1, 2]].any()
    assert features[2:, [0, 3]].all()


def test_a_constant_column_that_wakes_up_is_scaled_from_its_next_row_on() -> None:
    X = np.zeros((12, 1))
    X[10:] = 5.0
    features = run(Scaling(), X)[1].ravel()
    assert features[10] == 0.0
    assert features[11] == pytest.approx((5 - X[:11].mean()) / X[:11].std())


def test_a_large_offset_costs_no_accuracy() -> None:
    X = np.random.default_rng(2).standard_normal((1000, 2))
    np.testing.assert_allclose(run(Scaling(), X + 1e9)[1][100:], scaled(X, clip=0.0)[100:], atol=1e-5)


def test_a_frozen_scale_stands_still_and_scales_on() -> None:
    X = np.random.default_rng(3).standard_normal((100, 2))
    frozen, features = run(Scaling(freeze_after=40), X)
    same_state(frozen, run(Scaling(), X[:40])[0], "frozen after 40 rows")
    np.testing.assert_allclose(features[40:], (X[40:] - X[:40].mean(axis=0)) / X[:40].std(axis=0), rtol=1e-9)


def test_without_a_method_only_clip_and_length_remain() -> None:
    features = run(Scaling(method="none", clip=2.0, unit_norm=True), [[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])[1]
    np.testing.assert_allclose(features, [[0.5**0.5, 0.5**0.5], [0, 0], [1, 0]])


def test_a_row_beyond_the_finite_range_is_not_learned() -> None:
    X = np.random.default_rng(4).standard_normal((30, 2))
    state, _ = run(Scaling(unit_norm=True), X)
    after, out = Scaling(unit_norm=True).run(state, [[1e300, 0.0], [-1e308, 1e308]])
    same_state(after, state, "after rows out of range")
    np.testing.assert_allclose(np.linalg.norm(out.features, axis=1), 1.0)

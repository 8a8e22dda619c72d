"""What is computed faster than by the plain formula gives the same bits as it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.common.linalg import cholesky, cholesky_twice
from algorithms.common.protocol import Array
from algorithms.subspace import budget_steps


def matrix(n: int, rank: int) -> Array:
    roots = np.random.default_rng(n + 100 * rank).normal(size=(n, rank))
    return roots @ roots.T


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (2, 2), (5, 5), (10, 10), (16, 16), (10, 4), (7, 0)])
def test_two_cholesky_factors_side_by_side_are_those_of_one_after_the_other(n: int, rank: int) -> None:
    M, lost, other_lost = matrix(n, rank), 1e-12, 1e-8
    L, other, L_beside, other_beside = (np.zeros((n, n)) for _ in range(4))
    cholesky(M, n, 1e-3, 0.0, lost, L)
    kept = cholesky(M, n, 0.0, 0.0, other_lost, other)
    cholesky_twice(M, n, 1e-3, lost, L_beside, other_lost, other_beside)
    assert kept == min(n, rank)  # where directions are lost, both lose them
    np.testing.assert_array_equal(np.tril(L_beside), np.tril(L))
    np.testing.assert_array_equal(np.tril(other_beside), np.tril(other))


def squared(base: float, exponent: int) -> float:
    result = 1.0
    for bit in reversed(f"{exponent:b}"):
        result *= base if bit == "1" else 1.0
        base *= base
    return result


@given(st.floats(0.0, 1.0), st.integers(0, 10_000_000))
def test_a_power_is_that_of_squaring_for_any_age(base: float, exponent: int) -> None:
    assert budget_steps.power(base, exponent) == squared(base, exponent)
    assert budget_steps.power(base, exponent) == pytest.approx(base**exponent, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e101, -1e101])
@pytest.mark.parametrize("at", [(0, 0), (4, 2), (2, 1)])
def test_a_factor_with_one_number_too_large_is_not_sound(bad: float, at: tuple[int, int]) -> None:
    trial = np.random.default_rng(0).normal(size=(6, 3))
    trial[5] = np.nan  # beyond the rows in use
    assert budget_steps.sound(trial, 5)
    trial[at] = bad
    assert not budget_steps.sound(trial, 5)

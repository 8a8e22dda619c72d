"""A part of the figures of forecasts, and that they are counted as they say."""

import numpy as np
import pytest

from papers import forecasts as figures


def test_santa_fe_is_foreseen_far_better_than_by_its_last_value():
    values = figures.chaotic()["Santa Fe A"]
    error = figures.judged(figures.forecast(values, (1,))[0], values).errors[0]
    print(f"{error:.3f} of the last value's error")
    assert error <= 0.17


def test_real_series_have_the_errors_and_the_coverage_that_are_stated():
    seen = []
    for values in list(figures.real().values())[::4]:
        seen.append(figures.judged(figures.forecast(values)[0], values))
    errors = np.array([one.errors for one in seen])
    print(errors.mean(axis=0), errors[:, 0].max())
    assert (errors.mean(axis=0) <= figures.MEAN).all() and errors[:, 0].max() <= figures.WORST
    for one in seen:
        for k, c in np.ndindex(one.covered.shape):
            low, high = figures.COVERED[k][c]
            assert low <= one.covered[k, c] <= high


def test_errors_are_those_of_the_rows_that_came_due():
    values = np.cumsum(np.random.default_rng(0).normal(size=300))
    table, each = figures.forecast(values)
    np.testing.assert_allclose(figures.judged(table, values).errors, figures.over_naive(table[:, :, 0], values))
    np.testing.assert_allclose(figures.over_naive(each[:, :, 0], values), 1.0)


def test_a_model_of_river_is_asked_for_the_rows_ahead():
    pytest.importorskip("river")

    class Counting:
        def learn_one(self, y):
            self.last = y

        def forecast(self, horizon):
            return [self.last + step + 1 for step in range(horizon)]

    values = np.arange(100.0)
    assert figures.over_naive(figures.by_river(Counting(), values), values) == pytest.approx(
        np.array([24 / 99, 24 / 97, 24 / 88])
    )

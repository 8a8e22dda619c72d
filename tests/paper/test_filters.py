"""The filters' figures in short: fewer trials than the scripts filters_*.py print, the bounds are the targets'."""

import numpy as np
import pytest

from tests.paper import mackey_glass


def test_the_series_is_the_exact_solution_while_the_delayed_value_is_constant():
    """For the first 30 s the equation is linear: y = 10 a + (.9 - 10 a) exp(-.1 t) with a = .2 .9 / (1 + .9^10)."""
    limit = 10 * 0.2 * 0.9 / (1 + 0.9**10)
    seconds = 6.0 * np.arange(1, 6)
    expected = limit + (0.9 - limit) * np.exp(-0.1 * seconds)
    assert mackey_glass.series(samples=20)[:5] == pytest.approx(expected, abs=1e-9)


def test_a_trial_predicts_one_step_ahead_and_tests_200_steps_after_its_training():
    z = np.arange(50.0)
    X, Y = mackey_glass.embedded(z)
    assert X.shape == (43, 7) and X[3].tolist() == [3, 4, 5, 6, 7, 8, 9] and Y[3] == 10
    trial = mackey_glass.trial(0)
    assert (trial.X.shape, trial.testX.shape, trial.Y.shape) == ((2000, 7), (200, 7), (2000, 1))
    assert (trial.Y[:-1, 0] == trial.X[1:, -1]).all() and np.abs(trial.X).max() <= 1.0

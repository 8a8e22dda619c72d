"""The filters' figures in short: fewer trials than the scripts filters_*.py print, the bounds are the targets'."""

import numpy as np
import pytest

from papers import filters_fig4, filters_fig7, mackey_glass
from papers.filters_common import curves


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


@pytest.fixture(scope="module")
def fig4():
    """Test MSE after training (trials,), and stored samples, of 12 trials."""
    found = curves(filters_fig4.FILTERS, 12, np.array([2000]))
    return {name: (errors[:, -1], stored) for name, (errors, stored) in found.items()}


@pytest.mark.parametrize("name", sorted(filters_fig4.TARGETS.keys() - filters_fig4.EIGENMAPS.keys()))
def test_fig_4_test_error_after_training(name, fig4):
    wanted, within = filters_fig4.TARGETS[name]
    assert fig4[name][0].mean() == pytest.approx(wanted, abs=1.5 * within)  # a fifth more noise than in 30 trials


def test_the_dictionary_of_novel_samples_has_its_size():
    wanted, within = filters_fig4.DICTIONARY
    assert filters_fig4.dictionary_sizes(60).mean() == pytest.approx(wanted, abs=within)


def test_fig_4_what_a_budget_costs(fig4):
    for name in ("KLMS", "QKLMS"):
        assert fig4[f"{name}, budget 200"][1].max() == 200
        assert fig4[f"{name}, budget 200"][0].mean() <= 1.05 * fig4[name][0].mean()


def test_fig_4_quadrature_beats_the_other_maps_and_the_kernel_itself(fig4):
    ours = fig4["GQ"][0].mean()
    assert all(ours < fig4[name][0].mean() for name in ("KLMS", "QKLMS", "Taylor", "RFF1 pair", "RFF2 phase"))


def test_fig_7_least_squares_in_the_kernels_space_on_a_budget_and_on_a_map():
    names = ("RLS", "KRLS, ALD .01", "KRLS, ALD .1", "KRLS, ALD .01, budget 30", "Taylor RLS")
    found = curves({name: filters_fig7.FILTERS[name] for name in names}, 3, np.array([2000]))
    last = {name: errors.mean() for name, (errors, _) in found.items()}
    assert max(last["KRLS, ALD .01"], last["Taylor RLS"]) < 0.0024 < 0.1 * last["RLS"]
    assert last["KRLS, ALD .01, budget 30"] < last["KRLS, ALD .1"]  # which stores 28

"""That forecasts of series with a season are judged as the script says."""

import numpy as np

from papers import seasons


def test_a_series_that_repeats_each_season_is_foreseen_by_the_season_alone():
    values = np.tile(np.random.default_rng(0).normal(size=seasons.SEASON), 12)
    rows = np.arange(seasons.JUDGED_FROM, len(values), 5)
    made = seasons.seasonal_naive(values)
    assert (seasons.over_naive(made, values + 1e-9 * np.arange(len(values)), rows)[:2] < 1e-6).all()
    naive = np.repeat(values[:, None], len(seasons.AHEAD), axis=1)
    assert (seasons.over_naive(naive, np.cumsum(values), rows)[:2] != 1.0).all()


def test_our_forecasts_are_those_made_at_the_row():
    values = np.sin(2 * np.pi * np.arange(400) / seasons.SEASON)
    made = seasons.ours(values, seasons.SEASON)
    errors = seasons.over_naive(made, values, np.arange(300, 400))
    print(errors)
    assert (errors[:2] < 0.05).all()
    assert (seasons.over_naive(np.roll(made, 1, axis=0), values, np.arange(300, 400))[:2] > 0.2).all()

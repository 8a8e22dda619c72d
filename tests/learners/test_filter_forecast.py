"""Forecasts by a registered learner: what it learns and sees, gaps, batches, states."""

from typing import Any

import numpy as np
import pytest

from algorithms import LEARNERS, SettingError, learner_from
from algorithms.common.protocol import Array
from algorithms.forecast.filters import FilterForecast
from algorithms.forecast.table import DUE, FIRST_INTERVAL, INSIDE, RATIO, VALUE
from streamjobs.core.state.snapshot import flatten, unflatten

SETTINGS: dict[str, dict[str, Any]] = {  # of learners that a budget alone does not make
    "auto_bandwidth": {"learner": {"name": "krls", "budget": 8}},
    "block_greedy": {"budget": 8, "block_size": 4},
    "chain": {"extractor": {"name": "rff"}, "head": {"name": "rls"}},
    "one_vs_rest": {"learner": {"name": "pegasos"}},
    **{name: {"budget": 8, "rank": 3} for name in ("ispeed", "sispeed", "okfeb", "wrkpca")},
    **{name: {"map_size": 8, "rank": 3} for name in ("speed", "sparse_speed")},
    **{name: {"budget": 8, "atoms": 4} for name in ("okdl", "okdl_discriminative")},
}


def model(name: str = "rls", settings: dict[str, Any] | None = None, **own: Any) -> FilterForecast:
    return FilterForecast(learner=learner_from(name, settings or {}), **own)


def follower(n: int) -> Array:
    """A wandering column, and one that has its values three rows later."""
    noise, ahead = np.random.default_rng(3).normal(size=n), np.zeros(n)
    for t in range(1, n):
        ahead[t] = 0.9 * ahead[t - 1] + noise[t]
    return np.column_stack([np.r_[np.zeros(3), ahead[:-3]], ahead])


def ratio(table: Array, values: Array, ahead: int = 1) -> float:
    value, naive = (np.abs(table[300:-ahead, 0, 0, at] - values[300 + ahead :]).mean() for at in (VALUE, VALUE + 1))
    return float(value / naive)


def test_another_column_is_of_use_where_it_is_an_input() -> None:
    X = follower(900)
    alone, both = (model(inputs=inputs) for inputs in ((), (0, 1)))
    tables = [one.forecasts(one.init(dim=2, targets=1, seed=0), X) for one in (alone, both)]
    assert ratio(tables[0], X[:, 0]) > 0.8 and ratio(tables[1], X[:, 0]) < 0.2
    assert abs(tables[0][100:, 0, 0, FIRST_INTERVAL + INSIDE].mean() - 0.8) < 0.05


def test_a_learner_gets_the_latest_steps_and_learns_the_step_that_has_come() -> None:
    """The same numbers as of rls itself on a plain embedding."""
    x = follower(400)[:, 1]
    one = model(lags=2, ahead=(2,))
    table = one.forecasts(one.init(dim=1, targets=1, seed=0), x[:, None])[:, 0, 0]
    series = [one.forecasts(one.init(dim=1, targets=1, seed=0), x[:n, None])[-1, 0, 0, VALUE] for n in (200, 399)]
    assert series == [table[199, VALUE], table[398, VALUE]], "no forecast knows a later row"
    assert np.array_equal(table[2:, DUE], table[:-2, VALUE]), "a forecast comes due after two rows"


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_any_learner_that_predicts_numbers_forecasts_or_is_refused(name: str) -> None:
    budget = {"budget": 8} if "budget" in getattr(LEARNERS[name], "__slots__", ()) else {}
    learner = learner_from(name, SETTINGS.get(name, budget))
    try:
        one = FilterForecast(learner=learner, lags=3, ahead=(1, 2))
    except SettingError as problem:
        assert "learner must be one " in str(problem) and name in str(problem)
        return
    x, start = follower(60), one.init(dim=2, targets=2, seed=0)
    whole = one.forecasts(start, x)
    assert np.isfinite(whole[:, :, :, VALUE]).all()
    work, out = one.workspace(start, slots=2), np.full((60, one.width_for(2)), np.nan)
    one.load(work, 1, start)
    for at in range(60):
        row = slice(at, at + 1)
        one.rows(work, np.ones(1, np.int64), x[row], np.zeros(1, np.int64), np.ones(1, np.int8), out[row])
        if at == 30:  # written and read back
            state = one.save(work, 1, start)
            state = unflatten(start, [np.array(array) for array in flatten(state)])
            work = one.workspace(start, slots=2)
            one.load(work, 1, state)
    assert np.array_equal(one.table(out, 2), whole, equal_nan=True)


def test_a_cautious_forecast_starts_at_the_last_value_and_is_trusted_where_it_is_better() -> None:
    walk = np.cumsum(np.random.default_rng(2).normal(size=1500))[:, None]
    for x, inputs in ((walk, ()), (follower(1500), (0, 1))):
        plain, cautious = (model(cautious=one, ahead=(1, 3), inputs=inputs) for one in (False, True))
        dim = x.shape[1]
        first, second = (one.forecasts(one.init(dim=dim, targets=1, seed=0), x)[:, 0] for one in (plain, cautious))
        with np.errstate(invalid="ignore"):
            shares = (second[:, :, VALUE] - x[:, :1]) / (first[:, :, VALUE] - x[:, :1])
        assert shares[np.isfinite(shares)][0] == pytest.approx(0.1)
        assert (shares[500:] > 0.99).all() if inputs else (shares[500:].mean(axis=0) < 0.1).all()
        assert np.array_equal(second[3:, 1, DUE], second[:-3, 1, VALUE])


def test_forecasts_of_a_column_that_is_never_below_0_are_not_either() -> None:
    counts = np.random.default_rng(3).poisson(0.5, 800).astype(float)[:, None]
    for cautious in (False, True):
        one = model(ahead=(1, 3), cautious=cautious, floored=(0,))
        table = one.forecasts(one.init(dim=1, targets=1, seed=0), counts)[:, 0]
        assert table[100:, :, [VALUE, FIRST_INTERVAL, FIRST_INTERVAL + 3]].min() == 0.0
        assert np.array_equal(table[3:, 1, DUE], table[:-3, 1, VALUE])
        assert 0.75 < table[200:, :, FIRST_INTERVAL + 2].mean() < 0.9


def test_rows_that_are_missing_are_not_judged() -> None:
    x, one = follower(300), model(ahead=(1, 5), lags=4)
    skipped = np.zeros(300, np.int64)
    skipped[200] = 3
    table = one.forecasts(one.init(dim=2, targets=1, seed=0), x, skipped)[:, 0]
    assert np.isnan(table[200, 0, DUE]) and table[200, 1, DUE] == table[198, 1, VALUE]
    assert np.isnan(one.forecasts(one.init(dim=2, targets=1, seed=0), np.where(skipped[:, None], np.nan, x))[200]).all()


@pytest.mark.parametrize("at", [(0,), (3,), (12, 20), (25,)])
@pytest.mark.parametrize("wild", [65535.0, -1e9])
def test_wild_first_values_are_forgotten_after_90_rows(at: tuple[int, ...], wild: float) -> None:
    usual = 20.0 + np.random.default_rng(620).normal(size=400)[:, None]
    odd = usual.copy()
    odd[list(at)] = wild
    for one in (model(ahead=(1, 4)), model(ahead=(1, 4), cautious=True)):
        tables = [one.forecasts(one.init(dim=1, targets=1, seed=0), x)[:, 0] for x in (usual, odd)]
        error, plain = (np.abs(table[150:, :, DUE] - usual[150:]).mean(axis=0) for table in reversed(tables))
        assert (error < 1.1 * plain).all(), error / plain
        inside = tables[1][150:, :, FIRST_INTERVAL + INSIDE].mean(axis=0)
        assert (np.abs(inside - 0.8) < 0.06).all(), inside
        assert (tables[1][-1, :, RATIO] < 1.0).all()


def test_a_season_is_used_from_its_third_on() -> None:
    shape = np.random.default_rng(5).normal(size=40)
    x = np.tile(shape, 8)[:, None] + 0.05 * np.random.default_rng(1).normal(size=(320, 1))
    plain, seasonal = (model(season=season, ahead=(1, 12)) for season in (0, 40))
    tables = [one.forecasts(one.init(dim=1, targets=1, seed=0), x)[:, 0, :, VALUE] for one in (plain, seasonal)]
    np.testing.assert_allclose(tables[0][:80], tables[1][:80], atol=0.2)
    for k, ahead in enumerate((1, 12)):
        late = [np.abs(made[200:-ahead, k] - x[200 + ahead :, 0]).mean() for made in tables]
        assert late[1] < 0.5 * late[0]


def test_a_row_ahead_costs_the_bytes_that_the_page_states() -> None:
    small, large = (model(ahead=(ahead,)) for ahead in (40, 41))
    sizes = [one.bytes_of(one.init(dim=1, targets=1, seed=0)) for one in (small, large)]
    assert sizes[1] - sizes[0] == 72

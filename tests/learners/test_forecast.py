"""Forecasts of columns from their own past: the check-suite, errors, gaps, seasons, and values far out."""

from typing import Any

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from algorithms.common.protocol import LEARN_HEAD, Array
from algorithms.forecast import experts, intervals
from algorithms.forecast.forecast import NAMES, Forecast
from algorithms.forecast.table import DUE, DUE_NAIVE, FIRST_INTERVAL, HIGH, INSIDE, LOW, NAIVE, RATIO, VALUE
from streamjobs.learner_checks.case import Case
from streamjobs.learner_checks.suite import CHECKS

SETTINGS = {"ahead": (1, 3), "season": 7, "coverage": (0.5, 0.9)}
# Its features follow the latest rows, so they never settle; `test_a_wave_is_foreseen` checks that errors fall.
OTHER = {"check_the_error_falls_on_an_easy_stream"}


@pytest.mark.parametrize("cautious", [False, True])
@pytest.mark.parametrize("check", sorted(CHECKS.keys() - OTHER))
def test_the_check_suite(check: str, cautious: bool) -> None:
    settings = SETTINGS | {"cautious": cautious}
    CHECKS[check](Case("forecast", Forecast(**settings), settings))  # type: ignore[arg-type]


def fresh(learner: Forecast, dim: int = 1) -> Any:
    return learner.init(dim=dim, targets=0, seed=0)


def forecasts(learner: Forecast, values: Array) -> Array:
    """(n, horizons, fields) of one column."""
    return learner.table(learner.run(fresh(learner), values[:, None])[1].features, 1)[:, 0]


def autoregressive(n: int, share: float, seed: int) -> Array:
    noise, values = np.random.default_rng(seed).standard_normal(n), np.zeros(n)
    for t in range(1, n):
        values[t] = share * values[t - 1] + noise[t]
    return values


def daily(days: int, seed: int = 1) -> Array:
    """Forty rows a day of a shape that sixteen rows do not show, with a little noise."""
    shape = np.random.default_rng(5).normal(size=40)
    return np.tile(shape, days) + 0.05 * np.random.default_rng(seed).normal(size=40 * days)


def errors(table: Array, values: Array, rows: slice) -> Array:
    """Mean error over the naive one's, for each horizon."""
    late, naive = (np.abs(table[rows, :, field] - values[rows, None]).mean(axis=0) for field in (DUE, DUE_NAIVE))
    return late / naive


def test_a_wave_is_foreseen() -> None:
    values = np.sin(0.3 * np.arange(1000.0)) + 0.01 * np.random.default_rng(0).normal(size=1000)
    table = forecasts(Forecast(ahead=(1, 5, 12)), values)
    early, late = errors(table, values, slice(15, 50)), errors(table, values, slice(500, 1000))
    print(early, late)
    assert (late < 0.5 * early).all() and late.max() < 0.1
    np.testing.assert_allclose(table[-1, :, RATIO], errors(table, values, slice(13, 1000)), rtol=0.3)


def test_no_expert_helps_where_nothing_can_be_foreseen() -> None:
    walk = np.cumsum(np.random.default_rng(2).normal(size=4000))
    assert errors(forecasts(Forecast(ahead=(1, 12)), walk), walk, slice(100, 4000)).max() < 1.03


def rare_counts(n: int = 4000) -> Array:
    """A season of counts, of which more than half are 0."""
    return np.random.default_rng(3).poisson(np.exp(1.5 * np.sin(2 * np.pi * np.arange(n) / 40) - 1)).astype(float)


@pytest.mark.parametrize("cautious", [False, True])
def test_forecasts_of_counts_are_not_below_0_and_keep_their_coverage(cautious: bool) -> None:
    counts = rare_counts()
    plain, floored = (
        forecasts(Forecast(ahead=(1, 12), season=40, cautious=cautious, floored=one), counts) for one in ((), (0,))
    )
    first = FIRST_INTERVAL + LOW
    assert (plain[100:, :, first] < 0).mean() > 0.3 and (plain[:, :, VALUE] < 0).any()
    assert floored[100:, :, [VALUE, first, first + 3]].min() == 0.0
    assert np.array_equal(floored[12:, 1, DUE], floored[:-12, 1, VALUE])
    for column, (least, most) in ((first + INSIDE, (0.77, 0.87)), (first + 3 + INSIDE, (0.93, 0.98))):
        inside = floored[1000:, :, column].mean(axis=0)
        assert ((inside > least) & (inside < most)).all()
    low, high = floored[:-1, 0, first], floored[:-1, 0, first + HIGH - LOW]
    known = np.isfinite(low)
    assert np.array_equal(
        (low <= counts[1:])[known] & (counts[1:] <= high)[known], floored[1:, 0, first + INSIDE][known] > 0
    )


def test_a_value_below_0_of_a_column_without_such_values_is_outside_its_intervals() -> None:
    counts = rare_counts(1000)
    counts[900] = -0.25
    table = forecasts(Forecast(ahead=(1,), floored=(0,)), counts)[:, 0]
    assert table[899, FIRST_INTERVAL + LOW] == 0.0 and table[900, FIRST_INTERVAL + INSIDE] == 0.0


def test_what_is_kept_of_a_floored_forecast_is_what_was_given() -> None:
    learner = Forecast(ahead=(1, 12), floored=(1,))
    X = np.column_stack([rare_counts(400), rare_counts(400)])
    state, out = learner.run(learner.init(dim=2, targets=0, seed=0), X)
    given = learner.table(out.features, 2)[-1, :, [0, 1]]  # (horizons, dim, fields)
    _, coming, bounds = learner.outlook(state, 100)
    ends = [FIRST_INTERVAL + LOW, FIRST_INTERVAL + HIGH]
    assert np.array_equal(bounds[:, [0, -1], 1:3], given[:, :, ends].swapaxes(0, 1)) and coming[-1] == 12
    assert bounds[1, :, 1].min() == 0.0 and bounds[0, :, 1].min() < 0.0


def test_a_cautious_forecast_is_not_worse_than_the_last_value_where_nothing_can_be_foreseen() -> None:
    walk = np.cumsum(np.random.default_rng(2).normal(size=4000))
    plain, cautious = (forecasts(Forecast(ahead=(1, 12), cautious=one), walk) for one in (False, True))
    rows = slice(12, 4000)
    assert errors(plain, walk, rows)[1] > 1.01
    assert errors(cautious, walk, rows).max() < 1.005


def test_a_cautious_forecast_loses_little_where_much_can_be_foreseen() -> None:
    values = np.sin(0.3 * np.arange(1000.0)) + 0.01 * np.random.default_rng(0).normal(size=1000)
    plain, cautious = (forecasts(Forecast(ahead=(1, 5, 12), cautious=one), values) for one in (False, True))
    assert (errors(cautious, values, slice(200, 1000)) < errors(plain, values, slice(200, 1000)) + 0.001).all()


@pytest.mark.parametrize("ahead", [1, 4])
def test_a_cautious_forecast_is_the_last_value_and_the_forecast_by_their_errors(ahead: int) -> None:
    values = autoregressive(300, 0.2, 3)
    plain, cautious = (forecasts(Forecast(ahead=(ahead,), cautious=one), values)[:, 0] for one in (False, True))
    lost, last, rows = 0.0, 0.0, 0.0
    for t, x in enumerate(values):
        if t >= ahead + 20:
            most = 20.0 * last / rows if rows > intervals.CUT_FROM else np.inf
            lost = 0.999 * lost + min(abs(plain[t - ahead, VALUE] - x), most)
            last = 0.999 * last + min(abs(values[t - ahead] - x), most)
            rows = 0.999 * rows + 1.0
        worse = (lost - last) / (last / rows) if rows else 0.0
        share = 1.0 / (1.0 + 9.0 * np.exp(0.3 / np.sqrt(ahead) * worse))
        assert cautious[t, VALUE] == pytest.approx(x + share * (plain[t, VALUE] - x), abs=1e-9)
    assert share > 0.5, "it has earned trust"


def test_forecasts_come_due_after_their_rows() -> None:
    values = autoregressive(300, 0.9, 3)
    table = forecasts(Forecast(ahead=(1, 4)), values)
    for k, ahead in enumerate((1, 4)):
        own, later = table[:-ahead, k], table[ahead:, k]
        np.testing.assert_array_equal(later[:, DUE], own[:, VALUE])
        np.testing.assert_array_equal(later[:, DUE_NAIVE], own[:, NAIVE])
        assert np.isnan(table[:ahead, k, DUE]).all()
        for c in range(2):
            first = FIRST_INTERVAL + 3 * c
            ready = np.isfinite(own[:, first + LOW])
            assert ready.argmax() == ahead + 19  # twenty are judged
            middle = 0.5 * (own[:, first + LOW] + own[:, first + HIGH])
            np.testing.assert_allclose(middle[ready], own[ready, VALUE], atol=1e-9)
            inside = (own[:, first + LOW] <= values[ahead:]) & (values[ahead:] <= own[:, first + HIGH])
            np.testing.assert_array_equal(later[ready, first + INSIDE], inside[ready])
            assert np.isnan(later[~ready, first + INSIDE]).all()


def test_a_forecast_is_its_experts_weighted_by_their_latest_errors() -> None:
    values = daily(8)
    learner = Forecast(ahead=(2,), season=40)
    each, table = learner.experts(fresh(learner), values[:, None])[1][:, 0, 0], forecasts(learner, values)[:, 0]
    assert each.shape[1] == len(NAMES)
    np.testing.assert_array_equal(each[:, experts.NAIVE], values)
    np.testing.assert_array_equal(each[100:, experts.SEASONAL], values[62:-38])
    cost, steps = np.zeros(len(NAMES)), 0.0
    for t in range(len(values)):
        if t >= 2:
            usual = cost[0] / steps if t - 2 > intervals.CUT_FROM else np.inf
            cost = 0.99 * cost + np.minimum(np.abs(each[t - 2] - values[t]), 20 * usual)
            steps = 0.99 * steps + 1.0
        shares = np.exp(-0.3 * (cost - cost.min()) / max(cost[0] / max(steps, 1.0), 1e-300))
        shares[experts.SEASONAL] *= t >= 80
        assert table[t, VALUE] == pytest.approx(shares @ each[t] / shares.sum(), abs=1e-9)
    state, _ = learner.run(fresh(learner), values[:, None])
    assert learner.shares(state)[0, 0] == pytest.approx(shares / shares.sum(), abs=1e-9)


def moments(values: Array, memory: float) -> tuple[Array, Array]:
    mean, deviation, m, v = np.zeros(len(values)), np.zeros(len(values)), 0.0, 0.0
    for t, x in enumerate(values):
        rate, gap = max(1 / (t + 1), 1 / memory), x - m
        m, v = m + rate * gap, (1 - rate) * (v + rate * gap * gap)
        mean[t], deviation[t] = m, np.sqrt(v)
    return mean, deviation


def learned(learner: Any, Z: Array, y: Array, unit: Array, ahead: int) -> Array:
    """Predictions of a registered learner that has learned all pairs whose values have come, where there is a unit."""
    state, made = learner.init(dim=Z.shape[1], targets=1, seed=0), np.zeros(len(Z))
    for t in range(len(Z)):
        if t >= ahead and unit[t - ahead] > 0:
            state, _ = learner.run(state, Z[t - ahead : t - ahead + 1], y[t - ahead : t - ahead + 1, None])
        made[t] = learner.predict(state, Z[t : t + 1])[0, 0]
    return made


def test_the_experts_that_learn_are_registered_learners_on_a_plain_embedding() -> None:
    ahead, values = 2, autoregressive(250, 0.8, 4) + 3.0
    n = len(values)
    lagged = np.stack([np.r_[np.full(i, values[0]), values[: n - i]] for i in range(17)], axis=1)
    mean, deviation = moments(values, 1000)
    step = moments(np.diff(values, prepend=values[0]), 1000)[1]
    far = np.zeros(n)
    far[ahead:] = moments(values[ahead:] - values[:-ahead], 1000)[1]
    with np.errstate(all="ignore"):
        levels = np.clip(np.nan_to_num((lagged[:, :16] - mean[:, None]) / deviation[:, None]), -5, 5)
        steps = np.clip(np.nan_to_num((lagged[:, :15] - lagged[:, 1:16]) / step[:, None]), -5, 5)
    steps = np.column_stack([steps, levels[:, 0]])
    wanted, moved = np.zeros(n), np.zeros(n)
    wanted[:-ahead] = np.divide(
        values[ahead:] - mean[:-ahead], deviation[:-ahead], out=np.zeros(n - ahead), where=deviation[:-ahead] > 0
    )
    moved[:-ahead] = np.divide(
        values[ahead:] - values[:-ahead], far[:-ahead], out=np.zeros(n - ahead), where=far[:-ahead] > 0
    )
    wanted, moved = np.clip(wanted, -8, 8), np.clip(moved, -8, 8)
    rls = learner_from("rls", {"forgetting": 0.999, "delta": 1.0, "intercept": True})
    kernel = {"name": "gaussian", "bandwidth": 8**0.5}
    qklms = learner_from("qklms", {"budget": 100, "step_size": 0.2, "quantum": 0.4, "kernel": kernel})
    got = Forecast(ahead=(ahead,)).experts(fresh(Forecast(ahead=(ahead,))), values[:, None])[1][:, 0, 0]
    late = slice(100, n)
    expected = mean + deviation * learned(rls, levels, wanted, deviation, ahead)
    np.testing.assert_allclose(got[late, experts.LEVELS], expected[late], atol=0.02)
    expected = values + far * learned(rls, steps, moved, far, ahead)
    np.testing.assert_allclose(got[late, experts.STEPS], expected[late], atol=0.02)
    expected = values + far * learned(qklms, steps[:, [*range(7), 15]], moved, far, ahead)
    gap = np.abs(got[late, experts.KERNEL] - expected[late])
    assert np.median(gap) < 0.02 and gap.max() < 0.5  # one sample stored or not may be decided by the last bit


def test_a_season_is_used_from_its_third_on() -> None:
    values = daily(8)
    plain, seasonal = (forecasts(Forecast(ahead=(1, 12), season=season), values) for season in (0, 40))
    np.testing.assert_allclose(plain[:80, :, VALUE], seasonal[:80, :, VALUE], atol=0.2)
    rows = slice(200, 320)
    assert (errors(seasonal, values, rows) < 0.2 * errors(plain, values, rows)).all()


@pytest.mark.parametrize("season", [0, 40])
def test_missing_rows_move_the_season_on_and_are_not_judged(season: int) -> None:
    learner, values = Forecast(ahead=(1, 12), season=season), daily(9)
    kept = np.r_[0:203, 225:360]
    skipped = np.zeros(len(kept), np.int64)
    skipped[203] = 22
    tables = {}
    for told in (True, False):
        work, features = learner.workspace(fresh(learner)), np.full((len(kept), learner.width_for(1)), np.nan)
        learner.load(work, 0, fresh(learner))
        gaps = skipped if told else np.zeros_like(skipped)
        X, slots = values[kept][:, None].copy(), np.zeros(len(kept), np.int64)
        learner.rows(work, slots, X, gaps, np.full(len(kept), 3, np.int8), features)
        tables[told] = learner.table(features, 1)[:, 0]
    after = slice(203, 230)
    assert np.isnan(tables[True][203, 0, DUE]) and not np.isnan(tables[False][203, 0, DUE])
    assert np.isnan(tables[True][203:215, 1, DUE]).all()
    if season:
        own, others = (errors(tables[told], values[kept], slice(215, 240)) for told in (True, False))
        assert (own < 0.5 * others).all(), (own, others)
    assert np.isfinite(tables[True][after, :, VALUE]).all()


def test_a_gap_of_years_takes_no_time_and_keeps_the_phase_of_the_season() -> None:
    learner, values = Forecast(ahead=(1,), season=40), daily(6)
    for gap, phase in ((40 * 10**12, 0), (40 * 10**12 + 7, 7)):
        work = learner.workspace(fresh(learner))
        learner.load(work, 0, fresh(learner))
        X = np.r_[values, values[phase : phase + 5]][:, None]
        skipped = np.zeros(len(X), np.int64)
        skipped[len(values)] = gap
        features = np.full((len(X), learner.width_for(1)), np.nan)
        learner.rows(work, np.zeros(len(X), np.int64), X, skipped, np.full(len(X), 3, np.int8), features)
        ahead = learner.table(features, 1)[-5:-1, 0, 0, VALUE]
        np.testing.assert_allclose(ahead, values[phase + 1 : phase + 5], atol=0.5)


@pytest.mark.parametrize("kind", ["independent", "autoregressive", "heavy tails", "wandering spread", "counts"])
def test_intervals_cover_what_they_state(kind: str) -> None:
    random, n = np.random.default_rng(8), 4000
    wave = np.sin(2 * np.pi * np.arange(n) / 288)
    values = {
        "independent": random.normal(size=n),
        "autoregressive": autoregressive(n, 0.95, 9),
        "heavy tails": random.standard_t(3, size=n),
        "wandering spread": random.normal(size=n) * (1 + 0.8 * wave),
        "counts": random.poisson(np.exp(0.5 + wave)).astype(float),
    }[kind]
    inside = forecasts(Forecast(ahead=(1, 12)), values)[:, :, FIRST_INTERVAL + INSIDE :: 3]
    for k in range(2):
        for c, (stated, low, high) in enumerate(((0.8, 0.77, (0.85, 0.90)[k]), (0.95, (0.93, 0.91)[k], (0.98, 0.99)[k]))):
            hits = inside[50:, k, c]
            windows = np.convolve(hits, np.full(500, 1 / 500), "valid")
            print(f"{kind}, horizon {k}, {stated}: {hits.mean():.3f}, under {np.mean(windows < stated - 0.05):.3f}")
            assert low <= hits.mean() <= high
            assert np.mean(windows < stated - 0.05) <= (0.01, 0.05)[k]


def hostile(kind: str, n: int = 800) -> Array:
    random = np.random.default_rng(6)
    values: Array = random.normal(size=n)
    if kind == "huge":
        values[::37] *= 10.0 ** random.uniform(3, 300, len(values[::37]))
    elif kind == "constant":
        values[:] = 1e9 / 3
    elif kind == "wakes up":
        values[:400] = 21.3 + 1e-13 * values[:400]
    elif kind == "never returns":
        values = np.cumsum(np.exp(np.arange(n) / 20.0))
    elif kind == "unscaled":
        values = 1e12 + 1e-3 * values
    elif kind == "rounded":
        values = np.round(values)
    return values


@pytest.mark.parametrize("kind", ["huge", "constant", "wakes up", "never returns", "unscaled", "rounded"])
def test_states_stay_finite_and_rows_are_forecast(kind: str) -> None:
    learner, values = Forecast(ahead=(1, 12), season=24), hostile(kind)
    state, out = learner.run(fresh(learner), values[:, None])
    for field, array in zip(state._fields, state, strict=True):
        assert np.isfinite(array).all(), field
    table = learner.table(out.features, 1)[:, 0]
    assert np.isfinite(table[:, :, [VALUE, NAIVE]]).all() and not np.isinf(table).any()
    inside = table[100:, 0, FIRST_INTERVAL + INSIDE :: 3].mean(axis=0)
    print(f"{kind}: inside {inside}")
    if kind != "never returns":
        assert inside[0] > 0.7 and inside[1] > 0.9
    if kind == "wakes up":
        woken = table[440:600, 0, FIRST_INTERVAL + INSIDE :: 3].mean(axis=0)
        assert woken[0] > 0.7 and woken[1] > 0.85, woken


@pytest.mark.parametrize("at", [(0,), (3,), (12, 20), (25,)])
def test_wild_first_values_are_forgotten_after_90_rows(at: tuple[int, ...]) -> None:
    usual = 20.0 + np.random.default_rng(621).normal(size=400)
    odd = usual.copy()
    odd[list(at)] = 65535.0
    learner = Forecast(ahead=(1, 4))
    plain, table = forecasts(learner, usual), forecasts(learner, odd)
    error, least = (np.abs(one[150:, :, DUE] - usual[150:, None]).mean(axis=0) for one in (table, plain))
    assert (error < 1.05 * least).all(), error / least
    assert (np.abs(table[150:, :, FIRST_INTERVAL + INSIDE].mean(axis=0) - 0.8) < 0.06).all()


def test_a_column_that_stands_still_after_a_wild_value_has_no_spread_until_it_moves() -> None:
    values = np.full(600, 20.0)
    values[3], values[300:] = 65535.0, 20.0 + np.random.default_rng(622).normal(size=300)
    table = forecasts(Forecast(), values)[:, 0]
    assert (table[100:300, VALUE] == 20.0).all() and np.abs(table[330:, VALUE] - 20.0).max() < 6.0


def test_each_column_is_forecast_by_itself() -> None:
    learner, X = Forecast(ahead=(1, 3)), np.stack([autoregressive(200, 0.5, 1), daily(5)], axis=1)
    both = learner.table(learner.run(fresh(learner, 2), X)[1].features, 2)
    for i in range(2):
        np.testing.assert_array_equal(both[:, i], forecasts(learner, X[:, i]))


def test_only_the_bit_of_extractors_teaches() -> None:
    case = Case("forecast", Forecast(), dim=1)
    work = case.workspace([case.init()], extra=0)
    case.advance(work, 0, np.ones((30, 1)), np.zeros((30, 0)), LEARN_HEAD)
    assert work["seen"][0] == 0


def test_a_state_is_within_its_bound_of_bytes() -> None:
    for ahead in (1, 12, 48):
        one = Forecast(ahead=(ahead,), season=288).state_bytes(1, 0) - 8 * (288 + ahead)
        print(f"{ahead} ahead: {one} bytes")
        assert one <= 16_384
    small, large = (Forecast(ahead=(ahead,), season=500).state_bytes(1, 0) for ahead in (40, 41))
    assert large - small == 136, "bytes of a row ahead"
    longer = Forecast(ahead=(40,), season=600).state_bytes(1, 0)
    assert longer - small == 800, "bytes of a hundred rows of a season"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ahead": []}, "Forecast: ahead must be rows from 1 to 10,000, ascending"),
        ({"ahead": [0, 1]}, "ahead must be"),
        ({"ahead": [2, 1]}, "ahead must be"),
        ({"ahead": [1, 1]}, "ahead must be"),
        ({"ahead": [10_001]}, "ahead must be"),
        ({"season": 1}, "season must be 2 rows or more, or 0 for none"),
        ({"coverage": []}, "coverage must be shares between 0 and 1, ascending"),
        ({"coverage": [0.95, 0.8]}, "coverage must be"),
        ({"coverage": [float("nan")]}, "coverage must be"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        Forecast(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})

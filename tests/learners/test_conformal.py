"""The detectors that keep a stated number of false alarms: against their slow references, and what they promise."""

import numpy as np
import pytest

from algorithms import Learner, learner_from
from algorithms.common.protocol import Array
from algorithms.drift import ranked
from algorithms.drift.column_charts import FOLLOWS, one_verdict
from algorithms.drift.report import (
    AFTER,
    ALARM,
    BEFORE,
    CHART,
    FIRST_COLUMN,
    FIRST_SHIFT,
    OF_COLUMN,
    OPEN,
    READY,
    REFERENCE,
    SINCE,
    STATISTIC,
    WIDE_COLUMNS,
)
from tests.reference import ranked as reference

SMALL = {"rows_between": 100.0, "reference": 50, "least": 10, "hold": 20}


def watch(detector: Learner, rows: Array, seed: int = 0) -> Array:
    return detector.run(detector.init(dim=rows.shape[1], targets=0, seed=seed), rows)[1].features


def correlated(n: int, dim: int, seed: int, memory: float = 0.8) -> Array:
    """Stationary columns, each value near the one before it."""
    noise, rows = np.random.default_rng(seed).standard_normal((n, dim)), np.zeros((n, dim))
    for t in range(n):
        rows[t] = memory * rows[t - 1] + np.sqrt(1 - memory**2) * noise[t]
    return rows


@pytest.mark.parametrize("hold", [0, 20])
@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_conformal_agrees_with_its_slow_reference(memory: float, hold: int) -> None:
    values = correlated(900, 1, seed=3, memory=memory)
    values[600:] += 3.0
    values[700:705] = values[699]  # ties
    values[620:, 0] -= 3.0 * (np.arange(280) // 20 % 2 == 0)  # alarms that follow soon
    expected = reference.conformal(values[:, 0], **{**SMALL, "hold": hold})
    got = watch(learner_from("conformal", {**SMALL, "hold": hold}), values)
    assert expected[:, ALARM].any()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_conformal_agrees_with_its_slow_reference_after_a_fall() -> None:
    values = np.abs(np.random.default_rng(4).standard_normal((2800, 1)))
    values[2480:] *= 0.1
    values[2700:] *= 10.0
    settings = SMALL | {"reference": 300, "rows_between": 1e5}
    expected = reference.conformal(values[:, 0], **settings)
    got = watch(learner_from("conformal", settings), values)
    (alarm,) = np.flatnonzero(expected[:, ALARM])
    assert 2700 <= alarm < 2720 and expected[alarm, REFERENCE] < 250, "of the rows since the fall"
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", [0.2, 5.0])
def test_errors_that_fell_for_good_are_the_new_reference(level: float) -> None:
    """Blocks grew to 512 rows: 10,240 rows without a verdict, where the learner had become better, or a fault was over."""
    values = level * np.abs(np.random.default_rng(3).standard_normal((6000, 1)))
    values[3000:] *= 0.2
    values[5500:] *= 3.0
    told = watch(learner_from("conformal", {}), values)
    assert (told[128:, READY] > 0).all()
    assert not told[:5500, ALARM].any()
    assert told[5500:5540, ALARM].any()


@pytest.mark.slow
@pytest.mark.parametrize(("hold", "learn"), [(0, 50), (20, 50), (60, 50)])
@pytest.mark.parametrize("memory", [0.0, 0.8])
@pytest.mark.parametrize("shares", [False, True])
def test_column_chart_agrees_with_its_slow_reference(memory: float, hold: int, learn: int, shares: bool) -> None:
    rows = correlated(700, 3, seed=5, memory=memory)
    rows[200:, 0] += 9.0  # a level that does not return
    rows[450:, 1] -= 8.0 * (np.arange(250) // 25 % 2 == 0)  # alarms that follow soon
    settings = {**SMALL, "hold": hold, "learn": learn, "smoothing": 0.2, "shrink": 0.2, "shares": shares}
    expected = reference.column_chart(rows, **settings)
    got = watch(learner_from("column_chart", settings), rows)
    assert expected[:, ALARM].any()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_column_chart_agrees_with_its_slow_reference_after_wild_first_rows() -> None:
    rows = correlated(900, 1, seed=7)
    rows[2], rows[50], rows[600:] = 1e5, 1e4, rows[600:] + 5.0  # the second one is in the first look
    settings = {**SMALL, "learn": 150, "smoothing": 0.2, "shrink": 0.2, "shares": True}
    expected = reference.column_chart(rows, **settings)
    np.testing.assert_allclose(watch(learner_from("column_chart", settings), rows), expected, rtol=1e-5, atol=1e-6)
    assert expected[600:640, ALARM].any()


@pytest.mark.parametrize("name", ["column_chart", "column_charts", "reference_chart", "reference_level"])
@pytest.mark.parametrize("wild", [-150.0, 1e4, 1e9])
def test_wild_values_of_a_sensor_that_starts_hide_no_change(name: str, wild: float) -> None:
    """The scale stands still: with such values in it nothing was far for ever."""
    settings = {"rows": 400} if name.startswith("reference") else {"learn": 600, "shares": True}
    for seed in range(4):
        rows = np.abs(correlated(2400, 1 if name == "reference_level" else 3, seed=seed))
        rows[seed * 9, 0], rows[2000:, 0] = wild, rows[2000:, 0] + 5.0
        assert watch(learner_from(name, settings), rows, seed)[2000:2200, ALARM].any()


@pytest.mark.parametrize("wild", [1e4, 1e9])
def test_wild_values_of_a_sensor_that_starts_hide_no_innovation(wild: float) -> None:
    """Errors below a share of the deviation are 0, and a wild value was in the deviation for thousands of rows."""
    for seed in range(4):
        rows = correlated(1500, 1, seed=seed)
        rows[seed * 4], rows[1200] = wild, rows[1200] + 12.0
        tail = watch(learner_from("row_tail", {}), watch(learner_from("innovations", {}), rows)[:, :1])
        assert (tail[:, ALARM] > 0).nonzero()[0].tolist() == [1200]


def test_a_pulse_among_the_first_rows_of_rare_pulses_teaches_no_spread_of_rounding() -> None:
    """Rows are read from averages in float32: where a column stands, their spread is only what rounding leaves."""
    for seed in range(5):
        rows = 5.0 * (np.random.default_rng(seed).random((6000, 1)) < 0.02)
        rows[:60], rows[10] = 0.0, 5.0
        assert not watch(learner_from("reference_level", {"rows": 400}), rows)[:, ALARM].any()


def test_a_column_that_stands_after_a_wild_value_has_no_innovations_without_a_scale() -> None:
    rows = np.where(np.arange(900) < 300, 0.1, np.random.default_rng(0).normal(0.1, 0.5, 900))[:, None]
    rows[5] = 65535.0  # sixteen times .1 is not exactly 1.6, so the mean of what stands was not .1
    assert np.nanmax(np.abs(watch(learner_from("innovations", {}), rows)[300:, 0])) < 100.0


@pytest.mark.parametrize("at", [45, 70, 119])
def test_a_state_without_the_part_of_the_first_rows_leaves_none_behind(at: int) -> None:
    """A state of an earlier release: what is left of a part would be in the names of columns later."""
    chart, rows = learner_from("column_chart", {"learn": 300}), correlated(300, 3, seed=0) + 1000.0
    state = chart.run(chart.init(dim=3, targets=0, seed=0), rows[:at])[0]
    state = chart.run(state._replace(moved=np.zeros_like(state.moved)), rows[at:])[0]
    assert state.learned == 300
    assert not state.moved.any()


@pytest.mark.parametrize("name", ["conformal", "column_chart"])
@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_no_more_false_alarms_than_stated(name: str, memory: float) -> None:
    """One in 1000 rows; what is allowed beside it is chance."""
    alarms = rows = 0
    for seed in range(5):
        values = np.exp(correlated(10_000, 1 if name == "conformal" else 3, seed=100 + seed, memory=memory))
        alarms += int(watch(learner_from(name, {"rows_between": 1000.0}), values, seed)[:, ALARM].sum())
        rows += len(values)
    print(f"{name}, correlation {memory}: {1000 * alarms / rows:.2f} false alarms in 1000 rows")
    assert alarms <= 1.3 * rows / 1000


def test_a_level_that_wanders_too_little_for_blocks_keeps_the_stated_number() -> None:
    """As of an extractor that goes on learning: a twelfth of the variance lasts for ten rows. What is allowed is chance."""
    alarms = rows = 0
    for seed in range(5):
        levels = 0.3 * correlated(20_000, 1, seed=300 + seed, memory=0.9)
        values = np.exp(correlated(20_000, 1, seed=200 + seed, memory=0.0) + levels)
        alarms += int(watch(learner_from("conformal", {"rows_between": 5000.0}), values, seed)[:, ALARM].sum())
        rows += len(values)
    print(f"{5000 * alarms / rows:.2f} false alarms in 5000 rows")
    assert alarms <= 1.3 * rows / 5000


def test_large_rows_that_come_together_keep_the_stated_number() -> None:
    """Latencies with a spread that goes with their level. By correlations of their squares they are independent: 49."""
    alarms = rows = 0
    for seed in range(5):
        values = np.exp(0.4 * correlated(20_000, 1, 300 + seed, 0.98) + 0.7 * correlated(20_000, 1, 200 + seed, 0.0))
        values *= np.random.default_rng(seed).choice([-1.0, 1.0], (20_000, 1))
        chart = learner_from("column_chart", {"rows_between": 10_000.0, "learn": 300, "shares": True})
        alarms += int(watch(chart, values, seed)[:, ALARM].sum())
        rows += len(values)
    print(f"{10_000 * alarms / rows:.2f} false alarms in 10,000 rows")
    assert alarms <= 1.3 * rows / 10_000


def test_variances_of_an_earlier_release_go_on_until_an_alarm() -> None:
    """As states without shares, which never have logarithms."""
    values = correlated(3000, 2, seed=8, memory=0.5)
    values[2000:2020] += 8.0
    plain, detector = (learner_from("column_chart", {"learn": 300, "shares": shares}) for shares in (False, True))
    stored, _ = plain.run(plain.init(dim=2, targets=0, seed=0), values[:400])
    state, out = detector.run(stored, values[400:2000])
    assert not out.features[:, ALARM].any()
    np.testing.assert_array_equal(state.levels, plain.run(stored, values[400:2000])[0].levels)
    state, out = detector.run(state, values[2000:])
    assert out.features[:, ALARM].any() and (state.marks[:, ranked.KNOWN] == ranked.LOGS).all()


@pytest.mark.parametrize(("name", "lasts"), [("conformal", 300), ("conformal", 20_000), ("column_chart", 300)])
def test_every_change_is_found_and_not_the_first_alone(name: str, lasts: int) -> None:
    """Changes that were told do not count as correlation, which would make blocks, and delays, too long for the next."""
    rows, changes = correlated(12_000, 1 if name == "conformal" else 3, seed=7, memory=0.0), (2000, 5000, 8000)
    for at in changes:
        rows[at : at + lasts, 0] += 1.5 if name == "conformal" else 3.0
    alarms = np.flatnonzero(watch(learner_from(name, {}), rows)[:, ALARM])
    assert all(((alarms >= at) & (alarms < at + 100)).any() for at in changes), alarms


def test_an_alarm_says_since_when_and_is_not_raised_again_while_it_is_open() -> None:
    values = correlated(3000, 1, seed=0, memory=0.0)
    values[2000:2100] += 4.0
    told = watch(learner_from("conformal", {}), values)
    (alarm,) = np.flatnonzero(told[:, ALARM])
    assert 2000 <= alarm < 2010
    assert abs(alarm - told[alarm, SINCE] + 1 - 2000) <= 10
    assert told[alarm, BEFORE] == pytest.approx(0.0, abs=0.3)
    assert told[alarm, AFTER] > 2.0
    opened = np.flatnonzero(told[:, OPEN])
    assert (np.diff(opened) == 1).all()
    assert opened[0] == alarm
    assert 2095 <= opened[-1] <= 2120
    assert (told[opened, STATISTIC] <= 1.0).all() or told[alarm, STATISTIC] > 1.0


def test_what_stays_is_the_new_reference() -> None:
    values = correlated(6000, 1, seed=1, memory=0.0)
    values[2000:] += 4.0
    values[5000:] += 4.0
    told = watch(learner_from("conformal", {"hold": 300}), values)
    alarms = np.flatnonzero(told[:, ALARM])
    assert len(alarms) == 2
    assert told[alarms[1], BEFORE] == pytest.approx(4.0, abs=0.3)


@pytest.mark.parametrize(("correlated_then", "silent"), [(True, 545), (False, 850)])
def test_a_new_level_is_learned_while_its_alarm_is_open(correlated_then: bool, silent: int) -> None:
    """What correlates in another way is learned after the alarm."""
    random = np.random.default_rng(12)
    common = random.normal(size=(4000, 1)) * np.where(np.arange(4000) < 2000, 1.0, correlated_then)[:, None]
    rows = common + random.normal(size=(4000, 3)) / 2
    rows[2000:] += 5.0
    detector = learner_from("column_chart", {"learn": 300})
    told = watch(detector, rows)
    (alarm,) = np.flatnonzero(told[:, ALARM])
    ready = np.flatnonzero(told[:, READY] == 0)[-1] + 1
    assert 500 < ready - alarm <= silent and (correlated_then or ready - alarm > 800)
    rows[ready + 50 :, 0] += 4.0
    assert watch(detector, rows)[ready + 50 : ready + 100, ALARM].any()


def test_a_level_that_alarms_share_is_learned_after_them() -> None:
    """Else the scale would be that of one phase of a machine that is on and off for 400 rows, and the other an alarm."""
    rows = 0.3 * np.random.default_rng(1).normal(size=(20_000, 1))
    rows[4000:, 0] += 5.0 * (np.arange(16_000) // 400 % 2 == 0)
    told = watch(learner_from("column_chart", {"learn": 300, "shares": True}), rows)
    assert 1 <= told[:, ALARM].sum() <= 6, "26 of 40 phases"


def test_an_alarm_that_an_earlier_release_left_open_ends_as_it_did_there() -> None:
    """There `moved` is the sums of blocks while an alarm is open, too."""
    rows = correlated(3000, 3, seed=12, memory=0.0)
    rows[1500:] += 5.0
    detector = learner_from("column_chart", {"learn": 300})
    state, _ = detector.run(detector.init(dim=3, targets=0, seed=0), rows[:1700])
    state = state._replace(moved=np.full_like(state.moved, 2.0))
    _, out = detector.run(state, rows[1700:])
    ready = np.flatnonzero(out.features[:, READY] == 0)[-1] + 1701
    assert 800 < ready - 1500 <= 850


@pytest.mark.parametrize("name", ["conformal", "column_chart"])
def test_alarms_that_follow_soon_add_up_until_what_they_are_about_is_normal(name: str) -> None:
    values = correlated(8000, 1 if name == "conformal" else 3, seed=9, memory=0.0)
    values[2000:, 0] += 4.0 * (np.arange(6000) // 150 % 2 == 0)  # a new level that is not there half of the time
    told = watch(learner_from(name, {}), values)
    alarms, opened = np.flatnonzero(told[:, ALARM]), told[:, OPEN].sum()
    assert 2 <= len(alarms) <= 6, "one in 300 rows, if each is another"
    assert 500 <= opened <= 600
    assert (alarms < 4000).all()


def test_a_machine_that_is_on_now_and_then_is_normal_after_some_alarms() -> None:
    random, rows, at = np.random.default_rng(16), np.zeros((20_000, 2)), 0
    while at < len(rows):
        at += int(random.exponential(300)) + 10
        rows[at : (at := at + int(random.exponential(20)) + 10)] = 1.0
    rows += random.normal(size=rows.shape) / 20
    told = watch(learner_from("column_chart", {"learn": 300, "shares": True}), rows)
    alarms = np.flatnonzero(told[:, ALARM])
    assert 1 <= len(alarms) <= 12, "50, most times that it is on, if each alarm forgets how rows depend on those before"
    assert (alarms < 5000).mean() > 0.5


@pytest.mark.parametrize(("column", "shift"), [(3, 4.0), (7, -4.0)])
def test_the_column_that_moved_is_named_with_its_direction(column: int, shift: float) -> None:
    rows = correlated(3000, 10, seed=2, memory=0.5)
    rows[2500:, column] += shift
    told = watch(learner_from("column_chart", {}), rows)
    (alarm,) = np.flatnonzero(told[:, ALARM])
    assert 2500 <= alarm < 2530
    assert told[alarm, FIRST_COLUMN] == column
    assert told[alarm, FIRST_SHIFT] * np.sign(shift) > 1
    assert np.isnan(told[alarm, FIRST_COLUMN + OF_COLUMN])
    assert np.isnan(told[: alarm - 1, [CHART, FIRST_COLUMN, FIRST_SHIFT]]).all()


def test_a_constant_column_that_changes_is_found() -> None:
    rows = correlated(3000, 3, seed=4, memory=0.0)
    rows[:, 1] = 7.0
    rows[2000:, 1] = 7.5
    told = watch(learner_from("column_chart", {}), rows)
    (alarm,) = np.flatnonzero(told[:, ALARM])
    assert 2000 <= alarm < 2010
    assert told[alarm, FIRST_COLUMN] == 1


def test_a_column_that_wanders_hides_no_other_one_and_its_open_alarm_hides_no_later_change() -> None:
    rows = correlated(4000, 3, seed=4, memory=0.0)
    rows[:, 0] = rows[:, 0].cumsum()
    rows[2000:, 1] += 4.0
    rows[2200:, 2] -= 4.0
    alone, with_each = (watch(learner_from(name, {"learn": 300}), rows) for name in ("column_chart", "column_charts"))
    assert not alone[2000:2400, ALARM].any()
    alarms = 2000 + np.flatnonzero(with_each[2000:2400, ALARM])
    assert with_each[alarms, FIRST_COLUMN].tolist() == [1, 2]
    assert alarms[0] < 2010 and 2200 <= alarms[1] < 2210 and with_each[alarms[0] : alarms[1], OPEN].all()


@pytest.mark.parametrize("later", [FOLLOWS - 1, FOLLOWS])
def test_a_change_so_many_rows_after_an_alarm_raises_another_while_that_is_open(later: int) -> None:
    charts = np.zeros((2, later + 2, WIDE_COLUMNS))  # of two columns
    charts[..., FIRST_SHIFT], charts[..., SINCE] = 1.0, 1.0  # the change came after the row before the alarm
    for column, alarm in enumerate([0, later + 1]):
        charts[column, alarm, [ALARM, STATISTIC]], charts[column, alarm:, OPEN] = 1.0, 1.0
    told, slots = np.zeros_like(charts[0]), np.zeros(later + 2, np.int64)
    state = np.zeros((1, 3), np.int64), np.zeros(1, np.int64)
    one_verdict(*state, slots, np.ones(later + 2, np.int8), told, charts.swapaxes(0, 1).copy())
    assert told[:, ALARM].nonzero()[0].tolist() == [0, later + 1][: 1 + (later == FOLLOWS)]


@pytest.mark.parametrize("seed", range(6))
def test_a_level_that_stands_still_has_one_alarm_for_each_jump_which_names_it(seed: int) -> None:
    rows = correlated(4000, 2, seed=4, memory=0.0)
    rows[:, 0] = np.repeat([40.0, 42.0, 38.0, 45.0], 1000)
    errors = watch(learner_from("innovations", {}), rows)[32:, :2].copy()
    told = watch(learner_from("column_charts", {"learn": 300, "shares": True}), errors, seed)
    alarms = [n for n in (32 + np.flatnonzero(told[:, ALARM])).tolist() if told[n - 32, FIRST_COLUMN] != 1]
    assert [n // 1000 for n in alarms] == [1, 2, 3] and np.isfinite(told[np.array(alarms) - 32, FIRST_SHIFT]).all()


@pytest.mark.parametrize("dim", [1, 3])
def test_an_idle_sensor_is_no_drift(dim: int) -> None:
    name = "conformal" if dim == 1 else "column_chart"
    assert not watch(learner_from(name, {}), np.full((5000, dim), 0.4))[:, ALARM].any()


def test_nothing_is_said_before_the_length_of_blocks_is_known() -> None:
    told = watch(learner_from("conformal", {"least": 1}), correlated(3000, 1, seed=6, memory=0.99))
    assert not told[: ranked.FIRST_LOOK, READY].any()
    assert not told[told[:, READY] == 0, STATISTIC].any()
    assert told[:, READY].argmax() != ranked.FIRST_LOOK, "an autocorrelated stream takes longer"


def test_the_state_is_small() -> None:
    assert learner_from("conformal", {}).state_bytes(1, 0) <= 3000
    assert learner_from("column_chart", {}).state_bytes(10, 0) <= 6000
    assert learner_from("column_chart", {}).state_bytes(40, 0) <= 20_000


@pytest.mark.parametrize("field", ["held", "oldest", "block", "rows"])
def test_a_state_that_would_write_outside_its_reference_is_refused(field: str) -> None:
    detector = learner_from("conformal", {})
    state, _ = detector.run(detector.init(dim=1, targets=0, seed=0), correlated(700, 1, seed=0))
    marks = state.marks.copy()
    marks[0, ["held", "oldest", "block", "known", "rows"].index(field)] = 10_001
    with pytest.raises(ValueError, match=r"^Conformal: marks: expected blocks of 1, 2, 4 .. 512 rows .*, got .*\.$"):
        detector.run(state._replace(marks=marks), correlated(10, 1, seed=0))

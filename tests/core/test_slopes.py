"""[drift] slopes: levels that fall or rise all the time, alone and through the core."""

import json

import numpy as np
import pytest

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.replay.alarm_rates import ways
from streamjobs.replay.warm_up import days_to_alarm, in_words, rows_to_alarm
from streamjobs.stages.events.slopes import Slopes
from streamjobs.stages.stage import Shape
from tests.core.streams import Worker, record, settings, values

START, PAUSE, FAULT, ROWS = 1_700_000_000, 300, 3000, 3300
DRIFT = {"watch": ["columns", "innovations", "rows"], "false_alarms": "1 per 3000 rows", "learn": 600}
PLAIN = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 1, "budget": 5}}
SLOPES = {"slopes": {"volts": "4h"}}


def job(**drift) -> Job:
    source = {"topic": "tracker", "fields": ["volts", "load"], "time": "ts"}
    return Job.from_settings(settings(source=source, drift=DRIFT | drift, **PLAIN))


def battery(seed: int, faster: float = 1.0) -> Array:
    """(ROWS, 2): it falls by .1 V in a day, and is charged each seven days; from FAULT on so many times as fast."""
    random = np.random.default_rng(seed)
    fall = np.where(np.arange(ROWS) < FAULT, 1.0, faster) * random.uniform(0.6, 1.4, ROWS) * 0.1 * PAUSE / 86_400
    volts = 4.1 - np.cumsum(fall) % 0.7 + 0.01 * random.normal(size=ROWS)
    return np.column_stack([volts.round(3), random.normal(size=ROWS).round(3)])


def records_of(rows: Array) -> list:
    made = [{"volts": v, "load": w, "ts": START + PAUSE * n} for n, (v, w) in enumerate(rows.tolist())]
    return [record(n, b"t", body)._replace(timestamp=1000 * body["ts"]) for n, body in enumerate(made)]


def alarms(rows: Array, **drift) -> list[dict]:
    outputs = Worker(job(**drift)).apply(records_of(rows))
    raised = [json.loads(one.value) for one in outputs if one.sink == "alarms"]
    return [one for one in raised if one["open"]]


def test_a_battery_that_falls_faster_is_found_by_its_slope() -> None:
    usual, faster = ([alarms(battery(seed, times), **SLOPES) for seed in (1, 2, 3)] for times in (1.0, 4.0))
    assert sum(map(len, usual)) <= 3, "stated are 3"
    begin, end = (START + PAUSE * (FAULT + rows) for rows in (0, 200))
    for found in faster:
        first, *_ = [one for one in found if one["start"] >= begin]
        assert first["start"] < end and first["columns"][0]["column"] == "volts_per_hour"


def test_each_key_of_a_pool_has_its_own_slopes() -> None:
    """Six batteries at different levels had 18 alarms in 18,000 rows when all went through one level; stated are 2."""
    rows = zip(*(records_of(battery(seed)) for seed in (1, 2, 3)), strict=True)
    mixed = [one._replace(key=b"%d" % key) for of_time in rows for key, one in enumerate(of_time)]
    records = [one._replace(offset=n) for n, one in enumerate(mixed)]
    slopes = []
    for pooled in (True, False):
        worker = Worker(job(**SLOPES), pooled=pooled)
        worker.apply(records)
        slots = [worker.live.slot(b"%d" % key) for key in range(3)]
        slopes.append(worker.live.work["drift_slopes"]["slope"][slots].tolist())
    assert slopes[0] == slopes[1]


@pytest.mark.parametrize("each", [True, False])
def test_a_pressure_that_falls_beside_a_level_that_is_filled_slowly_is_found_by_itself(each: bool) -> None:
    random, level, fills, found = np.random.default_rng(21), np.empty(2600), False, []
    at = 5.0
    for n, used in enumerate(0.04 * random.poisson(0.3, len(level))):
        fills = at < 8.0 if fills else at < 0.5
        level[n] = at = at + used if fills else at - used
    rows = np.column_stack([level + random.normal(0, 0.02, len(level)), random.normal(9, 0.15, len(level))]).round(2)
    rows[2200:, 1] -= 0.6
    found = [
        one for one in alarms(rows, each=each) if one["watch"] == "columns" and 2200 <= (one["start"] - START) / PAUSE < 2300
    ]
    assert [one["columns"][0]["column"] for one in found] == ["load"] * each


@pytest.mark.parametrize(
    ("drift", "words"), [({}, "4 hours and 729 rows"), ({"daily": True}, "2 days, 4 hours and 729 rows")]
)
def test_the_stated_warm_up_has_the_span_of_a_slope(drift: dict, words: str) -> None:
    own = job(**SLOPES, **drift)
    assert in_words(rows_to_alarm(own) or 0, days_to_alarm(own)) == words
    rows = battery(1)[:1500]
    sinks = {"drift": "rows"}
    source, drift = {"topic": "tracker", "fields": ["volts", "load"], "time": "ts"}, DRIFT | SLOPES | drift
    shown = Worker(Job.from_settings(settings(source=source, drift=drift, sinks=sinks, **PLAIN))).apply(records_of(rows))
    told = [json.loads(one.value) for one in shown if one.sink == "drift"]
    first = next(n for n, row in enumerate(told) if row["statistic"])
    assert first >= days_to_alarm(own) * 86_400 / PAUSE


def test_the_other_ways_of_drift_tune_have_the_slopes_and_days_of_the_job() -> None:
    of_columns = [way.drift for way in ways(job(**SLOPES, daily=True, each=True).settings, predicts=False)[1:4]]
    assert all((one.slopes, one.daily, one.each) == ({"volts": 14_400.0}, True, True) for one in of_columns)


def test_a_sensor_that_repeats_itself_for_hours_raises_no_alarm_when_it_wakes_up() -> None:
    rows = battery(1)[:960]
    rows[800:920] = rows[800]
    assert alarms(rows, **SLOPES) == []


def test_an_idle_row_before_a_slope_is_known_is_not_watched() -> None:
    rows = battery(1)[:40]
    rows[5:] = rows[5]
    source, drift = {"topic": "tracker", "fields": ["volts", "load"], "time": "ts"}, DRIFT | SLOPES
    outputs = Worker(Job.from_settings(settings(source=source, drift=drift, sinks={"drift": "rows"}, **PLAIN))).apply(
        records_of(rows)
    )
    statistics = [json.loads(one.value)["statistic"] for one in outputs if one.sink == "drift"]
    assert statistics == [0.0] * 16 + [None] * 24


def slopes_of(times: Array, levels: Array, span: float = 14_400.0) -> Array:
    stage = Slopes(columns=(0,), spans=(span,))
    work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    return stage.advance(work, np.zeros(len(times), np.int64), times, levels[:, None], np.ones(len(times), np.bool_))[:, 0]


def test_a_slope_is_exact_over_pauses_and_jumps_and_for_late_rows() -> None:
    random = np.random.default_rng(0)
    times = np.cumsum(random.exponential(300.0, 2000)) + np.where(np.arange(2000) > 900, 1e6, 0.0)
    levels = 5.0 - 0.5 * times / 3600 + np.where(np.arange(2000) > 1500, 70.0, 0.0)
    known = slopes_of(times, levels)
    assert np.isnan(known[:5]).all() and np.allclose(known[times > times[0] + 14_400], -0.5)
    late = times.copy()
    late[[700, 1200]] -= 5000.0
    assert np.allclose(slopes_of(late, levels)[700], -0.5)


def test_a_clock_that_was_far_ahead_and_two_rows_at_nearly_one_time_stop_no_slope() -> None:
    times = 300.0 * np.arange(1500)
    levels = 5.0 - 0.5 * times / 3600
    times[500] = 4e9
    assert np.allclose(slopes_of(times, levels)[1000:], -0.5, atol=1e-4)
    tiny = np.r_[5e-324, times[1:]]
    assert np.allclose(slopes_of(np.r_[0.0, tiny], np.r_[9.0, levels])[1000:], -0.5, atol=1e-4)


def test_a_rounded_level_has_no_jumps_at_its_steps_and_the_noise_at_a_jump_moves_no_slope() -> None:
    times = 300.0 * np.arange(4000)
    percent = np.floor(100 - times / 10_000 % 80)
    found = slopes_of(times, percent, 86_400.0)
    assert np.abs(found[1000:] + 0.36).max() < 0.07
    noise = np.random.default_rng(1).normal(size=4000)
    found = slopes_of(times, 5000 * (np.arange(4000) > 2000) + noise)  # a deviation over the span is .25 an hour
    assert np.abs(found[2001:2013] - found[2000]).max() < 0.4
    assert abs(found[2013:2040].mean()) < 0.15


def test_states_go_on_to_the_bit_after_a_crash() -> None:
    rows = battery(4, 4.0)[-900:]
    whole = Worker(job(**SLOPES, daily=True, each=True)).apply(records_of(rows))
    worker, sent = Worker(job(**SLOPES, daily=True, each=True)), []
    for at in range(0, len(rows), 250):
        sent += worker.apply(records_of(rows)[at : at + 250])
        worker.checkpoint()
        worker.crash()
    assert values(sent) == values(whole)


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [
        ({"slopes": {"volt": "4h"}}, "'volt' is not a number of a row; did you mean 'volts'"),
        ({"slopes": {"volts": 0}}, "greater than 0"),
        (SLOPES | {"watch": ["ls_error", "rows"], "learn": None}, "slopes is for watch 'columns'"),
        ({"watch": ["innovations", "rows"], "each": True}, "each is for watch 'columns' without a reference"),
        (SLOPES | {"watch": "columns", "reference": "first 400 rows", "learn": None}, "slopes is for watch 'columns'"),
    ],
)
def test_slopes_that_cannot_be_watched_are_refused(drift: dict, sentence: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=sentence):
        job(**drift)


def test_a_slope_that_has_the_name_of_a_field_is_refused() -> None:
    source = {"topic": "tracker", "fields": ["volts", "volts_per_hour"], "time": "ts"}
    with pytest.raises(ConfigError, match="'volts_per_hour' would be two numbers of a row; remove 'volts' from slopes"):
        Job.from_settings(settings(source=source, drift=DRIFT | SLOPES, **PLAIN))

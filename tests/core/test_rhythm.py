"""[drift] daily: rows as deviations from the rows at their time of day, alone and through the core."""

import json
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.stages.events.rhythm import DAY, DAYS, Rhythm, _forward
from streamjobs.stages.stage import Shape
from tests.core.streams import Worker, record, settings, values

PAUSE, OF_DAY = 300, 288  # seconds between rows, rows of a day
MONDAY = 1_699_833_600  # a midnight
DRIFT = {"watch": ["columns", "innovations", "rows"], "daily": True, "false_alarms": "1 per 10000 rows"}
PLAIN = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 1, "budget": 5}}


def job(**drift) -> Job:
    source = {"topic": "press", "fields": ["power"], "time": "ts"}
    return Job.from_settings(settings(source=source, drift=DRIFT | drift, **PLAIN))


def press(days: int, seed: int = 0) -> Array:
    """Power of a machine that runs from 7 to 17 h, with a row every five minutes."""
    hour = np.arange(days * OF_DAY) % OF_DAY * PAUSE / 3600
    runs = (hour >= 7) & (hour < 17)
    return np.where(runs, 8.0, 0.4) + np.where(runs, 0.3, 0.02) * np.random.default_rng(seed).normal(size=len(hour))


def records_of(power: Array) -> list:
    times = (MONDAY + PAUSE * np.arange(len(power))).tolist()
    made = [record(n, b"p", {"power": value, "ts": times[n]}) for n, value in enumerate(power.tolist())]
    return [one._replace(timestamp=1000 * time) for one, time in zip(made, times, strict=True)]


def raised(power: Array, **drift) -> list[dict]:
    outputs = Worker(job(**drift)).apply(records_of(power))
    alarms = [json.loads(one.value) for one in outputs if one.sink == "alarms"]
    return [one for one in alarms if one["open"]]


def deviations(x: Array, week: str = "") -> tuple[Array, Array, Array]:
    """z, centre and unit of a column."""
    stage, n = Rhythm(week=week), len(x)
    work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    times = MONDAY + PAUSE * np.arange(float(n))
    z, centre, unit = stage.advance(work, np.zeros(n, np.int64), times, x[:, None], np.ones(n, np.bool_))
    return z[:, 0], centre[:, 0], unit[:, 0]


def test_switching_on_and_off_each_day_is_no_alarm_and_idling_at_noon_is_one() -> None:
    power = press(8)
    assert raised(power) == []
    noon = 6 * OF_DAY + OF_DAY // 2
    power[noon : noon + 24] = press(1, seed=1)[:24]  # idles
    alarms = {one["watch"]: one for one in raised(power)}
    assert alarms.keys() == {"rows", "columns", "innovations"}
    assert alarms["rows"]["start"] == MONDAY + PAUSE * noon
    for name, after in (("rows", 0.4), ("columns", 6.4)):
        (moved,) = alarms[name]["columns"]
        assert (moved["column"], moved["deviations"] < -5.0) == ("power", True)
        assert moved["before"] == pytest.approx(8.1, abs=0.2), "in its own unit"
        assert moved["after"] == pytest.approx(after, abs=0.2)


def test_a_counter_that_dies_alarms_in_the_hours_in_which_it_usually_counts_and_not_by_night() -> None:
    """It repeats 0, as an idle sensor, and as each night."""
    hour = np.arange(16 * OF_DAY) % OF_DAY * PAUSE / 3600
    people = np.random.default_rng(2).poisson(np.where((hour >= 8) & (hour < 20), 7.0, 0.0)).astype(float)
    dies = 14 * OF_DAY + OF_DAY // 12
    people[dies:] = 0.0
    starts = [(one["start"] - MONDAY) / PAUSE - dies for one in raised(people, counts=True)]
    assert 72 <= min(starts) < 140, "rows from two o'clock in the night; without such rows there is no alarm"


def test_the_day_after_a_fault_is_normal() -> None:
    power = press(8)
    fault = slice(5 * OF_DAY + 108, 5 * OF_DAY + 180)
    power[fault] += 8.0
    z, centre, _ = deviations(power)
    assert z[fault].min() > 5.0
    day_after = slice(fault.start + OF_DAY, fault.stop + OF_DAY)
    assert np.abs(centre[day_after] - 8.0).max() < 0.5, "a mean of five days would be at 9.6"


def test_rows_of_two_days_are_learned_first_and_later_days_are_about_one_deviation() -> None:
    z, _, unit = deviations(press(14))
    assert np.isnan(z[: 2 * OF_DAY]).all() and (unit[: 2 * OF_DAY] == 0.0).all()
    assert np.isfinite(z[2 * OF_DAY :]).all()
    settled = z[(2 + DAYS) * OF_DAY :]
    night = np.arange(len(settled)) % OF_DAY < 72
    assert 0.8 < settled[night].std() < 1.4
    assert np.abs(settled).max() < 20.0
    assert PAUSE * OF_DAY == DAY


@pytest.mark.parametrize("drift", [{}, {"watch": "columns"}])
def test_batches_and_crashes_change_nothing(drift: dict) -> None:
    power = press(8)
    power[7 * OF_DAY + 20 : 7 * OF_DAY + 80] += 4.0
    records = records_of(power)
    together = sorted(values(Worker(job(**drift)).apply(records)))
    worker, parts = Worker(job(**drift)), []
    for at in range(0, len(records), 303):
        parts += values(worker.apply(records[at : at + 303]))
        worker.checkpoint()
        worker.crash()
    assert sorted(parts) == together
    assert any(one[0] == "alarms" for one in together)


@pytest.mark.parametrize("wild", [1e308, -1e308, 1e40, 0.0, 1e-320])
def test_numbers_far_beyond_usual_ones_leave_a_state_that_can_be_read(wild: float) -> None:
    power = press(4)
    power[[0, 200, 2 * OF_DAY + 50]] = wild
    worker, records = Worker(job()), records_of(power)
    for at in range(0, len(records), 500):
        worker.apply(records[at : at + 500])
        worker.checkpoint()
        worker.crash()


@pytest.mark.parametrize("drift", [{"watch": ["ls_error", "rows"]}, {"watch": "columns", "reference": "first 400 rows"}])
def test_daily_without_columns_to_compare_is_refused(drift: dict) -> None:
    with pytest.raises((ConfigError, ValueError), match="daily is for watch 'columns', 'innovations' and 'rows'"):
        job(**drift)


def test_a_new_level_is_normal_after_a_day_of_it_and_less_than_a_day_moves_nothing() -> None:
    noise = 0.3 * np.random.default_rng(5).normal(size=9 * OF_DAY)
    x = 5.0 * np.sin(2 * np.pi * np.arange(9 * OF_DAY) / OF_DAY) + noise
    x[5 * OF_DAY : 6 * OF_DAY - 12] += 4.0  # all but an hour
    z, centre, unit = deviations(x)
    assert np.abs(z[6 * OF_DAY : 7 * OF_DAY]).max() < 5
    x[6 * OF_DAY - 12 :] += 4.0
    z, centre_of_level, unit = deviations(x)
    day = slice(6 * OF_DAY + 3, 7 * OF_DAY)
    assert np.abs(z[5 * OF_DAY : 6 * OF_DAY]).min() > 5
    assert np.abs(z[day]).max() < 5
    assert (centre_of_level[day] - centre[day]).mean() == pytest.approx(4.0, abs=0.1)
    assert unit[day].max() < 1.0, "the step is no spread"


def test_days_follow_the_clocks_of_the_zone_of_the_source() -> None:
    """A machine that starts at 7 h of Berlin: on 25 October 2026 clocks go back, so in UTC it starts an hour later."""
    source = {"topic": "press", "fields": ["power"], "time": "ts"}
    of_berlin = Job.from_settings(settings(source=source | {"time_zone": "Europe/Berlin"}, drift=DRIFT, **PLAIN))
    of_offset = Job.from_settings(settings(source=source | {"time_zone": "+02:00"}, drift=DRIFT, **PLAIN))
    times = 1_792_360_800.0 + PAUSE * np.arange(10 * OF_DAY)  # midnight of Berlin on 19 October
    hours = (times + np.where(times < 1_792_890_000, 7200, 3600)) / 3600 % 24
    x = np.where((hours >= 7) & (hours < 17), 8.0, 0.4) + 0.1 * np.random.default_rng(0).normal(size=len(times))
    farthest = []
    for stage in (of_berlin.steps.rhythm, of_offset.steps.rhythm, Rhythm()):
        assert stage is not None
        work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
        z = stage.advance(work, np.zeros(len(x), np.int64), times, x[:, None], np.ones(len(x), np.bool_))[0]
        farthest.append(np.nanmax(np.abs(z[5 * OF_DAY :])))
    assert farthest[0] < 8
    assert farthest[1] == farthest[2] == 50.0


@pytest.mark.parametrize(("zone", "follows"), [("Europe/Berlin", True), ("+01:00", False)])
def test_days_follow_the_hour_that_is_missing_in_spring(zone: str, follows: bool) -> None:
    """A machine that starts at half past two of Berlin: on 29 March 2026 this time does not come."""
    source = {"topic": "press", "fields": ["power"], "time": "ts", "time_zone": zone}
    stage = Job.from_settings(settings(source=source, drift=DRIFT, **PLAIN)).steps.rhythm
    assert stage is not None
    times = 1_774_134_000.0 + PAUSE * np.arange(10 * OF_DAY)  # midnight of Berlin on 22 March
    hours = (times + np.where(times < 1_774_746_000, 3600, 7200)) / 3600 % 24
    x = np.where((hours >= 2.5) & (hours < 17), 8.0, 0.4) + 0.1 * np.random.default_rng(0).normal(size=len(times))
    work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    z = stage.advance(work, np.zeros(len(x), np.int64), times, x[:, None], np.ones(len(x), np.bool_))[0]
    assert (np.nanmax(np.abs(z[5 * OF_DAY :])) < 8) == follows


def test_a_time_without_a_date_has_no_summer_time() -> None:
    assert _forward(1e12, ZoneInfo("Europe/Berlin"), False) == 0.0
    of_august = 1_785_542_400 / 900, ZoneInfo("Europe/Berlin")
    assert (_forward(*of_august, False), _forward(*of_august, True)) == (3600.0, 7200.0)


def rests(days: int, seed: int = 0) -> Array:
    """A press that idles on weekends."""
    rest = np.arange(days * OF_DAY) // OF_DAY % 7 >= 5
    return np.where(rest, 0.4 + 0.02 * np.random.default_rng(seed + 100).normal(size=len(rest)), press(days, seed))


def test_weekends_are_compared_with_weekends_and_a_rise_at_work_is_found() -> None:
    power, week = rests(42), "wwwwwss"
    assert raised(power[: 35 * OF_DAY], week=week) == []
    saturday = 5 * OF_DAY + 120
    assert deviations(power)[0][saturday + 7 * OF_DAY] < -3.0, "days of work before it"
    known = np.isfinite(deviations(power, week)[0]).reshape(-1, OF_DAY).all(axis=1)
    assert np.flatnonzero(~known).tolist() == [0, 1, 5, 6]
    tuesday = 36 * OF_DAY + 108
    power[tuesday : tuesday + 84] += 2.0
    alarms = raised(power, week=week)
    assert {one["watch"] for one in alarms if one["start"] < MONDAY + 37 * DAY} >= {"columns"}
    assert min(one["start"] for one in alarms) >= MONDAY + PAUSE * tuesday


def with_holiday(until: int = OF_DAY) -> tuple[Array, slice]:
    """Weeks with a Wednesday that is a Saturday up to this row of the day."""
    power, wednesday = rests(35), slice(30 * OF_DAY, 31 * OF_DAY)
    power[wednesday.start : wednesday.start + until] = rests(35)[5 * OF_DAY : 5 * OF_DAY + until]
    return power, wednesday


def test_a_holiday_is_compared_with_days_of_rest_after_one_alarm() -> None:
    power, wednesday = with_holiday()
    z, centre, unit = deviations(power, "wwwwwss")
    at_seven = wednesday.start + 84
    assert z[at_seven] < -20.0, "the machine did not start"
    assert np.abs(z[at_seven + 1 : wednesday.stop]).max() < 10.0
    assert centre[at_seven + 1 : wednesday.stop].max() < 0.5
    assert np.abs(z[wednesday.stop :]).max() < 10.0
    assert unit[wednesday.stop + 90 : wednesday.stop + 200].max() < 0.6, "a day of work is not wider after it"
    (alarm,) = raised(power, week="wwwwwss")
    assert (alarm["watch"], alarm["start"]) == ("rows", MONDAY + PAUSE * at_seven)
    assert alarm["columns"][0]["before"] == pytest.approx(8.0, abs=0.5)


def test_a_machine_that_stops_at_noon_is_compared_with_work() -> None:
    power, wednesday = rests(35), slice(30 * OF_DAY, 31 * OF_DAY)
    stopped = slice(wednesday.start + 144, wednesday.start + 204)
    power[stopped] = 0.4
    z, centre, _ = deviations(power, "wwwwwss")
    assert z[stopped].max() < -5.0
    assert centre[stopped].min() > 7.5
    assert {one["watch"] for one in raised(power, week="wwwwwss")} >= {"rows", "columns"}


def test_a_day_that_begins_late_returns_to_its_kind_without_another_alarm() -> None:
    power, wednesday = with_holiday(108)  # works from nine
    z, centre, _ = deviations(power, "wwwwwss")
    assert z[wednesday.start + 84] < -20.0
    assert np.abs(z[wednesday.start + 85 : wednesday.stop]).max() < 10.0
    assert centre[wednesday.start + 108 : wednesday.start + 200].min() > 7.5


def test_parts_of_a_holiday_end_and_go_on_after_a_restart() -> None:
    power, _ = with_holiday(108)
    stage, n = Rhythm(week="wwwwwss"), len(power)
    state, found = stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0), []
    times = MONDAY + PAUSE * np.arange(float(n))
    for at in range(0, n, 43):
        work, part = stage.holding(state), slice(at, at + 43)
        slots = np.zeros(len(times[part]), np.int64)
        found.append(stage.advance(work, slots, times[part], power[part, None], np.ones(len(slots), np.bool_))[:, :, 0])
        assert all(one.good.all() for one in stage.demands(work, np.zeros(1, np.int64)))
        state = stage.save(work, 0, state)
    assert np.array_equal(np.hstack(found), deviations(power, "wwwwwss"), equal_nan=True)


def test_a_state_with_a_kind_of_day_that_the_job_lacks_is_refused() -> None:
    for week, kind, valid in (("wwwwwss", 2, True), ("wwwwwss", 3, False), ("", 1, True), ("", 2, False)):
        stage = Rhythm(week=week)
        fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
        work = stage.holding(fresh._replace(part=1000.0 + kind / 8))
        assert all(one.good.all() for one in stage.demands(work, np.zeros(1, np.int64))) == valid


def test_the_state_of_a_key_without_a_row_is_read_again() -> None:
    """Its samples have filled no window when a checkpoint comes."""
    source = {"topic": "press", "fields": ["power"], "time": "ts"}
    of_windows = settings(source=source, drift=DRIFT, **PLAIN | {"window": {"length": "1h", "hop": "1h", "rate": 0.1}})
    worker = Worker(Job.from_settings(of_windows))
    worker.apply(records_of(press(1)[:2]))
    worker.checkpoint()
    worker.crash()
    worker.apply(records_of(press(1)[:3])[2:])
    assert worker.store and worker.live.aside.verdicts == {}


@pytest.mark.parametrize(("zone", "farthest"), [("Asia/Tokyo", 15), (None, 50)])
def test_kinds_of_days_begin_at_midnight_of_the_zone(zone: str | None, farthest: float) -> None:
    source = {"topic": "press", "fields": ["power"], "time": "ts"} | ({"time_zone": zone} if zone else {})
    stage = Job.from_settings(settings(source=source, drift=DRIFT | {"week": "wwwwwss"}, **PLAIN)).steps.rhythm
    assert stage is not None
    x = rests(42)
    work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    times = MONDAY - 9 * 3600 + PAUSE * np.arange(float(len(x)))
    z = stage.advance(work, np.zeros(len(x), np.int64), times, x[:, None], np.ones(len(x), np.bool_))[0]
    assert np.nanmax(np.abs(z[28 * OF_DAY :])) <= farthest


def test_kinds_of_days_change_no_state_of_other_jobs() -> None:
    shape = Shape(dim=1, width=2, label_width=1, targets=1)
    assert (Rhythm().description(), Rhythm(week="aaaaabb").description()) == ("Rhythm()", "Rhythm(aaaaabb)")
    assert Rhythm().begin(shape, 0).means.shape == (2, 96, DAYS)
    assert Rhythm(week="aaaabcc").begin(shape, 0).means.shape == (2, 3 * 96, DAYS)


@pytest.mark.parametrize(
    ("drift", "says"), [({"daily": False, "week": "aaaaabb"}, "add daily = true"), ({"week": "aaaabb"}, "7 letters")]
)
def test_a_week_that_says_nothing_is_refused(drift: dict, says: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=says):
        job(**drift)

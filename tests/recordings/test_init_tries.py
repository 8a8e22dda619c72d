"""`init` tries the [drift] and the learners that it writes on the sample, and leaves out columns that alarm too often."""

import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.commands.recordings import drift_trial
from streamjobs.commands.recordings.trial import Tried
from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.recordings.tables import How
from streamjobs.replay.engine import Replay
from tests.commands.jobs import jsonl
from tests.recordings.fleet import PAUSE, START, Fleet, fleet
from tests.recordings.init_told import columns

WATCH = '["columns", "innovations", "rows"]'
STATED = 10_000  # rows from one false alarm to the next


def alarms_of(file: Path, sample: Path, fleet: Fleet) -> tuple[int, set[int]]:
    """False alarms of a job on the fleet, and the faulty sensors that it finds."""
    job, false, found = job_of(file), 0, set[int]()

    def take(output: Any) -> None:
        nonlocal false
        alarm = json.loads(output.value) if output.sink == "alarms" else {"open": False}
        if alarm["open"]:
            sensor = int(alarm["key"][1:])
            after = sensor in fleet.faulty and alarm["start"] >= START + PAUSE * fleet.begin
            found.update({sensor} if after else ())
            false += not after

    Replay(job).run(records_of(sample, job.settings.source, "device"), take, lambda tally: None)
    return false, found


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cycle"), [pytest.param(101, 0.0, marks=pytest.mark.long), (102, 2.0)])
def test_the_job_of_a_fleet_with_a_falling_battery_keeps_its_false_alarms_and_finds_faults(tmp_path, printed, seed, cycle):
    made = fleet(seed, sensors=25, rows=3000, faults=8, cycle=cycle)
    sample = made.write(tmp_path / "fleet.jsonl")
    found = printed(sample)
    assert found.source["fields"] == ["temperature", "humidity"]
    daily = " with daily = true" if cycle else ""
    assert found.says(f"watch = {WATCH}{daily} raised", "more rows of warm-up", "false_alarms allows")
    false, faulty = alarms_of(found.file, sample, made)
    assert false <= 2 * 25 * 3000 / STATED, "with the battery it has 437 and 387"
    assert len(faulty) >= 5


@pytest.mark.parametrize(
    ("seed", "cycle", "between", "least"), [(201, 0.0, 50_000, 9), pytest.param(202, 2.0, 10_000, 6, marks=pytest.mark.long)]
)
def test_the_job_of_a_fleet_with_few_rows_a_sensor_finds_its_faults(tmp_path, printed, seed, cycle, between, least):
    """Seeds that chose nothing. The usual job finds none but the stuck sensors: its charts learn nearly all the rows."""
    made = fleet(seed, sensors=100, rows=432, faults=12, cycle=cycle)
    sample = made.write(tmp_path / "fleet.jsonl")
    found = printed(sample)
    assert found.says('watch = "columns" raised', "more rows of warm-up")
    drift = tomllib.loads(found.text)["drift"]
    assert drift["detector"] == {"name": "column_chart", "learn": 108, "smoothing": 0.5, "shares": True}
    assert drift["false_alarms"] == f"1 per {between} rows" and tomllib.loads(found.text)["alarms"]["stuck"] is True
    false, faulty = alarms_of(found.file, sample, made)
    assert false <= 2 * 100 * 432 / between + 3 and len(faulty) >= least


def test_what_can_alarm_is_tried_though_columns_still_learn(tmp_path, printed):
    """Over a slow wave blocks of rows become long, so that the columns of 1,400 rows are not judged yet."""
    noise = np.random.default_rng(2).normal(size=2800)
    slow = columns(2800, slow=lambda i: 3.0 * np.sin(2 * np.pi * (i // 2) / 700) + 0.3 * noise[i])
    found = printed(jsonl(tmp_path / "a.jsonl", slow))
    assert found.says(f"watch = {WATCH} raised", "of 2 keys and 2,136 rows")
    assert tomllib.loads(found.text)["alarms"] == {"stuck": True, "silent": "3000s"}


def test_windows_of_a_sample_that_is_short_for_columns_are_tried_with_more_watches(tmp_path, printed):
    """Columns alone learn from 1,129 windows, with single rows from 532: of 900 windows a fault in the last 150 is found.

    Its charts learn from 300 windows, as they were tried.
    """
    noise = np.random.default_rng(4).normal(size=(9000, 2)) * np.where(np.arange(9000) < 7500, 1.0, 3.0)[:, None]
    made = [{"machine": "m", "ts": 1.7e9 + i / 10, "a": a, "b": b} for i, (a, b) in enumerate(noise.round(3).tolist())]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    drift = tomllib.loads(found.text)["drift"]
    assert drift["watch"] == ["columns", "rows"] and not {"learn", "each", "cycle"} & set(drift)
    assert found.says('watch = ["columns", "rows"] raised 2 alarms in 1 of 1 key')


def test_an_interrupted_trial_leaves_a_job_file_and_names_it(tmp_path, printed, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(drift_trial.trial, "records_to_try", interrupt)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2000)))
    assert found.code == 130 and found.says(f"{found.file} is written, but not tried on all of the sample")
    assert tomllib.loads(found.text)["drift"]["watch"] == json.loads(WATCH)


def test_the_rows_of_a_short_sample_are_counted_too(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", columns(60)))
    assert found.says("[drift] was not tried: the sample has at most 30 rows of a key, and a detector needs 500 or more")


@pytest.mark.parametrize(
    ("loud", "chosen"),
    [
        ("innovations", ["columns", "rows"]),
        ("rows", ["columns", "innovations"]),
        ("columns", ["innovations", "rows"]),
        ("innovations rows", "columns"),
    ],
)
def test_where_a_watch_alarms_too_often_init_tries_without_it(tmp_path, printed, monkeypatch, loud, chosen):
    def tried(job: Any, way: Any, records: list[Any]) -> Tried:
        usual = Counter({name: 20 for name in loud.split() if name in way.drift.watch})
        return Tried(way.drift.watch, 4, 9000, Counter(a=usual.total()), usual, 0.9, Counter())

    monkeypatch.setattr("streamjobs.commands.recordings.drift_trial._tried", tried)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2600)))
    assert found.says(f"watch = {WATCH} raised {20 * len(loud.split())} alarms in 1 of 4 keys")
    assert tomllib.loads(found.text)["drift"]["watch"] == chosen


def test_a_watch_that_judges_hardly_a_row_is_not_chosen_for_its_few_alarms(tmp_path, printed, monkeypatch):
    def tried(job: Any, way: Any, records: list[Any]) -> Tried:
        judged = 200 if way.drift.watch == "columns" else 9000
        return Tried(way.drift.watch, 4, judged, Counter(a=judged // 100), Counter(rows=judged // 150), 0.9, Counter())

    monkeypatch.setattr("streamjobs.commands.recordings.drift_trial._tried", tried)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2600)))
    assert found.says("[drift] alarms too often") and tomllib.loads(found.text)["drift"]["watch"] != "columns"


@pytest.mark.parametrize("alarms", [0, 1])
def test_errors_are_not_watched_for_a_silence_where_all_else_alarms(tmp_path, printed, monkeypatch, alarms):
    def tried(job: Any, way: Any, records: list[Any]) -> Tried:
        raised = alarms if way.drift.watch == "ls_error" else 20
        return Tried(way.drift.watch, 1, 9000, Counter(a=raised), Counter(one=raised), 0.9, Counter())

    monkeypatch.setattr("streamjobs.commands.recordings.drift_trial._tried", tried)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2600, b=lambda i: i * i % 97)))
    assert found.says("[drift] alarms too often") is not bool(alarms)
    assert (tomllib.loads(found.text)["drift"]["watch"] == "ls_error") is bool(alarms)


@pytest.mark.parametrize(("rows", "learn"), [(200, 600), (1400, None), (1600, 600)])
def test_charts_learn_from_600_rows_unless_the_sample_would_be_half_warm_up(tmp_path, printed, monkeypatch, rows, learn):
    tried = lambda job, way, records: Tried(way.drift.watch, 2, 9000, Counter(), Counter(), 0.9, Counter())  # noqa: E731
    monkeypatch.setattr("streamjobs.commands.recordings.drift_trial._tried", tried)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2 * rows)))
    assert tomllib.loads(found.text)["drift"].get("learn") == learn
    when = "before row 729 of a key, 61h"  # of 300 s
    assert when in found.text and found.says(
        f"[drift] learn: {'600 rows' if learn else 'the sample is short: 300 rows'} teach", when
    )
    job = job_of(found.file)
    assert [watch.detector.learn for watch in job.watches[:2]] == [learn or 300] * 2


@pytest.mark.parametrize(("rows", "learn"), [(1400, None), (1600, 600)])
def test_lists_that_take_the_place_of_columns_learn_as_they_were_tried(tmp_path, printed, monkeypatch, rows, learn):
    def tried(job: Any, way: Any, records: list[Any]) -> Tried:
        usual = Counter(columns=20) if way.drift.watch == "columns" else Counter()
        alarms = Counter(a=usual.total())
        return Tried(way.drift.watch, 4, 9000, alarms, usual, 0.9, Counter(), learn=way.drift.learn)

    monkeypatch.setattr("streamjobs.commands.recordings.drift_trial._tried", tried)
    labelled = columns(2 * rows, b=lambda i: i * i % 97, label=lambda i: ["no", "yes"][i // 20 % 2])
    found = printed(jsonl(tmp_path / "a.jsonl", labelled))
    drift = tomllib.loads(found.text)["drift"]
    assert isinstance(drift["watch"], list) and drift.get("learn") == learn and not {"each", "cycle"} & set(drift)
    assert found.says("[drift] learn: 600 rows teach", "before row 729 of a key") is bool(learn)


@pytest.mark.parametrize("timed", [True, False])
def test_of_a_tank_the_slope_is_watched_or_nothing_and_the_fault_beside_it_is_found(tmp_path, printed, timed):
    """Tanks that are used up and refilled, not step by step: no trend over the whole sample, and no fault."""
    random, rows, keys = np.random.default_rng(31), 1400, 8
    level, pressure = random.uniform(1, 8, keys), random.normal(9, 0.15, (rows, keys))
    pressure[1100:, 3] -= 1.2
    sample = []
    for row in range(rows):
        level = np.where(level < 0.5, 8.0, level - 0.04 * random.poisson(0.3, keys))
        for key in range(keys):
            numbers = {"pressure": round(pressure[row, key], 2), "tank": round(level[key] + random.normal(0, 0.02), 2)}
            sample.append({"device": f"d{key}", **({"ts": START + 300 * row} if timed else {}), **numbers})
    found = printed(jsonl(tmp_path / "tanks.jsonl", sample))
    why = "in the alarms of 8 of 8 keys of the sample"
    if not timed:
        assert found.says("columns in them: tank of 8 keys") and found.says(
            f"'tank' is left out of fields: {why}", "put it back"
        )
        assert found.source["fields"] == ["pressure"] and f'#   "tank": {why}' in found.text
    else:
        assert found.source["fields"] == ["pressure", "tank"]
        assert tomllib.loads(found.text)["drift"]["slopes"] == {"tank": "1h"}
    assert tomllib.loads(found.text)["drift"]["watch"] == json.loads(WATCH)
    alarmed = Counter[str]()

    def take(output: Any) -> None:
        alarm = json.loads(output.value) if output.sink == "alarms" else {"open": False}
        alarmed.update([alarm["key"]] if alarm["open"] else [])

    job = job_of(found.file)
    Replay(job).run(records_of(tmp_path / "tanks.jsonl", job.settings.source, "device"), take, lambda tally: None)
    assert alarmed["d3"] and alarmed.total() - alarmed["d3"] <= 2 * rows * keys / STATED


def test_a_level_that_wanders_stays_a_field_if_what_its_forecasts_miss_is_rare(tmp_path, printed):
    """Else neither a step of it nor a sensor that repeats it would raise an alarm."""
    random, rows, keys = np.random.default_rng(861128), 700, 12
    level = 25 + np.cumsum(0.03 * random.normal(size=(rows, keys)), axis=0) + 0.2 * random.normal(size=(rows, keys))
    level[550:, 3] += 9.0
    level[600:, 5] = 21.37
    warm = 12 + 0.3 * random.normal(size=(rows, keys))
    sample = [
        {"probe": f"p{key}", "ts": START + 600 * row, "moist": round(level[row, key], 2), "warm": round(warm[row, key], 2)}
        for row in range(rows)
        for key in range(keys)
    ]
    found = printed(jsonl(tmp_path / "soil.jsonl", sample))
    table = tomllib.loads(found.text)
    assert found.source["fields"] == ["moist", "warm"] and table["drift"]["watch"] == ["innovations", "rows"]
    assert found.says("columns in them: moist of", 'watch = "columns" raised') and not found.says("is left out of fields")
    alarmed = set[tuple[str, str]]()

    def take(output: Any) -> None:
        if output.sink == "alarms":
            alarm = json.loads(output.value)
            alarmed.add((alarm["key"], alarm["watch"]))

    job = job_of(found.file)
    Replay(job).run(records_of(tmp_path / "soil.jsonl", job.settings.source, "probe"), take, lambda tally: None)
    assert {key for key, _ in alarmed} >= {"p3", "p5"} and ("p5", "stuck") in alarmed and len(alarmed) <= 6


def test_rows_count_from_the_first_watch_that_can_alarm(tmp_path, printed):
    """Columns need about 530 rows, innovations 460, and single rows 332: alarms of these are not alarms of the warm-up."""
    found = printed(fleet(7, sensors=3, rows=1000, faults=0).write(tmp_path / "fleet.jsonl"))
    line = next(line for line in found.lines if line.startswith(f"on the sample, watch = {WATCH} raised"))
    keys, rows, warm_up = re.search(r"of (\d+) keys and ([\d,]+) rows \(([\d,]+) more rows", line).groups()
    assert (int(keys), int(rows.replace(",", "")), warm_up) == (3, 3 * (1000 - 332), "996")
    assert 0.05 < float(line.rsplit(" ", 1)[1]) < int(rows.replace(",", "")) / STATED


@pytest.mark.parametrize(
    ("label", "name"), [(lambda a, b: 2 * a - b + 3, "rls"), (lambda a, b: np.sin(2 * a) * np.cos(b), "krls")]
)
def test_a_number_is_predicted_by_the_learner_that_is_best_on_the_sample(tmp_path, printed, label, name):
    """The usual job, okfeb with a head, has an error above twice as large on both."""
    random, made = np.random.default_rng(31), []
    for n in range(900):
        a, b = random.normal(size=2)
        made.append({"device": f"d{n % 2}", "ts": START + 300 * (n // 2), "a": round(a, 4), "b": round(b, 4)})
        made[-1]["target"] = round(float(label(a, b) + 0.1 * random.normal()), 4)
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    (line,) = [line for line in found.lines if line.startswith("rmse in the second half")]
    errors = {one.rsplit(" ", 1)[0]: float(one.rsplit(" ", 1)[1]) for one in line.split(": ")[1].split(";")[0].split(", ")}
    of_all_rows = [one for one in errors if "forgetting" not in one]
    assert min(of_all_rows, key=errors.__getitem__) == name and errors["okfeb+rls"] > 2 * errors[name]
    table = tomllib.loads(found.text)
    assert (table["learner"]["name"], table["learner"]["task"]) == (name, "regression") and "head" not in table
    assert f"# {line}" in found.text and "without a model: last label" in line
    job_of(found.file)


def test_a_relation_that_keeps_changing_is_followed_by_a_learner_that_forgets(tmp_path, printed):
    random, made = np.random.default_rng(34), []
    for n in range(2000):
        a, b = random.normal(size=2).round(4).tolist()
        angle = n / 400
        made.append({"device": "d", "ts": START + 300 * n, "a": a, "b": b})
        made[-1]["target"] = round(float(np.cos(angle) * a + np.sin(angle) * b + 0.1 * random.normal()), 4)
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    learner = tomllib.loads(found.text)["learner"]
    assert (learner["name"], learner["forgetting"]) == ("rls", 0.98)


@pytest.mark.parametrize(("linear", "name"), [(True, "rls"), (False, "krls")])
def test_a_class_is_predicted_by_the_learner_that_is_best_on_the_sample(tmp_path, printed, linear, name):
    random, made = np.random.default_rng(32), []
    for n in range(900):
        a, b = random.normal(size=2).round(4).tolist()
        inside = a - b > 0.4 if linear else a * a + b * b < 1
        made.append({"device": f"d{n % 2}", "ts": START + 300 * (n // 2), "a": a, "b": b, "label": ["no", "yes"][inside]})
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    (line,) = [line for line in found.lines if line.startswith("share of wrong predictions in the second half")]
    errors = {one.rsplit(" ", 1)[0]: float(one.rsplit(" ", 1)[1]) for one in line.split(": ")[1].split(";")[0].split(", ")}
    of_all_rows = [one for one in errors if "forgetting" not in one]
    assert min(of_all_rows, key=errors.__getitem__) == name and errors["okfeb+rls"] > 1.2 * errors[name]
    table = tomllib.loads(found.text)
    assert (table["learner"]["name"], table["learner"]["task"]) == (name, "classification") and "head" not in table
    assert f"# {line}" in found.text
    job_of(found.file)


def test_learners_of_windows_are_tried_with_labels_that_come_late(tmp_path, printed):
    """With labels at once, repeating the last one is nearly always right."""
    random, made = np.random.default_rng(33), []
    for n in range(12_000):
        fast = n // 1500 % 2
        made.append({"ts": START + n / 10, "ax": round(float(np.sin((2 + fast) * n / 5) + 0.3 * random.normal()), 3)})
        made[-1]["activity"] = ["walk", "run"][fast]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    (line,) = [line for line in found.lines if "of labels 20 windows late" in line]
    assert float(line.split("last label ")[1].split(",")[0]) > 0.1 and "no learner is better" not in line
    assert tomllib.loads(found.text)["learner"]["name"] in ("rls", "krls")


def test_the_line_of_drift_has_what_it_would_have_done(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", columns(2800)))
    line = next(line for line in found.lines if line.startswith("on the sample, watch = "))
    assert f"[drift]\n# {line}\nwatch = " in found.text
    assert tomllib.loads(found.text)["drift"] == {"watch": json.loads(WATCH), "false_alarms": f"1 per {STATED} rows"}


def test_columns_are_not_watched_where_a_level_jumps_all_the_time(tmp_path, printed):
    """To levels that it never had; jumps between the same ones, or of 60 rows each, are normal after some alarms."""
    levels = np.cumsum(np.random.default_rng(4).normal(size=80) * 9)
    made = columns(8000, level=lambda i: levels[i // 800] + 0.1 * np.cos(7.0 * i))
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says(f"watch = {WATCH} raised", "columns in them: level of 2 keys")
    assert tomllib.loads(found.text)["drift"]["watch"] == ["innovations", "rows"]


def test_two_machines_that_rest_on_weekends_are_not_compared_with_days_at_work(tmp_path, printed):
    random, days = np.random.default_rng(5), np.arange(11 * 360) / 360
    works = (days % 7 < 5) & (days % 1 > 0.3) & (days % 1 < 0.75)
    power = [np.where(works, 50.0, 20.0) + random.normal(0, 2, len(days)) for _ in range(2)]
    rows = [
        {"device": f"d{key}", "ts": START + 240 * step, "power": round(float(power[key][step]), 2)}
        for step in range(len(days))
        for key in range(2)
    ]
    found = printed(jsonl(tmp_path / "rest.jsonl", rows))
    assert found.says(f"on the sample, watch = {WATCH} with daily = true raised")
    drift = tomllib.loads(found.text)["drift"]
    assert "daily" not in drift and drift.get("cycle") == (360 if "innovations" in drift["watch"] else None)


def test_a_machine_that_rests_on_weekends_has_its_kinds_of_days(tmp_path, printed):
    random, days = np.random.default_rng(6), np.arange(35 * 96) / 96
    works = (days % 7 < 5) & (days % 1 > 0.3) & (days % 1 < 0.75)
    power = np.where(works, 5.0, 0.3) + np.where(works, 0.3, 0.03) * random.normal(size=len(days))
    monday = 1_699_833_600
    rows = [{"ts": monday + 900 * step, "power": round(float(one), 3)} for step, one in enumerate(power)]
    found = printed(jsonl(tmp_path / "rest.jsonl", rows))
    assert found.says("a weekly rhythm: from Monday on, days with the same letter of 'aaaaabb' are alike")
    assert found.says(f'on the sample, watch = {WATCH} with daily = true and week = "aaaaabb" raised')
    drift = tomllib.loads(found.text)["drift"]
    assert (drift["daily"], drift["week"]) == (True, "aaaaabb")
    assert '\n# season = "7d"  # a weekly rhythm' in found.text


def test_machines_with_faults_keep_the_columns_that_show_them(tmp_path, printed):
    """And are not watched by what is still learning, because it is silent meanwhile."""
    random, rows = np.random.default_rng(3), 1500
    drift = np.cumsum(random.normal(0, 0.05, (10, rows, 3)), axis=1)
    values = drift * [1, 0.1, 0.02] + random.normal(size=(10, rows, 3)) * [0.8, 0.2, 0.1]
    for machine in range(10):
        for begin in random.integers(200, rows - 60, 3):
            values[machine, begin : begin + 20] += np.array([4, 0.3, 1.2]) * random.uniform(0.8, 1.3)
    lines = [
        {
            "pump": f"p{machine}",
            "ts": START + 300 * row,
            **dict(zip("abc", values[machine, row].round(3).tolist(), strict=True)),
        }
        for row in range(rows)
        for machine in range(10)
    ]
    found = printed(jsonl(tmp_path / "pumps.jsonl", lines))
    assert found.source["fields"] == ["a", "b", "c"] and found.says(" in fields: without ")
    assert tomllib.loads(found.text)["drift"]["watch"] != "columns"


@pytest.mark.parametrize(("keys", "pause", "between"), [(1, 300, 3_000), (1, 150, 5_760), (1, 1, 10_000), (2, 300, 10_000)])
def test_one_slow_machine_may_alarm_more_often_than_each_of_many(tmp_path, printed, keys, pause, between):
    made = [{**row, "device": f"d{n % keys}", "ts": START + n * pause} for n, row in enumerate(columns(1200 * keys))]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert tomllib.loads(found.text)["drift"]["false_alarms"] == f"1 per {between} rows"
    assert ("; with many keys, state fewer" in found.text) == (between < 10_000)


@pytest.mark.parametrize(
    ("faults", "watch"),
    [(range(0), ["innovations", "rows"]), (range(900, 1000), json.loads(WATCH))],
    ids=["trend", "faults"],
)
def test_faults_of_one_machine_drop_no_watch_and_a_level_that_keeps_rising_does(tmp_path, printed, faults, watch):
    random = np.random.default_rng(12)
    x = random.normal(size=4000) + (0 if faults else 0.003 * np.arange(4000))  # a day of it is less than its noise: no slope
    for begin in (1300, 2700) if faults else ():
        x[begin : begin + 60] += 12.0
    made = [{"device": "d", "ts": START + 300 * n, "a": round(value, 3)} for n, value in enumerate(x.tolist())]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert tomllib.loads(found.text)["drift"]["watch"] == watch, found.lines
    assert found.says("most are close together, as those of faults are") == bool(faults)
    told = [line for line in found.lines if "expect up to 1 alarm in" in line]
    assert len(told) == bool(faults) and all(f"# {line}\n" in found.text for line in told)
    if faults:  # with the number of the line before
        raised, rows = (int(one.replace(",", "")) for one in re.findall(r"([\d,]+) (?:alarms|rows) ", found.text)[:2])
        assert f"1 alarm in {rows / raised:,.0f} rows of a key, not 1 in 3,000, as false_alarms states" in told[0]


def test_one_machine_with_few_rows_has_the_watches_of_one_with_many(tmp_path, printed):
    """Few rows of each of many keys need other watches, by which 21 of 66 faults of such series were found; now 39."""
    made = [{"ts": START + 300 * n, "a": row["a"]} for n, row in enumerate(columns(605))]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says(f"watch = {WATCH} raised", "of 1 key and 273 rows (332 more rows of warm-up)")
    drift = tomllib.loads(found.text)["drift"]
    assert drift == {"watch": json.loads(WATCH), "false_alarms": "1 per 3000 rows"}


def test_a_machine_that_idles_at_night_is_compared_with_the_same_time_of_earlier_days(tmp_path, printed):
    """Of a row every five minutes, 300 rows are about a day: the fault is small next to the difference of day and night."""
    random = np.random.default_rng(2)
    runs = [7 <= step % 288 / 12 < 17 for step in range(8 * 288)]
    power = np.where(runs, 8.0, 0.4) + np.where(runs, 0.3, 0.02) * random.normal(size=len(runs))
    power[6 * 288 + 120 : 6 * 288 + 160] += 2.5
    rows = [{"ts": START + 300 * step, "power": round(value, 3)} for step, value in enumerate(power.tolist())]
    found = printed(jsonl(tmp_path / "press.jsonl", rows))
    assert found.says(f"on the sample, watch = {WATCH} with daily = true raised")
    drift = tomllib.loads(found.text)["drift"]
    assert (drift["watch"], drift["daily"]) == (json.loads(WATCH), True)
    starts = []

    def take(output: Any) -> None:
        if output.sink == "alarms" and (alarm := json.loads(output.value))["open"] and alarm["watch"] in drift["watch"]:
            starts.append((alarm["start"] - START) / 300)

    job = job_of(found.file)
    Replay(job).run(
        records_of(tmp_path / "press.jsonl", job.settings.source, None, how=How(key_is="p")), take, lambda tally: None
    )
    during = [at for at in starts if 6 * 288 + 120 <= at < 6 * 288 + 160]
    assert during and len(starts) - len(during) <= 1, "false_alarms allows 1 in 3000 rows"


def test_rows_of_an_idle_sensor_are_neither_watched_nor_warm_up(tmp_path, printed):
    noise = np.random.default_rng(8).normal(5, 1, 1500).round(3).tolist()
    rows = [{"ts": START + PAUSE * i, "power": 0.0 if i % 200 < 100 else noise[i]} for i in range(1500)]
    found = printed(jsonl(tmp_path / "solar.jsonl", rows))
    line = next(line for line in found.lines if "of idle sensors" in line)
    watched, warm_up, idle = (
        int(re.search(pattern, line)[1].replace(",", ""))
        for pattern in (r"([\d,]+) rows \(", r"\(([\d,]+) more rows of warm-up", r"and ([\d,]+) more rows of idle")
    )
    assert watched + warm_up + idle == 1500 and 600 < idle < 800 and warm_up > 300

"""What `init` makes of columns: fields, meters, angles and daily cycles; and what it leaves out, with the reason."""

import math
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from streamjobs.job_files import job_of, load_job
from streamjobs.recordings.guess import guess
from streamjobs.recordings.guess.courses import is_daily, week_of
from streamjobs.recordings.profile import profiled
from tests.commands.jobs import jsonl
from tests.recordings.fleet import START, fleet
from tests.recordings.init_told import as_csv, columns, random, table


def test_a_battery_that_is_recharged_is_watched_by_its_slope(tmp_path, printed):
    spent = np.cumsum(np.random.default_rng(9).exponential(0.12, 2000))
    rows = [{"ts": START + 60 * n, "battery": int(100 - one % 90), "a": n * n % 97} for n, one in enumerate(spent.tolist())]
    found = printed(jsonl(tmp_path / "tracker.jsonl", rows))
    assert found.source["fields"] == ["battery", "a"]
    assert found.says("'battery': a level that falls or rises all the time, but for jumps; [drift] watches how fast")
    assert load_job(found.file).drift.slopes == {"battery": 3600.0}


def test_levels_of_runs_that_follow_one_another_have_no_slopes_because_these_have_a_reference(tmp_path):
    rows = [
        {"device": f"d{key}", "ts": START + 60 * (5000 * key + n), "level": 99 - n / 20 - math.sin(n / 40), "a": n * n % 97}
        for key in range(5)
        for n in range(620)
    ]
    for runs, left_out in ((1, True), (0, False)):
        for one in rows:
            one["ts"] -= 60 * 5000 * int(one["device"][1:]) * (1 - runs)
        sample = jsonl(tmp_path / f"{runs}.jsonl", rows)
        guessed, found = profiled(sample, guess(sample))
        assert ("level" in guessed.left_out, guessed.slopes) == (left_out, {} if runs else {"level": "1h"}), runs
        assert "level" not in found.lacking


@pytest.mark.parametrize("varies", [True, False])
def test_a_counter_that_starts_over_is_read_as_one_unless_it_is_a_clock(tmp_path, printed, varies):
    rng = np.random.default_rng(4)
    counted = np.cumsum(rng.integers(20, 60, (2000, 3)) if varies else np.full((2000, 3), 40), axis=0)
    rows = [
        {"port": f"eth{key}", "ts": START + 10 * row, "octets": int(counted[row, key] % 30_000), "load": float(rng.normal())}
        for row in range(2000)
        for key in range(3)
    ]
    found = printed(jsonl(tmp_path / "ports.jsonl", rows))
    if varies:
        assert (found.source["fields"], found.source["counters"]) == (["octets", "load"], ["octets"])
        assert found.says("'octets': readings that only rise, or start over; counters gives x what they rose by, a second")
        return
    assert found.source["fields"] == ["load"] and "counters" not in found.source
    assert found.says("octets: rises and starts over all through the sample, which drift detection would report")


def test_wind_is_an_angle_and_numbers_with_its_range_are_not(tmp_path, printed):
    """360 is the range of a pump's load, a dial's switch and a counter; radians are recognised without a name."""
    rng, rows = np.random.default_rng(7), 1500
    north = 20 * lfilter([0.3], [1.0, -0.95], rng.normal(size=(rows, 3)), axis=0) + 5 * rng.normal(size=(rows, 3))
    columns = {
        "wind": np.round(north % 360),
        "phi": (np.cumsum(rng.normal(0, 0.3, (rows, 3)), axis=0) + np.pi) % (2 * np.pi) - np.pi,
        "load": 360 / (1 + np.exp(-lfilter([0.6], [1.0, -0.9], rng.normal(size=(rows, 3)), axis=0))),
        "dial": np.where(np.arange(rows)[:, None] // 40 % 2, 352.0, 8.0) + rng.uniform(-2, 2, (rows, 3)),
        "pulses": np.cumsum(rng.integers(0, 20, (rows, 3)), axis=0) % 360,
    }
    sample = jsonl(
        tmp_path / "wind.jsonl",
        [
            {"mast": f"m{key}", "ts": START + 60 * row, **{name: float(of[row, key]) for name, of in columns.items()}}
            for row in range(rows)
            for key in range(3)
        ],
    )
    guessed = guess(sample)
    for rate, angles in ((1 / 60, ["wind", "phi"]), (50.0, [])):
        assert list(profiled(sample, guessed._replace(label="load", rate=rate))[0].angles) == angles
    found = printed(sample)
    assert found.source["angles"] == {"wind": 360.0, "phi": pytest.approx(2 * np.pi)}
    assert found.says("'wind', 'phi': an angle that wraps around; angles gives x its cosine and sine")


def test_short_lists_are_fields_and_the_only_meter_is_the_first_candidate(tmp_path, printed):
    rng = np.random.default_rng(6)
    rows: list[dict[str, Any]] = []
    for row in range(2000):
        phases = {"u": (230 + rng.normal(size=3)).tolist(), "i": (9 + rng.normal(size=3)).tolist()}
        rows.append({"meter": "m7", "ts": START + row, **phases, "type": "fast"})
        if row % 900 == 0:
            rows.append({"meter": "m7", "ts": START + row, "kwh": 1000 + row, "type": "quarter"})
    found = printed(jsonl(tmp_path / "phases.jsonl", rows))
    assert found.source["fields"] == [f"{name}[{n}]" for name in "ui" for n in range(3)]
    assert found.says("3 of 2,000 rows lack a number in 'u[0]', 'u[1]'") and found.source["missing"] == "skip"
    assert found.out.endswith("phases.jsonl --key meter\n") and found.says("on the sample, watch = ", "of 1 key")


def test_a_list_is_tried_too_and_rows_without_it_are_named(tmp_path, printed):
    rng = np.random.default_rng(5)
    rows = [{"key": f"k{row % 2}", "ts": START + row // 2, "x": rng.normal(size=3).tolist()} for row in range(4000)]
    rows[7].pop("x")
    found = printed(jsonl(tmp_path / "lists.jsonl", rows))
    assert found.source["x"] == "x" and found.says("1 of 2,000 rows lack the list 'x'; they would be dead letters")
    assert found.says("on the sample, watch = ", "of 2 keys")


def test_a_battery_that_falls_is_left_out_with_the_reason(tmp_path, printed):
    found = printed(fleet(5, sensors=6, rows=280, faults=1).write(tmp_path / "fleet.jsonl"))
    assert found.source["fields"] == ["temperature", "humidity"]
    why = "battery: falls all through the sample, which drift detection would report again and again"
    assert found.says(f"left out of x: {why}") and f'#   "battery": {why[9:]}' in found.text
    assert found.says("[drift] was not tried: the sample has at most 280 rows of a key")


def test_a_long_sample_is_counted_while_it_is_read(tmp_path, printed, monkeypatch):
    monkeypatch.setattr("streamjobs.commands.console.PROGRESS_EVERY", 0.0)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(600)))
    assert found.says("600 rows of the sample read ...") and found.says("of 600 records tried ...")


@pytest.mark.parametrize("gap", [False, True])
def test_columns_that_stand_still_are_left_out_and_some_that_follow_another_stay(tmp_path, printed, gap):
    made = columns(600, floor=lambda i: i % 2)
    for row in made:
        row["fahrenheit"] = round(32 + 1.8 * row["a"], 4)
    made[7]["fahrenheit"] = None if gap else made[7]["fahrenheit"]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says("left out of x: floor: never changes in the sample")
    if gap:
        assert found.source["fields"] == ["a"]
        assert found.says("left out of x: fahrenheit: follows 'a'") and "\"fahrenheit\": follows 'a'" in found.text
    else:
        assert found.source["fields"] == ["a", "fahrenheit"]
        assert found.says("'fahrenheit': in step with another field; an alarm comes when that ends")


def test_a_line_of_totals_changes_nothing(tmp_path, printed):
    made = table(600, ts=lambda i: str(datetime.fromtimestamp(START + i, UTC)), a=random, b=lambda i: random(i + 900))
    totals = {"ts": "Total"} | {name: sum(row[name] for row in made) * 1e4 for name in "ab"}
    found = printed(as_csv(tmp_path / "a.csv", [*made, totals]))
    assert found.source["fields"] == ["a", "b"] and not found.says("in step")


def test_a_daily_cycle_is_named_and_its_column_kept(tmp_path, printed):
    wave = np.sin(2 * np.pi * 300 * np.arange(1500) / 86_400)
    found = printed(jsonl(tmp_path / "a.jsonl", columns(3000, warm=lambda i: wave[i // 2] + 0.1 * np.cos(7.0 * i))))
    sentence = "'warm': a daily cycle, which drift detection learns in some days"
    assert found.source["fields"] == ["a", "warm"] and found.says(sentence) and f"# {sentence}" in found.text


def test_one_step_of_level_in_two_days_is_no_daily_cycle(tmp_path, printed):
    level = columns(1200, level=lambda i: 40.0 + 15.0 * (i > 250) + 0.5 * np.cos(7.0 * i))
    assert not printed(jsonl(tmp_path / "a.jsonl", level)).says("a daily cycle")


def test_a_battery_that_falls_for_a_month_has_no_daily_cycle():
    days, noise = np.arange(0, 90, 1 / 48), np.random.default_rng(7).normal(size=90 * 48)
    battery, swings = 100 - 2.8 * (days % 30), 3 * np.sin(2 * np.pi * days)
    found = [is_daily(START + 86_400 * days, one + 0.2 * noise) for one in (battery, battery + swings, swings)]
    assert found == [False, True, True]


def test_days_of_the_week_are_told_apart_where_they_differ_and_only_there():
    """Seeds that chose nothing."""
    hours, found, none, offices = np.arange(4 * 7 * 24), [], [], []
    day, hour = hours // 24 % 7, hours % 24
    monday = 3600.0 * hours + 1_699_833_600
    for seed in range(50):
        random = np.random.default_rng(seed)
        noise, wave = random.normal(size=len(hours)), 5 * np.sin(2 * np.pi * hour / 24)
        works = (day < 5) & (hour >= 7) & (hour < np.where(day == 4, 12, 17))
        found += [week_of(monday[:rows], (20.0 * works + noise)[:rows]) for rows in (504, len(hours))]  # three weeks, four
        none += [week_of(monday, x) for x in (wave + noise, np.cumsum(noise), 10.0 * (hours > 400) + noise)]
        none.append(week_of(monday[: 20 * 24], 20.0 * works[: 20 * 24]))
        runs = np.isin((hours // 24 + seed) % 8, range(5)) & (hour >= 7)  # in turns of eight days
        none.append(week_of(monday[:504], (20.0 * runs + noise)[:504]))
        of_day = np.repeat(random.normal(100, 20, 28), 24)  # an office, which is fuller on some days
        offices.append(week_of(monday, np.where(works & (day < 5), of_day, 0.0) + 8 * noise))
    assert found.count("aaaabcc") >= 90 and not any(none) and offices.count("aaaaabb") >= 40


def test_hours_that_a_day_of_the_week_has_once_are_not_compared():
    hours = np.arange(3 * 7 * 24)
    kept = (hours >= 10) & ~((hours >= 14 * 24) & (hours < 16 * 24))  # begins at ten on a Monday, and is off for two days
    works, noise = (hours // 24 % 7 < 5) & (hours % 24 >= 7), np.random.default_rng(3).normal(size=len(hours))
    assert week_of((3600.0 * hours + 1_699_833_600)[kept], (20.0 * works + noise)[kept]) == "aaaaabb"


def test_random_walks_of_three_days_are_hardly_ever_called_daily_and_noisy_days_are():
    """Seeds that chose nothing. Without a look at the periods around a day, 81 of the 600 walks were daily cycles."""
    rows = np.arange(432)
    found = np.zeros(3, int)
    for seed in (21, 22, 23):
        random = np.random.default_rng(seed)
        walks = random.normal(size=(200, 432)).cumsum(axis=1)
        days = np.sin(2 * np.pi * (rows / 144 + random.random((200, 1)))) + random.normal(size=(200, 432))
        counts = random.poisson(np.exp(1 + 0.8 * np.sin(2 * np.pi * (rows / 144 + random.random((200, 1))))))
        found += [sum(is_daily(START + 600.0 * rows, one) for one in kind) for kind in (walks, days, counts.astype(float))]
    assert found[0] <= 24 and found[1] >= 520 and found[2] >= 580, found


@pytest.mark.parametrize(
    ("keys", "fields", "on"), [(1, 2, True), (8, 2, True), (9, 2, False), (1, 17, False), (24, 1, False)]
)
def test_rows_of_numbers_without_labels_have_forecasts_which_are_on_if_they_are_few(tmp_path, printed, keys, fields, on):
    drawn, of_key = np.random.default_rng(1), 600 if keys < 9 else 100
    visits, others = drawn.poisson(0.5, (of_key, keys)).tolist(), drawn.normal(size=(of_key, keys, fields)).tolist()
    made = [
        {"device": f"d{key}", "ts": START + 300 * n, "visits": visits[n][key]}
        | {f"f{field}": others[n][key][field] for field in range(1, fields)}
        for n in range(of_key)
        for key in range(keys)
    ]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert (load_job(found.file).forecast is not None) == on
    turned_on = re.sub(r"^# (?=\[forecast\]|ahead|every|not_negative)", "", found.text, flags=re.MULTILINE)
    (tmp_path / "on.toml").write_text(turned_on)
    forecast = load_job(tmp_path / "on.toml", env={}).forecast
    assert (forecast.ahead, forecast.every, forecast.not_negative) == ([1, 12], 300.0, ["visits"])


def test_rows_with_labels_have_no_forecast(tmp_path, printed):
    labelled = printed(jsonl(tmp_path / "b.jsonl", columns(600, label=lambda i: "ab"[i % 2])))
    assert "[forecast]" not in labelled.text


def test_fields_that_predict_a_label_stay_and_are_named(tmp_path, printed):
    made = columns(600, worn=lambda i: 0.01 * i + i % 7, label=lambda i: "ab"[i % 3 > 0])
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.source["fields"] == ["a", "worn"] and found.says("'worn' rises all through the sample")


def test_a_column_without_noise_that_rises_and_falls_again_is_kept(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", columns(600, level=lambda i: abs(i - 300) / 300)))
    assert found.source["fields"] == ["a", "level"]


@pytest.mark.parametrize(("pause", "length"), [(300, "100m"), (1, "20s"), (7200, "40h")])
def test_the_window_in_the_comments_fits_the_pause_between_rows(tmp_path, printed, pause, length):
    made = [{**row, "ts": START + pause * (n // 2)} for n, row in enumerate(columns(80))]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert f'# length = "{length}"' in found.text
    found.file.write_text(re.sub(r"(?m)^# (\[window\]|length|hop|rate)", r"\1", found.text))
    window = job_of(found.file).settings.window
    assert window.length * window.rate == pytest.approx(20, rel=0.1)


def test_thousands_of_columns_are_compared_at_once(tmp_path, printed, monkeypatch):
    """Two by two, 2,000 columns took minutes."""
    monkeypatch.setattr("streamjobs.recordings.guess.courses._is_same", None)
    X = np.random.default_rng(5).normal(size=(120, 40)).round(3)
    X[:, 30] = 2 * X[:, 7] + 1
    found = printed(as_csv(tmp_path / "a.csv", [{f"s{n}": x for n, x in enumerate(row)} for row in X.tolist()]))
    assert found.says("'s30': in step with another field") and len(found.source["fields"]) == 40

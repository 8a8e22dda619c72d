"""`init --sample` of files of many devices, without a column that is named as a key is."""

import pytest

from tests.commands.jobs import START
from tests.recordings.init_told import as_csv, random, table

N = 120


def test_texts_that_take_turns_are_the_key_and_the_rate_is_theirs(tmp_path, printed):
    made = table(N, bike=lambda i: f"B{i % 6}", ts=lambda i: START + 5 * i, ax=random, firmware=lambda i: f"v{i % 6 % 2}")
    found = printed(as_csv(tmp_path / "bikes.csv", made))
    assert found.says("guessed from 120 rows", "key bike", "0.033 Hz") and not found.says("choose: key")
    assert found.says("choose: label", "'firmware'") and not found.says("choose: label", "'bike'")
    assert 'column "bike" (rows of its 6 different texts take turns, as those of devices do)' in found.text
    assert found.out.endswith("--key bike\n")


def test_texts_with_the_rows_of_each_device_together_are_the_key(tmp_path, printed):
    made = table(N, Anlage=lambda i: f"m{i // 30}", ts=lambda i: START + 5 * (i % 30), ax=random)
    assert printed(as_csv(tmp_path / "a.csv", made)).says("key Anlage", "0.2 Hz")


def test_a_text_that_lasts_is_no_key(tmp_path, printed):
    found = printed(
        as_csv(tmp_path / "a.csv", table(N, mode=lambda i: "ab"[i // 60], ts=lambda i: START + 5 * i, ax=random))
    )
    assert found.says("choose: key", "'mode'; or --key-is NAME")


def test_texts_of_which_neither_follows_the_other_are_left_to_the_user(tmp_path, printed):
    made = table(N, a=lambda i: f"a{i % 4}", b=lambda i: f"b{i % 3}", ts=lambda i: START + i, ax=random)
    assert printed(as_csv(tmp_path / "a.csv", made)).says("choose: key", "candidates: 'a', 'b'")


@pytest.mark.parametrize("name", ["wind_ms", "latency_ms", "lap_ns"])
def test_a_speed_or_a_duration_is_a_signal(tmp_path, printed, name):
    found = printed(as_csv(tmp_path / "a.csv", table(N, ts=lambda i: START + i, **{name: random})))
    assert found.source["fields"] == [name] and found.source["time"] == "ts"


def test_a_date_and_a_time_of_day_in_two_columns_are_not_read_as_midnight(tmp_path, printed):
    clock = {"Uhrzeit": lambda i: f"02:{i // 60:02}:{i % 60:02}"}
    found = printed(as_csv(tmp_path / "a.csv", table(N, Datum="24.10.2025", **clock, Druck=random), ";"))
    assert "time" not in found.source
    assert found.says("choose: time: 'Datum' has the date and 'Uhrzeit' the time of day")


def test_a_column_that_changes_after_the_first_rows_is_not_said_to_stand_still(tmp_path, printed):
    made = table(2600, ts=lambda i: START + i, door=lambda i: int(i > 2300), still=3, ax=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert not found.says("'door'", "never changes") and "door" in found.source["fields"]
    assert found.says("left out of x: still: never changes in the sample")


def test_keys_with_other_rates_than_the_window_are_named(tmp_path, printed):
    made = sorted(
        table(600, device="pump", ts=lambda i: START + i / 10, ax=random)
        + table(60, device="bath", ts=lambda i: START + i + 0.03, ax=random),
        key=lambda row: row["ts"],
    )
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("'pump' a sample every 0.1 s, 'bath' every 1 s; a [window] has one rate")


def test_without_a_zone_it_says_why_nothing_was_tried(tmp_path, printed):
    made = table(N, ts=lambda i: f"2026-01-01 00:{i // 60:02}:{i % 60:02}", ax=random)
    assert printed(as_csv(tmp_path / "a.csv", made)).says(
        "[drift] was not tried: the times have no zone; init with --time-zone"
    )

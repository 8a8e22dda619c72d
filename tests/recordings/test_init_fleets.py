"""`init --sample` of files of many devices, without a column that is named as a key is."""

import json
import re
import shlex
from datetime import UTC, datetime

import numpy as np
import pytest

from streamjobs.commands.recordings.topic_sample import TopicSample
from streamjobs.core.messages import Stored
from streamjobs.job_files import read_table
from streamjobs.recordings.files import records_of, rows_of
from streamjobs.recordings.guess import guess_rows
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import START, command, jsonl
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


def test_numbers_with_the_name_of_an_id_that_take_turns_are_the_key(tmp_path, printed):
    made = table(N, pump_id=lambda i: i % 3, ts=lambda i: START + 5 * (i // 3), bar=random, state=lambda i: "ab"[i % 7 % 2])
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("key pump_id", "0.2 Hz") and found.source["fields"] == ["bar"]


def test_numbers_of_the_trips_of_one_device_are_not_the_key(tmp_path, printed):
    made = table(N, trip_id=lambda i: i // 40, ts=lambda i: START + 5 * i, bar=random)
    assert printed(as_csv(tmp_path / "b.csv", made)).out.endswith("--key-is b\n")


@pytest.mark.parametrize("shared", [True, False])
def test_whole_numbers_are_the_key_where_their_rows_share_times(tmp_path, printed, shared):
    times = {"ts": lambda i: START + 60 * (i // 4 if shared else i)}
    made = table(N, casa=lambda i: 10 + i % 4, **times, people=lambda i: i * i % 7, kW=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("key casa", "0.017 Hz") == shared
    assert found.source["fields"] == ["people", "kW"] if shared else ["casa", "people", "kW"]


@pytest.mark.parametrize("name", ["device", "geraet"])
def test_more_keys_than_init_looks_at_rows_are_keys(tmp_path, printed, name):
    made = table(9000, **{name: lambda i: f"d{i % 3000:04}"}, ts=lambda i: START + 600 * (i // 3000), volt=lambda i: i % 13)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("guessed from 60 rows", f"key {name}", "0.0017 Hz") and not found.says("choose: key")
    assert found.says("few of the keys in the first 2,000 rows repeat there; the rows of 20 keys were looked at")


def test_a_text_that_lasts_is_no_key(tmp_path, printed):
    found = printed(
        as_csv(tmp_path / "a.csv", table(N, mode=lambda i: "ab"[i // 60], ts=lambda i: START + 5 * i, ax=random))
    )
    assert found.says("choose: key", "'mode' changes while rows come at their usual pause, as the state of one device")
    assert found.out.endswith("--key-is a\n") and found.says("choose: label", "candidates: 'mode'")


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_topic_without_keys_gets_the_field_with_an_id_for_each_device(tmp_path, monkeypatch, partitions):
    made = [
        {"unit": {"serial": f"SN-{n % 24}", "firmware": "2.4"}, "ts": START + 5 * (n // 24), "temp": random(n)}
        for n in range(N)
    ]
    records = [
        Stored("units", n % partitions, n, 1000 * row["ts"], None, json.dumps(row).encode()) for n, row in enumerate(made)
    ]
    sample = TopicSample(made, "json", records, 0, partitions)
    monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.sample_of", lambda *asked: sample)
    assert command("init", tmp_path / "job.toml", "--from-topic", "units", "--yes") == 0
    source = read_table(tmp_path / "job.toml")["source"]
    assert (source["key"], source.get("rekeyed", False)) == ("unit.serial", partitions > 1)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(re.sub(r"^# (\[alarms\]|stuck|silent)", r"\1", text, flags=re.MULTILINE))
    assert read_table(tmp_path / "job.toml")["alarms"] == {"stuck": True, "silent": "50s"}
    assert command("check", tmp_path / "job.toml") == 0


def test_of_texts_that_take_turns_the_one_with_steady_pauses_is_the_key(tmp_path, printed):
    grades = np.random.default_rng(3).integers(0, 4, N)
    made = table(
        N, kvalitet=lambda i: "ABCD"[grades[i]], ovn=lambda i: f"O{i % 3}", ts=lambda i: START + 100 * i, grader=random
    )
    assert printed(as_csv(tmp_path / "a.csv", made)).says("key ovn", "0.0033 Hz")


def test_texts_of_which_neither_follows_the_other_are_left_to_the_user(tmp_path, printed):
    made = table(N, a=lambda i: f"a{i % 4}", b=lambda i: f"b{i % 3}", ts=lambda i: START + i, ax=random)
    assert printed(as_csv(tmp_path / "a.csv", made)).says("choose: key", "candidates: 'a', 'b'")


def test_a_time_is_known_by_its_values_although_keys_and_partitions_take_turns() -> None:
    rows = [
        {"unit": f"u{i % 6}", "seen_on": 1_790_000_000_000 + 20_000 * (i // 6) + i * 7919 % 600, "amp": random(i)}
        for i in range(240)
    ]
    by_partition = [row for part in range(3) for row in rows[part::3]]
    for read in (rows, by_partition):
        found = guess_rows(read, "topic")
        assert (found.time, found.time_unit, found.key, found.fields) == ("seen_on", "ms", "unit", ["amp"])
    signal = [row | {"seen_on": 1_790_000_000_000 + 1e6 * row["amp"]} for row in rows]
    assert guess_rows(signal, "topic").time is None


def test_a_column_called_t_that_does_not_count_is_a_signal() -> None:
    rows = [{"house": i % 6, "t": 20 + random(i), "ts": START + i} for i in range(240)]
    found = guess_rows(rows, "topic")
    assert (found.time, found.fields) == ("ts", ["t"])
    assert guess_rows([{"house": "ab"[i % 2], "t": 20 + random(i)} for i in range(240)], "topic").fields == ["t"]
    clocks = [{"house": i % 6, "t": 50 * (i % 6) + i // 6, "watt": random(i)} for i in range(240)]  # each has its own
    assert (guess_rows(clocks, "topic").fields, guess_rows(clocks, "topic").start_time) == (["watt"], "t")


@pytest.mark.parametrize("name", ["wind_ms", "latency_ms", "lap_ns"])
def test_a_speed_or_a_duration_is_a_signal(tmp_path, printed, name):
    found = printed(as_csv(tmp_path / "a.csv", table(N, ts=lambda i: START + i, **{name: random})))
    assert found.source["fields"] == [name] and found.source["time"] == "ts"


@pytest.mark.parametrize(
    ("date", "clock", "form"),
    [
        (lambda i: f"{24 + i // 90}.10.2025", lambda i: f"{2 + i % 9:02}:{i % 60:02}", "%d.%m.%Y %H:%M"),
        (lambda i: f"10/{24 + i // 90}/25", lambda i: f"2:{i % 60:02}:07 PM", "%m/%d/%y %I:%M:%S %p"),
        (lambda i: f"2025-10-{24 + i // 90}", lambda i: f"02:{i % 60:02}:{i % 60:02}", None),
    ],
)
@pytest.mark.parametrize("names", [("Jour", "Heure"), ("Date", "Time")])
def test_a_date_and_a_time_of_day_in_neighbouring_columns_are_one_time(tmp_path, printed, date, clock, form, names, capsys):
    made = table(N, **{names[0]: date, names[1]: clock}, Poste=lambda i: f"presse {i % 3}", bar=random)
    sample = as_csv(tmp_path / "a.csv", made, ";")
    found = printed(sample)
    both = " ".join(names)
    assert (found.source["time"], found.source.get("time_format")) == (both, form)
    assert found.says("choose: time_zone") and found.says(f"a column '{both}' joins each row's date and time of day")
    assert found.says(f"left out of x: {names[1]}: a part of the time '{both}'")
    assert "'presse" not in found.out and "replay" in found.out and "--key Poste" in found.out
    found.file.write_text(found.text.replace('# time_zone = "UTC"', 'time_zone = "UTC"'))
    assert command("check", found.file, "--sample", sample, "--key", "Poste") == 0
    assert "no mistakes" in capsys.readouterr().out
    source = SourceSection(**read_table(found.file)["source"])
    first = next(iter(records_of(sample, source, "Poste"))).timestamp
    text = f"{date(0)} {clock(0)}"
    at = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
    assert first == at.replace(tzinfo=UTC).timestamp() * 1000


def test_a_mistyped_date_of_hundreds_keeps_dates_and_times_of_day_together(tmp_path, printed):
    dates = ["24,10.2025" if i == 200 else f"{24 + i // 150}.10.2025" for i in range(400)]
    made = table(400, Datum=dates.__getitem__, Uhrzeit=lambda i: f"{i % 24:02}:{i % 60:02}", bar=random)
    found = printed(as_csv(tmp_path / "a.csv", made, ";"))
    assert found.source["time"] == "Datum Uhrzeit" and found.says("joins each row's date and time of day")
    made = [row | {"Datum": row["Datum"] if i % 20 else "unbekannt"} for i, row in enumerate(made)]
    found = printed(as_csv(tmp_path / "b.csv", made, ";"))
    assert not found.says("joins each row's date")


def test_the_name_of_the_only_device_may_begin_with_a_minus(tmp_path, printed):
    sample = as_csv(tmp_path / "-door.csv", table(N, ts=lambda i: START + i, ax=random))
    found = printed(sample)
    assert found.out.endswith("--key-is -door\n") and found.says("choose: key", "produce and replay take --key-from or")
    assert command("replay", found.file, "--input", sample, "--key-is", "-door", "--output-dir", tmp_path / "out") == 0


def read_rows(folder, text):
    (folder / "a.csv").write_text(text)
    return list(rows_of(folder / "a.csv"))


def test_a_row_without_a_time_of_day_has_no_time(tmp_path):
    rows = read_rows(tmp_path, "d;c;x\n24.10.2025;02:00;1\n24.10.2025;;2\n;02:00;3\n24.10.2025;2:05;4\n")
    assert [row["d c"] for row in rows] == ["24.10.2025 02:00", None, None, "24.10.2025 2:05"]
    assert [row["d"] for row in rows] == ["24.10.2025", "24.10.2025", None, "24.10.2025"], "the columns stay as they are"


@pytest.mark.parametrize(
    "text", ["d;x;c\n24.10.2025;1;02:00\n", "d;c;x;d c\n24.10.2025;02:00;1;5\n", "d;c;x\n24.10.2025;x;1\n"]
)
def test_columns_that_are_not_neighbours_or_that_are_joined_already_stay_as_they_are(tmp_path, text):
    (row,) = read_rows(tmp_path, text)
    assert list(row) == text.split("\n", maxsplit=1)[0].split(";") and row["d"] == "24.10.2025"


def test_a_date_and_a_time_of_day_in_two_fields_of_json_are_not_read_as_midnight(tmp_path, printed):
    made = table(N, Datum="24.10.2025", Uhrzeit=lambda i: f"02:{i // 60:02}:{i % 60:02}", Druck=random)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    found = printed(tmp_path / "a.jsonl")
    assert "time" not in found.source and "--key Uhrzeit" not in found.out
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


def test_without_a_zone_the_job_is_tried_with_utc_and_the_zone_stays_open(tmp_path, printed):
    made = table(1500, ts=lambda i: f"2026-01-01 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}", ax=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("the times have no zone; the job is tried with UTC") and found.says("on the sample, watch = ")
    assert '# time_zone = "UTC"  # choose' in found.text and "still needs time_zone" in found.out


def test_a_label_that_was_chosen_is_no_candidate_for_the_key(tmp_path, capsys):
    rows = table(300, ts=lambda i: START + i, ax=random, state=lambda i: "run" if i % 90 < 60 else "idle")
    sample = as_csv(tmp_path / "press.csv", rows)
    assert command("init", tmp_path / "job.toml", "--sample", sample, "--label", "state") == 0
    out, err = capsys.readouterr()
    assert "--key-is press" in out and "--key state" not in out and "candidates: 'state'" not in err
    _, compare, *words = shlex.split(out.splitlines()[0].rpartition("; ")[2])
    assert command(compare, *words, "--records", "100") == 0, "the line that init prints"


@pytest.mark.slow
def test_more_keys_of_a_short_sample_are_tried_because_most_of_their_rows_are_warm_up(tmp_path, printed):
    """200 pumps with a slow wave of the heat: after 300 rows most of those that can alarm alarm on it."""
    random, rows = np.random.default_rng(8), []
    starts = random.uniform(0, 2 * np.pi, 200)
    for minute in range(300):
        heat = 45 + 2 * np.sin(2 * np.pi * minute / 360 + starts) + random.normal(0, 0.6, 200)
        flow = random.normal(9, 1, 200).round(3).tolist()
        for pump, one in enumerate(heat.round(2).tolist()):
            rows.append({"ts": START + 60 * minute, "pump": f"p{pump:03}", "heat": one, "flow": flow[pump]})
    found = printed(jsonl(tmp_path / "a.jsonl", rows))
    assert found.source["fields"] == ["flow"] and found.says("'heat' is left out of fields: in the alarms of")
    assert found.says("of 200 keys and 19,") and not found.says("close together")


@pytest.mark.slow
def test_a_fleet_with_a_day_in_its_numbers_gets_what_can_alarm_within_the_sample(tmp_path, printed):
    """With 720 rows in five minutes each, blocks as long as a day leave `columns` alone no reference."""
    draw, day = np.random.default_rng(5), 2 * np.pi * 300 * np.arange(720) / 86_400
    rows = []
    for key in range(20):
        temp = 20 + 5 * np.sin(day + key / 10) + 0.5 * draw.normal(size=720)
        hum = 50 - 4 * np.sin(day) + draw.normal(size=720)
        rows += [
            {"machine": f"m{key}", "ts": START + 300 * i, "temp": round(a, 3), "hum": round(b, 3)}
            for i, (a, b) in enumerate(zip(temp.tolist(), hum.tolist(), strict=True))
        ]
    found = printed(jsonl(tmp_path / "a.jsonl", sorted(rows, key=lambda row: row["ts"])))
    drift = read_table(found.file)["drift"]
    assert drift["watch"] == ["columns", "innovations", "rows"] and "detector" not in drift
    assert found.says('watch = "columns" raised', "of warm-up") or found.says("no key of the sample has enough rows")


@pytest.mark.parametrize("returns", [False, True])
def test_animals_recorded_one_after_another_are_keys_and_teach_a_population(tmp_path, printed, returns):
    """More rows each than init guesses from; a value that returns may be the state of one device."""
    of = [(i // 2100 if i < 10_500 or not returns else 0) for i in range(12_600)]
    made = table(12_600, horse=lambda i: f"h{of[i]}", ts=lambda i: START + 0.1 * i + 900 * (i // 2100), ax=random)
    rng = np.random.default_rng(3)
    for i, row in enumerate(made):
        row["gait"] = "wt"[i // 150 % 2]
        row["ax"] = round(float(rng.normal() * (1 + i // 150 % 2)), 3)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("label gait (classification, 2 classes)" if not returns else "label gait (classification)")
    assert found.says("key horse", "6 people with labels") is not returns
    assert found.says("choose: key") is returns and found.out.endswith("--key horse\n") is not returns


@pytest.mark.parametrize("apart", [True, False])
def test_experiments_that_follow_one_another_begin_with_their_reference(tmp_path, printed, apart):
    """Each has a fault in its last third, which a detector that learns from 1000 rows never sees."""
    rng, rows, keys = np.random.default_rng(12), 650, 6
    x = rng.normal(size=(keys, rows, 2))
    x[:, 450:, 0] += 3
    made = [
        {"device": f"e{key}", "ts": START + (key if apart else 0) * 1000 + row, "flow": a, "bar": b}
        for key in range(keys)
        for row, (a, b) in enumerate(x[key].round(3).tolist())
    ]
    found = printed(as_csv(tmp_path / "a.csv", made))
    drift = read_table(found.file)["drift"]
    assert drift.get("reference") == ("first 260 rows" if apart else None)
    if apart:
        judged = 'watch = "columns" with reference = "first 260 rows" raised 6 alarms in 6 of 6 keys and 2,340 rows'
        assert found.says(judged, "0 keys in the first tenth of the rows after the reference")
        assert found.says("if the sample has no faults, expect up to 1 alarm in 390 rows of a key, not 1 in 10,000")

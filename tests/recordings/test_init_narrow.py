"""`init` of rows in the long format, each with the number of one sensor and its name: it writes [source.sensors]."""

import json
import random
from datetime import UTC, datetime

import pytest

from streamjobs.job_files import read_table
from streamjobs.recordings.files import recordings_of
from streamjobs.recordings.guess import LOOK_AT, _of_other_sensors, guess
from streamjobs.recordings.tables import HOW
from tests.commands.jobs import command, jsonl

START = 1_770_000_000


def rows(
    metrics: dict[str, int], names: tuple[str, str, str] = ("machine", "metric", "value"), count: int = 700
) -> list[dict]:
    """Of three machines; metrics: seconds between two samples of each."""
    rng, (key, name, value) = random.Random(36), names
    made = [
        {key: f"m{machine}", "ts": START + 60 * row, name: metric, value: round(rng.gauss(100 * n, 1 + n), 3)}
        for row in range(count)
        for machine in range(3)
        for n, (metric, pause) in enumerate(metrics.items())
        if row * 60 % pause == 0
    ]
    return sorted(made, key=lambda one: one["ts"])


def replayed(file, sample, key, capsys) -> dict:
    assert command("replay", file, "--input", sample, "--key", key, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "names",
    [
        *(("machine", "metric", "value"), ("host", "_field", "_value"), ("device", "sensor", "x"), ("plant", "what", "n")),
        ("sensor", "metric", "value"),
    ],
)
def test_each_sensor_of_a_key_is_a_column(tmp_path, printed, capsys, names):
    key, name, value = names
    sample = jsonl(tmp_path / "long.jsonl", rows({"temp": 60, "vib": 60}, names))
    found = printed(sample)
    if key == "plant":
        assert found.says("choose: key:", "candidates: 'plant', 'what'"), "either may be the key of the other"
        assert command("init", found.file, "--sample", sample, "--key", "plant", "--force") == 0
        capsys.readouterr()
    source = read_table(found.file)["source"]
    each = {"fields": [value], "rate": 1 / 60, "between": "hold"}
    assert source["sensors"] == {"name": name, "rate": 1 / 60, "each": {"temp": each, "vib": each}}
    assert "fields" not in source
    if key != "plant":
        assert found.says(f"fields temp.{value}, vib.{value}; key {key}; ")
        assert not found.says("candidates"), "neither the key nor the name of a sensor may be the label"

    done = replayed(found.file, sample, key, capsys)
    assert done["samples"] == 2 * 3 * 700 and not done["dead_lettered"]
    assert done["rows"] >= 3 * 698, "a row a minute, of both numbers at this time"


@pytest.mark.parametrize("order", [("machine", "metric"), ("metric", "machine")])
@pytest.mark.parametrize("count", [100, 700])
def test_rows_that_are_sorted_by_sensor_are_to_be_sorted_by_time(tmp_path, printed, order, count):
    in_blocks = sorted(rows({"temp": 60, "vib": 60}, count=count), key=lambda one: [one[name] for name in order])
    found = printed(jsonl(tmp_path / "blocks.jsonl", in_blocks))
    late = f"{3 * (count - 1):,} of {6 * count:,} rows are older than a row of their key before them"
    assert found.says(late, "sort it by 'ts' and run init again") and not found.says("may have a wrong time")
    assert found.says("fields temp.value, vib.value; key machine") and not found.says("few of the keys")


def numbered(name: str, value: str) -> list[dict]:
    """Two sensors of each machine, at times of their own."""
    made = rows({"4": 10, "1": 10}, ("board", name, value))
    made = [one | {name: int(one[name]), "ts": one["ts"] + 0.1 * n % 7} for n, one in enumerate(made)]
    return sorted(made, key=lambda one: one["ts"])


@pytest.mark.parametrize("value", ["v", "value"])
def test_sensors_may_be_numbered(tmp_path, printed, capsys, value):
    made = numbered("channel", value)
    sample = jsonl(tmp_path / "channels.jsonl", made)
    found = printed(sample)
    assert [*read_table(found.file)["source"]["sensors"]["each"]] == ["4", "1"]
    assert found.says(f"fields 4.{value}, 1.{value}; key board; ")
    done = replayed(found.file, sample, "board", capsys)
    assert done["samples"] == len(made) and not done["dead_lettered"] and done["rows"] >= 3 * 690


def test_numbers_of_a_column_with_another_name_are_not_sensors(tmp_path, printed):
    found = printed(jsonl(tmp_path / "gears.jsonl", numbered("gear", "value")))
    assert "sensors" not in read_table(found.file)["source"]


def test_a_sensor_that_is_rare_is_left_out_and_its_records_are_skipped(tmp_path, printed, capsys):
    sample = jsonl(tmp_path / "long.jsonl", rows({"temp": 60, "vib": 120, "oil": 86_400, "level": 1_200}, count=1_000))
    found = printed(sample)
    sensors = read_table(found.file)["source"]["sensors"]
    assert [*sensors["each"]] == ["temp", "vib"] and sensors["other"] == "skip" and sensors["rate"] == 1 / 120
    assert found.says("left out of x: level: a sensor with a row every 1200 s")
    assert found.says("left out of x: oil: a sensor with few rows")
    done = replayed(found.file, sample, "machine", capsys)
    assert done["rows"] >= 3 * 498 and not done["dead_lettered"] and done["skipped"] == {"other_sensor": 3 * 51}


def test_fields_of_a_sensor_are_those_that_its_rows_have_and_windows_are_made_of_fast_ones(tmp_path, printed, capsys):
    rng, made = random.Random(37), []
    for row in range(3_000):
        at = {"device": f"d{row % 2}", "ts": START + 0.02 * (row // 2)}
        made.append({**at, "sensor": "acc", "x": rng.gauss(0, 1), "y": rng.gauss(0, 1), "z": rng.gauss(9, 1)})
        made.append({**at, "sensor": "baro", "x": rng.gauss(1013, 1)})
    sample = jsonl(tmp_path / "phone.jsonl", made)
    found = printed(sample)
    table = read_table(found.file)
    each = table["source"]["sensors"]["each"]
    assert each == {"acc": {"fields": ["x", "y", "z"], "rate": 50.0}, "baro": {"fields": ["x"], "rate": 50.0}}
    assert table["window"]["rate"] == 50
    done = replayed(found.file, sample, "device", capsys)
    assert done["rows"] >= 2 * 27 and not done["dead_lettered"]


@pytest.mark.parametrize("odd", ["a.b", "th[e \u00f6]", "'", "temp=1"])
def test_any_name_of_a_sensor_and_rows_that_lack_its_number(tmp_path, printed, capsys, odd):
    made = rows({odd: 60, "vib": 60})
    for one in made[::50]:
        one["value"] = None
    sample = jsonl(tmp_path / "long.jsonl", made)
    found = printed(sample)
    source = read_table(found.file)["source"]
    assert [*source["sensors"]["each"]] == [odd, "vib"] and source["missing"] == "skip"
    assert found.says("rows lack a number of their sensor; [source] missing decides")
    done = replayed(found.file, sample, "machine", capsys)
    assert not done["dead_lettered"] and done["skipped"]["missing"] == len(made[::50]) and done["rows"] > 3 * 600


def test_a_sensor_whose_name_no_column_may_have_is_left_out(tmp_path, printed):
    found = printed(jsonl(tmp_path / "long.jsonl", rows({"temp": 60, "vib": 60, 'the "old" one': 60})))
    assert [*read_table(found.file)["source"]["sensors"]["each"]] == ["temp", "vib"]
    assert found.says("the", "old", "its name holds a quotation mark") and command("check", found.file) == 0


@pytest.mark.parametrize("apart", [0, 1])  # seconds between two sensors
def test_numbers_of_which_each_record_has_one_are_filled_in_with_the_last_ones(tmp_path, printed, capsys, apart):
    made = []
    for n, one in enumerate(rows({"temp": 60, "vib": 60, "oil": 300})):
        time = one["ts"] + apart * ["temp", "vib", "oil"].index(one["metric"])
        made.append({"machine": one["machine"], "ts": time, one["metric"]: one["value"], "volt": 24 + 0.01 * (n % 7)})
    sample = jsonl(tmp_path / "parts.jsonl", sorted(made, key=lambda one: one["ts"]))
    found = printed(sample)
    source = read_table(found.file)["source"]
    assert source["fields"] == ["temp", "volt", "vib", "oil"] and source["missing"] == "hold"
    assert source["duplicates"] == "learn" and not found.says("which would be skipped")
    assert found.says("stuck = true", "never alarms for a column that changes in less than half of a key's records")
    done = replayed(found.file, sample, "machine", capsys)
    assert done["rows"] == len(made) - 3 * 2 and not done["dead_lettered"], "but before a key has all of its numbers"


def test_rows_without_a_readable_time_and_frames_do_no_harm(tmp_path, printed):
    made = rows({"temp": 60, "vib": 60})
    for n, one in enumerate(made):
        one["ts"] = datetime.fromtimestamp(one["ts"], UTC).isoformat() if n % 300 else [None, "soon"][n // 300 % 2]
    found = printed(jsonl(tmp_path / "long.jsonl", made))
    assert {*read_table(found.file)["source"]["sensors"]["each"]} == {"temp", "vib"}
    found.file.unlink()
    frames = [one | {"ts": [START + n, START + n + 0.5], "value": [1.0 + n % 7, n % 5]} for n, one in enumerate(made[:600])]
    source = read_table(printed(jsonl(tmp_path / "frames.jsonl", frames)).file)["source"]
    assert "sensors" not in source and source["time"] == "ts"


def test_keys_with_rates_of_their_own_have_the_rows_of_the_slowest(tmp_path, printed, capsys):
    made = [one for one in rows({"temp": 60, "vib": 60}) if one["machine"] != "m2" or one["ts"] % 600 == START % 600]
    sample = jsonl(tmp_path / "long.jsonl", made)
    found = printed(sample)
    sensors = read_table(found.file)["source"]["sensors"]
    assert sensors["rate"] == 1 / 600, "else the slow key's rows would be repeats"
    assert sensors["each"]["temp"] == {"fields": ["value"], "rate": 1 / 60, "between": "hold", "gap": "6000s"}
    done = replayed(found.file, sample, "machine", capsys)
    assert not done["dead_lettered"] and not done["skipped"] and done["rows"] >= 3 * 68


def test_a_machines_mode_and_events_at_any_time_are_no_sensors(tmp_path, printed):
    rng, made, time = random.Random(38), [], float(START)
    for _ in range(2_000):
        time += rng.expovariate(1 / 3)
        made.append(
            {"machine": f"m{rng.randrange(3)}", "ts": time, "type": rng.choice(["start", "stop"]), "value": rng.random()}
        )
    slow, fast = (
        [one | {"type": "idle" if n // 3 // stay % 2 else "run"} for n, one in enumerate(rows({"temp": 60}))]
        for stay in (30, 5)
    )
    for name, records in (("events", made), ("slow", slow), ("fast", fast)):
        found = printed(jsonl(tmp_path / f"{name}.jsonl", records))
        assert read_table(found.file)["source"]["fields"] == ["value"], name
        found.file.unlink()


def test_german_times_and_numbers_as_texts(tmp_path, printed, capsys):
    lines = ["Anlage;Zeit;Messgröße;Wert"]
    for one in rows({"Druck": 60, "Temperatur": 60}):
        time = datetime.fromtimestamp(one["ts"], UTC).strftime("%d.%m.%Y %H:%M:%S")
        lines.append(f"{one['machine']};{time};{one['metric']};{str(one['value']).replace('.', ',')}")
    sample = tmp_path / "werk.csv"
    sample.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert command("init", tmp_path / "job.toml", "--sample", sample, "--time-zone", "UTC") == 0
    capsys.readouterr()
    source = read_table(tmp_path / "job.toml")["source"]
    assert source["time_format"] == "%d.%m.%Y %H:%M:%S" and [*source["sensors"]["each"]] == ["Druck", "Temperatur"]
    done = replayed(tmp_path / "job.toml", sample, "Anlage", capsys)
    assert done["rows"] >= 3 * 698 and not done["dead_lettered"]


def test_labelled_sensors_of_people_whose_rows_follow_one_another_lead_to_a_population(tmp_path, printed):
    rng, made = random.Random(39), []
    for row in range(5 * 1_200):
        person, at = row // 1_200, {"ts": START + 0.02 * (row % 1_200), "activity": "run" if row % 400 < 200 else "sit"}
        for sensor in ("acc", "gyro"):
            x, y, z = (round(rng.gauss(0, 1), 3) for _ in range(3))
            made.append({"person": f"p{person}", **at, "sensor": sensor, "x": x, "y": y, "z": z})
    found = printed(jsonl(tmp_path / "people.jsonl", made))
    table = read_table(found.file)
    assert found.says("key person; ", "5 people with labels"), "the first rows are of one person"
    assert [*table["source"]["sensors"]["each"]] == ["acc", "gyro"] and table["source"]["label"] == "activity"
    assert "population" in table and table["window"]["statistics"] == "rich+gravity"


def test_the_name_of_a_sensor_is_no_category(tmp_path, printed):
    made = rows({"temp": 60, "vib": 60})
    for first, second in zip(made[::2], made[1::2], strict=True):
        first["target"] = second["target"] = round(2 * first["value"] + second["value"], 2)
    found = printed(jsonl(tmp_path / "long.jsonl", made))
    table = read_table(found.file)
    assert "categories" not in table["source"] and [*table["source"]["sensors"]["each"]] == ["temp", "vib"]
    assert table["learner"]["name"] == "rls" and found.says("without a model: last label")


def test_columns_of_several_machines_in_one_row_are_named_with_what_to_send(tmp_path, printed):
    rng = random.Random(8)
    wide = [
        {"ts": START + n, **{f"pump{m}_{what}": rng.gauss(m, 1) for m in (1, 2) for what in ("temp", "vib")}}
        for n in range(300)
    ]
    found = printed(jsonl(tmp_path / "pumps.jsonl", wide))
    assert found.says(
        'if pump1, pump2 are machines of their own, send a record of each, such as {"machine": ..., "ts": ..., "temp"'
    )
    keyed = printed(jsonl(tmp_path / "person.jsonl", [one | {"person": "ab"[n % 2]} for n, one in enumerate(wide)]))
    assert not keyed.says("machines of their own")


def test_labels_in_rows_of_their_own_are_of_no_sensor(tmp_path):
    made = [{"machine": "m", "metric": "temp", "value": i % 7 / 2} for i in range(LOOK_AT)]
    labels = [{"machine": "m", "label": "ab"[i % 2]} for i in range(9)]
    assert guess(jsonl(tmp_path / "a.jsonl", made + labels)).label == "label"
    assert _of_other_sensors(made, recordings_of(tmp_path / "a.jsonl", HOW), HOW) == []

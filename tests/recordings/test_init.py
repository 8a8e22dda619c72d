"""`init --sample` on the files newcomers have: what it guesses, what it leaves to them to choose, what it refuses."""

import json
from datetime import UTC, datetime

import pytest

from streamjobs.errors import ConfigError
from streamjobs.job_files import load_job, read_table
from tests.commands.jobs import START, command, jsonl, rows
from tests.recordings.init_told import N, as_csv, noise, random, table


def test_plain_noise_is_x_and_key_time_and_label_are_left_to_the_user(tmp_path, printed):
    found = printed(as_csv(tmp_path / "noise.csv", noise("a", "b", "c")))
    assert found.source["fields"] == ["a", "b", "c"] and not {"time", "label"} & set(found.source)
    assert found.says("guessed from 60 rows: fields a, b, c.")
    for what in ("key", "time", "label"):
        assert found.says(f"not guessed, choose: {what}: no column has the name of a {what}")
    assert '\n# time = "ts"  # choose: no column has the name of a time' in found.text
    assert '\n# label = "activity"  # needed by a [head]; choose: no column' in found.text
    assert "--key-is noise" in found.out  # a recording of one device, as far as it tells
    assert command("check", found.file) == 0
    assert load_job(found.file, {}).checkpoint == 1.0
    assert load_job(found.file, {"STREAMJOBS_JOB__GUARANTEE": "exactly_once"}).checkpoint == 0.075  # not stated


def test_init_prints_how_many_records_gaps_cost(tmp_path, printed):
    made = noise("person", "ax", "ay", "heart", "spo2")
    for i, row in enumerate(made):
        row["person"] = f"p{i % 2}"
        if i % 10 == 3:
            row["ay"] = None
        if i % 20 == 4:
            row["heart"] = None
        if i % 4:
            row["spo2"] = None
    found = printed(as_csv(tmp_path / "gaps.csv", made))
    assert found.source["fields"] == ["ax", "ay", "heart"]
    sentence = "9 of 60 rows lack a number in 'ay', 'heart'; [source] missing decides what happens to such a record"
    assert found.says(sentence) and f"# {sentence}" in found.text
    assert found.says("left out of x: spo2: empty in 45 of 60 rows")
    assert command("check", found.file, "--sample", tmp_path / "gaps.csv", "--key", "person") == 0


def test_a_phones_axes_are_axes_and_its_times_are_times(tmp_path, printed):
    made = table(
        time=lambda i: 1_700_000_000_000_000_000 + i * 10_000_000,
        seconds_elapsed=lambda i: round(i * 0.01, 3),
        z=random,
        y=lambda i: random(i + 100),
        x=lambda i: random(i + 200),
    )
    found = printed(as_csv(tmp_path / "Accelerometer.csv", made))
    assert found.source["fields"] == ["z", "y", "x"]
    assert (found.source["time"], found.source["time_unit"]) == ("time", "ns") and "label" not in found.source
    assert found.says("left out of x: seconds_elapsed: a time, by its name; 'time' is read")
    assert '#   "seconds_elapsed": a time, by its name' in found.text
    assert load_job(found.file, {}).window.rate == 100.0


def test_a_time_that_counts_from_the_start_is_no_event_time_and_replay_can_read_it(tmp_path, printed):
    made = table(
        **{
            "Time (s)": lambda i: i * 0.02,
            "Acceleration x (m/s^2)": random,
            "Acceleration y (m/s^2)": lambda i: random(i + 100),
            "device": "a",
        }
    )
    found = printed(as_csv(tmp_path / "phyphox.csv", made))
    assert found.source["fields"] == ["Acceleration x (m/s^2)", "Acceleration y (m/s^2)"] and "time" not in found.source
    assert found.says("choose: time: 'Time (s)' begins at 0, so it does not count from 1970")
    assert load_job(found.file, {}).window.rate == 50.0
    assert found.out.endswith("--key device --time 'Time (s)'\n")
    recording = tmp_path / "phyphox.csv"
    assert command("replay", found.file, "--input", recording, "--key", "device", "--time", "Time (s)") == 1
    longer = as_csv(recording, [{**row, "Time (s)": i * 0.02} for i, row in enumerate(made * 3)])
    assert command("replay", found.file, "--input", longer, "--key", "device", "--time", "Time (s)") == 0


@pytest.mark.parametrize(("unit", "per_second"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_the_unit_of_a_phone_that_counts_since_it_was_started_is_that_of_a_possible_rate(
    tmp_path, printed, unit, per_second
):
    made = table(timestamp=lambda i: int((180_853 + i / 50) * per_second), user=lambda i: f"p{i // 100}", gyro=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert "time" not in found.source and found.source["time_unit"] == unit
    assert load_job(found.file, {}).window.rate == 50.0 and found.out.endswith("--key user --time timestamp\n")


def test_a_time_of_unknown_unit_gives_no_rate(tmp_path, printed):
    made = table(t=lambda i: 20 * i, user="a", gyro=random)
    sample = as_csv(tmp_path / "a.csv", made)
    found = printed(sample)
    assert found.says("choose: rate: the unit of 't' is not known: --time-unit")
    assert load_job(found.file, {}).window is None
    known = tmp_path / "known.toml"
    assert command("init", known, "--sample", sample, "--yes", "--time-unit", "min") == 2 and not known.exists()
    assert command("init", known, "--sample", sample, "--yes", "--time-unit", "ms") == 0
    assert load_job(known, {}).window.rate == 50.0 and load_job(known, {}).source.time_unit == "ms"


def test_milliseconds_from_the_start_are_read_as_such(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(t_ms=lambda i: 20 * i, user="a", gyro=random)))
    assert load_job(found.file, {}).window.rate == 50.0 and found.source["time_unit"] == "ms"


@pytest.mark.parametrize(
    "name",
    ["seconds_elapsed", "value.time", "ts", "timestamp", "elapsed", "Time (s)", "eventTime", "date"],
)
def test_a_time_never_becomes_a_field(tmp_path, printed, name):
    found = printed(jsonl(tmp_path / "a.jsonl", table(**{name: random, "ax": lambda i: random(i + 50)})))
    assert found.source["fields"] == ["ax"]
    assert found.says(f"left out of x: {name}: a time, by its name")


def test_iso_times_are_times(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(Time=lambda i: f"2026-01-01T00:00:{i:02}Z", pump="p1", a=random)))
    assert found.source["fields"] == ["a"] and found.source["time"] == "Time" and "time_unit" not in found.source
    assert found.says("guessed from", "time Time (ISO 8601)")
    assert found.says("choose: key:", "candidates: 'pump'; or replay --key-is NAME, if all is of one device")


def test_of_iso_times_without_a_zone_the_zone_is_to_be_chosen(tmp_path, printed):
    found = printed(jsonl(tmp_path / "b.jsonl", table(at=lambda i: {"ts": f"2026-01-01 00:00:{i:02}"}, a=random)))
    assert found.source["time"] == "at.ts" and "time_zone" not in found.source
    assert (
        found.says("choose: time_zone: the times in 'at.ts' have no zone")
        and '# time_zone = "UTC"  # choose: ' in found.text
    )
    assert "[source] still needs time_zone: look for 'choose' in it. Then: streamjobs check" in found.out


def test_other_texts_are_no_times(tmp_path, printed):
    found = printed(jsonl(tmp_path / "c.jsonl", table(time=lambda i: f"00:00:{i:02}", a=random)))
    assert found.says(
        "choose: time: 'time' holds texts such as '00:00:00'; time is read as ISO 8601, or a number of seconds"
    )


def test_numbers_beyond_the_usual_limit_raise_it(tmp_path, printed):
    """Counters of bytes, of which all records would be dead letters."""
    sample = as_csv(
        tmp_path / "a.csv", table(40, ts=lambda i: 1_700_000_000 + i, host="h1", sent=lambda i: 3 * 10**12 + i % 7)
    )
    found = printed(sample)
    assert found.source["max_abs"] == 1e15 and found.says("'sent' has numbers up to 3e+12: max_abs is set")
    assert command("check", found.file, "--sample", sample, "--key", "host") == 0


def test_a_large_number_of_a_field_that_is_left_out_raises_no_limit(tmp_path, printed):
    """A batch named by its date, which stands still in the sample."""
    made = table(1_000, ts=lambda i: START + 10 * i, batch=20_261_201_000_000, a=random, b=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.source["fields"] == ["a", "b"] and "max_abs" not in found.source and not found.says("max_abs")


def test_objects_are_looked_into_and_lists_of_objects_named(tmp_path, printed):
    made = table(
        device=lambda i: {"id": "a", "fw.rev": 7 + i % 3},
        parts=lambda i: [{"n": 1}],
        ts=lambda i: START + i,
        readings=lambda i: {"temp": 1.0},
        open=lambda i: i % 2 == 0,
        v=random,
    )
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert (found.source["fields"], found.source["time"]) == (['device."fw.rev"', "readings.temp", "open", "v"], "ts")
    assert found.says("guessed from", "key device.id")
    assert found.says("left out of x: parts[].n: lists, and the time is not in their objects")


def test_a_list_of_samples_in_a_record_makes_a_job(tmp_path, printed):
    made = table(
        device=lambda i: "ab"[i % 2],
        payload=lambda i: [{"t": START + i + 0.1 * n, "acc": {"x": random(10 * i + n)}, "n": "ok"} for n in range(10)],
    )
    sample = jsonl(tmp_path / "a.jsonl", made)
    found = printed(sample)
    assert (found.source["fields"], found.source["time"]) == (["payload[].acc.x"], "payload[].t")
    assert command("check", found.file, "--sample", sample, "--key", "device") == 0


@pytest.mark.parametrize("moment", [lambda t: t, lambda t: datetime.fromtimestamp(t, UTC).isoformat()])
def test_samples_of_several_numbers_with_a_time_each_are_fields_next_to_numbers_of_the_record(tmp_path, printed, moment):
    """What the record has once would make a row of ten samples, and no learner would hear of the samples."""
    made = table(
        200,
        device=lambda i: "ab"[i % 2],
        meta=lambda i: {"rssi": -60 + i % 7},
        readings=lambda i: [
            {"t": moment(START + i // 2 * 10 + n), "temp": random(i + n), "rh": random(n)} for n in range(10)
        ],
    )
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert (found.source["fields"], found.source["time"]) == (["readings[].temp", "readings[].rh"], "readings[].t")
    assert found.says("left out of x: meta.rssi: one number a record") and not found.says("never change")
    assert found.says("on the sample, watch", " of 2 keys and ")


def test_lists_of_named_objects_are_fields_by_name(tmp_path, printed):
    made = table(
        device="a",
        ts=lambda i: START + i,
        list=lambda i: [{"name": "t", "value": random(i)}, {"name": "h", "value": 1.0 * i % 7}],
    )
    sample = jsonl(tmp_path / "a.jsonl", made)
    found = printed(sample)
    assert found.source["fields"] == ["list[name=t].value", "list[name=h].value"]
    assert command("check", found.file, "--sample", sample, "--key", "device") == 0


@pytest.mark.parametrize(("name", "fields"), [("value", ["value"]), ("ts", None)])
def test_one_column(tmp_path, printed, name, fields):
    found = printed(as_csv(tmp_path / "a.csv", noise(name)))
    if fields is not None:
        assert found.source["fields"] == fields
        return
    assert found.says("choose: fields: no column of numbers is left for x")
    assert "\n# fields = []  # choose: no column of numbers is left for x\n" in found.text
    with pytest.raises(ConfigError, match="the length of x is unknown; name the fields with its numbers"):
        load_job(found.file, {})


def test_three_rows_are_too_few_to_tell_a_rate(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", list(rows(3, keys=1))))
    assert found.source["fields"] == ["ax", "ay", "az"] and found.source["time"] == "ts"
    assert found.says("choose: rate: the times of 3 rows have too few pauses to guess it")
    assert "# rate = 50  # Hz, of the sensor; choose: the times of 3 rows have too few pauses to guess it" in found.text
    assert load_job(found.file, {}).window is None


def test_y_beside_x_alone_may_be_both_and_is_left_to_the_user(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", noise("x", "y")))
    assert "fields" not in found.source and "label" not in found.source
    line = '# fields = ["x", "y"]  # choose: \'y\' may be an axis in addition to x, or the label'
    assert line in found.text and "look for 'choose'" in found.out
    assert command("check", found.file) == 2
    found.file.write_text(found.text.replace(line, 'fields = ["x", "y"]'))
    assert command("check", found.file) == 0


def test_y_in_one_object_with_x_is_an_axis(tmp_path, printed):
    samples = [{"ts": one["ts"], "acc": {name: one["a" + name] for name in "xy"}} for one in rows(60, keys=1)]
    assert printed(jsonl(tmp_path / "a.jsonl", samples)).source["fields"] == ["acc.x", "acc.y"]


def test_y_without_axes_is_a_label_and_numbers_make_a_regression(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", noise("x1", "x2", "y")))
    assert (found.source["fields"], found.source["label"]) == (["x1", "x2"], "y")
    assert read_table(found.file)["head"]["task"] == "regression"


@pytest.mark.parametrize("name", ["Tätigkeit", "Übung (Nr)", "aktivitaet"])
def test_a_label_is_known_by_its_german_name(tmp_path, printed, name):
    found = printed(as_csv(tmp_path / "a.csv", table(a=random, **{name: lambda i: "ab"[i // 20 % 2]})))
    assert found.source["label"] == name


def test_y_beside_the_list_x_is_a_label(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", table(x=lambda i: [random(i), 1.0], y=lambda i: i % 3)))
    assert (found.source["x"], found.source["dim"], found.source["label"]) == ("x", 2, "y")
    assert read_table(found.file)["head"]["task"] == "classification"


def test_more_classes_than_usual_are_announced(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(a=random, label=lambda i: f"c{i % 20}")))
    assert read_table(found.file)["head"]["max_classes"] == 20
    assert command("check", found.file) == 0


def test_a_label_with_too_many_texts_is_none(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(1100, a=random, label=lambda i: f"note {i}")))
    assert "label" not in found.source and found.says("left out of x: label: a label by its name, but with 1,100")


def test_two_names_of_labels_or_keys_are_left_to_the_user(tmp_path, printed):
    made = table(user="u", device="d", activity=lambda i: "ab"[i % 2], label=lambda i: "cd"[i % 2], ax=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.source["fields"] == ["ax"] and "label" not in found.source
    assert found.says("choose: key: 'user', 'device' have names of keys")
    assert found.says("choose: label: 'activity', 'label' have names of labels")


def test_a_field_that_never_changes_is_reported(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(ax=random, accuracy=3)))
    assert found.source["fields"] == ["ax", "accuracy"]
    assert found.says("'accuracy' never changes in the sample; remove from fields what never changes")


def test_what_counts_or_names_rows_is_no_signal(tmp_path, printed):
    made = table(
        id=lambda i: 1000 + i,
        person=lambda i: f"p{i % 2}",
        steps=lambda i: 3 * i,
        row=random,
        room_id=lambda i: i % 3,
        a=random,
        **{"": lambda i: i % 3},
    )
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.source["fields"] == ["a"] and found.says("key person")
    assert found.says("left out of x: id: is different in every row")
    assert found.says("left out of x: steps: rises in every row: a time or a counter")
    assert found.says("left out of x: row: not a signal, by its name") and found.says("left out of x: room_id: not a signal")
    assert found.says("left out of x: '': it has no name")


def test_lists_that_cannot_be_distinguished_are_left_to_the_user(tmp_path, printed):
    made = table(acc=lambda i: [random(i)] * 17, gyro=lambda i: [random(i)] * 3)
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says("choose: fields: 'acc', 'gyro' hold lists; x is one of them, as x and dim")
    assert command("check", found.file) == 2


def test_lists_of_several_lengths_give_no_length(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", table(x=lambda i: [1.0] * (3 + i % 4))))
    assert found.says("choose: fields: the lists in 'x' have 3 to 6 numbers; x has one length, dim")


def test_a_list_of_nothing_or_of_texts_is_no_x(tmp_path, printed):
    found = printed(jsonl(tmp_path / "a.jsonl", table(x=lambda i: [], tags=lambda i: ["a"], v=random)))
    assert found.source["fields"] == ["v"] and found.says("left out of x: x: lists")


def test_frames_are_read_by_their_fields_or_their_rows(tmp_path, printed):
    made = table(ts=lambda i: [START + i, START + i + 0.5], ax=lambda i: [random(i), 1.0], ay=lambda i: [0.0, random(i)])
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert (found.source["fields"], found.source["time"]) == (["ax", "ay"], "ts") and found.says("2 Hz")
    assert command("check", found.file, "--sample", tmp_path / "a.jsonl", "--key", "ts") == 0
    found.file.unlink()
    made = table(ts=lambda i: [START + i, START + i + 0.5], x=lambda i: [[random(i), 1.0, 2.0], [0.0, 1.0, 2.0]])
    assert printed(jsonl(tmp_path / "b.jsonl", made)).source["dim"] == 3


def test_names_made_to_break_the_job_file_stay_names(tmp_path, printed):
    names = ["g\x7fh", "{i}", "a'b", "# c", 'd"e', "f\\g", "time\n[job]"]
    found = printed(jsonl(tmp_path / "a.jsonl", table(**{name: random for name in names})))
    assert found.source["fields"] == names[:4]
    assert found.text.count("\n[job]") == 1 and '#   "time\\n[job]": its name holds a quotation mark' in found.text
    assert command("check", found.file) == 0


def test_a_job_in_a_file_with_the_usual_name_is_named_after_its_topic_or_its_sample(tmp_path):
    sample = as_csv(tmp_path / "pumps.csv", noise("a"))
    for words, name in ((("--sample", sample), "pumps"), (("--sample", sample, "--topic", "press"), "press"), ((), "job")):
        assert command("init", tmp_path / "job.toml", *words, "--force") == 0
        assert load_job(tmp_path / "job.toml", {}).job.name == name
    assert command("init", tmp_path / "own.toml", "--sample", sample) == 0
    assert load_job(tmp_path / "own.toml", {}).job.name == "own"


@pytest.mark.parametrize("stem", ["..", "a b", "ä", "n" * 200])
def test_the_job_is_named_so_that_it_may_be(tmp_path, stem):
    file = tmp_path / f"{stem}.toml"
    assert command("init", file, "--topic", "imu") == 0
    assert command("check", file) == 0


def test_values_of_texts_stand_nowhere_as_they_may_be_names_of_people(tmp_path, printed):
    made = table(ts=lambda i: START + i, note=lambda i: f"Anna {i // 20}", ax=random)
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says("left out of x: note: texts")
    assert "Anna" not in found.text + found.out + "".join(found.lines)


def test_a_sample_decodes_under_the_job_file_made_of_it(tmp_path, printed, capsys):
    sample = jsonl(tmp_path / "a.jsonl", list(rows(120)))
    found = printed(sample)
    assert command("check", found.file, "--sample", sample, "--key", "person", "--json") == 0
    taken = json.loads(capsys.readouterr().out)["sample"]
    assert (taken["samples"], taken["labelled"], taken["dead_letters"]) == (120, 120, {})


@pytest.mark.parametrize(
    ("name", "is_key"),
    [
        ("Maschine", True),
        ("Gerät", True),
        ("Schlüssel", True),
        ("worker", True),
        ("Maschinenstunden", False),
        ("Anlass", False),
    ],
)
def test_a_column_is_the_key_by_its_name_in_german_and_english_also_if_keys_follow_each_other(
    tmp_path, printed, name, is_key
):
    made = [{name: f"m{i // 20}", "t": 1_700_000_000 + i, "Druck": random(i), "Strom": random(i + 99)} for i in range(N)]
    found = printed(as_csv(tmp_path / "werk.csv", made, ";"))
    assert found.says(f"key {name};") == is_key, found.lines
    assert found.source["fields"] == ["Druck", "Strom"]


def test_of_texts_that_take_turns_the_one_with_the_name_of_a_key_is_it(tmp_path, printed):
    kinds = ["food", "fuel", "web"]
    made = [
        {"card": f"c{i * 7 % 11}", "shop": kinds[i * i % 3], "t": 1_700_000_000 + 13 * i, "amount": random(i)}
        for i in range(5 * N)
    ]
    found = printed(as_csv(tmp_path / "paid.csv", made))
    assert found.says("key card;"), found.lines


def test_rows_without_a_key_are_counted(tmp_path, capsys):
    keys = ["a", "b", 3, "", None, 7.5, ["a"], {"a": 1}]
    rows = [dict(dev=key, ts=1_760_000_000 + 60 * i, flow=random(i)) for i in range(12) for key in keys]
    sample = jsonl(tmp_path / "odd.jsonl", rows)
    assert command("init", tmp_path / "job.toml", "--sample", sample, "--key", "dev") == 0
    said = capsys.readouterr().err
    assert "60 of 96 rows have no text and no whole number in 'dev', the key; they would be dead letters" in said


@pytest.mark.parametrize("wrong", [1e308, 3.4e38])
def test_one_number_that_is_an_error_does_not_set_max_abs(tmp_path, printed, wrong):
    made = [*noise("a", "b", n=120), {"a": wrong, "b": 0.5}]
    found = printed(as_csv(tmp_path / "wrong.csv", made))
    assert "max_abs" not in found.source and found.says(f"1 of 121 numbers in 'a' is up to {wrong:.3g}; beyond")

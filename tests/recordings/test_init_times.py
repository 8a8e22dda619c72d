"""Times as people and spreadsheets write them: `init` proposes a format, and what is not read is not called right."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from streamjobs.cli import app
from streamjobs.commands.recordings import questions
from streamjobs.job_files import read_table
from streamjobs.recordings.files import records_of
from streamjobs.settings.source import SourceSection
from streamjobs.settings.times import example_of, zone_of
from tests.commands.jobs import command, job_file, jsonl
from tests.recordings.init_told import N, as_csv, random, table

FIRST = datetime(2025, 10, 24, 2, 0)
SERIAL = datetime(1899, 12, 30)


def hours(form, first=FIRST):
    """A function that writes the time of row i, an hour after the one before."""
    if form == "excel":
        return lambda i: round((first + timedelta(hours=i) - SERIAL) / timedelta(days=1), 9)
    return lambda i: (first + timedelta(hours=i)).strftime(form)


def sheet(folder, form, first=FIRST):
    return as_csv(folder / "sheet.csv", table(when_time=hours(form, first), pump=lambda i: "p1", flow=random))


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%Y/%m/%d %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%d/%m/%y, %H:%M", "excel"]
)
def test_times_are_read_in_the_format_that_init_writes(tmp_path, printed, form, capsys):
    sample = sheet(tmp_path, form)
    found = printed(sample)
    assert (found.source["time"], found.source["time_format"]) == ("when_time", form)
    assert found.says("time when_time", form) and f"# such as {example_of(form)}" in found.text
    assert found.says("choose: time_zone: the times in 'when_time' have no zone")
    found.file.write_text(found.text.replace('# time_zone = "UTC"', 'time_zone = "Europe/Berlin"'))
    assert command("check", found.file, "--sample", sample, "--key", "pump") == 0
    assert "job.toml: no mistakes" in capsys.readouterr().out
    source = SourceSection(**read_table(found.file)["source"])
    stamps = [record.timestamp for record in records_of(sample, source, "pump")]
    assert stamps[:2] == [1_761_264_000_000, 1_761_267_600_000]  # 24 October 2025, midnight and 1 h UTC


@pytest.mark.parametrize("name", ["Zeitpunkt", "Datum", "zeit"])
def test_days_of_a_spreadsheet_are_times_under_a_german_name_too(tmp_path, printed, name):
    columns = {name: hours("excel"), "pump": lambda i: "p1", "flow": random}
    found = printed(as_csv(tmp_path / "sheet.csv", table(**columns)))
    assert (found.source["time"], found.source["time_format"], found.source["fields"]) == (name, "excel", ["flow"])


def test_a_format_of_days_and_months_that_may_be_either_is_left_to_choose(tmp_path, printed, capsys):
    sample = sheet(tmp_path, "%d/%m/%Y %H:%M", datetime(2025, 10, 5))
    found = printed(sample)
    assert "time_format" not in found.source and found.source["time"] == "when_time"
    why = "the times in 'when_time' are '%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M': the sample has no day above 12"
    assert found.says(f"choose: time_format: {why}") and f'# time_format = "%d/%m/%Y %H:%M"  # choose: {why}' in found.text
    assert "[source] still needs time_format" in found.out
    assert command("check", found.file, "--sample", sample, "--key", "pump") == 1
    assert "no mistakes" not in capsys.readouterr().out


def test_at_a_terminal_the_format_is_asked(tmp_path, monkeypatch):
    sample, file = sheet(tmp_path, "%d/%m/%Y %H:%M", datetime(2025, 10, 5)), tmp_path / "job.toml"
    monkeypatch.setattr(questions, "at_a_terminal", lambda: True)
    words = ["init", str(file), "--sample", str(sample), "--key", "pump", "--label", "", "--time-zone", "UTC"]
    done = CliRunner().invoke(app, words, input="2\n")
    assert done.exit_code == 0, done.output
    assert read_table(file)["source"]["time_format"] == "%m/%d/%Y %H:%M"


def test_check_names_times_of_a_sample_that_are_not_read(tmp_path, capsys):
    sample = sheet(tmp_path, "%d.%m.%Y %H:%M")
    text = '[job]\nname = "a"\n[source]\ntopic = "t"\nfields = ["flow"]\n[learner]\nname = "okfeb"\nrole = "track"\n'
    assert command("check", job_file(tmp_path, text), "--sample", sample, "--key", "pump") == 0
    out, err = capsys.readouterr()
    assert "no mistakes" not in out and "but the times of the sample are not read" in out
    assert "the times in 'when_time' are not read, because [source] time is not set" in err


def test_the_detector_is_tried_in_the_zone_that_is_known(tmp_path, printed, capsys):
    sample = as_csv(tmp_path / "a.csv", table(1500, when_time=hours("%d.%m.%Y %H:%M"), pump="p1", flow=random))
    for zone, guessed in (((), True), (("--time-zone", "Europe/Berlin"), False)):
        assert command("init", tmp_path / "job.toml", "--sample", sample, "--key", "pump", "--force", *zone) == 0
        err = capsys.readouterr().err
        assert "on the sample, watch = " in err and ("tried with UTC" in err) is guessed
        assert ("choose: time_zone" in err) is guessed


def test_a_later_day_of_the_file_tells_days_from_months(tmp_path, printed):
    rows = table(2400, when_time=hours("%m/%d/%Y %H:%M", datetime(2025, 10, 1)), pump="p1", flow=random)
    assert printed(as_csv(tmp_path / "long.csv", [*rows[:100] * 21, *rows])).source["time_format"] == "%m/%d/%Y %H:%M"


def test_a_date_with_points_has_its_day_first(tmp_path, printed):
    found = printed(sheet(tmp_path, "%d.%m.%Y %H:%M", datetime(2025, 9, 3)))
    assert found.source["time_format"] == "%d.%m.%Y %H:%M" and found.says("time when_time (%d.%m.%Y %H:%M)")


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
def test_a_date_without_a_time_is_the_beginning_of_the_day(tmp_path, printed, form):
    days = [(FIRST + timedelta(days=at)).strftime(form) for at in range(40)]
    sample = as_csv(tmp_path / "a.csv", table(40, day=lambda i: days[i], shop="s1", sold=random))
    found = printed(sample)
    assert found.source["time"] == "day" and found.source.get("time_format") == (None if form == "%Y-%m-%d" else form)
    found.file.write_text(found.text.replace('# time_zone = "UTC"', 'time_zone = "Europe/Berlin"'))
    source = SourceSection(**read_table(found.file)["source"])
    stamps = [record.timestamp for record in records_of(sample, source, "shop")]
    assert stamps[:2] == [1_761_256_800_000, 1_761_343_200_000], "midnight in Berlin"


@pytest.mark.parametrize("date", ["%Y-%m-%d", "%d.%m.%Y"])
def test_a_date_and_a_time_of_day_in_two_fields_of_records_are_named(tmp_path, printed, date):
    rows = table(pump=lambda i: f"p{i % 3}", date=hours(date), time=hours("%H:%M:%S"), flow=random)
    found = printed(jsonl(tmp_path / "a.jsonl", rows))
    assert "time" not in found.source
    assert found.says("choose: time: 'date' has the date and 'time' the time of day; a record needs both in one column")


@pytest.mark.parametrize("form", ["%m.%Y", "%H:%M", "%d.%m.%Y %M", "%Q", "tomorrow"])
def test_what_is_not_a_format_of_a_date_is_refused(form):
    with pytest.raises(ValueError, match=r"time_format|a format of a date such as|bad directive|does not match"):
        SourceSection(topic="t", time="ts", time_format=form)


def test_a_counter_of_seconds_is_not_a_day_of_a_spreadsheet(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(time=lambda i: 40_000 + i / 50, pump="p1", flow=random)))
    assert "time" not in found.source and found.says("so it does not count from 1970")


def test_a_time_in_an_object_of_parquet_is_read(tmp_path, printed, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import Table

    rows = [
        {"meta": {"id": f"d{n % 2}", "ts": datetime.fromtimestamp(1_770_000_000 + n, UTC)}, "a": n % 7 / 7, "b": n % 5 / 5}
        for n in range(400)
    ]
    parquet.write_table(Table.from_pylist(rows), tmp_path / "nested.parquet")
    found = printed(tmp_path / "nested.parquet")
    assert found.source["time"] == "meta.ts"
    done = ("replay", found.file, "--input", tmp_path / "nested.parquet", "--key", "meta.id", "--json")
    assert command(*done) == 0 and json.loads(capsys.readouterr().out)["rows"] == 400


@pytest.mark.parametrize("rows", [10, 1])
def test_rows_of_one_second_are_kept_if_their_numbers_differ(tmp_path, printed, capsys, rows):
    """A worker drops a second record of a key and time; times in whole seconds have many."""
    made = table(400, machine="p1", ts=lambda i: 1_700_000_000 + i // rows, a=random)
    found = printed(as_csv(tmp_path / "pump.csv", made))
    assert found.source.get("duplicates", "drop") == ("learn" if rows > 1 else "drop")
    assert found.says("360 of 400 rows have the time of the row of their key before them") == (rows > 1)
    assert command("replay", found.file, "--input", tmp_path / "pump.csv", "--key", "machine", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 400


def test_rows_that_are_there_twice_are_still_dropped(tmp_path, printed):
    made = table(400, machine="p1", ts=lambda i: 1_700_000_000 + i // 2, a=lambda i: random(i // 2))
    assert "duplicates" not in printed(as_csv(tmp_path / "twice.csv", made)).source


def of_pumps(shift):
    """Two pumps with a sample a minute; `shift` has what is added to the time of a pump's row."""
    pairs = [(pump, i) for i in range(N) for pump in "pq"]
    return [dict(pump=pump, ts=1_760_000_000 + 60 * i + shift(pump, i), flow=random(i)) for pump, i in pairs]


def test_rows_out_of_order_are_counted_and_do_not_change_the_pause(tmp_path, printed):
    found = printed(jsonl(tmp_path / "pumps.jsonl", of_pumps(lambda _, i: 120 * (1 - i % 3))))
    assert found.says("80 of 120 rows are up to 120 s earlier than", '[source] lateness = "120s" puts them in order')
    assert "the median pause between a key's samples is 60 s" in found.text


def test_rows_in_no_order_are_to_be_sorted(tmp_path, printed):
    mixed = lambda _, i: 60 * (i * 37 % 60 - i) + (90_000 if i == 0 else 0)  # noqa: E731
    found = printed(jsonl(tmp_path / "pumps.jsonl", of_pumps(mixed)))
    assert found.says("118 of 120 rows are up to", "sort the rows by 'ts', and run init again for the right rate")
    assert not found.says("lateness")


def test_rows_with_the_newest_first_are_to_be_reversed(tmp_path, printed):
    found = printed(jsonl(tmp_path / "pumps.jsonl", of_pumps(lambda _, i: -120 * i)))
    assert found.says("the newest row comes first, and 118 of 120 rows would be late", "'tac'")
    assert not found.says("lateness")


def test_rows_of_a_long_file_with_the_newest_first_are_counted_once(tmp_path, printed):
    """The first 2,000 rows had a remark of their own beside that of all."""
    made = [{"machine": "m", "ts": 1.7e9 - 60.0 * i, "a": i % 7 / 3} for i in range(2500)]
    found = printed(jsonl(tmp_path / "a.jsonl", made))
    assert found.says("the newest row comes first, and 2,499 of 2,500 rows") and not found.says("1,999 of 2,000")


def test_dates_with_the_newest_first_are_to_be_reversed(tmp_path, printed):
    made = sheet(tmp_path, "%Y-%m-%dT%H:%M:%SZ").read_text().splitlines(keepends=True)
    (tmp_path / "turned.csv").write_text("".join([made[0], *made[:0:-1]]))
    found = printed(tmp_path / "turned.csv")
    assert found.says("the newest row comes first") and not found.says("sort it by")


@pytest.mark.parametrize("shift", [0, 1])
def test_clocks_that_go_back_in_a_sample_are_named(tmp_path, printed, shift):
    moments = [datetime(2025, 10, 25, 23, tzinfo=UTC) + timedelta(hours=3 * shift, minutes=i) for i in range(300)]
    local = [moment.astimezone(zone_of("Europe/Berlin")).strftime("%d.%m.%Y %H:%M") for moment in moments]
    found = printed(as_csv(tmp_path / "a.csv", table(300, zeit=lambda i: local[i], flow=random)))
    assert found.says("59 of 300 rows are older", "clocks go back by an hour", "an offset such as +01:00") == (not shift)


def test_a_clock_that_jumps_once_is_named(tmp_path, printed):
    found = printed(jsonl(tmp_path / "pumps.jsonl", of_pumps(lambda pump, i: 31_536_000 * ((pump, i) == ("q", 20)))))
    assert found.says("39 of 120 rows are up to 31,535,940 s earlier than", "may have a wrong time; a [window] skips them")
    assert not found.says("lateness")


@pytest.mark.parametrize("second", [1, 1000])
def test_times_of_another_unit_are_named_and_not_a_slow_key(tmp_path, printed, second):
    rows = of_pumps(lambda pump, i: 0)[:-2]
    odd = [row | {"ts": row["ts"] * 1000 ** (row["pump"] == "q")} for row in rows]
    rest = [{**rows[-1], "ts": rows[-1]["ts"] * second}] * 2  # decide the unit
    found = printed(jsonl(tmp_path / "pumps.jsonl", [*odd, *rest]))
    said = "of 120 rows have a 'ts' outside of the years 2000 to 2099, first of key"
    assert found.says(said, "'q'" if second == 1 else "'p'") and said in found.text and not found.says("rates of their own")


def test_times_in_order_are_not_mentioned(tmp_path, printed):
    found = printed(jsonl(tmp_path / "pumps.jsonl", of_pumps(lambda *_: 0)))
    assert not found.says("earlier than") and not found.says("outside of")

"""Numbers as texts, and records that lack numbers: what `init --sample` writes and prints."""

from streamjobs.job_files import read_table
from streamjobs.recordings.files import records_of
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import command, jsonl
from tests.recordings.init_told import random


def test_numbers_in_texts_are_fields_and_times(tmp_path, printed, capsys):
    def row(i):
        time = str(1_764_201_600_123 + 60_000 * (i // 5))  # a 64-bit number of Protobuf as JSON
        return {"unit": f"u{i % 5}", "at": time, "kw": f"{random(i):.3f}", "rpm": 1000 + random(-i % 97), "zip": "10115"}

    sample = jsonl(tmp_path / "sample.jsonl", [row(i) for i in range(600)])
    found = printed(sample)
    assert (found.source["fields"], found.source["time"], found.source["time_unit"]) == (["kw", "rpm"], "at", "ms")
    assert found.source["numbers"] == "lenient"
    assert '# texts such as "21.5" are numbers too, here in "at", "kw"' in found.text
    assert found.says("left out of x: zip: numbers as texts")  # whole numbers may be codes
    assert found.says("0.017 Hz")
    assert command("check", found.file, "--sample", sample, "--key", "unit") == 0
    assert "600 records of 5 keys: 600 samples, 0 labelled, 0 dead letters" in capsys.readouterr().out
    source = SourceSection(**read_table(found.file)["source"])
    stamps = [record.timestamp for record in records_of(sample, source, "unit")]
    assert stamps[:6] == [1_764_201_600_123] * 5 + [1_764_201_660_123]


def test_whole_numbers_in_texts_are_fields_where_no_column_has_numbers(tmp_path, printed):
    rows = [{"device": str(i % 5), "rpm": str(1000 + i * i % 97), "code": f"0{i % 7}"} for i in range(100)]
    found = printed(jsonl(tmp_path / "sample.jsonl", rows))
    assert found.source["fields"] == ["rpm"] and found.source["numbers"] == "lenient"
    assert found.says("key device") and found.says("left out of x: code: numbers as texts")


def test_records_without_any_field_are_counted(tmp_path, printed):
    rows = [{"pump": f"p{i % 3}", "flow": random(i)} if i % 10 else {"pump": "p0", "alive": True} for i in range(100)]
    found = printed(jsonl(tmp_path / "sample.jsonl", rows))
    assert found.says("10 of 100 rows have none of the fields; they would be dead letters")


def charger(i, empty):
    return {"station": f"s{i % 4}", "kw": random(i), "temp": random(i % 997), "charge": None if empty else random(i % 89)}


def test_a_field_that_many_rows_of_the_whole_sample_lack_is_left_out(tmp_path, printed):
    rows = [charger(i, i > 1500 and i % 2) for i in range(4000)]  # the first rows have it
    rows[7]["kw"] = None
    sample = jsonl(tmp_path / "sample.jsonl", rows)
    found = printed(sample)
    assert found.source["fields"] == ["kw", "temp"] and found.source["missing"] == "skip"
    assert found.says("left out of x: charge: empty in 1,250 of 4,000 rows, which would be skipped; --missing skip keeps it")
    assert "# dlq | skip | hold | mean; 1 of 4,000 rows lack a number" in found.text
    held = tmp_path / "held.toml"
    assert command("init", held, "--sample", sample, "--missing", "hold") == 0
    assert read_table(held)["source"]["fields"] == ["kw", "temp", "charge"]


def test_a_field_that_most_rows_lack_is_kept_where_missing_numbers_are_filled_in(tmp_path, printed):
    sample = jsonl(tmp_path / "sample.jsonl", [charger(i, i % 30) | {"spare": None} for i in range(300)])
    found = printed(sample)
    assert found.source["fields"] == ["kw", "temp"]
    assert found.says("left out of x: charge: empty in 290 of 300 rows; --missing hold takes", "--label charge predicts it")
    for how in ("hold", "mean"):
        file = tmp_path / f"{how}.toml"
        assert command("init", file, "--sample", sample, "--missing", how) == 0
        source = read_table(file)["source"]
        assert (source["fields"], source["missing"]) == (["kw", "temp", "charge"], how)


def test_rows_with_one_field_each_hold_the_others(tmp_path, printed):
    rows = [{"station": f"s{i // 2 % 3}", ("kw" if i % 2 else "temp"): random(i)} for i in range(600)]
    found = printed(jsonl(tmp_path / "sample.jsonl", rows))
    assert found.source["fields"] == ["temp", "kw"] and found.source["missing"] == "hold"

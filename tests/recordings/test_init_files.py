"""`init --sample` on files of several kinds: how they are read, and the sentence for those that are not."""

import gzip
import itertools
import json
from datetime import datetime
from pathlib import Path

import pytest

from streamjobs.recordings.files import rows_of
from streamjobs.recordings.guess import guess
from streamjobs.recordings.guess.result import Chosen
from tests.recordings.init_told import as_csv, random, table


def test_semicolons_and_decimal_commas_are_read_and_reported(tmp_path, printed):
    (tmp_path / "a.csv").write_text("a;b;c\n1,5;2,5;3\n")
    found = printed(tmp_path / "a.csv")
    assert found.source["fields"] == ["a", "b", "c"]
    assert found.lines[0] == f"{tmp_path}/a.csv: read as CSV with semicolons between cells; decimal commas"


def test_decimal_commas_between_commas_are_refused_with_their_line(tmp_path, printed):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,5,2,5\n")
    assert printed(tmp_path / "a.csv").lines == [
        f"{tmp_path}/a.csv line 3: expected 2 cells as in the first line, got 4; commas separate cells, so a "
        "decimal comma must be a point."
    ]
    (tmp_path / "b.csv").write_text('a,b\n"1,5",2.5\n"2,5",3.5\n')
    found = printed(tmp_path / "b.csv")
    assert found.says("left out of x: a: numbers with a decimal comma, such as '1,5'; write a point")
    found.file.unlink()
    (tmp_path / "c.csv").write_text('a,b\n"1,5",x\n"2,25",y\n')
    assert printed(tmp_path / "c.csv").says("read as CSV with commas between cells; decimal commas")


def test_a_file_without_a_line_of_names_has_numbered_columns(tmp_path, printed):
    (tmp_path / "a.csv").write_text(
        "0.1,walk,0.3,4\n" + "".join(f"{random(i)},run,{random(i + 50)},{i % 3}\n" for i in range(9))
    )
    found = printed(tmp_path / "a.csv")
    assert found.says("no line of names: the columns are c1 to c4") and found.says("guessed from 10 rows")
    assert found.source["fields"] == ["c1", "c3", "c4"]


def test_a_column_without_a_name_that_rises_at_one_pace_is_a_time(tmp_path, printed):
    sample = tmp_path / "a.csv"
    uptime = [(f"{12.5 + n / 4 + 9 * (n > 40)}", f"{n * n % 7 + 0.5}", f"{n * n + 0.5}") for n in range(90)]
    sample.write_text("".join(",".join(row) + "\n" for row in uptime))
    found = printed(sample)
    assert (
        found.source["fields"] == ["c2"]
        and found.says("4 Hz")
        and found.says("'c1' begins at 12.5")
        and "--time c1" in found.out
    )
    (tmp_path / "job.toml").unlink()
    sample.write_text("".join(",".join(row[1:]) + "\n" for row in uptime))
    assert printed(sample).says("candidates, which rise in every row: 'c2'")


def test_a_packed_file_gives_the_topic_its_name_without_endings(tmp_path, printed):
    (tmp_path / "pumps.csv.gz").write_bytes(gzip.compress(b"pump,ts,flow\np1,1700000000,1.5\np1,1700000001,2.5\n"))
    assert printed(tmp_path / "pumps.csv.gz").source["topic"] == "pumps"


def test_columns_that_pandas_numbered_keep_their_names(tmp_path, printed):
    (tmp_path / "pandas.csv").write_text(",0,1\n" + "".join(f"{i},{random(i)},{random(-i)}\n" for i in range(6, 0, -1)))
    assert printed(tmp_path / "pandas.csv").source["fields"] == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "contents", "said"),
    [
        ("a.csv", b"", "expected a few records as they will arrive, JSON objects or rows of a table; got no rows."),
        ("a.csv", b"a,b\n", "got no rows."),
        ("a.jsonl", b"\n\n", "got no rows."),
        ("a.jsonl", b"not json\nneither\n", "got lines of something else."),
        ("a.jsonl", b'{"a": "caf\xe9"}\n', "got bytes of another encoding; save it as UTF-8."),
        (
            "a.csv",
            b"a,b\n1,caf\x81\n",
            "expected CSV in UTF-8, UTF-16 or Windows-1252, got bytes of another encoding; save it as UTF-8.",
        ),
        ("a.csv", "a,b\n1,caf\n".encode("utf-32"), "got bytes of another encoding; save it as UTF-8."),
        ("a.csv", "a,b\n1,caf\n".encode("utf-32-le"), "got bytes of another encoding; save it as UTF-8."),
        (
            "a.jsonl",
            '{"a": 1}\n{"a": 2}\n'.encode("utf-16"),
            "expected a JSON object a line in UTF-8, got UTF-16; save it as UTF-8.",
        ),
        (
            "a.jsonl",
            '{"a": 1}\n{"a": 2}\n'.encode("utf-16-be"),
            "expected a JSON object a line in UTF-8, got UTF-16-BE; save it as UTF-8.",
        ),
        (
            "a.log",
            b"a,b\n1,2\n",
            "expected a recording that ends in .jsonl, .ndjson, .csv, .tsv, .parquet, .npz, .json, .cbor, .sqlite, .txt, "
            ".dat (each may be packed as .gz), a .zip or a folder of them; got '.log': if it has a row of names above rows "
            "of values, name it .csv; else write its lines as .csv or .jsonl first.",
        ),
        ("Messung.xlsx", b"PK", "got '.xlsx': save the sheet as CSV."),
        ("a.csv.zst", b"", "got '.zst': unpack it first."),
        ("a.xml", b"<a/>", "got '.xml': write its rows as .csv, .jsonl or .parquet."),
        ("a", b"", "got 'no ending': write its rows as .csv, .jsonl or .parquet."),
        ("a.feather", b"", "got '.feather': save it from pandas with DataFrame.to_parquet."),
        ("a.mat", b"", "got '.mat': save its arrays, each with a value for each row, with numpy.savez."),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', "or the Edge Impulse format; got an object a line: name it .jsonl."),
        ("a.csv", b"a,b,a\n1,2,3\n", "column 'a' appears twice; give every column a name of its own."),
        ("a.csv", b",Pump,Pump\nt,flow,flow\n1,2,3\n", "a name of its own; of two lines of names, remove one."),
    ],
)
def test_a_file_that_gives_no_rows_is_one_sentence(tmp_path, printed, name, contents, said):
    (tmp_path / name).write_bytes(contents)
    found = printed(tmp_path / name)
    assert found.code == 2 and len(found.lines) == 1 and not found.file.exists()
    assert found.lines[0].startswith(f"{tmp_path}/{name}") and found.lines[0].endswith(said)


@pytest.mark.parametrize(
    ("lines", "fields"), [("{v}\n", ["value"]), ('[{{"n": "t", "v": {v}}}, {{"n": "h", "v": 1{v}}}]\n', 2)]
)
def test_lines_that_are_numbers_or_lists_are_the_field_value(tmp_path, printed, lines, fields):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(lines.format(v=f"{20 + n % 7}.5") for n in range(300)))
    assert printed(file).source["fields"] == (fields if fields != 2 else ["value[n=t].v", "value[n=h].v"])


@pytest.mark.parametrize("name", ["walk-1", "walk.csv", "walk.zip"])
def test_what_is_not_there_is_said_to_be_missing_whatever_its_name(tmp_path, printed, name):
    assert printed(tmp_path / name).lines == [f"{tmp_path}/{name}: no such file or folder."]


def test_a_folder_without_recordings_is_one_sentence(tmp_path, printed):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("nothing")
    assert printed(tmp_path / "notes").lines == [
        f"{tmp_path}/notes: expected recordings in this folder, files that end in .jsonl, .ndjson, .csv, .tsv, .parquet, "
        ".npz, .json, .cbor, .sqlite, .txt, .dat; got none."
    ]


def test_a_column_that_marks_faults_is_no_signal(tmp_path, printed):
    marks = {"is_anomaly": lambda i: float(i > 20), "pump.fault": lambda i: 0, "fault_current": random, "outlier": random}
    as_csv(tmp_path / "a.csv", table(30, ts=lambda i: 1_700_000_000 + i, a=random, **marks))
    found = printed(tmp_path / "a.csv")
    assert found.source["fields"] == ["a", "fault_current", "outlier"]
    assert found.says("left out of x: is_anomaly: marks faults, by its name", "--label is_anomaly predicts it")


def test_numbered_folders_are_of_people(tmp_path, printed):
    for person in ("subject1", "subject2"):
        (tmp_path / "all" / person).mkdir(parents=True)
        for label in ("walk", "run"):
            as_csv(tmp_path / "all" / person / f"{label}.csv", table(30, ax=random, ay=random))
    found = printed(tmp_path / "all")
    assert found.says("choose: label: ", "make folders such as person=subject1/label=walk")
    assert not found.says("named after labels")


def test_folders_that_are_named_after_labels_are_named_as_a_column(tmp_path, printed):
    for label in ("walk", "run"):
        (tmp_path / "all" / label).mkdir(parents=True)
        for person in ("anna", "bert"):
            as_csv(tmp_path / "all" / label / f"{person}.csv", table(30, ax=random, ay=random))
    asked = printed(tmp_path / "all")
    assert asked.says("if folders are named after labels ('run', 'walk' ...), name them label=..., as in label=run")
    asked.file.unlink()
    for label in ("walk", "run"):
        (tmp_path / "all" / label).rename(tmp_path / "all" / f"label={label}")
    found = printed(tmp_path / "all")
    assert found.source["label"] == "label" and found.says("key the name of each of 2 files; label label (classification, 2")


def test_files_of_people_without_a_column_of_keys_teach_a_population(tmp_path, printed):
    (tmp_path / "people").mkdir()
    for person in range(5):
        made = table(60, ts=lambda i: 1_700_000_000_000 + 50 * i, ax=random, ay=random, activity=lambda i: "ab"[i // 30])
        as_csv(tmp_path / "people" / f"subject_{person}.csv", made)
    found = printed(tmp_path / "people")
    assert found.out.endswith("--key-from file\n") and "streamjobs fit" in found.out and "[population]" in found.text
    assert found.says("key the name of each of 5 files", "5 people with labels") and not found.says("choose: key")


def _of_people(folder: Path, name: str) -> Path:
    """Two recordings of each of five people, one after the other, as files of these names."""
    for number in range(10):
        person, when = number % 5, {"ts": lambda i, n=number: 1_700_000_000_000 + 60_000 * (n // 5) + 50 * i}
        path = folder / name.format(person=person, recording=number // 5)
        path.parent.mkdir(parents=True, exist_ok=True)
        as_csv(path, table(60, **when, ax=random, ay=random, activity=lambda i: "ab"[i // 30]))
    return folder


def test_folders_of_people_have_the_keys_if_each_has_files_of_the_same_names(tmp_path, printed):
    found = printed(_of_people(tmp_path / "people", "p{person}/recording_{recording}.csv"))
    assert found.out.endswith("--key-from folder\n") and "\n[population]" in found.text
    assert found.says("key the name of each of 5 folders", "5 people with labels")
    assert not found.says("choose: key") and not found.says("are older than a row")


def test_files_that_may_be_of_one_person_are_no_people(tmp_path, printed):
    """As five people of two recordings each, `fit` leaves one out; as ten, the same people teach who are left out."""
    found = printed(_of_people(tmp_path / "people", "subject-p{person}_{recording}.csv"))
    assert found.says(
        "choose: key: several of the 10 files may be of one person, because their names have 5 different words at one "
        "place ('p0', 'p1', 'p2' ...); put the files of each person into a folder such as person=p0"
    )
    assert "\n[population]" not in found.text
    found.file.unlink()
    sorted_out = printed(_of_people(tmp_path / "sorted", "person=p{person}/{recording}.csv"))
    assert sorted_out.says("5 people with labels") and "\n[population]" in sorted_out.text


def test_each_file_of_machines_has_a_key_although_names_have_few_words_at_a_place(tmp_path, printed):
    (tmp_path / "machines").mkdir()
    for name in ("line1_pumpA", "line1_pumpB", "line2_pumpA", "line2_pumpB"):
        as_csv(tmp_path / "machines" / f"{name}.csv", table(60, ts=lambda i: 1_700_000_000 + 60 * i, flow=random))
    found = printed(tmp_path / "machines")
    assert found.says("key the name of each of 4 files") and not found.says("person")


def test_files_of_people_have_keys_although_no_column_has_the_name_of_a_label(tmp_path, printed):
    """The texts come in runs with a pause between them, which no state of one device has."""
    (tmp_path / "people").mkdir()
    for person in "abcde":
        when = {"ts": lambda i: 1_700_000_000_000 + 50 * i + 30_000 * (i // 30)}
        as_csv(tmp_path / "people" / f"{person}.csv", table(60, **when, ax=random, Aufgabe=lambda i: "ab"[i // 30]))
    found = printed(tmp_path / "people")
    assert found.out.endswith("--key-from file\n") and not found.says("choose: key")
    assert found.says("choose: label", "candidates: 'Aufgabe'; --label NAME chooses one")


def test_files_of_months_are_one_stream(tmp_path, printed):
    (tmp_path / "log").mkdir()
    for month in (1, 2):
        as_csv(tmp_path / "log" / f"log-2026-0{month}.csv", table(60, ts=lambda i: 1_700_000_000 + 50 * i, a=random))
    assert printed(tmp_path / "log").out.endswith("--key-is log\n")


def test_files_of_days_are_of_the_machine_that_their_folder_names(tmp_path, printed):
    """A folder may also name a label of fast samples: then people choose."""
    for pause, key in (50, "folder"), (0.05, None):
        for machine in ("van-1", "van-2"):
            (tmp_path / f"{key}" / machine).mkdir(parents=True)
            for day in (1, 2):
                made = table(60, ts=lambda i, day=day, pause=pause: 1_700_000_000 + 86_400 * day + pause * i, a=random)
                as_csv(tmp_path / f"{key}" / machine / f"can_2026-10-0{day}.csv", made)
        found = printed(tmp_path / f"{key}")
        found.file.unlink()
        assert found.says("choose: key") == (key is None) == found.says("make folders such as person=van-1")
        assert found.out.endswith(f"--key-from {key}\n") == (key is not None)


def test_folders_of_years_name_no_machines(tmp_path, printed):
    for day in ("2025-12-30", "2025-12-31", "2026-01-01"):
        (folder := tmp_path / "log" / day[:4]).mkdir(parents=True, exist_ok=True)
        begin = datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()
        as_csv(folder / f"{day}.csv", table(60, ts=lambda i, begin=begin: begin + 600 * i, a=random))
    found = printed(tmp_path / "log")
    assert found.says("choose: key") and "--key-from folder" not in found.out


def test_whole_numbers_that_never_fall_and_are_times_are_the_time(tmp_path, printed):
    made = table(60, line=lambda i: f"l{i % 3}", when=lambda i: 1_767_225_600 + 30 * (i // 3), a=random)
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert (found.source["time"], found.source["time_unit"], found.source["fields"]) == ("when", "s", ["a"])


def test_the_spans_of_a_window_follow_the_pause_of_a_slow_sensor(tmp_path, printed):
    found = printed(as_csv(tmp_path / "a.csv", table(60, ts=lambda i: 1_700_000_000 + 60 * i, a=random)))
    assert '# length = "20m"\n# hop = "10m"\n' in found.text


@pytest.mark.parametrize(("pause", "linger"), [(30, "1000ms"), (1, "200ms"), (0.5, None)])
def test_records_of_slow_keys_wait_for_each_other(tmp_path, printed, pause, linger):
    made = table(60, line=lambda i: f"l{i % 3}", ts=lambda i: 1_767_225_600 + pause * (i // 3), a=random)
    assert printed(as_csv(tmp_path / "a.csv", made)).source.get("linger") == linger


def test_a_column_of_few_remarks_is_no_candidate_for_the_key(tmp_path, printed):
    """As a key it would make dead letters of all rows without a remark."""
    made = table(60, ts=lambda i: 1_700_000_000 + 50 * i, a=random, remark=lambda i: "service" if i == 9 else "")
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.out.endswith("--key-is a\n") and not found.says("candidates: 'remark'")


def test_a_list_among_objects_is_a_broken_line_and_both_are_counted(tmp_path, printed):
    lines = [json.dumps(row) for row in table(60, ts=lambda i: 1_700_000_000 + 50 * i, device="p1", flow=random)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:30], "[1, 2]", '{"ts": 17', "7", *lines[30:]]) + "\n")
    found = printed(tmp_path / "a.jsonl")
    assert found.code == 0 and found.source["fields"] == ["flow"]
    assert found.says("3 of 63 rows are not objects with fields; they would be dead letters") and not found.says(
        "lack a number"
    )


@pytest.mark.parametrize("word", ["n/a", "-", "---", "NULL", "#NV", "#DIV/0!", "N.A."])
def test_a_word_for_nothing_in_a_column_of_numbers_is_a_missing_number(tmp_path, printed, word):
    rows = table(
        60, ts=lambda i: 1_700_000_000 + 50 * i, device="p1", flow=lambda i: word if i % 9 == 8 else random(i), rpm=random
    )
    found = printed(as_csv(tmp_path / "a.csv", rows))
    assert found.source["fields"] == ["flow", "rpm"] and found.source["missing"] == "skip"
    assert found.says("6 of 60 rows lack a number in 'flow'")
    labels = [row["label"] for row in rows_of(as_csv(tmp_path / "b.csv", [row | {"label": word} for row in rows]))]
    assert {*labels} == {word}, "which may be the name of a class"


def test_a_column_of_numbers_with_a_few_texts_is_kept_and_they_are_counted(tmp_path, printed):
    rows = table(
        60, ts=lambda i: 1_700_000_000 + 50 * i, device="p1", flow=lambda i: "fault" if i % 20 == 3 else random(i), b=random
    )
    jsonl = tmp_path / "a.jsonl"
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for sample in (as_csv(tmp_path / "a.csv", rows), jsonl):
        found = printed(sample)
        assert found.source["fields"] == ["flow", "b"]
        found.file.unlink()
        assert found.says("3 of 60 rows have a text in 'flow', where others have a number") and not found.says("fault")

    half = table(60, device="p1", flow=lambda i: "fault" if i % 2 else random(i), b=random)
    assert printed(as_csv(tmp_path / "half.csv", half)).says("left out of x: flow: values of several kinds")


def test_a_column_that_few_files_have_is_left_out_with_the_number_of_these_files(tmp_path, printed):
    (folder := tmp_path / "hall").mkdir()
    for name in ("m1", "m2", "m3"):
        vib = {"vib": 0.5} if name == "m2" else {}
        as_csv(folder / f"{name}.csv", [{"ts": 1.7e9 + 60 * i, "machine": name, "t": random(i), **vib} for i in range(60)])
    assert printed(folder).says("left out of x: vib: only in 1 of 3 files; put the files of each kind into a folder")


def test_a_file_of_labels_with_begin_and_end_is_named(tmp_path, printed):
    (folder := tmp_path / "people").mkdir()
    spans = []
    for name in ("p1", "p2"):
        as_csv(folder / f"{name}.csv", [{"ts": 1.7e9 + i / 20, "person": name, "ax": random(i)} for i in range(400)])
        each = ((1.7e9 + 5 * i, ("sit", "walk")[i % 2]) for i in range(4))
        spans += [{"person": name, "start": begin, "end": begin + 5, "label": label} for begin, label in each]
    as_csv(folder / "spans.csv", spans)
    found = printed(folder)
    assert found.says(f"no row of {folder}/spans.csv has a field. Labels with a begin and an end are written")
    assert found.says("left out of x: start: only in files without fields")


def test_labels_of_a_file_without_samples_are_no_labels_of_the_samples(tmp_path, printed):
    """`fit` would learn from labels without numbers."""
    (folder := tmp_path / "people").mkdir()
    made = [{"person": p, "ts": 1.7e9 + i / 20, "ax": random(i)} for p in ("p1", "p2", "p3") for i in range(400)]
    as_csv(folder / "imu.csv", made)
    spans = [{"person": row["person"], "end": row["ts"] + 5, "activity": "ab"[n % 2]} for n, row in enumerate(made[::100])]
    as_csv(folder / "labels.csv", spans)
    found = printed(folder)
    assert found.says(f"choose: label: 'activity' has no sample; no row of {folder}/labels.csv has a field")
    assert "label" not in found.source and "streamjobs fit" not in found.out
    assert found.says("left out of x: activity: only in files without fields")


def test_a_key_that_only_a_file_of_labels_has_is_not_the_key(tmp_path, printed):
    """Each sample would be a dead letter without a key."""
    (folder := tmp_path / "people").mkdir()
    for name in ("anna", "bo"):
        as_csv(folder / f"{name}.csv", [{"ts": 1.7e9 + i / 20, "ax": random(i)} for i in range(900)])
    spans = [{"person": p, "start": 1.7e9, "end": 1.7e9 + 9, "activity": "walk"} for p in ("anna", "bo") for _ in range(6)]
    as_csv(folder / "labels.csv", spans)
    found = printed(folder)
    assert "missing" not in found.source and found.says("key the name of each of 2 files")
    assert found.says(f"choose: label: 'activity' has no sample; no row of {folder}/labels.csv has a field")
    assert found.says("left out of x: start, end, person", "only in files without fields")
    assert "'person' is not the key, because only files" in guess(folder, chosen=Chosen(key="person")).remarks[-1]


@pytest.mark.parametrize("narrow", [False, True])
def test_files_whose_fields_begin_late_are_files_of_samples(tmp_path, printed, narrow):
    """A key or label that no other file has is not lost; rows of a long table have the columns of no field."""
    (folder := tmp_path / "people").mkdir()
    for name in ("anna", "bo"):
        rows = [{"person": name, "ts": 1.7e9 + i, "temp": None if i < 30 else random(i), "note": None} for i in range(400)]
        if narrow:
            rows = [{"sensor": ("temp", "hum")[i % 2], "value": row.pop("temp"), **row} for i, row in enumerate(rows)]
        as_csv(folder / f"{name}.csv", rows)
    found = printed(folder)
    fields = ["temp.value", "hum.value"] if narrow else ["temp"]
    assert found.says(f"fields {', '.join(fields)}; key person; time ts")
    assert not found.says("has a field")


@pytest.mark.parametrize("key", [False, True])
def test_folders_with_versions_of_the_same_recordings_are_not_keys(tmp_path, printed, key):
    """Each sample would be learned twice, also by a key that is a column."""
    for version in ("clean", "raw"):
        (folder := tmp_path / "walks" / version).mkdir(parents=True)
        for name in ("anna", "bo"):
            rows = [{"ts": 1.7e9 + i / 20, "ax": random(i), "activity": "ab"[i // 50 % 2]} for i in range(400)]
            as_csv(folder / f"{name}.csv", [row | {"person": name} for row in rows] if key else rows)
    found = printed(tmp_path / "walks")
    assert found.says("choose: key: the folders 'clean', 'raw' have versions of the same recordings", "learned twice")
    assert found.says(f"--sample {tmp_path}/walks/clean") and not found.says("name of each")


def test_files_of_sensors_in_folders_of_days_are_keys(tmp_path, printed):
    for day in range(3):
        (folder := tmp_path / "hall" / f"2026-02-{20 + day}").mkdir(parents=True)
        for name, level in (("temp", 20.0), ("hum", 50.0)):
            rows = [{"ts": 1.7e9 + 86_400 * day + 120 * i, "value": level + random(i)} for i in range(100)]
            as_csv(folder / f"{name}.csv", rows)
    found = printed(tmp_path / "hall")
    assert found.says("key the name of each of 2 files") and "--key-from file" in found.out


@pytest.mark.parametrize("names", [("00", "12"), ("log", "log_2")])
def test_files_of_hours_and_parts_in_folders_of_days_are_no_keys(tmp_path, printed, names):
    """All are of one machine, or of several: the user is asked."""
    for day, name in itertools.product(range(3), names):
        (folder := tmp_path / "hall" / f"2026-02-{20 + day}").mkdir(parents=True, exist_ok=True)
        begin = 1.7e9 + 86_400 * day + 43_200 * names.index(name)
        rows = [{"ts": begin + 120 * i, "temp": random(i), "hum": random(i + 500)} for i in range(100)]
        as_csv(folder / f"{name}.csv", rows)
    assert printed(tmp_path / "hall").says("choose: key: no column has the name of a key")


def test_labels_that_begin_late_are_labels_next_to_a_file_without_samples(tmp_path, printed):
    (folder := tmp_path / "people").mkdir()
    for p in ("p1", "p2", "p3"):
        rows = [{"person": p, "ts": 1.7e9 + i / 20, "ax": random(i), "activity": "ab"[i // 200 % 2]} for i in range(600)]
        as_csv(folder / f"{p}.csv", [row if i >= 100 else {**row, "activity": ""} for i, row in enumerate(rows)])
    as_csv(folder / "people.csv", [{"person": p, "group": "young"} for p in ("p1", "p2", "p3")])
    found = printed(folder)
    assert found.source["label"] == "activity" and not found.says("has no sample")


def test_a_switch_is_no_key_and_times_of_day_name_no_keys(tmp_path, printed):
    rows = table(1200, Datum="2. März 2026", Uhrzeit=lambda i: f"{i // 60}:{i % 60:02}", oven=random, steam=_switched)
    found = printed(as_csv(tmp_path / "oven.csv", 2 * rows[:1001] + rows[1001:]))
    assert found.says("guessed from 2,000 rows: fields oven.") and found.out.endswith("--key-is oven\n")
    assert found.says("'steam' changes as the state of one device")
    assert found.says("'Datum' holds texts such as '2. März 2026'", "; write months as numbers")


def _switched(i: int) -> str:
    return ("EIN", "AUS")[i // 30 % 2]

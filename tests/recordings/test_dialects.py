"""CSV as spreadsheets and loggers write it, packed files and folders: read right and told, or refused with both readings."""

import gzip
import io
import itertools
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from streamjobs.errors import ConfigError
from streamjobs.recordings import tables
from streamjobs.recordings.columns import read_times
from streamjobs.recordings.files import recordings_of, records_of, rows_of
from streamjobs.recordings.guess import guess_rows
from streamjobs.recordings.tables import How, _values, cell_value
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import as_npz, as_parquet, command, job_file, jsonl, rows

PLAIN = [{"t": 1.5, "a": 2.25, "who": "p1"}, {"t": 2.5, "a": None, "who": "p2"}]


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows, and what is told of the file."""
    told: list[str] = []
    found = list(rows_of(path, How(tell=lambda where, text: told.append(text), **options)))
    return found, told


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (
            ["26.10.2025 01:59", "26.10.2025 02:00", "26.10.2025 02:30", "26.10.2025 02:30", "26.10.2025 03:00"],
            "times that Europe/Berlin has twice, because clocks go back: 3, such as '26.10.2025 02:00'; they are",
        ),
        (
            ["30.03.2025 01:59", "30.03.2025 02:30", "30.03.2025 03:00"],
            "times that Europe/Berlin does not have, because clocks go forward: 1, such as '30.03.2025 02:30'",
        ),
        (["2025-10-26T02:30:00+01:00", "2025-10-26T02:30:00Z", 1761442200.0], None),
        (["25.10.2025 02:30"], None),
        ([1761442200.0, 9e24, -9e24], None),
    ],
)
def test_local_times_that_come_twice_or_never_are_counted(tmp_path: Path, times: list[Any], told: str | None) -> None:
    file, found = jsonl(tmp_path / "local.jsonl", [{"t": time, "a": 1.0, "who": "p"} for time in times]), list[str]()
    form = None if "T" in str(times[0]) else "%d.%m.%Y %H:%M"
    source = SourceSection(topic="m", fields=["a"], time="t", time_format=form, time_zone="Europe/Berlin")
    how = How(tell=lambda where, text: found.append(text))
    assert len(list(records_of(file, source, "who", how=how))) == len(times)
    assert [one.startswith(told or "?") for one in found] == ([] if told is None else [True])


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        ("t,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-8", []),
        ("t,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-8-sig", []),
        ("t,a,who\r\n1.5,2.25,p1\r\n\r\n2.5,,p2\r\n", "utf-16", ["UTF-16"]),
        ("t,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-16-be", ["UTF-16-BE"]),
        ("t;a;who\n1,5;2,25;p1\n2,5;;p2\n", "utf-8", ["semicolons between cells; decimal commas"]),
        ("t;a;who\n1.5;2.25;p1\n2.5;;p2\n", "utf-8", ["semicolons between cells; decimal points"]),
        ("t\ta\twho\n1,5\t2,25\tp1\n2,5\t\tp2\n", "utf-8", ["tabs between cells; decimal commas"]),
        ('t,a,who\n"1,5","2,25",p1\n"2,5",,p2\n', "utf-8", ["commas between cells; decimal commas"]),
        ("sep=;\nt;a;who\n1,5;2,25;p1\n2,5;;p2\n", "utf-8", ["semicolons between cells; decimal commas"]),
        ("t;a;who\n1,5E0;2,25E+0;p1\n2,5;;p2\n", "utf-8", ["semicolons between cells; decimal commas"]),
        ("Pumps of hall 3\n\nt,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-8", ["the names of columns in line 3, below a title"]),
        ("Bericht;;\nvom 1.2.2025;;\nt;a;who\n1,5;2,25;p1\n2,5;;p2\n", "utf-8", ["in line 3, below a title; semicolons"]),
        ("Bericht;;\nvom;1.2.2025;\n\nt;a;who\n1,5;2,25;p1\n2,5;;p2\n", "utf-8", ["in line 4, below a title; semicolons"]),
        ("Firma,ACME\nHalle,West\nt,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-8", ["in line 3, below a title"]),
        ("# v3, of a, b, c\n# Plant: 1\nt,a,who\n1.5,2.25,p1\n2.5,,p2\n", "utf-8", ["line 3"]),
        ('sep=;\n"Pumps\nof hall 3"\nt;a;who\n1,5;2,25;p1\n2,5;;p2\n', "utf-8", ["the names of columns in line 4"]),
        ("t, a, who\n1.5, 2.25, p1\n2.5, , p2\n", "utf-8", ["spaces around cells left out"]),
        ("t ; a ; who\n1,5 ; 2,25 ; p1\n2,5 ; ; p2\n", "utf-8", ["decimal commas; spaces around cells left out"]),
        ("t;a;who\ns;°C;\n1,5;2,25;p1\n2,5;;p2\n", "cp1252", ["CP1252; the line below the names has units"]),
    ],
)
def test_each_way_to_write_the_same_table_gives_the_same_rows(tmp_path, text, encoding, told):
    found, said = read(written(tmp_path / "a.csv", text, encoding))
    assert found == PLAIN
    assert len(said) == len(told) and all(one in line for one, line in zip(told, said, strict=True))


def test_names_of_groups_of_columns_in_two_lines_below_a_title_are_joined(tmp_path):
    """As spreadsheets write merged cells."""
    text = "Ovens;;;;\nHall 3;;;;\n\nday;oven 1;;oven 2;note\n;top;base;top;\n2;220,5;200,5;210,0;\n3;221,5;201,5;211,0;x\n"
    found, said = read(written(tmp_path / "a.csv", text))
    assert [*found[0].items()] == [
        ("day", 2),
        ("oven 1 top", 220.5),
        ("oven 1 base", 200.5),
        ("oven 2 top", 210.0),
        ("note", None),
    ]
    assert len(found) == 2 and "line 4, below a title; two lines of names joined, as in 'oven 1 base'" in said[0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Report\n,temp,hum\n1,2.5,3\n2,3.5,4\n", ["", "temp", "hum"]),  # as pandas writes the numbers of rows
        ("# v3\n,temp,hum\n1,2.5,3\n2,3.5,4\n", ["", "temp", "hum"]),
        ("Report,v3\n,temp,hum\n1,2.5,3\n2,3.5,4\n", ["", "temp", "hum"]),
        ("# on,2025,\ntime,temp,\n1,2.5,3\n2,3.5,4\n", ["time", "temp", ""]),
        ("Report\ntime,oven,\n,top,base\n1,2.5,3\n2,3.5,4\n", ["time", "oven top", "oven base"]),
        ("time,oven,\ns,top,base\n1,2.5,3\n2,3.5,4\n", ["time s", "oven top", "oven base"]),
        ("Time,12.5.2025,\nt,a,b\n1,2.5,3\n2,3.5,4\n", ["t", "a", "b"]),
    ],
)
def test_two_names_of_three_columns_are_names_below_a_title_and_above_others(tmp_path, text, names):
    found, _ = read(written(tmp_path / "a.csv", text))
    assert ([*found[0]], len(found)) == (names, 2)


def test_blank_lines_around_two_lines_of_names_are_no_rows(tmp_path):
    found, _ = read(written(tmp_path / "a.csv", "\n\nday,oven 1,\n\n,top,base\n2,220.5,200.5\n3,221.5,201.5\n"))
    assert [*map(list, found)] == [["day", "oven 1 top", "oven 1 base"]] * 2 and found[0]["oven 1 top"] == 220.5


def test_units_below_the_names_are_not_joined_to_them_for_a_column_of_row_numbers(tmp_path):
    found, said = read(written(tmp_path / "a.csv", ",ts,temp\nno,s,K\n0,7.5,280.5\n1,8.5,281.5\n"))
    assert [*found[0]] == ["", "ts", "temp"] and len(found) == 2 and "has units" in said[0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#t,who,state\n2025-01-01 00:00,p1,open\n2025-01-01 00:01,p2,shut\n", ["#t", "who", "state"]),
        ("#t,a\n-1.5,2\n2.5,3\n", ["#t", "a"]),
        (",a\n0,1.5\n1,2.5\n", ["", "a"]),
        ("t,,\n0,1.5,2\n1,2.5,2\n", ["t", ""]),
        ("a\nx\ny\n", ["a"]),
    ],
)
def test_names_are_not_a_title(tmp_path, text, names):
    found, _ = read(written(tmp_path / "a.csv", text))
    assert (len(found), list(found[0])) == (2, names)


def test_a_line_in_another_encoding_is_reported_once_and_is_no_end_that_breaks_off(tmp_path):
    (path := tmp_path / "a.jsonl").write_bytes(b'{"who": "p1"}' + 2 * '\n{"who": "Süd"}'.encode("latin-1"))
    found, said = read(path)
    assert found == [{"who": "p1"}, {}, {}]
    assert said == ["line 2: expected UTF-8, got bytes of another encoding; save the file as UTF-8"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_last_line_that_is_still_being_written_is_left_out_and_reported(tmp_path, end):
    whole = end.join(["t,a,who", "1.5,2.25,p1", "2.5,,p2"])
    assert read(written(tmp_path / "a.csv", whole)) == (PLAIN, []), "a last line without an end may be whole"
    found, said = read(written(tmp_path / "b.csv", whole + end + "3.5,2"))
    assert found == PLAIN and said == ["its last line breaks off after 2 of 3 cells, and is left out"]
    short, said = read(written(tmp_path / "c.csv", whole + end + "3.5,2" + end))
    assert short == [*PLAIN, {"t": 3.5, "a": 2, "who": None}] and not said
    rows, part = '{"t": 1, "a": 2}' + end + '{"t": 2, "a": 3}', end + '{"t": 3, "a"'
    assert read(written(tmp_path / "d.jsonl", rows)) == ([{"t": 1, "a": 2}, {"t": 2, "a": 3}], [])
    found, said = read(written(tmp_path / "e.jsonl", rows + part))
    assert len(found) == 2 and said == ["its last line breaks off, and is left out"]
    found, said = read(written(tmp_path / "f.jsonl", rows + part + end))
    assert found[2] == {} and not said, "a line with an end is complete: it becomes a dead letter"


def test_quoted_cells_hold_separators_quotes_and_line_ends(tmp_path):
    found, _ = read(written(tmp_path / "a.csv", 'a;note\n1,5;"x; ""y""\nz"\n2,25;""\n'))
    assert found == [{"a": 1.5, "note": 'x; "y"\nz'}, {"a": 2.25, "note": None}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a;b\n1,234;2,345\n",
            "can be 1.234 with a decimal comma, or 1234 with commas between thousands",
        ),
        (
            "a;b\n1,5;2.5\n",
            "column 'a' has numbers such as 1,5, and column 'b' such as 2.5; choose the decimal sign",
        ),
        ("t;x,y\na;b,c\n", "can be read as 2 columns with commas between cells ('t;x', 'y') or 2 columns with semicolons"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_both(tmp_path, text, said):
    with pytest.raises(ConfigError, match="; choose ") as caught:
        read(written(tmp_path / "a.csv", text))
    assert said in str(caught.value) and str(tmp_path) in str(caught.value)


def test_the_user_can_say_which_reading_is_meant(tmp_path):
    path = written(tmp_path / "a.csv", "a;b\n1,234;2,345\n")
    assert read(path, decimal=",")[0] == [{"a": 1.234, "b": 2.345}]
    assert read(path, decimal=".")[0] == [{"a": "1,234", "b": "2,345"}]
    path = written(tmp_path / "b.csv", "t;x,y\na;b,c\n")
    assert read(path, separator=";")[0] == [{"t": "a", "x,y": "b,c"}]


def test_with_a_decimal_comma_a_point_is_between_thousands_or_makes_no_number(tmp_path):
    found, said = read(written(tmp_path / "a.csv", "a;b;c\n1,5;x;1.200\n1.234,5;y;1.000.000\n-12.345,25;1.5z;7\n"))
    assert [row["a"] for row in found] == [1.5, 1234.5, -12345.25] and [row["c"] for row in found] == [1200, 1_000_000, 7]
    assert said == ["read as CSV with semicolons between cells; decimal commas"]
    assert read(written(tmp_path / "b.csv", "a;b\n1,5;x\n1.2,5;y\n"))[0][1]["a"] == "1.2,5"
    with pytest.raises(ConfigError, match=r"numbers such as 1\.234,5, and column 'b' such as 0\.5; choose the decimal sign"):
        read(written(tmp_path / "c.csv", "a;b\n1.234,5;0.5\n"))


def test_commas_are_between_thousands_where_a_number_has_a_point_too(tmp_path):
    text = 'a,b\n"1,234.50",x\n980.25,y\n"1,000,000.00",z\n'
    assert [row["a"] for row in read(written(tmp_path / "a.csv", text))[0]] == [1234.5, 980.25, 1_000_000]


@pytest.mark.parametrize("space", [" ", "'", "\u00a0", "\u202f", "\u2019"])
def test_spaces_and_apostrophes_are_between_thousands_too(tmp_path, space):
    text = "a;id\n1_234,5;12_34\n-980,25;x\n1_000_000;y\n1_00,5;z\n".replace("_", space) + "7;w\n" * 30
    found, said = read(written(tmp_path / "a.csv", text))
    assert [row["a"] for row in found[:4]] == [1234.5, -980.25, 1_000_000, f"1{space}00,5"]
    assert found[0]["id"] == f"12{space}34", "no number"
    assert said == [
        "read as CSV with semicolons between cells; decimal commas; {!r} read as 1234.5".format(f"1{space}234,5")
    ]


def test_a_first_row_of_texts_or_of_nothing_holds_no_units(tmp_path):
    assert len(read(written(tmp_path / "a.csv", "a,label\n,walk\n1.5,run\n"))[0]) == 2
    assert len(read(written(tmp_path / "b.csv", "a,b\n-,n/a\n1.5,2\n"))[0]) == 2
    assert len(read(written(tmp_path / "c.csv", "who,what\nanna,x\nbert,y\n"))[0]) == 2


def test_bytes_that_later_fit_no_more_are_one_sentence(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + b"1.5,x\n" * 20_000 + b"1.5,caf\xe9\n")
    with pytest.raises(ConfigError, match="expected CSV in the encoding of its first rows, got bytes of another encoding"):
        read(path)


def test_everything_may_be_packed(tmp_path):
    table = list(rows(30))
    plain = {
        "a.jsonl": jsonl(tmp_path / "a.jsonl", table),
        "a.parquet": as_parquet(tmp_path / "a.parquet", table),
        "a.npz": as_npz(tmp_path / "a.npz", table),
        "a.json": written(tmp_path / "a.json", json.dumps(table)),
    }
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in plain.items():
            packed = path.with_name(name + ".gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            assert list(rows_of(packed)) == list(rows_of(path)), name
            archive.write(path, f"export/{name}")
            archive.write(packed, f"export/inner/{name}.gz")
        archive.writestr("__MACOSX/._a", "")
    assert len(recordings_of(tmp_path / "all.zip")) == 8 and len(list(rows_of(tmp_path / "all.zip"))) == 8 * 30


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv.gz", b"no gzip", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 900)[:-9], "expected CSV; it is damaged, or something else"),
        ("a.zip", b"no zip", "expected a zip archive of recordings; it is damaged, or something else"),
        ("a.json", b"[1, 2]", "writes it, or the Edge Impulse format with its payload; got neither"),
        ("a.cbor", b"\xff\x00", "expected CBOR in the Edge Impulse format; it is damaged"),
        ("a.parquet", b"PAR1", "expected Parquet; it is damaged"),
    ],
)
def test_what_is_damaged_is_one_sentence(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        read(tmp_path / name)


def test_an_encrypted_archive_is_one_sentence(tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a\nb.csv", "a\n1\n")
    encrypted = bytearray(data.getvalue())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[encrypted.index(mark) + place] |= 1
    (tmp_path / "a.zip").write_bytes(encrypted)
    with pytest.raises(ConfigError, match=r"'a\\nb.csv' is encrypted; unpack the archive, and name"):
        read(tmp_path / "a.zip")


NUMBERED = [{"c1": 33, "c2": "run", "c3": 4.5, "c4": -0.25}, {"c1": 34, "c2": "sit", "c3": 5.5, "c4": 1.5}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "33,run,4.5,-0.25\n34,sit,5.5,1.5\n"),
        ("a.txt", "33,run,4.5,-0.25;\n34,sit,5.5,1.5;\n"),  # as WISDM's recordings end
        ("a.dat", " 33  run 4.5   -0.25 \r\n 34  sit 5.5    1.5 \r\n"),
        ("a.txt", "33;run;4,5;-0,25\n34;sit;5,5;1,5\n"),
    ],
)
def test_a_table_without_a_line_of_names_has_all_of_its_rows(tmp_path, name, text):
    found, told = read(written(tmp_path / name, text))
    assert found == NUMBERED and "no line of names: the columns are c1 to c4" in told[0]


@pytest.mark.parametrize("names", [",0,1", "0,1,2", "0,1,2,3,4", "label,0,1,2", "user,0,1,2,label"])
def test_numbers_that_are_names_stay_names(tmp_path, names):
    rows = [["a", *("1.5", "2.5", "3.5", "4.5")], ["b", *("3.5", "4.5", "5.5", "6.5")]]
    texts = [",".join([*row[: names.count(",")], row[0] if "user" in names else row[names.count(",")]]) for row in rows]
    found, told = read(written(tmp_path / "a.csv", "\n".join([names, *texts, ""])))
    assert [[*row] for row in found] == [names.split(",")] * 2 and not told


def test_numbers_that_count_are_a_row_if_its_text_comes_again(tmp_path):
    found, told = read(written(tmp_path / "a.csv", "0,1,2,run\n3,4,5,run\n6,7,8,sit\n"))
    assert len(found) == 3 and "no line of names" in told[0]


def test_of_texts_in_a_folder_only_tables_are_recordings_and_only_without_others(tmp_path):
    (tmp_path / "raw").mkdir()
    written(tmp_path / "raw" / "readme.txt", "Walking, running:\nmany people, many days\n")
    written(tmp_path / "raw" / "p1.dat", "1 2.5\n2 3.5\n")
    assert [one.name for one in recordings_of(tmp_path / "raw")] == ["p1"]
    written(tmp_path / "raw" / "p2.csv", "a,b\n1,2\n")
    assert [one.name for one in recordings_of(tmp_path / "raw")] == ["p2"]


def test_folders_of_any_recordings_are_columns(tmp_path):
    (tmp_path / "activity=run").mkdir()
    written(tmp_path / "activity=run" / "a.csv", "ax\n1.5\n")
    (tmp_path / "activity=run" / "b.jsonl").write_text('{"ax": 2.5}\n')
    assert list(rows_of(tmp_path)) == [{"ax": 1.5, "activity": "run"}, {"ax": 2.5, "activity": "run"}]
    source = SourceSection(topic="imu", fields=["ax"], label="activity")
    found = list(records_of(tmp_path, source, None, how=How(key_is="me")))
    assert [json.loads(record.value) for record in found] == list(rows_of(tmp_path))


def test_rows_without_times_come_at_the_rate_of_windows_and_recordings_an_hour_apart(tmp_path):
    (tmp_path / "all").mkdir()
    for name, count in (("p1", 3), ("p2", 0), ("p3", 2)):
        written(tmp_path / "all" / f"{name}.csv", "ax\n" + "1.5\n" * count)
    told: list[str] = []
    how = How(key_from="file", rate=40.0, tell=lambda where, text: told.append(text))
    found = list(records_of(tmp_path / "all", SourceSection(topic="imu", fields=["ax"]), None, how=how))
    assert [(one.offset, one.timestamp) for one in found] == [(0, 0), (1, 25), (2, 50), (3, 3_600_050), (4, 3_600_075)]
    assert told == ["no times: its rows come 40 times a second, as [window] rate says"]


def test_a_folder_is_read_in_natural_order_and_files_or_folders_are_keys(tmp_path):
    for person in ("p10", "p2"):
        for number in (10, 9):
            (tmp_path / "all" / person).mkdir(parents=True, exist_ok=True)
            text = f"ts,ax,ay,az\n{1_700_000_000 + number},{number},0,0\n"
            written(tmp_path / "all" / person / f"walk {number}.csv", text)
    written(tmp_path / "all" / "notes.txt", "no recording")
    source = SourceSection(topic="imu", fields=["ax", "ay", "az"], time="ts")
    told: list[str] = []
    by_folder = How(key_from="folder", tell=lambda where, text: told.append(text))
    found = list(records_of(tmp_path / "all", source, None, how=by_folder))
    assert [record.key for record in found] == [b"p2", b"p2", b"p10", b"p10"]
    assert [json.loads(record.value)["ax"] for record in found] == [9, 10, 9, 10]
    assert [record.offset for record in found] == [0, 1, 2, 3] and "left out: notes.txt" in told[0]
    by_file = records_of(tmp_path / "all", source, None, how=How(key_from="file"))
    assert {record.key for record in by_file} == {b"walk 9", b"walk 10"}
    assert {record.key for record in records_of(tmp_path / "all", source, None, how=How(key_is="me"))} == {b"me"}


def test_folders_of_partitioned_parquet_are_columns(tmp_path):
    for person in ("anna b", "bert"):
        folder = tmp_path / "set" / f"person={person.replace(' ', '%20')}"
        folder.mkdir(parents=True)
        as_parquet(folder / "part-0.parquet", [{"ts": 1.0, "ax": 2.0}])
    written(tmp_path / "set" / "_SUCCESS", "")
    assert [row["person"] for row in rows_of(tmp_path / "set")] == ["anna b", "bert"]


def test_times_that_count_from_0_begin_when_the_user_says(tmp_path):
    source = SourceSection(topic="imu", fields=["ax"], time="t", time_unit="ms")
    path = written(tmp_path / "a.csv", "t,ax\n0,1\n20,2\n")
    found = list(records_of(path, source, None, how=How(key_is="me", start=1_700_000_000.0)))
    assert [record.timestamp for record in found] == [1_700_000_000_000, 1_700_000_000_020]
    assert json.loads(found[1].value)["t"] == 1_700_000_000_020


def test_a_time_that_no_float_holds_goes_on_as_it_is_and_is_refused_by_the_job(tmp_path):
    source = SourceSection(topic="imu", fields=["ax"], time="t")
    path = written(tmp_path / "a.jsonl", '{"t": 0, "ax": 1}\n{"t": 1' + "0" * 400 + ', "ax": 2}\n')
    found = list(records_of(path, source, None, how=How(key_is="me", start=1_700_000_000.0)))
    assert json.loads(found[0].value)["t"] == 1_700_000_000.0 and json.loads(found[1].value)["t"] == 10**400


def test_dates_with_one_missing_are_times(tmp_path):
    table = [{"at": "2023-11-14T22:13:20Z", "ax": "1"}, {"at": float("nan"), "ax": "2"}]
    read, found = read_times(table)
    assert found.zoned == {"at": True} and read[0]["at"] == 1_700_000_000.0 and read[1]["at"] != read[1]["at"]


@pytest.mark.slow
def test_commands_take_semicolons_and_say_so(tmp_path, capsys):
    table = list(rows(600))
    lines = ["person;ts;ax;ay;az;activity"]
    for row in table:
        numbers = (str(row[name]).replace(".", ",") for name in ("ts", "ax", "ay", "az"))
        lines.append(f"{row['person']};{';'.join(numbers)};{row['activity']}")
    german, english = written(tmp_path / "a.csv", "\n".join(lines)), jsonl(tmp_path / "a.jsonl", table)
    said = []
    for path in (german, english):
        assert command("replay", job_file(tmp_path), "--input", path, "--key", "person", "--json") == 0
        out, err = capsys.readouterr()
        assert ("decimal commas" in err) == (path is german)
        said.append({name: value for name, value in json.loads(out).items() if "second" not in name})
    assert said[0] == said[1] and said[0]["rows"] > 0
    assert command("replay", job_file(tmp_path), "--input", german, "--key", "person", "--separator", "no") == 2
    assert "--separator must be one character" in capsys.readouterr().err


ODD = (
    *(
        "",
        "NaN",
        "n/a",
        "null",
        "1",
        "-0",
        "-0.0",
        "+1",
        "01",
        ".5",
        "5.",
        " 1.5 ",
        "1e5",
        "1E-400",
        "1.5e400",
        "1_0",
        "\u0663",
    ),
    *("9" * 25, "9" * 5000, "0." + "123456789" * 5, "true", '"1"', "[1]", "1.5,2.5", "1,5", "1.234,5", "1.234.567", "1\n2"),
    *("1 000", "p1", "\ud800"),
)


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("of_numbers", [False, True])
def test_cells_of_a_column_read_at_once_are_those_read_one_by_one(decimal: str, of_numbers: bool):
    for column in itertools.product(ODD, ODD, ["2", f"1{decimal}5"]):
        one_by_one = [cell_value(text, decimal, of_numbers) for text in column]
        assert repr(_values(column, decimal, of_numbers)) == repr(one_by_one), column


def test_rows_before_a_damaged_one_are_read(tmp_path):
    path = written(tmp_path / "a.csv", "t,a\n" + "1,2\n" * 5000 + '"1\n",2\n1,2,3\n')
    found = rows_of(path)
    assert sum(1 for _ in itertools.islice(found, 5001)) == 5001
    with pytest.raises(ConfigError, match="line 5004: expected 2 cells"):
        next(found)


def test_quoted_cells_may_have_spaces_in_front(tmp_path):
    path = written(tmp_path / "a.csv", '"t", "a", "who"\n1, 2, "left, knee"\n2, 3, "right"\n')
    assert list(rows_of(path)) == [{"t": 1, "a": 2, "who": "left, knee"}, {"t": 2, "a": 3, "who": "right"}]


def test_rows_of_long_texts_become_values_a_few_at_a_time(tmp_path):
    path, opened = written(tmp_path / "a.csv", "t,a\n" + f"1,{'x' * 10_000}\n" * 500), list[Any]()
    found = rows_of(path, How(opened=opened.append))
    next(found)
    assert opened[-1].raw.position < 2 << 20  # of 5 MB


def test_lists_of_parquet_become_values_a_few_rows_at_a_time(tmp_path, monkeypatch):
    made, lengths = [{"t": n, "a": [n / 2] * 100} for n in range(100)], list[int]()
    monkeypatch.setattr(tables, "VALUES", 1000)
    as_values = tables._plain_column
    monkeypatch.setattr(tables, "_plain_column", lambda column: lengths.append(len(column)) or as_values(column))
    assert list(rows_of(as_parquet(tmp_path / "a.parquet", made))) == made
    assert max(lengths) < 20


@pytest.mark.slow
def test_a_long_file_is_never_whole_in_memory(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("t;a\n" + "".join(f"{i},5;{i % 7},25\n" for i in range(20_000)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows_of(path)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 7 << 19  # its rows as a list take 6 MB
    finally:
        tracemalloc.stop()


def test_pauses_that_no_rate_has_are_reported_and_nothing_is_guessed():
    guessed = guess_rows([{"ts": n * 5e-324, "ax": float(n), "person": "p"} for n in range(40)], "a.jsonl")
    assert guessed.rate is None


@pytest.mark.parametrize(
    "text", ["t,a,who\n1,2.5,p\n2,,q\n", "t;a;who\n1;2,5;p\n2;;q\n", "day,time,a,who\n2024-01-01,10:00,1,p\n"]
)
def test_some_columns_are_read_as_with_all_others(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "a.csv", text)
    whole = list(rows_of(path))
    for only in (frozenset({"a"}), frozenset({"who", "t"}), frozenset({"nobody"})):
        for row, some in zip(whole, rows_of(path, How(only=only)), strict=True):
            assert some.items() <= row.items()
            assert all(row.get(name) == some.get(name) for name in only)


def test_some_columns_are_read_as_with_all_others_of_an_export_and_where_a_preset_renames_them(tmp_path: Path) -> None:
    (tmp_path / "phone" / "meta").mkdir(parents=True)
    clock = "event,experiment time,system time\nSTART,0,1700000000\n"
    files = {"meta/time.csv": clock, "a.csv": "Time (s),x\n0,1.5\n1,2.5\n", "b.csv": "Time (s),label\n0,run\n1,sit\n"}
    for name, text in files.items():
        written(tmp_path / "phone" / name, text)
    assert [row["label"] for row in rows_of(tmp_path / "phone", How(only=frozenset({"label"})), ["label"])] == ["run", "sit"]
    radar = written(tmp_path / "radar.csv", "key.userId,value.x,label\nanna,1.5,run\n")
    (row,) = rows_of(radar, How(preset="radar", only=frozenset({"userId", "label"})))
    assert (row["userId"], row["label"]) == ("anna", "run")

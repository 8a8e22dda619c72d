"""Sensor Logger's exports in one file: JSON and SQLite."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest

from streamjobs.errors import ConfigError
from streamjobs.recordings.files import recordings_of, records_of, rows_of
from streamjobs.recordings.tables import How
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import command
from tests.recordings.exports import sensor_logger, sensor_logger_json, sensor_logger_sqlite

FIELDS = ["accelerometer_x", "gyroscope_z"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("exports")
    sensor_logger(made / "walk", seconds=8)
    sensor_logger_json(made / "walk", made / "walk.json")
    sensor_logger_sqlite(made / "walk", made / "walk.sqlite", "TEXT")
    sensor_logger_sqlite(made / "walk", made / "numbers.sqlite", "NUMERIC")
    (made / "walk.json.gz").write_bytes(gzip.compress((made / "walk.json").read_bytes()))
    with ZipFile(made / "both.zip", "w") as archive:
        archive.write(made / "walk.sqlite", "anna.sqlite")
        archive.write(made / "walk.json", "ben.json")
    return made


def read(path: Path, wanted: list[str] | None = None) -> tuple[list[dict], list[str]]:
    told: list[str] = []
    return list(rows_of(path, How(tell=lambda where, text: told.append(text)), wanted)), told


@pytest.mark.parametrize("name", ["walk.json", "walk.sqlite", "numbers.sqlite", "walk.json.gz"])
def test_one_file_gives_the_rows_of_the_folder(folder: Path, name: str) -> None:
    for wanted in (None, [*FIELDS, "annotation"]):
        expected, said = read(folder / "walk", wanted)
        found, told = read(folder / name, wanted)
        assert found == expected and len(found) > 300 and sorted(told) == sorted(said)
    assert {row["annotation"] for row in found} == {"stand", "walk"} and any("Annotation" in line for line in told)


def test_files_of_an_archive_are_recordings_of_their_own_names(folder: Path) -> None:
    found = recordings_of(folder / "both.zip")
    assert [one.name for one in found] == ["anna", "ben"] and [one.folder for one in found] == ["both", "both"]
    one, other = (list(each.rows()) for each in found)
    assert one == other == read(folder / "walk.json")[0]


def test_init_takes_one_file_for_the_same_recording(folder: Path, tmp_path: Path) -> None:
    jobs = []
    for name in ("walk", "walk.json", "walk.sqlite"):
        assert command("init", tmp_path / "job.toml", "--sample", folder / name, "--yes", "--force") == 0
        jobs.append((tmp_path / "job.toml").read_text())
    assert 'preset = "sensorlogger"' in jobs[0] and jobs[0] == jobs[1] == jobs[2]


def test_the_name_of_the_file_is_the_key(folder: Path) -> None:
    source = SourceSection(topic="in", preset="sensorlogger", fields=FIELDS, time="time", time_unit="ns")
    made = [list(records_of(folder / name, source, None, how=How(key_from="file"))) for name in ("walk", "walk.sqlite")]
    assert made[0] == made[1] and len(made[0]) > 300 and {one.key for one in made[0]} == {b"walk"}


def database(path: Path, *words: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        for line in words:
            made.execute(line)
        made.commit()
    return path


@pytest.mark.parametrize("ending", [".json", ".sqlite"])
@pytest.mark.parametrize("change", ["cut", "time", "empty"])
def test_what_is_damaged_is_one_sentence(folder: Path, tmp_path: Path, ending: str, change: str) -> None:
    path = tmp_path / f"a{ending}"
    if change == "cut":
        path.write_bytes((folder / f"walk{ending}").read_bytes()[:5000])
        said = "it is damaged, or something else"
    elif ending == ".json":
        given = {"sensor": "Accelerometer", "time": "soon", "x": "1"} if change == "time" else {"sensor": "Metadata"}
        path.write_text(json.dumps([given]))
        said = "sensor Accelerometer row 1: expected a number in the column 'time', got 'soon'"
        said = said if change == "time" else "expected samples with the column 'time' for each sensor"
    else:
        row = "INSERT INTO Accelerometer VALUES ('soon', 1)"
        create = "CREATE TABLE Accelerometer (time TEXT, x TEXT)" if change == "time" else "CREATE TABLE notes (a TEXT)"
        database(path, create, *([row] if change == "time" else ()))
        said = "table Accelerometer row 1: expected a number in the column 'time', got 'soon'"
        said = said if change == "time" else "expected a table with the column 'time' for each sensor; got none"
    with pytest.raises(ConfigError, match=said):
        read(path)


def test_odd_names_and_values_of_a_database_are_read_as_they_are(tmp_path: Path) -> None:
    made = 'CREATE TABLE "a ""b""; DROP" (time INTEGER, "x y" REAL, note BLOB)'
    lines = [f"""INSERT INTO "a ""b""; DROP" VALUES ({1_700_000_000_000_000_000 + n}, {n}.5, x'ff00')""" for n in (1, 2)]
    found, _ = read(database(tmp_path / "a.sqlite", made, *lines))
    assert found[0]["time"] == 1_700_000_000_000_000_001 and found[1]['a "b"; drop_x y'] == 2.5
    assert isinstance(found[0]['a "b"; drop_note'], str)


def test_a_time_without_end_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"sensor": "Accelerometer", "time": "1e999", "x": "1"}]')
    with pytest.raises(ConfigError, match="expected a number in the column 'time', got inf"):
        read(tmp_path / "a.json")


def test_a_list_of_other_objects_is_a_table_as_before(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"sensors": "x", "ts": 1.5}, {"ts": 2}]')
    assert read(tmp_path / "a.json")[0] == [{"sensors": "x", "ts": 1.5}, {"ts": 2}]

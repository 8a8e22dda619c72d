"""Recordings as phones, watches and Edge Impulse export them, and the presets that name what they contain."""

import itertools
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import cbor2
import pytest

from streamjobs.errors import ConfigError
from streamjobs.job_files import load_job
from streamjobs.recordings.files import records_of, rows_of
from streamjobs.recordings.merging import SECOND, Merged, Sample, Track, merge
from streamjobs.recordings.tables import How
from streamjobs.settings.presets import NAMES, preset_of
from streamjobs.settings.source import SourceSection
from tests.commands.jobs import command, problems, table
from tests.recordings.exports import START_NS, sensor_logger

JOB = '[source]\npreset = "{}"\ntopic = "in"\n{}[learner]\nname = "okfeb"\nrank = 3\nbudget = 5\n'


def read(path: Path, wanted: list[str] | None = None, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    told: list[str] = []
    found = list(rows_of(path, How(tell=lambda where, text: told.append(text), **options), wanted))
    return found, told


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.csv")):
            archive.write(file, file.relative_to(folder).as_posix())
    return path


def test_sensor_loggers_files_are_one_table_from_folder_and_zip(tmp_path):
    folder = sensor_logger(tmp_path / "walk-1")
    found, told = read(folder)
    assert found == read(zipped(folder, tmp_path / "walk-1.zip"))[0]
    assert told[0] == "left out, because they are slower than half of the fastest: Barometer"
    assert (
        told[1].startswith("read as an export of Sensor Logger: Accelerometer 50 Hz")
        and "merged by time to 50 Hz" in told[1]
    )
    first = found[0]
    assert first["time"] == START_NS + 11_000_000  # the gyroscope is the last to begin
    times = [row["time"] for row in found]
    assert {b - a for a, b in itertools.pairwise(times)} == {20_000_000}
    assert list(first)[:4] == ["time", "accelerometer_z", "accelerometer_y", "accelerometer_x"]
    # 8 of 20 ms after its sample at 3 ms, by hand from the two lines of the file
    lines = (folder / "Accelerometer.csv").read_text().splitlines()
    a, b = float(lines[1].split(",")[4]), float(lines[2].split(",")[4])
    assert first["accelerometer_x"] == a + (b - a) * 0.4
    assert [row["annotation"] for row in found[::200]] == ["stand", "walk"] * 3


def test_only_the_sensors_of_the_fields_are_read_at_the_rate_of_the_windows(tmp_path):
    folder = sensor_logger(tmp_path / "walk-1")
    (folder / "Gravity.csv").write_text("time,seconds_elapsed,z,y,x\nbroken,,,,\n")
    found, told = read(folder, ["accelerometer_x", "gyroscope_x"], rate=10.0)
    assert found[1]["time"] - found[0]["time"] == 100_000_000 and "to 10 Hz" in told[0]
    assert list(found[0]) == ["time", "accelerometer_x", "gyroscope_x", "annotation"]


def test_a_gap_of_one_sensor_stays_a_gap_and_is_reported(tmp_path):
    found, told = read(sensor_logger(tmp_path / "walk-1", gap=(5, 7)), ["accelerometer_x", "gyroscope_x"])
    empty = [row["time"] for row in found if row["gyroscope_x"] is None]
    assert min(empty) - START_NS >= 4.98e9 and max(empty) - START_NS <= 7.02e9 and 98 <= len(empty) <= 101
    assert all(row["accelerometer_x"] is not None for row in found)
    assert f"Gyroscope pauses: {len(empty)} of {len(found):,} rows have no values of it" in told


def test_a_gap_of_all_sensors_gives_no_rows():
    def track(name: str) -> Track:
        times = [*range(0, 20), *range(120, 140)]
        made = Track(name, [name], iter([Sample(t * SECOND // 10, [float(t)]) for t in times]))
        assert made.begin()
        return made

    told = Merged()
    found = list(merge([track("a"), track("b")], 10.0, told))
    assert [time * 10 // SECOND for time, _ in found] == [*range(0, 20), *range(120, 140)]
    assert all(row["a"] == row["b"] == time * 10 / SECOND for time, row in found) and told.gaps == 100


def test_a_clock_that_jumps_by_years_is_one_gap():
    """Each time of the grid in between would take an hour."""
    years = 30 * 365 * 86400

    def track(name: str) -> Track:
        times = [*range(0, 20), *range(10 * years, 10 * years + 20)]
        made = Track(name, [name], iter([Sample(t * SECOND // 10, [float(t)]) for t in times]))
        assert made.begin()
        return made

    told = Merged()
    found = list(merge([track("a"), track("b")], 10.0, told))
    tenths = [round(time * 10 / SECOND) for time, _ in found]  # far out, to the precision of a float
    assert tenths == [*range(0, 20), *range(10 * years, 10 * years + 20)]
    assert told.gaps == 10 * years - 20


def test_samples_that_go_back_in_time_are_left_out_and_counted(tmp_path):
    folder = sensor_logger(tmp_path / "walk-1")
    lines = (folder / "Gyroscope.csv").read_text().splitlines()
    (folder / "Gyroscope.csv").write_text("\n".join([*lines[:9], lines[5], *lines[9:]]))
    found, told = read(folder, ["gyroscope_x", "accelerometer_x"])
    assert "Gyroscope: 1 sample not later than the one before, left out" in told
    assert found == read(sensor_logger(tmp_path / "walk-2"), ["gyroscope_x", "accelerometer_x"])[0]


def phyphox(folder: Path, separator: str = ",", decimal: str = ".", clock: bool = True) -> Path:
    """A folder as phyphox' CSV export has it, in one of its five variants.

    Layout: phyphox.org/wiki "Data export" ("Time (s)", units in the names, numbers as 9.364549000E-3), and its file format
    for experiment states, which quotes meta/time.csv.
    """
    (folder / "meta").mkdir(parents=True)

    def lines(names: list[str], table: list[list[float]]) -> str:
        rows = [separator.join(f'"{name}"' for name in names)]
        rows += [separator.join(f"{one:.9E}".replace(".", decimal) for one in row) for row in table]
        return "\n".join(rows) + "\n"

    for file, what, unit, rate in (("Accelerometer", "Acceleration", "m/s^2", 100), ("Gyroscope", "Gyroscope", "rad/s", 50)):
        names = ["Time (s)", *(f"{what} {axis} ({unit})" for axis in "xyz")]
        made = [[i / rate, math.sin(i / rate), 0.5, 9.81] for i in range(1, 4 * rate)]
        (folder / f"{file}.csv").write_text(lines(names, [row for row in made if not 1.5 < row[0] < 1.7 or row[0] > 2]))
    (folder / "meta" / "device.csv").write_text('"property","value"\n"deviceModel","Pixel 6a"\n')
    if clock:
        (folder / "meta" / "time.csv").write_text(
            '"event","experiment time","system time","system time text"\n'
            '"START",0.000000000E0,1759650000.000,"2025-10-05 10:20:00.000 UTC+02:00"\n'
            '"PAUSE",2.000000000E0,1759650002.000,"2025-10-05 10:20:02.000 UTC+02:00"\n'
            '"START",2.000000000E0,1759650060.000,"2025-10-05 10:21:00.000 UTC+02:00"\n'
        )
    return folder


def test_phyphox_counts_from_its_clock_and_a_pause_of_the_experiment_is_one(tmp_path):
    found, told = read(phyphox(tmp_path / "raw"))
    times = [row["time"] for row in found]
    assert times[0] == pytest.approx(1759650000.02) and times[-1] == pytest.approx(1759650061.98, abs=0.02)
    assert not [time for time in times if 1759650002.02 < time < 1759650059.9]
    assert set(found[0]) >= {"Acceleration x (m/s^2)", "Gyroscope z (rad/s)"}
    assert any("all sensors pause together for 5" in line for line in told)


@pytest.mark.parametrize(("separator", "decimal"), [("\t", "."), (";", "."), ("\t", ","), (";", ",")])
def test_every_variant_of_phyphox_gives_the_same_rows(tmp_path, separator, decimal):
    assert read(phyphox(tmp_path / "a"))[0] == read(phyphox(tmp_path / "b", separator, decimal))[0]


def test_without_its_clock_phyphox_counts_from_0_and_says_so(tmp_path):
    found, told = read(phyphox(tmp_path / "raw", clock=False))
    assert found[0]["time"] == pytest.approx(0.02) and "its times count from 0, because" in told[0]
    source = SourceSection(topic="in", preset="phyphox", fields=["Gyroscope x (rad/s)"], time="time")
    first = next(records_of(tmp_path / "raw", source, None, how=How(key_is="me", start=1_700_000_000.0)))
    assert first.timestamp == 1_700_000_000_020


@pytest.mark.parametrize("start", ["1E999", "NaN", "-1E300"])
def test_a_clock_without_a_time_is_no_clock_of_phyphox(tmp_path, start):
    folder = phyphox(tmp_path / "raw")
    (folder / "meta" / "time.csv").write_text(f'"event","experiment time","system time"\n"START",0.0E0,{start}\n')
    found, told = read(folder)
    assert found[0]["time"] == pytest.approx(0.02) and "its times count from 0, because" in told[0]


def edge_impulse(**payload: Any) -> dict[str, Any]:
    """As docs.edgeimpulse.com has it, "Data acquisition format": its example."""
    usual = {
        "device_name": "ac:87:a3:0a:2d:1b",
        "device_type": "DISCO-L475VG-IOT01A",
        "interval_ms": 10,
        "sensors": [{"name": name, "units": "m/s2"} for name in ("accX", "accY", "accZ")],
        "values": [[-9.81, 0.03, 1.21], [-9.83, 0.04, 1.27], [-9.12, 0.03, 1.23], [-9.14, 0.01, 1.25]],
    }
    protected = {"ver": "v1", "alg": "HS256", "iat": 1564128599}
    return {"protected": protected, "signature": "b0ee05", "payload": {**usual, **payload}}


def test_edge_impulses_json_and_cbor_are_the_same_rows(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(edge_impulse()))
    (tmp_path / "a.cbor").write_bytes(cbor2.dumps(edge_impulse()))
    found, told = read(tmp_path / "a.json")
    assert found == read(tmp_path / "a.cbor")[0] and "when the file was made (protected.iat)" in told[0]
    assert found[1] == {
        "time": 1564128599010.0, "device_name": "ac:87:a3:0a:2d:1b", "accX": -9.83, "accY": 0.04, "accZ": 1.27
    }  # fmt: skip
    one = edge_impulse(sensors=[{"name": "audio"}], values=[1, 2])
    (tmp_path / "b.json").write_text(json.dumps(one))
    assert [row["audio"] for row in read(tmp_path / "b.json")[0]] == [1, 2]


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"interval_ms": 0}, "expected payload.interval_ms above 0"),
        ({"sensors": []}, "payload.sensors with names"),
        ({"values": [[1, 2]]}, "expected payload.values with 3 numbers each"),
    ],
)
def test_a_wrong_payload_is_one_sentence(tmp_path, payload, said):
    (tmp_path / "a.json").write_text(json.dumps(edge_impulse(**payload)))
    with pytest.raises(ConfigError, match=said):
        read(tmp_path / "a.json")


@pytest.mark.slow
def test_init_finds_the_tool_and_its_preset_fits_its_files(tmp_path, capsys):
    radar = "key.projectId,key.userId,key.sourceId,value.time,value.timeReceived,value.x,value.y,value.z\n"
    radar += "".join(f"p,anna,s,{1_700_000_000 + i / 50},{1_700_000_001 + i},{i % 7},0.5,{i % 3}\n" for i in range(120))
    watch = ",".join(preset_of("applewatch").source["fields"])
    watch = f"loggingTime(txt),loggingSample(N),{watch}\n" + "".join(
        f"2024-08-22T14:12:{i // 50:02}.{20 * (i % 50):03}+02:00,{i},{i % 7},{i % 5},1,{i % 3},1,{i % 2}\n"
        for i in range(150)
    )
    samples = {
        "sensorlogger": sensor_logger(tmp_path / "walk-1"),
        "phyphox": phyphox(tmp_path / "raw"),
        "radar": tmp_path / "20231114_22.csv",
        "applewatch": tmp_path / "watch.csv",
        "edgeimpulse": tmp_path / "e.json",
    }
    samples["radar"].write_text(radar)
    samples["applewatch"].write_text(watch)
    samples["edgeimpulse"].write_text(json.dumps(edge_impulse(values=[[i % 7, 1.0, i % 5] for i in range(90)])))
    assert set(samples) == set(NAMES) - {"sensorlogger_live"}  # which has no files
    for name, sample in samples.items():
        job = tmp_path / f"{name}.toml"
        assert command("init", job, "--sample", sample, "--yes") == 0
        settings = load_job(job, {})
        assert settings.source.preset == name
        assert settings.source.fields == preset_of(name).source["fields"]
        assert settings.source.time == preset_of(name).source["time"]
        capsys.readouterr()
        assert command("check", job, "--sample", sample, "--key-is", "me", "--json") == 0
        taken = json.loads(capsys.readouterr().out)["sample"]
        assert taken["samples"] == taken["records"] > 80 and not taken["dead_letters"], name


def test_a_preset_fills_in_only_what_is_not_set_and_check_tells_it(tmp_path, capsys):
    file = tmp_path / "job.toml"
    file.write_text(JOB.format("sensorlogger", ""))
    source = load_job(file, {}).source
    assert (source.time, source.time_unit, len(source.fields)) == ("time", "ns", 6)
    assert command("check", file) == 0
    err = capsys.readouterr().err
    assert "preset 'sensorlogger' (Sensor Logger): fields, time, time_unit as it has them" in err
    assert "On iOS x, y and z of acceleration and gravity have the opposite sign" in err
    file.write_text(JOB.format("sensorlogger", 'time = "at"\nfields = ["gyroscope_x"]\n'))
    source = load_job(file, {}).source
    assert (source.time, source.time_unit, source.fields) == ("at", "s", ["gyroscope_x"])
    source = load_job(file, {"STREAMJOBS_SOURCE__PRESET": "radar"}).source
    assert (source.preset, source.time_unit) == ("radar", "s")


def test_an_unknown_preset_is_one_sentence():
    assert problems(table(source={"preset": "sensorloger"})) == [
        "job.toml [source]: preset must be 'sensorlogger', 'sensorlogger_live', 'phyphox', 'radar', 'applewatch' or "
        "'edgeimpulse'; got 'sensorloger'; did you mean 'sensorlogger'?"
    ]


def test_an_export_without_a_sensor_of_the_fields_is_one_sentence(tmp_path):
    folder = sensor_logger(tmp_path / "walk-1")
    (folder / "Gyroscope.csv").unlink()
    source = SourceSection(topic="in", preset="sensorlogger", fields=["gyroscope_x"], time="time", time_unit="ns")
    with pytest.raises(ConfigError, match=r"no sensor has the column 'gyroscope_x' of \[source\] fields; there are 'acc"):
        records_of(folder, source, None, how=How(key_is="me"))

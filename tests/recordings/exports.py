"""Files as other tools write them, by hand from what is public of their layouts."""

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

START_NS = 1_787_923_304_000_000_000  # 2026-08-28


def sensor_logger(folder: Path, seconds: int = 24, rate: int = 50, gap: tuple[int, int] = (0, 0)) -> Path:
    """A folder as Sensor Logger's zip export has it: z before y before x, times in ns, sensors at their own rates.

    Layout: github.com/tszheichoi/awesome-sensor-logger, README.md ("Zip and CSV", "Understanding Timestamps") and UNITS.md;
    Metadata.csv and Annotation.csv have the columns of public recordings of version 3. gap: seconds without the gyroscope.
    """
    folder.mkdir(parents=True)

    def sensor(name: str, hz: float, begins: int, columns: str, values: int) -> None:
        lines = [f"time,seconds_elapsed,{columns}"]
        for i in range(round(seconds * hz)):
            after = begins + round(i * 1e9 / hz)
            if name == "Gyroscope" and gap[0] <= after / 1e9 < gap[1]:
                continue
            moving = 1.0 if (after // 4_000_000_000) % 2 else 0.05
            numbers = [f"{moving * math.sin(7 * after / 1e9 + axis):.9f}" for axis in range(values)]
            lines.append(",".join([str(START_NS + after), f"{after / 1e9:.9f}", *numbers]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")

    sensor("Accelerometer", rate, 3_000_000, "z,y,x", 3)
    sensor("Gyroscope", rate * 0.98, 11_000_000, "z,y,x", 3)
    sensor("Gravity", rate, 3_000_000, "z,y,x", 3)
    sensor("Barometer", 1, 500_000_000, "relativeAltitude,pressure", 2)
    notes = [f"{START_NS + 4_000_000_000 * n},{4.0 * n:.1f},{'walk' if n % 2 else 'stand'},120" for n in range(seconds // 4)]
    header = "time,seconds_elapsed,text,millisecond_press_duration"
    (folder / "Annotation.csv").write_text("\n".join([header, *notes]) + "\n")
    (folder / "Metadata.csv").write_text(
        "version,device name,recording epoch time,recording time,recording timezone,platform,appVersion,device id,sensors,"
        "sampleRateMs,standardisation,platform version\n"
        f"3,Phone,{START_NS // 1_000_000},2026-08-28_13-21-44,Asia/Kolkata,android,1.64,an-id,"
        "Accelerometer|Gyroscope|Gravity|Barometer,20|20|20|0,false,36\n"
    )
    return folder


def machine_csv(path: Path, rows: int = 200) -> Path:
    """A machine's log as a spreadsheet of a German office writes it: semicolons, decimal commas, a row of units, gaps."""
    lines = ["Zeit;Maschine;Druck;Temperatur", ";;bar;°C"]
    for i in range(rows):
        minute, second = divmod(2 * i, 60)
        if 100 <= i < 110:
            minute += 30  # clocks do not run back: the rows after it follow half an hour later
        pressure = f"{150 + 20 * math.sin(i / 7):.2f}".replace(".", ",") if i % 25 != 3 else ""
        warm = f"{61 + 3 * math.cos(i / 11):.1f}".replace(".", ",")
        hour = 8 + (i >= 110)
        lines.append(f"2026-11-20T{hour:02}:{minute % 60:02}:{second:02}+01:00;p1;{pressure};{warm}")
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    return path


def sensor_logger_json(folder: Path, path: Path) -> Path:
    """The same recording as Sensor Logger's JSON export has it: a list of objects, sensor by sensor, every value a text.

    Layout: README.md of the repository above, "JSON"; Metadata comes first, as in public recordings.
    """
    objects = []
    for file in sorted(folder.glob("*.csv"), key=lambda file: (file.stem != "Metadata", file.stem)):
        header, *lines = file.read_text().splitlines()
        objects += [{"sensor": file.stem, **dict(zip(header.split(","), line.split(","), strict=True))} for line in lines]
    path.write_text(json.dumps(objects, indent=2))
    return path


def sensor_logger_sqlite(folder: Path, path: Path, kind: str) -> Path:
    """The same as its SQLite export has it: a table for each sensor ("SQLite" in README.md, which shows no types).

    kind: of the columns; but for TEXT, numbers are stored as numbers.
    """
    with closing(sqlite3.connect(path)) as database:
        for file in sorted(folder.glob("*.csv")):
            header, *lines = file.read_text().splitlines()
            columns = header.split(",")
            named = ", ".join(f'"{name}" {kind}' for name in columns)
            database.execute(f'CREATE TABLE "{file.stem}" ({named})')
            marks = ", ".join("?" * len(columns))
            database.executemany(f'INSERT INTO "{file.stem}" VALUES ({marks})', [_values(line, kind) for line in lines])
        database.commit()
    return path


def _values(line: str, kind: str) -> list[str | float]:
    """Cells; a date such as 2026-08-28_13-21-44 stays a text."""
    return [one if kind == "TEXT" or one.strip("-.0123456789") else _number(one) for one in line.split(",")]


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)

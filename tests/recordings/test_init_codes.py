"""Numbers that stand for a missing one: init finds them in a sample, and its job does not learn from them."""

import math
import random
from pathlib import Path

import pytest

from streamjobs.job_files import load_job
from tests.commands.jobs import command

ROWS = 1200


def written(folder: Path, code: dict[str, str], clock: str = "%02d:00:00") -> Path:
    """A CSV of hours. code: what stands in a column in place of every twentieth number, and in a run of 30 rows."""
    rng, path = random.Random(3), folder / "air.csv"
    lines = ["Date;Time;co;ozone;temp"]
    for n in range(ROWS):
        day, wave = f"{1 + n // 24 % 28:02d}/{1 + n // 24 // 28:02d}/2004", math.sin(n / 24 * 2 * math.pi)
        cells = {"co": 2 + rng.random() + wave, "ozone": 1200 + 100 * rng.random(), "temp": 3 + 9 * wave + rng.random()}
        gone = {name: text for name, text in code.items() if n % 20 == 7 or 400 < n < 430}
        lines.append(";".join([day, clock % (n % 24), *(gone.get(name, f"{value:.1f}") for name, value in cells.items())]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ({"co": "-200", "ozone": "-200", "temp": "-200"}, [-200]),
        ({"temp": "-127", "ozone": "65535"}, {"temp": [-127], "ozone": [65535]}),
        ({"temp": "99.9"}, {"temp": [99.9]}),
        ({"ozone": "0", "temp": "0", "co": "0"}, None),  # what is off gives 0
        ({"temp": "-20.5"}, None),  # far off, and not as codes are written
        ({}, None),
    ],
)
def test_init_names_a_code_and_sets_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], code, expected) -> None:
    made = tmp_path / "job.toml"
    assert command("init", made, "--sample", written(tmp_path, code), "--time-zone", "UTC") == 0
    said = capsys.readouterr().err
    found = load_job(made, env={}).source.missing_values
    assert found == expected and ("as a code for a missing one" in said) == (expected is not None)


def test_a_time_of_day_with_points_joins_its_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, sample = tmp_path / "job.toml", written(tmp_path, {"co": "-200"}, "%02d.00.00")
    assert command("init", made, "--sample", sample, "--time-zone", "UTC") == 0
    source = load_job(made, env={}).source
    assert (source.time, source.time_format) == ("Date Time", "%d/%m/%Y %H.%M.%S")
    capsys.readouterr()
    assert command("replay", made, "--input", sample, "--key-is", "a") == 0
    gone = sum(n % 20 == 7 or 400 < n < 430 for n in range(ROWS))
    assert f"{ROWS - gone:,} rows" in capsys.readouterr().out

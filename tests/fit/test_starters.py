"""Populations of the package, and the jobs that `init --population` writes with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.fit import starters
from streamjobs.settings.presets import preset_of
from tests.commands.jobs import command
from tests.golden import make_starters
from tests.recordings.init_told import as_csv

RATE = 50


def still(**other: Any) -> list[dict[str, Any]]:
    """Ten seconds of a phone that lies still: field=(numbers to multiply, what with) changes some."""
    rng, rows = np.random.default_rng(3), []
    for i in range(10 * RATE):
        x = np.r_[0.0, 9.81, 0.0, 0.0, 0.0, 0.0] + rng.normal(scale=0.02, size=6)
        row = {"person": "anna", "ts": 1_700_000_000.0 + i / RATE} | dict(zip(starters.FIELDS, x.tolist(), strict=True))
        rows.append(row | {name: value(row) for name, value in other.items()})
    return rows


def predicted(folder: Path) -> list[str]:
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    return [json.loads(line)["value"]["predicted_class"] for line in lines]


@pytest.mark.parametrize(("label", "step"), [(None, 1), ("activity", 1), (None, 2)], ids=["alone", "labelled", "25 Hz"])
def test_two_commands_recognise_a_person_nobody_has_labelled(
    tmp_path: Path, label: str | None, step: int, capsys: Any
) -> None:
    others: dict[str, Any] = {} if label is None else {label: lambda row: "standing" if row["ts"] % 2 < 1 else "sitting"}
    sample, job = as_csv(tmp_path / "anna.csv", still(**others)[::step]), tmp_path / "job.toml"
    assert command("init", job, "--population", "phone", "--sample", sample, "--yes") == 0
    out, err = capsys.readouterr()
    assert "95.6% of the windows are right" in err and "it cannot know" in err
    steps = out.splitlines()[0].partition("Next: ")[2].split("; ")
    score = "" if label is None else " --score"
    assert steps == [f"streamjobs check {job}", f"streamjobs replay {job} --input {sample} --key person{score}"]
    assert command("replay", job, "--input", sample, "--key", "person", "--output-dir", tmp_path / "out") == 0
    assert len(found := predicted(tmp_path / "out")) == 10 - step and set(found) <= {"standing", "sitting"}
    assert command("check", job) == 0
    assert "stay null" not in capsys.readouterr().err


@pytest.mark.parametrize("name", starters.NAMES)
def test_a_job_without_a_sample_fits_its_population(tmp_path: Path, name: str) -> None:
    assert command("init", tmp_path / "job.toml", "--population", name) == 0
    assert command("check", tmp_path / "job.toml") == 0
    assert (tmp_path / f"{name}.state").read_bytes() == starters.starter(name).file(starters.FIELDS)
    assert command("init", tmp_path / "other.toml", "--population", name) == 2, "a file is never overwritten unasked"


def test_what_a_phone_pushes_is_joined_with_gravity(tmp_path: Path) -> None:
    job = tmp_path / "live.toml"
    assert command("init", job, "--population", "phone", "--preset", "sensorlogger_live") == 0
    assert 'each = { totalacceleration = { fields = ["values.x"' in job.read_text() and command("check", job) == 0
    assert "totalacceleration" not in preset_of("sensorlogger_live").source["sensors"]["each"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({axis: lambda row, axis=axis: row[axis] / 9.80665 for axis in ("ax", "ay", "az")}, "is 1, as in g. Multiply"),
        ({"ay": lambda row: row["ay"] - 9.81}, "not about 9.8. Record the acceleration with gravity"),
        ({"wx": lambda row: 90.0}, "as in degrees a second. Divide"),
        (
            {"ts": lambda row: (row["ts"] - 1_700_000_000.0) / 5 + 1_700_000_000.0},
            "50 samples a second; the sample has 250",
        ),
        ({"heart": lambda row: 60.0 + row["ax"]}, "needs six numbers a sample"),
    ],
    ids=["g", "no gravity", "degrees", "rate", "columns"],
)
def test_another_kind_of_sample_gets_one_sentence_and_no_file(
    tmp_path: Path, change: dict[str, Any], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, job = as_csv(tmp_path / "anna.csv", still(**change)), tmp_path / "job.toml"
    assert command("init", job, "--population", "phone", "--sample", sample) == 2
    assert expected in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [sample]


@pytest.mark.parametrize("name", starters.NAMES)
def test_the_files_are_small_and_say_where_they_are_from(name: str) -> None:
    one = starters.starter(name)
    assert sum(path.stat().st_size for path in make_starters.FOLDER.glob(f"{name}.*")) < 50_000
    assert sorted(one.activities) == sorted(one.population.names)
    assert f"{name}.state" in (make_starters.FOLDER / "NOTICE.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("name", starters.NAMES)
def test_one_command_makes_them_again(name: str, tmp_path: Path) -> None:
    """Up to rounding, which differs between processors."""
    state, text = make_starters.made(name, tmp_path)
    assert text == (make_starters.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    again, kept = decode(state), starters.starter(name).population
    assert again.facts == kept.facts and again.names == kept.names and len(state) == len(encode(kept))
    np.testing.assert_allclose(again.head.state.weights, kept.head.state.weights, rtol=1e-5, atol=1e-7)

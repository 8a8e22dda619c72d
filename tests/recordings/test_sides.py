"""`init --sample` of a sensor that people wear on either side of the body: which signs change, and what else is said."""

import itertools

import numpy as np
import pytest

from streamjobs.job_files import load_job, read_table
from tests.commands.jobs import jsonl
from tests.recordings.init_told import as_csv

PEOPLE, ACTIVITIES = 5, 3


def _made(sides, own_side=False):
    """Six seconds of each person at each activity, on each side; ax changes its sign, ay does not."""
    random, begin, made = np.random.default_rng(3), 1_700_000_000.0, []
    for person, activity in itertools.product(range(PEOPLE), range(ACTIVITIES)):
        level = random.normal(size=2) + 2
        for side in sides if not own_side else (sides[person % 2],):
            begin += 100
            for n, noise in enumerate(random.normal(size=(60, 2))):
                ax, ay = (level + noise / 10) * (-1 if side == "left" else 1, 1)
                at = {"person": f"p{person}", "ts": begin + n / 10, "ax": round(ax, 3), "ay": round(ay, 3)}
                made.append({**at, "pocket": side, "activity": f"a{activity}"})
    return made


def _late(table):
    """The labels of every fifth sample two seconds later, in records of their own."""
    rows = [(row["ts"], 0, {name: value for name, value in row.items() if name != "activity"}) for row in table]
    labels = [(row["ts"] + 2, 1, {name: row[name] for name in ("person", "ts", "activity")}) for row in table[::5]]
    return [row for *_, row in sorted([*rows, *labels], key=lambda one: one[:2])]


@pytest.mark.parametrize("late", [False, True])
def test_the_columns_that_change_their_sign_are_mirrored(tmp_path, printed, late):
    table = _made(("left", "right"))
    found = printed(jsonl(tmp_path / "a.jsonl", _late(table)) if late else as_csv(tmp_path / "a.csv", table))
    assert ("labels" in read_table(found.file)) is late
    mirror = load_job(found.file, {}).window.mirror
    assert (mirror.field, mirror.when, mirror.columns) == ("pocket", "left", ["ax"])
    assert found.says("pocket: where the sensor is worn, 'left' or 'right': [window] mirror changes the signs of 'ax'")


@pytest.mark.parametrize(
    ("sides", "own_side", "sentence"),
    [(("left", "right"), True, "too few people wear it on both"), (("above", "below"), False, "mirror is not needed")],
)
def test_without_a_clear_sign_nothing_is_mirrored_and_it_is_said_why(tmp_path, printed, sides, own_side, sentence):
    found = printed(as_csv(tmp_path / "a.csv", _made(sides, own_side)))
    assert "mirror" not in read_table(found.file)["window"] and found.says("pocket: where the sensor is worn", sentence)
